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
# Quantiles of each column between which rows choose the plane.
_INNER = [0.01, 0.99]


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf plot model.npz --data rows.csv -o clusters.png
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
    type=click.Choice(["filters", "clusters", "directions", "activity", "cost"]),
    help="Weights as square pictures; rows by their label, or weights over rows, of more than two "
    "columns on the plane of most variance; density of activity; cost (9) of the responses as "
    "rows come.",
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
    """Draw a model: filters, clusters, directions, activity or cost.

    By default filters where columns make a square, else the rows of --data by their label, or the
    density of activity of a model without labels. The first 10000 rows are used.
    """
    from matplotlib.figure import Figure

    from hebbnmf.plots import plot_filters
    from hebbnmf.preprocessing import input_filters

    check_picture(output, [model, *data], force=force)
    net, steps, reading = read_fitted(model, reading, fill)
    if not net.n_components_:
        raise ValueError(f"{model} has no unit to draw; fit with a lower --rank-penalty.")
    n_columns = steps[0].n_features_in_ if steps else net.n_features_in_
    has_filters = n_columns == net.n_features_in_
    kind = kind or _kind(n_columns if has_filters else 0, net)
    if kind in ("filters", "directions") and not has_filters:
        raise ValueError(
            f"{model} sees rows through a kernel and has no {kind}: plot clusters or activity."
        )
    if kind == "clusters" and not hasattr(net, "predict"):
        raise ValueError(f"{model} is an {type(net).__name__}, which has no clusters.")
    if kind != "filters" and not data:
        raise click.UsageError(f"a picture of kind {kind} needs rows: give them by --data FILE.")
    figure = Figure(figsize=(6, 6), layout="constrained")
    ax = figure.subplots()
    if kind == "filters":
        plot_filters(input_filters(net.components_, steps), ax=ax)
    else:
        _draw(kind, _first_rows(data, reading, net, steps), net, steps, ax)
    save_picture(figure, output)


def _kind(n_filtered: int, model: "OnlineEstimator") -> str:
    """Return the default for weights of so many columns, none if they are not those of the data."""
    if n_filtered >= 9 and round(n_filtered**0.5) ** 2 == n_filtered:
        return "filters"
    return "clusters" if hasattr(model, "predict") else "activity"


def _first_rows(
    data: tuple[str, ...], reading: "ReadOptions", model: "OnlineEstimator", steps: "list[Step]"
) -> "FloatArray":
    import numpy as np

    with open_data(data, reading, model, steps, limit=_ROWS) as stream:
        rows = np.concatenate(list(stream))
        report_bad_rows(stream)
    return rows


def _draw(
    kind: str, rows: "FloatArray", model: "OnlineEstimator", steps: "list[Step]", ax: "Axes"
) -> None:
    from hebbnmf.feature_map import RBFMap
    from hebbnmf.plots import plot_activity_density, plot_clusters, plot_cost, plot_directions
    from hebbnmf.preprocessing import transform_rows

    # A kernel has no plane: the rows before it are drawn.
    n_drawn = next((i for i, step in enumerate(steps) if isinstance(step, RBFMap)), len(steps))
    drawn = transform_rows(steps[:n_drawn], rows)
    rows = model.learner_.check_rows(transform_rows(steps[n_drawn:], drawn))
    responses = model.respond(rows)
    if kind == "cost":
        plot_cost(rows, responses.Y, ax=ax)
        return
    if kind == "activity":
        plot_activity_density(responses.Y, ax=ax)
        return
    plane, labels = _plane(drawn)
    if kind == "directions":
        plot_directions(drawn @ plane, model.components_ @ plane, ax=ax)
    else:
        plot_clusters(drawn @ plane, responses.labels, ax=ax)
    ax.set(xlabel=labels[0], ylabel=labels[1])


def _plane(rows: "FloatArray") -> "tuple[FloatArray, list[str]]":
    """Return the plane in which rows vary most, and the names of its axes."""
    import numpy as np

    if rows.shape[1] < 2:
        raise ValueError("a picture of one column has no plane; draw --kind activity.")
    if rows.shape[1] == 2:
        return np.eye(2), ["feature 1", "feature 2"]
    inner = np.clip(rows, *np.quantile(rows, _INNER, axis=0))
    variances, axes = np.linalg.eigh(np.cov(inner.T, dtype=np.float64))
    shares = variances[:-3:-1] / variances.sum()
    names = [
        f"principal axis {i + 1} ({share:.0%} of the variance)" for i, share in enumerate(shares)
    ]
    return axes[:, :-3:-1], names
