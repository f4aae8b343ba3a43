"""The command `plot`: a picture of a model."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import PATH, open_data, read_fitted, read_options, report_bad_rows
from hebbnmf.cli.outputs import FORCE, check_output

if TYPE_CHECKING:
    from hebbnmf.engine.state import FloatArray
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions

# Rows that a picture is drawn from: more make it no clearer.
_ROWS = 10_000
# Bytes at either end of a picture in which its maker is named.
_SIGNED = 4096


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf plot model.npz --data rows.csv -o directions.png
  $ hebbnmf plot model.npz --data rows.csv --kind activity -o activity.svg
  $ hebbnmf plot model.npz --data rows.csv --kind cost -o cost.png
"""
)
@click.argument("model", type=PATH)
@click.option(
    "--data", multiple=True, type=PATH, help="Rows to draw, or to respond to; may repeat."
)
@click.option("-o", "--output", type=PATH, required=True, help="Picture: .png, .svg or .pdf.")
@click.option(
    "--kind",
    type=click.Choice(["filters", "directions", "activity", "cost"]),
    help="Weights as square pictures; weights over data of two columns; density of activity; "
    "cost (9) of the responses as rows come.",
)
@FORCE
@read_options
def plot(
    model: str,
    data: tuple[str, ...],
    output: str,
    kind: str | None,
    force: bool,
    reading: "ReadOptions",
) -> None:
    """Draw a model: filters, directions, activity or cost.

    By default directions over the data for two columns, filters where columns make a square, and
    else the density of activity. The first 10000 rows of the data are used.
    """
    check_output(output, [model, *data], force=force, is_own=_is_drawn)
    net, steps = read_fitted(model)
    if not net.n_components_:
        raise ValueError(f"{model} has no unit to draw; fit with a lower --rank-penalty.")
    n_columns = steps[0].n_features_in_ if steps else net.n_features_in_
    has_filters = n_columns == net.n_features_in_
    kind = kind or (_kind(n_columns) if has_filters else "activity")
    if kind == "filters" and not has_filters:
        raise ValueError(f"{model} sees rows through a kernel and has no filters: plot activity.")
    if kind != "filters" and not data:
        raise click.UsageError(f"a picture of kind {kind} needs --data.")
    rows = _first_rows(data, reading, net, steps) if data else None
    _draw(kind, net, steps, rows, output)


def _is_drawn(path: str) -> bool:
    """Return whether a file is a picture drawn by matplotlib, which signs at either end."""
    with Path(path).open("rb") as file:
        head = file.read(_SIGNED)
        file.seek(-min(_SIGNED, os.path.getsize(path)), os.SEEK_END)
        tail = file.read()
    return head.startswith((b"\x89PNG", b"<?xml", b"%PDF")) and b"Matplotlib" in head + tail


def _kind(n_features: int) -> str:
    if n_features == 2:
        return "directions"
    is_square = n_features >= 9 and round(n_features**0.5) ** 2 == n_features
    return "filters" if is_square else "activity"


def _first_rows(
    data: tuple[str, ...], reading: "ReadOptions", model: "OnlineSNMF", steps: "list[Step]"
) -> "FloatArray":
    import numpy as np

    from hebbnmf.preprocessing import transform_rows

    with open_data(data, reading, model, steps, limit=_ROWS) as stream:
        rows = np.concatenate(list(stream))
        report_bad_rows(stream)
    return model.learner_.check_rows(transform_rows(steps, rows))


def _draw(
    kind: str, model: "OnlineSNMF", steps: "list[Step]", rows: "FloatArray | None", output: str
) -> None:
    from matplotlib.figure import Figure

    from hebbnmf.persistence.atomic import replacing
    from hebbnmf.plots import plot_activity_density, plot_cost, plot_directions, plot_filters

    figure = Figure(figsize=(6, 6), layout="constrained")
    ax = figure.subplots()
    if rows is None or kind == "filters":
        plot_filters(_filters(model.components_, steps), ax=ax)
    elif kind == "directions":
        plot_directions(rows, model.components_, ax=ax)
    elif kind == "cost":
        plot_cost(rows, model.learner_.respond(rows).Y, ax=ax)
    else:
        plot_activity_density(model.learner_.respond(rows).Y, ax=ax)
    with replacing(output) as file:
        figure.savefig(file, format=Path(output).suffix[1:] or "png", dpi=150)


def _filters(filters: "FloatArray", steps: "list[Step]") -> "FloatArray":
    """Turn weights on prepared rows into filters on the rows as they were, last step first."""
    from hebbnmf.preprocessing import ZCAWhitener, image_filters

    for step in reversed(steps):
        if isinstance(step, ZCAWhitener):
            filters = image_filters(filters, step)
        elif getattr(step, "scale_", None) is not None:
            filters = filters / step.scale_
    return filters
