"""Recruit: Eq. (5), whether a sample adds a unit to the network, or takes the place of one.

In Eq. (5) a unit pays if the squared residual ``r^2`` that it removes from the cost exceeds its
price lambda. Two things here are not in the paper.

*A threshold without a scale* (``rank_penalty="auto"``). lambda is on the scale of ``|x|^4``. In
its place stands ``c |x| sqrt(E)``, c times the geometric mean of ``|x|^2`` and of its mean E over
the stream, discounted as all sums are (`hebbnmf.engine.plasticity`). Multiplying the data by a
multiplies both sides of the test by ``a^2``.

*Recycling.* In a full network a unit must go before one can come. Silencing unit i for all of the
past changes the cost (1) by about ``Yhat_i^2``, the squared sum of what it contributed, and a unit
for the sample removes ``r^2``. So a sample that would recruit takes the place of the weakest unit
that is silent for it, if ``Yhat_i < r``.
"""

import numpy as np

from hebbnmf.engine._jit import jit, jit_inline, jit_inner
from hebbnmf.engine.state import Rules, Weights, Workspace

# c of the threshold without a scale, chosen by benchmarks/quality.py.
RELATIVE_THRESHOLD = 0.6


@jit_inline
def recruit(x_norm2: float, y_norm2: float, threshold: float, floor: float) -> float:
    """Return the first activity of a new unit, or 0 where none is recruited.

    Eq. (5) asks whether ``r**2 > lambda`` for the residual ``r = |x|^2 - |y|^2``. That square
    is also large where the network responds too strongly, ``r < 0``, and there no unit can help:
    ``sqrt(r)`` does not exist. So the test is on ``r`` itself, against ``sqrt(lambda)``.

    Parameters
    ----------
    x_norm2, y_norm2 : float
        Squared norms of the sample and of the response of the recruited units.
    threshold : float
        ``sqrt(lambda)``, the square root of the rank penalty, or what stands in its place.
    floor : float
        Share of ``|x|^2`` below which a residual is what rounding and the tolerance of the
        response leave over. Without it, at ``lambda = 0``, a unit born from ``r = 1e-16`` gets
        weights of 1e8.
    """
    residual = x_norm2 - y_norm2
    if residual > threshold and residual > floor * x_norm2:
        return float(np.sqrt(residual))
    return 0.0


@jit
def threshold_for(x_norm2: float, mean_norm2: float, rules: Rules) -> float:
    """Return the threshold on the residual of a sample.

    Parameters
    ----------
    x_norm2, mean_norm2 : float
        Squared norm of the sample, and its discounted mean over the stream, this sample included;
        less an offset, if there is one.
    rules : Rules
        The settings.
    """
    if not rules.relative:
        return rules.threshold
    # Two roots: the product of both means could leave the range of numbers.
    return rules.threshold * float(np.sqrt(max(x_norm2, 0.0)) * np.sqrt(max(mean_norm2, 0.0)))


@jit_inner
def weakest_silent_unit(
    K: int, n_active: int, bound: float, weights: Weights, work: Workspace
) -> int:
    """Return the unit of least ``Yhat`` outside ``work.active[:n_active]``, or -1.

    It must be below the bound. Of equals the first is taken.
    """
    weakest = -1
    for a in range(n_active):
        work.outside[work.active[a]] = 0
    for i in range(K):
        if weights.Yhat[i] < bound and work.outside[i]:
            weakest, bound = i, weights.Yhat[i]
    for a in range(n_active):
        work.outside[work.active[a]] = 1
    return weakest
