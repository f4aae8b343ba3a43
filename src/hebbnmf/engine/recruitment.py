"""Recruit: Eq. (5), whether a sample adds a unit to the network."""

import numpy as np

from hebbnmf.engine._jit import jit_inner


@jit_inner
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
        ``sqrt(lambda)``, the square root of the rank penalty.
    floor : float
        Share of ``|x|^2`` below which a residual is what rounding and the tolerance of the
        response leave over. Without it, at ``lambda = 0``, a unit born from ``r = 1e-16`` gets
        weights of 1e8.
    """
    residual = x_norm2 - y_norm2
    if residual > threshold and residual > floor * x_norm2:
        return float(np.sqrt(residual))
    return 0.0
