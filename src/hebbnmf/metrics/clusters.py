"""How well clusters agree with known classes, and how separated they are without any."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from hebbnmf.clustering import cluster_labels

__all__ = ["ClusterAgreement", "ClusterSeparation", "cluster_agreement", "cluster_separation"]


class ClusterAgreement(NamedTuple):
    """What `cluster_agreement` measures."""

    accuracy: float  # share of samples in the cluster that is matched with their class
    silent: float  # share of samples in no cluster; they count as wrong
    n_clusters: int  # number of clusters that hold a sample


def cluster_agreement(y_true: ArrayLike, labels: ArrayLike) -> ClusterAgreement:
    """Compare clusters with known classes, under the best one-to-one matching.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The class of each sample.
    labels : array-like of shape (n_samples,)
        The cluster of each sample, or -1 where no unit was active.

    Returns
    -------
    ClusterAgreement

    Examples
    --------
    >>> from hebbnmf.metrics import cluster_agreement
    >>> cluster_agreement([0, 0, 1, 1], [7, 7, 3, -1])
    ClusterAgreement(accuracy=0.75, silent=0.25, n_clusters=2)
    """
    classes, clusters = np.asarray(column_or_1d(y_true)), np.asarray(column_or_1d(labels))
    check_consistent_length(classes, clusters)
    if clusters.size == 0:
        raise ValueError("y_true and labels are empty: give at least one sample to compare.")
    silent = clusters == -1
    if silent.all():
        return ClusterAgreement(0.0, 1.0, 0)
    counts = contingency_matrix(classes[~silent], clusters[~silent])
    matched = counts[linear_sum_assignment(counts, maximize=True)].sum()
    return ClusterAgreement(
        accuracy=float(matched / clusters.size),
        silent=float(silent.mean()),
        n_clusters=counts.shape[1],
    )


class ClusterSeparation(NamedTuple):
    """What `cluster_separation` measures."""

    mean: float  # over all samples; silent ones count as 0
    by_cluster: NDArray[np.float64]  # over the samples of each unit; NaN where it has none


def cluster_separation(Y: ArrayLike) -> ClusterSeparation:
    """Measure how clearly each sample belongs to one cluster, by its responses alone.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_components)
        Responses, non-negative, as returned by `OnlineSNMF.transform`.

    Returns
    -------
    ClusterSeparation
        Means of ``1 - y_2 / y_1``, with the largest and the second largest activity of a sample: 1
        where it drives one unit alone, 0 where two units respond to it alike or none does.

    Notes
    -----
    The scale of the data plays no part. A value near 1 says that samples lie in directions that the
    units tell apart, not that their number is right: two clusters in one direction share a unit.

    Examples
    --------
    >>> from hebbnmf.metrics import cluster_separation
    >>> cluster_separation([[2.0, 0.0], [4.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    ClusterSeparation(mean=0.4375, by_cluster=array([0.58333333,        nan]))
    """
    activities = check_array(Y, dtype=np.float64, input_name="Y", ensure_min_features=0)
    if (activities < 0).any():
        raise ValueError("Y has negative entries: give responses, as transform returns them.")
    labels = cluster_labels(activities)
    first, second = np.sort(np.pad(activities, ((0, 0), (2, 0))), axis=1)[:, :-3:-1].T
    margins = np.where(first > 0, 1 - second / np.where(first > 0, first, 1), 0)
    sizes = np.bincount(labels + 1, minlength=activities.shape[1] + 1)[1:]
    totals = np.bincount(labels + 1, margins, minlength=activities.shape[1] + 1)[1:]
    by_cluster = np.divide(totals, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
    return ClusterSeparation(float(margins.mean()), by_cluster)
