"""The command `plot`: a picture of a model."""

from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import PATH, open_data, read_fitted, read_options, report_bad_rows
from hebbnmf.cli.outputs import FORCE
from hebbnmf.cli.pictures import check_picture, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hebbnmf.engine.state import FloatArray
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions

# Rows that a picture is drawn from: more make it no clearer.
_ROWS = 10_000


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
    help="Weights as square pictures; weights over data, of more than two columns on the plane of "
    "most variance; density of activity; cost (9) of the responses as rows come.",
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
    fill: str | None,
) -> None:
    """Draw a model: filters, directions, activity or cost.

    By default directions over the data for two columns, filters where columns make a square, and
    else the density of activity. The first 10000 rows of the data are used.
    """
    check_picture(output, [model, *data], force=force)
    net, steps, reading = read_fitted(model, reading, fill)
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


def _kind(n_features: int) -> str:
    if n_features == 2:
        return "directions"
    is_square = n_features >= 9 and round(n_features**0.5) ** 2 == n_features
    return "filters" if is_square else "activity"


def _first_rows(
    data: tuple[str, ...], reading: "ReadOptions", model: "OnlineEstimator", steps: "list[Step]"
) -> "FloatArray":
    import numpy as np

    from hebbnmf.preprocessing import transform_rows

    with open_data(data, reading, model, steps, limit=_ROWS) as stream:
        rows = np.concatenate(list(stream))
        report_bad_rows(stream)
    return model.learner_.check_rows(transform_rows(steps, rows))


def _draw(
    kind: str, model: "OnlineEstimator", steps: "list[Step]", rows: "FloatArray | None", output: str
) -> None:
    from matplotlib.figure import Figure

    from hebbnmf.plots import plot_activity_density, plot_cost, plot_filters
    from hebbnmf.preprocessing import input_filters

    figure = Figure(figsize=(6, 6), layout="constrained")
    ax = figure.subplots()
    if rows is None or kind == "filters":
        plot_filters(input_filters(model.components_, steps), ax=ax)
    elif kind == "directions":
        _draw_directions(rows, model.components_, ax)
    elif kind == "cost":
        plot_cost(rows, model.respond(rows).Y, ax=ax)
    else:
        plot_activity_density(model.respond(rows).Y, ax=ax)
    save_picture(figure, output)


def _draw_directions(rows: "FloatArray", components: "FloatArray", ax: "Axes") -> None:
    """Draw rows and weights; of more than two columns, on the plane in which rows vary most."""
    import numpy as np

    from hebbnmf.plots import plot_directions

    if rows.shape[1] <= 2:
        if rows.shape[1] < 2:
            raise ValueError("directions take at least two columns; draw --kind activity.")
        plot_directions(rows, components, ax=ax)
        return
    variances, axes = np.linalg.eigh(np.cov(rows.T, dtype=np.float64))
    shares = variances[:-3:-1] / variances.sum()
    plane = axes[:, :-3:-1]
    plot_directions(rows @ plane, components @ plane, ax=ax)
    labels = [
        f"principal axis {i + 1} ({share:.0%} of the variance)" for i, share in enumerate(shares)
    ]
    ax.set(xlabel=labels[0], ylabel=labels[1])
