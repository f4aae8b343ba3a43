"""Running moments: means and variances that every row finds as they stand, discounted by memory.

The sums are those over all rows so far, weighed by the clock of `hebbnmf.engine.plasticity`. With W
their total weight, a new row has the share ``a = 1 / W`` (Welford; West 1979, for weights)::

    mean <- mean + a d,    var <- (1 - a) (var + a d^2),    d = x - mean

Only differences from the mean are squared: nothing cancels, however far the data lie from zero.
"""

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine._jit import jit, jit_inline
from hebbnmf.engine.plasticity import discount
from hebbnmf.engine.state import FloatArray

_EPS = float(np.finfo(np.float64).eps)


@jit_inline
def scale_of(mean: float, var: float, memory: float) -> float:
    """Return the standard deviation, or 1 for a feature that is constant but for rounding.

    A running mean stops short of a constant by up to half a unit in its last place for each row
    that is remembered: further steps towards it are rounded away.
    """
    std = np.sqrt(var)
    return std if std > _EPS * max(memory, 8.0) * abs(mean) else 1.0


@jit
def learn_moments(
    n_samples: int,
    weight: float,
    memory: float,
    X: FloatArray,
    mean: NDArray[np.float64],
    var: NDArray[np.float64],
    Z: FloatArray,
) -> float:
    """Learn the moments of some rows, and scale each row by the moments that include it.

    Parameters
    ----------
    n_samples : int
        Number of rows learned before.
    weight : float
        Their total weight.
    memory : float
        As in `Rules`.
    X : array of shape (n_rows, n), IN
        The rows.
    mean, var : array of shape (n,), INOUT
        The moments.
    Z : array of shape (n_rows, n) or (0, n), OUT
        The scaled rows; not wanted if there is no row.

    Returns
    -------
    weight : float
        The total weight now.
    """
    for t in range(len(X)):
        weight = discount(n_samples + t, memory) * weight + 1
        share = 1 / weight
        for j in range(X.shape[1]):
            difference = X[t, j] - mean[j]
            mean[j] += share * difference
            var[j] = (1 - share) * (var[j] + share * difference * difference)
            if len(Z):
                Z[t, j] = (X[t, j] - mean[j]) / scale_of(mean[j], var[j], memory)
    return weight
