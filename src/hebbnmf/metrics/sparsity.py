"""How sparse activity is (section IV.B, Fig. 4B)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from hebbnmf.engine.state import FloatArray

__all__ = ["ActivitySparsity", "activity_sparsity"]


class ActivitySparsity(NamedTuple):
    """What `activity_sparsity` measures."""

    probability_zero: float  # share of activities that are exactly zero: red arrow of Fig. 4B
    kurtosis: float  # excess kurtosis of all activities, pooled; 0 where they are constant
    lifetime: FloatArray  # for each unit, how unevenly its activity is spread over samples, 0..1
    population: FloatArray  # for each sample, how unevenly activity is spread over units, 0..1


def activity_sparsity(Y: ArrayLike) -> ActivitySparsity:
    """Measure how sparse activity is (section IV.B, Fig. 4B).

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_units)
        The responses, non-negative.

    Returns
    -------
    ActivitySparsity

    Notes
    -----
    `lifetime` and `population` are the sparseness of Treves & Rolls (1991) in the form of Vinje &
    Gallant (2000), ``(1 - a) / (1 - 1/N)`` with ``a = mean(r)^2 / mean(r^2)`` over the N samples
    or units: 0 where all N activities are equal, 1 where a single one is not zero. It is set to 0
    where all are zero, so that dead units cannot raise an average, and where N is 1.

    Examples
    --------
    >>> from hebbnmf.metrics import activity_sparsity
    >>> sparsity = activity_sparsity([[0, 1], [0, 1], [3, 1]])
    >>> sparsity.lifetime.round(6), round(sparsity.probability_zero, 3)
    (array([1., 0.]), 0.333)
    """
    activity = check_array(Y, dtype=[np.float64, np.float32])
    if activity.min() < 0:
        raise ValueError(
            f"Y has the entry {activity.min():g}, but activity must be >= 0: rectify it first."
        )
    # No measure depends on the scale: without it, fourth powers can neither overflow nor vanish.
    scaled = activity / (activity.max() or 1)
    squares = np.square(scaled - scaled.mean(dtype=np.float64))
    variance = squares.mean()
    return ActivitySparsity(
        probability_zero=float(np.mean(activity == 0)),
        kurtosis=float(np.square(squares).mean() / variance**2 - 3) if variance > 0 else 0.0,
        lifetime=_sparseness(activity, axis=0),
        population=_sparseness(activity, axis=1),
    )


def _sparseness(activity: FloatArray, axis: int) -> FloatArray:
    # Each unit or sample on its own scale, so that the squares of the weakest do not underflow.
    peak = activity.max(axis=axis, keepdims=True)
    r = activity / np.where(peak > 0, peak, 1)
    mean = r.mean(axis=axis, dtype=np.float64)
    power = np.square(r).mean(axis=axis, dtype=np.float64)
    a = np.divide(mean**2, power, out=np.ones_like(mean), where=power > 0)
    return np.asarray(np.clip((1 - a) / (1 - 1 / max(activity.shape[axis], 2)), 0, 1))
