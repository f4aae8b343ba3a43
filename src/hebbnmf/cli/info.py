"""The command `info`: what a model file holds."""

import json
import os
from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import PATH
from hebbnmf.cli.messages import say

if TYPE_CHECKING:
    from hebbnmf.persistence import ModelFile

# Names of features that are printed in full.
_NAMES = 12


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf info model.npz
  $ hebbnmf info model.npz --json
"""
)
@click.argument("model", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, for programs.")
def info(model: str, as_json: bool) -> None:
    """Show what a model file holds."""
    from hebbnmf.persistence import read

    facts = _facts(model, read(model))
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        say(f"{name.replace('_', ' '):<{width}}{_in_words(value)}")


def _facts(path: str, file: "ModelFile") -> dict[str, object]:
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.estimators.online import OnlineEstimator

    model, first = file.model, (*file.preprocessing, file.model)[0]
    facts = {"file": path, "bytes": os.stat(path).st_size, "model": type(model).__name__}
    if isinstance(model, OnlineEstimator) and model.__sklearn_is_fitted__():
        facts |= {
            "units": model.n_components_,
            "samples_seen": model.n_samples_seen_,
            "features": int(first.n_features_in_),
            "dtype": model.learner_.network.dtype.name,
        }
        if isinstance(model, OnlineSNMF):
            facts["unit_births"] = model.unit_births_.tolist()
        if model.learner_.cost is not None:
            facts["cost"] = model.learner_.cost.value
    elif hasattr(model, "embedding_"):
        facts |= {"samples": len(model.embedding_), "cost": float(model.cost_history_[-1])}
    else:
        facts["units"] = None
    names = getattr(first, "feature_names_in_", getattr(model, "feature_names_in_", None))
    if names is not None:
        facts["feature_names"] = list(names)
    # Random states and init arrays are too long to print.
    plain = (bool, int, float, str, type(None))
    parameters = {k: v for k, v in model.get_params().items() if k != "n_jobs"}  # not in the file
    facts["parameters"] = {
        k: v if isinstance(v, plain) else "stored" for k, v in parameters.items()
    }
    facts["preprocessing"] = [
        {"class": type(step).__name__, **step.get_params()} for step in file.preprocessing
    ]
    if file.position is not None:
        facts["position"] = {k: file.position[k] for k in ("epoch", "cursor") if k in file.position}
    return {**facts, "libraries": file.libraries}


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        name = value.get("class", "")
        words = ", ".join(f"{key} {_in_words(v)}" for key, v in value.items() if key != "class")
        return f"{name} ({words})" if name else words
    if isinstance(value, list):
        more = f", and {len(value) - _NAMES} more" if len(value) > _NAMES else ""
        return (", ".join(map(_in_words, value[:_NAMES])) or "none") + more
    return "none" if value is None else str(value)
