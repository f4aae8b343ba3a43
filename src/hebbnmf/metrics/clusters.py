"""How well clusters agree with known classes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length, column_or_1d

__all__ = ["ClusterAgreement", "cluster_agreement"]


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
