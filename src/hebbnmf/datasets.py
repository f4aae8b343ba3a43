"""The data of the paper: three Gaussians."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

THREE_GAUSSIANS_CENTERS = np.array([[-0.0985, -0.3379], [-0.6325, 0.9322], [1.1078, 1.0856]])
THREE_GAUSSIANS_VARIANCE = 0.04


def make_three_gaussians(
    n_samples: int = 300, *, random_state: int | np.random.RandomState | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Sample the three Gaussian clusters of section III.B, in random order.

    Parameters
    ----------
    n_samples : int, default=300
        Number of samples, divided as evenly as possible among the clusters.
    random_state : int, RandomState or None, default=None
        Seed of the samples and of their order.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The samples.
    y : ndarray of shape (n_samples,)
        The cluster of each sample: 0, 1 or 2.

    Examples
    --------
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> X, y = make_three_gaussians(random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((300, 2), [0, 1, 2])
    """
    rng = check_random_state(random_state)
    y = rng.permutation(np.arange(n_samples) % 3)
    noise = rng.standard_normal((n_samples, 2)) * np.sqrt(THREE_GAUSSIANS_VARIANCE)
    return THREE_GAUSSIANS_CENTERS[y] + noise, y
