"""The commands `info` and `plot`: a look at a model file."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.inputs import (
    PATH,
    Inputs,
    input_options,
    read_answering,
    report_bad_rows,
)
from hebbnmf.cli.outputs import replacing

if TYPE_CHECKING:
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence import ModelFile

# Rows that a picture is drawn from: more make it no clearer.
_ROWS = 10_000
# Names of features that a glance takes in.
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
    """Show at a glance what a model file holds."""
    from hebbnmf.persistence import read

    facts = _facts(model, read(model))
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' '):<{width}}{_in_words(value)}")


def _facts(path: str, file: "ModelFile") -> dict[str, Any]:
    from hebbnmf.estimators import OnlineSNMF

    model = file.model
    facts: dict[str, Any] = {"file": path, "bytes": os.stat(path).st_size}
    facts["model"] = type(model).__name__
    if isinstance(model, OnlineSNMF) and model.__sklearn_is_fitted__():
        facts |= {
            "units": model.n_components_,
            "samples_seen": model.n_samples_seen_,
            "features": model.n_features_in_,
            "dtype": model.components_.dtype.name,
        }
        if model.track_cost:
            facts["cost"] = model.cost_
    elif hasattr(model, "embedding_"):
        facts |= {"samples": len(model.embedding_), "cost": float(model.cost_history_[-1])}
    else:
        facts["units"] = None
    if hasattr(model, "feature_names_in_"):
        facts["feature_names"] = list(model.feature_names_in_)
    # A state of a generator, or a matrix to begin with, is no glance.
    plain = (bool, int, float, str, type(None))
    parameters = model.get_params().items()
    facts["parameters"] = {k: v if isinstance(v, plain) else "stored" for k, v in parameters}
    facts["preprocessing"] = [
        {
            "class": type(step).__name__,
            **{k: v for k, v in step.get_params().items() if k != "copy"},
        }
        for step in file.preprocessing
    ]
    if file.position is not None:
        facts["position"] = {k: file.position[k] for k in ("epoch", "cursor") if k in file.position}
    return {**facts, "libraries": file.libraries}


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        name = value.get("class", "")
        words = ", ".join(f"{key} {_in_words(v)}" for key, v in value.items() if key != "class")
        return f"{name} ({words})" if name else words
    if isinstance(value, list):
        more = f", and {len(value) - _NAMES} more" if len(value) > _NAMES else ""
        return (", ".join(map(_in_words, value[:_NAMES])) or "none") + more
    return "none" if value is None else str(value)


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf plot model.npz --data rows.csv -o directions.png
  $ hebbnmf plot model.npz --data rows.csv --kind activity -o activity.svg
  $ hebbnmf plot model.npz --data rows.csv --kind cost -o cost.png
"""
)
@click.argument("model", type=PATH)
@click.option("--data", multiple=True, type=PATH, help="Rows to draw, or to answer; may repeat.")
@click.option("-o", "--output", type=PATH, required=True, help="Picture: .png, .svg or .pdf.")
@click.option(
    "--kind",
    type=click.Choice(["filters", "directions", "activity", "cost"]),
    help="Weights as square pictures; weights over data of two columns; density of activity; "
    "cost (9) of the answers as rows come.",
)
@input_options
def plot(model: str, data: tuple[str, ...], output: str, kind: str | None, inputs: Inputs) -> None:
    """Draw a model: filters, directions, activity or cost.

    By default directions over the data for two columns, filters where columns make a square, and
    else the density of activity. The first 10000 rows of the data are used.
    """
    network, steps, names = read_answering(model)
    if not network.n_components_:
        raise ValueError(f"{model} has no unit to draw; fit with a lower --rank-penalty.")
    kind = kind or _kind(network.n_features_in_)
    if kind != "filters" and not data:
        raise click.UsageError(f"a picture of kind {kind} needs --data.")
    rows = _first_rows(data, inputs, network, steps, names) if data else None
    _save_picture(output, _draw(kind, network, steps, rows))


def _kind(n_features: int) -> str:
    if n_features == 2:
        return "directions"
    return (
        "filters" if n_features >= 9 and round(n_features**0.5) ** 2 == n_features else "activity"
    )


def _first_rows(
    data: tuple[str, ...],
    inputs: Inputs,
    model: "OnlineSNMF",
    steps: list[Any],
    names: list[str] | None,
) -> Any:
    import numpy as np

    with inputs.open(data) as stream:
        stream.require(model.n_features_in_, names)
        stream.n_left = _ROWS
        rows = np.concatenate(list(stream))
        report_bad_rows(stream)
    for step in steps:
        rows = step.transform(rows)
    return rows


def _draw(kind: str, model: "OnlineSNMF", steps: list[Any], rows: Any) -> Any:
    from hebbnmf.plots import (
        panels,
        plot_activity_density,
        plot_cost,
        plot_directions,
        plot_filters,
    )

    ax = panels("A", (6, 6))["A"]
    ax.set_title("", loc="left")
    if kind == "directions":
        return plot_directions(rows, model.components_, ax=ax)
    if kind == "filters":
        return plot_filters(_filters(model.components_, steps), ax=ax)
    if kind == "cost":
        return plot_cost(rows, model.transform(rows), ax=ax)
    return plot_activity_density(model.transform(rows), ax=ax)


def _filters(filters: Any, steps: list[Any]) -> Any:
    """Turn weights on prepared rows into filters on the rows as they were, last step first."""
    from hebbnmf.preprocessing import ZCAWhitener, image_filters

    for step in reversed(steps):
        if isinstance(step, ZCAWhitener):
            filters = image_filters(filters, step)
        elif getattr(step, "scale_", None) is not None:
            filters = filters / step.scale_
    return filters


def _save_picture(path: str, ax: Any) -> None:
    with replacing(path) as file:
        ax.figure.savefig(file, format=Path(path).suffix[1:] or "png", dpi=150)
