"""Every picture: each function draws on the given Axes, or on a new one, and returns it."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

# Shapes as well as colours, so that clusters can be told apart in grey.
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
        The samples.
    labels : array-like of shape (n_samples,)
        Cluster of each sample, -1 for none.
    components : array-like of shape (n_components, 2), optional
        Feedforward weights, drawn as arrows from the origin in the colour of their cluster.
    centers : array-like of shape (n_centers, 2), optional
        True centres, drawn as black crosses.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    ax : Axes
        Where it was drawn.

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
    if ax is None:
        _, ax = plt.subplots(figsize=(5, 5), layout="constrained")
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
