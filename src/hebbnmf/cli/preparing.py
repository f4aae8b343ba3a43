"""What the commands that train share: preprocessing, in passes of its own or in a pipeline."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import progress

if TYPE_CHECKING:
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions
    from hebbnmf.training.loop import Trainable

SCALE = click.option(
    "--scale", is_flag=True, help="Standardise each column first in a separate pass."
)
WHITEN = click.option(
    "--whiten", is_flag=True, help="Whiten the rows first (ZCA), after any --scale."
)


def fitted_steps(
    data: Sequence[str],
    reading: "ReadOptions",
    *,
    fill: str | None,
    scale: bool = False,
    whiten: bool = False,
    limit: int | None = None,
    learnable: bool = True,
) -> tuple["list[Step]", int | None]:
    """Fit the preprocessing, by one pass over the data for each step.

    Return the steps and, if there was a pass, the number of rows.
    """
    if not (fill or scale or whiten):
        return [], None
    from sklearn.preprocessing import StandardScaler

    from hebbnmf.preprocessing import MissingFiller, ZCAWhitener, transform_rows
    from hebbnmf.streams import open_stream

    wanted: list[Step] = [MissingFiller(with_mean=fill == "mean")] if fill else []
    wanted += [StandardScaler()] * scale + [ZCAWhitener()] * whiten
    _check_repeatable(data)
    steps: list[Step] = []
    n_rows = None
    for step in wanted:
        with (
            open_stream(list(data), options=reading, limit=limit, learnable=learnable) as stream,
            progress(type(step).__name__, stream.total or n_rows) as bar,
        ):
            n_rows = 0
            for chunk in stream:
                step.partial_fit(transform_rows(steps, chunk))
                bar.update(len(chunk))
                n_rows += len(chunk)
        steps.append(step)
    return steps, n_rows


def parts(model: "Trainable") -> tuple["OnlineEstimator", "list[Step]"]:
    """Return the network of a model and, of a pipeline, the steps before it."""
    from hebbnmf.estimators.online import OnlineEstimator

    if isinstance(model, OnlineEstimator):
        return model, []
    *steps, network = (step for _, step in model.steps)
    return network, steps


def filling(steps: "list[Step]") -> str | None:
    """Return how preprocessing fills in missing values: "mean", "zero", or None if it does not."""
    from hebbnmf.preprocessing import MissingFiller

    modes = ["mean" if step.with_mean else "zero" for step in steps if type(step) is MissingFiller]
    return modes[0] if modes else None


def _check_repeatable(data: Sequence[str]) -> None:
    source = next(filter(_is_read_once, data), None)
    if source is not None:
        raise click.UsageError(
            f"{'standard input' if source == '-' else source} can be read only once, but "
            "--whiten, --scale and --missing mean or zero take separate passes: write the rows to "
            "a file first."
        )


def _is_read_once(path: str) -> bool:
    return path == "-" or path.startswith("lsl:") or Path(path).is_fifo()
