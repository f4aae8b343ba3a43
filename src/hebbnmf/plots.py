"""Plots: each function draws on the given Axes, or on a new one, and returns it."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from numpy.typing import ArrayLike

from hebbnmf.cost import RunningCost
from hebbnmf.engine.state import FloatArray
from hebbnmf.metrics import GaborFits
from hebbnmf.metrics.gabors import filter_sides

__all__ = [
    "filter_grid",
    "panels",
    "plot_activity_density",
    "plot_clusters",
    "plot_cost",
    "plot_cost_ratio",
    "plot_directions",
    "plot_filters",
    "plot_gabor_scatter",
    "plot_network",
]

# Shapes as well as colours, so that clusters can be distinguished in greyscale.
_MARKERS = "osD^vP*Xph<>"


def plot_clusters(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    components: ArrayLike | None = None,
    centers: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Scatter two-dimensional samples by cluster, silent ones as grey crosses.

    Parameters
    ----------
    X : array-like of shape (n_samples, 2)
    labels : array-like of shape (n_samples,)
        Cluster of each sample, -1 for none.
    components : array-like of shape (n_components, 2), optional
        Feedforward weights, drawn as arrows from the origin in the colour of their cluster.
    centers : array-like of shape (n_centers, 2), optional
        True centres, drawn as black crosses.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> from hebbnmf.plots import plot_clusters
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> net = OnlineSNMF(n_components=3, rank_penalty=0.6).fit(X)
    >>> ax = plot_clusters(X, net.labels_, components=net.components_)
    >>> ax.get_xlabel()
    'feature 1'
    """
    X, labels = np.asarray(X), np.asarray(labels)
    ax = _axes(ax)
    silent = labels < 0
    if silent.any():
        ax.scatter(X[silent, 0], X[silent, 1], c="0.6", s=18, marker="x", label="silent")
    for k in np.unique(labels[~silent]):
        x_1, x_2 = X[labels == k].T
        marker = _MARKERS[k % len(_MARKERS)]
        ax.scatter(x_1, x_2, color=f"C{k}", s=18, marker=marker, label=f"unit {k}")
    for k, w in enumerate([] if components is None else np.asarray(components)):
        arrow = {"arrowstyle": "-|>", "color": f"C{k}", "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=tuple(w), xytext=(0, 0), arrowprops=arrow)
        ax.update_datalim([w])
    if centers is not None:
        x_1, x_2 = np.asarray(centers).T
        ax.scatter(x_1, x_2, c="k", s=90, marker="+", linewidths=2, label="centre")
    ax.autoscale_view()
    ax.set(xlabel="feature 1", ylabel="feature 2", aspect="equal")
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_cost_ratio(
    T: ArrayLike, mean: ArrayLike, std: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """Draw the cost of online responses over that of offline ones as samples arrive (Fig. 3B).

    Parameters
    ----------
    T : array-like of shape (n_points,)
        Numbers of samples, on a logarithmic axis.
    mean : array-like of shape (n_points,)
        Mean ratio over data sets.
    std : array-like of shape (n_points,)
        Its standard deviation, drawn as a band.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from hebbnmf.plots import plot_cost_ratio
    >>> ax = plot_cost_ratio([2, 20, 200], [1.6, 1.2, 1.1], [0.6, 0.2, 0.1])
    >>> ax.get_ylabel()
    'cost (9), online / offline'
    """
    ax = _axes(ax)
    T, mean, std = np.asarray(T), np.asarray(mean), np.asarray(std)
    ax.fill_between(T, mean - std, mean + std, color="0.8", linewidth=0, label="standard deviation")
    ax.plot(T, mean, color="C0", label="mean")
    ax.axhline(1.0, color="k", linewidth=0.8, linestyle=":")
    ax.set(xscale="log", xlabel="samples T", ylabel="cost (9), online / offline")
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_cost(X: ArrayLike, Y: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the cost (9) of responses as samples arrive, as a share of the cost of zero responses.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples, in order.
    Y : array-like of shape (n_samples, n_components)
        Their responses.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> from hebbnmf.plots import plot_cost
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> ax = plot_cost(X, OnlineSNMF(n_components=3).fit_transform(X))
    >>> ax.get_xlabel()
    'samples T'
    """
    X, Y = np.asarray(X), np.asarray(Y)
    ax = _axes(ax)
    cost = RunningCost()
    T, shares = [], []
    for rows in np.array_split(np.arange(len(X)), min(len(X), 100)):
        cost.update(X[rows], Y[rows])
        if (silent_value := cost.silent_value) > 0:
            T.append(cost.n_samples)
            shares.append(cost.value / silent_value)
    ax.plot(T, shares, "k-")
    ax.set(xlabel="samples T", ylabel="cost (9) / cost of zero responses", ylim=(0, None))
    return ax


def plot_directions(
    X: ArrayLike,
    components: ArrayLike,
    directions: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the rows of W over two-dimensional data (Fig. 5).

    Parameters
    ----------
    X : array-like of shape (n_samples, 2)
    components : array-like of shape (n_components, 2)
        Feedforward weights W, drawn as circles at the ends of spokes.
    directions : array-like of shape (n_directions, 2), optional
        Sparse directions, drawn as dashed lines to both sides.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_sparse_sources
    >>> from hebbnmf.plots import plot_directions
    >>> X = make_sparse_sources(2000, 2, random_state=0)
    >>> net = OnlineSNMF(n_components=4).fit(X)
    >>> ax = plot_directions(X[:500], net.components_, [[1.0, 0.0], [0.0, 1.0]])
    >>> len(ax.collections[-1].get_offsets())
    4
    """
    ax = _axes(ax)
    X, W = np.asarray(X), np.asarray(components)
    ax.scatter(X[:, 0], X[:, 1], color="C0", s=6, alpha=0.6, linewidths=0, label="samples")
    for k, direction in enumerate([] if directions is None else np.asarray(directions)):
        label = "sparse directions" if k == 0 else None
        ax.axline((0, 0), tuple(direction), color="k", linewidth=0.9, linestyle="--", label=label)
    for x_1, x_2 in W:
        ax.plot([0, x_1], [0, x_2], color="k", linewidth=1.8)
    circles = ax.scatter(W[:, 0], W[:, 1], c="gold", s=70, zorder=3, label="rows of W")
    circles.set(edgecolor="k", linewidth=1.2)
    ax.set(xlabel="feature 1", ylabel="feature 2", aspect="equal")
    ax.legend(loc="best", fontsize="small")
    return ax


def plot_filters(
    filters: ArrayLike,
    patch_shape: tuple[int, int] | None = None,
    *,
    ax: Axes | None = None,
    n_columns: int | None = None,
) -> Axes:
    """Show filters in a grid (Fig. 4A), each scaled to its own largest entry, zero as mid-grey.

    Parameters
    ----------
    filters : array-like of shape (n_filters, n_pixels)
        The filters, one a row, pixels row by row.
    patch_shape : tuple of int, optional
        Height and width of a filter; square where None.
    ax : Axes, optional
    n_columns : int, optional
        Filters in a row of the grid; about as many as rows where None.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.plots import plot_filters
    >>> ax = plot_filters(np.random.default_rng(0).standard_normal((6, 25)), n_columns=3)
    >>> ax.images[0].get_array().shape
    (13, 19)
    """
    grid = filter_grid(filters, patch_shape, n_columns=n_columns)
    ax = _axes(ax)
    ax.imshow(grid, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    ax.set_axis_off()
    return ax


def filter_grid(
    filters: ArrayLike,
    patch_shape: tuple[int, int] | None = None,
    *,
    n_columns: int | None = None,
) -> FloatArray:
    """Arrange filters in a grid, as `plot_filters` shows them.

    Parameters
    ----------
    filters, patch_shape, n_columns
        As in `plot_filters`.

    Returns
    -------
    grid : ndarray of shape (height, width)
        Filters between -1 and 1, each scaled to its own largest entry, and NaN between them.

    Examples
    --------
    >>> from hebbnmf.plots import filter_grid
    >>> filter_grid([[1.0], [-2.0]])
    array([[nan, nan, nan, nan, nan],
           [nan,  1., nan, -1., nan],
           [nan, nan, nan, nan, nan]])
    """
    F = np.asarray(filters, dtype=np.float64)
    height, width = filter_sides(F.shape[1], patch_shape)
    columns = n_columns or max(1, int(np.ceil(len(F) ** 0.5)))
    rows = max(1, -(-len(F) // columns))
    # NaN is drawn white: gaps that differ from every grey of a filter.
    grid = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1), np.nan)
    for k, f in enumerate(F):
        top, left = (k // columns) * (height + 1) + 1, (k % columns) * (width + 1) + 1
        peak = np.abs(f).max() or 1.0
        grid[top : top + height, left : left + width] = f.reshape(height, width) / peak
    return grid


def plot_activity_density(Y: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the density of activity, pooled over units and samples (Fig. 4B).

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_units)
        The responses, non-negative and not all zero.
    ax : Axes, optional

    Returns
    -------
    Axes
        The area under the curve is the probability of activity above zero; the arrow gives that
        of zero. The dashed curve is a Gaussian of zero mean and equal variance.

    Examples
    --------
    >>> from hebbnmf.plots import plot_activity_density
    >>> ax = plot_activity_density([[0.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    >>> ax.texts[0].get_text()
    'P(y = 0) = 0.750'
    """
    activity = np.asarray(Y).ravel()
    active = activity[activity > 0]
    if active.size == 0:
        raise ValueError("Y has no entry above 0: there is no density to draw.")
    ax = _axes(ax)
    counts, edges = np.histogram(active, bins=80, range=(0, float(active.max())))
    density = counts / (activity.size * np.diff(edges))
    std = float(activity.std(dtype=np.float64))
    shown = np.where(density > 0, density, np.nan)
    ax.stairs(shown, edges, baseline=None, color="C0", linewidth=1.5, label="activity above zero")
    y = np.linspace(0, edges[-1], 400)
    gaussian = np.exp(-0.5 * (y / std) ** 2) / (std * np.sqrt(2 * np.pi)) if std else 0 * y
    ax.plot(y, gaussian, color="k", linestyle="--", linewidth=1, label="Gaussian, equal variance")
    top = max(density.max(), gaussian.max())
    ax.set(yscale="log", ylim=(np.nanmin(shown) / 3, top * 30))
    ax.set(xlabel="activity y", ylabel="probability density")
    ax.annotate(
        f"P(y = 0) = {1 - active.size / activity.size:.3f}",
        xy=(0, top * 1.5),
        xytext=(0.08, 0.93),
        textcoords="axes fraction",
        va="center",
        color="firebrick",
        arrowprops={"arrowstyle": "-|>", "color": "firebrick", "linewidth": 1.8},
    )
    ax.legend(loc="upper right", bbox_to_anchor=(1, 0.9), fontsize="small")
    return ax


def plot_gabor_scatter(fits: GaborFits, *, ax: Axes | None = None) -> Axes:
    """Scatter filters by orientation and spatial frequency, shaded by how Gabor-like they are.

    Parameters
    ----------
    fits : GaborFits
        What `hebbnmf.metrics.fit_gabors` returned; filters without a fit are left out.
    ax : Axes, optional
        Where to draw; a colour bar is added beside it.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.metrics import fit_gabors
    >>> from hebbnmf.plots import plot_gabor_scatter
    >>> y, x = np.mgrid[:12, :12]
    >>> bars = np.exp(-((x - 6) ** 2 + (y - 5) ** 2) / 12) * np.cos(0.4 * np.pi * (x - 6))
    >>> ax = plot_gabor_scatter(fit_gabors([bars.ravel(), bars.T.ravel()]))
    >>> len(ax.collections[0].get_offsets())
    2
    """
    ax = _axes(ax)
    fitted = np.isfinite(fits.frequency)
    place = np.degrees(fits.orientation[fitted]), fits.frequency[fitted]
    points = ax.scatter(*place, c=fits.explained[fitted], cmap="cividis_r", vmin=0, vmax=1, s=28)
    points.set(edgecolor="k", linewidth=0.4)
    ax.figure.colorbar(points, ax=ax, label="explained share of variance")
    ax.set(xlim=(-4, 184), ylim=(0, 0.52), xticks=range(0, 181, 45))
    ax.set(xlabel="orientation of the stripes (degrees)", ylabel="frequency (cycles / pixel)")
    return ax


def plot_network(
    components: ArrayLike, lateral_weights: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """Draw a small network (Fig. 2): inputs below, units above, lateral inhibition over them.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Feedforward weights W: solid where they excite, dashed where they inhibit, the wider the
        stronger.
    lateral_weights : array-like of shape (n_components, n_components)
        Lateral weights M, drawn as arcs that end in a bar at the unit that they inhibit.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> from hebbnmf.plots import plot_network
    >>> ax = plot_network([[1.0, 0.2], [-0.7, 0.9]], [[0.0, 0.3], [0.1, 0.0]])
    >>> len(ax.patches)
    6
    """
    W, M = np.asarray(components), np.asarray(lateral_weights)
    ax = _axes(ax)
    m, n = W.shape
    inputs = [((j + 0.5) / n, 0.0) for j in range(n)]
    units = [((i + 0.5) / m, 1.0) for i in range(m)]
    for (i, j), width in np.ndenumerate(_line_widths(W)):
        color, style = ("C3", "--") if W[i, j] < 0 else ("C0", "-")
        arrow = FancyArrowPatch(inputs[j], units[i], mutation_scale=12, shrinkA=13, shrinkB=14)
        arrow.set_arrowstyle("-|>" if W[i, j] else "-")
        arrow.set(color=color, linestyle=style, linewidth=width)
        ax.add_patch(arrow)
    for (i, k), width in np.ndenumerate(_line_widths(M)):
        if i != k:
            arc = FancyArrowPatch(units[k], units[i], mutation_scale=14, shrinkA=14, shrinkB=15)
            arc.set_arrowstyle("-[,widthB=0.6,lengthB=0")
            # Both arcs of a pair bend upwards, one higher than the other.
            arc.set_connectionstyle("arc3", rad=-0.35 if i > k else 0.6)
            arc.set(color="0.5", linewidth=width)
            ax.add_patch(arc)
    for letter, shape, places in (("x", "s", inputs), ("y", "o", units)):
        for k, (x, y) in enumerate(places):
            ax.plot(x, y, marker=shape, color="w", markeredgecolor="k", markersize=24, zorder=3)
            ax.text(x, y, f"${letter}_{{{k + 1}}}$", ha="center", va="center", zorder=4)
    lines = (("C0", "-", "W > 0"), ("C3", "--", "W < 0"), ("0.5", "-", "M, inhibition"))
    for color, style, label in lines:
        ax.plot([], [], color=color, linestyle=style, linewidth=2, label=label)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.02), ncols=3, fontsize="small")
    ax.set(xlim=(0, 1), ylim=(-0.35, 1.45))
    ax.set_axis_off()
    return ax


def panels(mosaic: str, figsize: tuple[float, float]) -> dict[str, Axes]:
    """Make a figure of lettered panels that is not registered with pyplot.

    Parameters
    ----------
    mosaic : str
        Layout of the panels, one letter each, as in ``Figure.subplot_mosaic``.
    figsize : tuple of float
        Width and height, in inches.

    Returns
    -------
    axes : dict of str to Axes
        The panels, by letter.

    Examples
    --------
    >>> from hebbnmf.plots import panels
    >>> sorted(panels("AB;CC", (6, 4)))
    ['A', 'B', 'C']
    """
    axes: dict[str, Axes] = Figure(figsize=figsize, layout="constrained").subplot_mosaic(mosaic)
    for letter, ax in axes.items():
        ax.set_title(letter, loc="left", fontweight="bold")
    return axes


def _axes(ax: Axes | None) -> Axes:
    return plt.subplots(figsize=(5, 5), layout="constrained")[1] if ax is None else ax


def _line_widths(weights: FloatArray) -> FloatArray:
    strengths = np.abs(weights)
    return np.asarray(3.5 * strengths / (strengths.max(initial=0.0) or 1.0))
