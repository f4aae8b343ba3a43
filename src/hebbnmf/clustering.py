"""Clusters: labels read off responses, and the K-means objective they bridge to, Eq. (2), (3)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d

from hebbnmf.engine.state import FloatArray

__all__ = ["cluster_labels", "indicator_matrix", "kmeans_objective"]


def indicator_matrix(labels: ArrayLike) -> NDArray[np.float64]:
    """Turn cluster labels into the scaled indicator matrix of Eq. (3), samples as rows.

    Parameters
    ----------
    labels : array-like of int of shape (n_samples,)
        The cluster of each sample, from 0; -1 marks a sample that belongs to none.

    Returns
    -------
    ndarray of shape (n_samples, n_clusters)
        Entry ``(t, k)`` is ``n_k ** -0.5`` where sample t is one of the ``n_k`` samples of
        cluster k, else 0. Columns are orthonormal, except the zero columns of empty clusters.

    Examples
    --------
    >>> from hebbnmf.clustering import indicator_matrix
    >>> indicator_matrix([1, 0, 1, 1, -1, 1])
    array([[0. , 0.5],
           [1. , 0. ],
           [0. , 0.5],
           [0. , 0.5],
           [0. , 0. ],
           [0. , 0.5]])
    """
    codes = column_or_1d(labels)
    if codes.dtype.kind not in "iu" or codes.min(initial=0) < -1:
        raise ValueError(
            f"labels must be integers of at least -1, got {np.unique(codes)[:3]} among them; "
            "number the clusters from 0 and mark silent samples by -1."
        )
    members = codes[:, None] == np.arange(codes.astype(np.intp).max(initial=-1) + 1)
    return np.asarray(members / np.sqrt(np.maximum(members.sum(axis=0), 1)))  # Eq. (3)


def cluster_labels(Y: FloatArray) -> NDArray[np.intp]:
    """Label each response by its strongest component, or by -1, no cluster, if all are zero.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_components)
        The responses, non-negative; may have no columns.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.clustering import cluster_labels
    >>> cluster_labels(np.array([[0.0, 2.0], [3.0, 1.0], [0.0, 0.0]])).tolist()
    [1, 0, -1]
    """
    if Y.shape[1] == 0:
        return np.full(len(Y), -1, np.intp)
    labels = Y.argmax(axis=1)
    labels[Y[np.arange(len(Y)), labels] == 0] = -1
    return labels


def kmeans_objective(X: ArrayLike, labels: ArrayLike) -> float:
    """Return the K-means objective of labels, Eq. (2): the inertia of scikit-learn's ``KMeans``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    labels : array-like of int of shape (n_samples,)
        The cluster of each sample, from 0; -1 marks a sample that belongs to none.

    Returns
    -------
    float
        Sum of squared distances of the samples to the means of their clusters, or to the origin.

    Notes
    -----
    With the indicators Y of Eq. (3), Eq. (2) is ``-Tr(Y' X X' Y)`` and the inertia is that plus
    ``|X|^2``, the constant the paper drops. Since ``Y Y'`` is a projection, both together are
    ``|X - Y Y' X|^2``, which does not cancel where the data lie far from the origin.

    Examples
    --------
    >>> from hebbnmf.clustering import kmeans_objective
    >>> kmeans_objective([[1.0], [3.0], [10.0]], [0, 0, 1])
    2.0
    """
    samples, Y = check_array(X, dtype=np.float64, input_name="X"), indicator_matrix(labels)
    if len(samples) != len(Y):
        raise ValueError(
            f"X has {len(samples)} samples but labels has {len(Y)}; give one label for each row."
        )
    return float(np.sum((samples - Y @ (Y.T @ samples)) ** 2))
