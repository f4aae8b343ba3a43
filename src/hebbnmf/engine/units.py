"""Unit functions: the activity of one unit, the others held fixed."""

import numpy as np

from hebbnmf.engine._jit import jit, jit_inline
from hebbnmf.engine.state import Scalar


@jit_inline
def rectify(net_input: Scalar) -> Scalar:
    """Return the activity of a rectified unit, Eq. (7)."""
    return max(net_input, np.float32(0))


@jit_inline
def soft_threshold(net_input: Scalar, alpha: Scalar) -> Scalar:
    """Return the activity of a signed unit with a threshold."""
    zero = np.float32(0)
    return max(net_input - alpha, zero) + min(net_input + alpha, zero)


@jit
def quartic_minimum(p: float, c: float) -> float:
    """Minimise ``y^4/4 + p y^2/2 - c y`` over ``y >= 0``: one coordinate of Eq. (6).

    The stationary points are the roots of ``y^3 + p y = c``. The largest one is the only
    candidate beside 0. Each branch adds terms of one sign, so that none cancels, and no
    intermediate exceeds the order of ``c``.
    """
    if p >= 0:
        if c <= 0:
            return 0.0
        # y = a - b with a b = p/3 and a^3 - b^3 = c, written without the difference.
        a = np.cbrt(0.5 * c + np.hypot(0.5 * c, (p / 3) * np.sqrt(p / 3)))
        b = p / (3 * a)
        return float(c / (a * a + a * b + b * b))
    q = -p / 3
    half, ratio = 0.5 * c, 0.5 * c / q / np.sqrt(q)
    if ratio > 1:
        edge = q * np.sqrt(q)
        a = np.cbrt(half + np.sqrt(half - edge) * np.sqrt(half + edge))
        return float(a + q / a)
    if ratio <= -1:
        return 0.0
    y = 2 * np.sqrt(q) * np.cos(np.arccos(ratio) / 3)
    # The energy at a root is -(y^2/4) (3 y^2 + 2 p): below its value at 0 only if negative.
    return float(y) if y * y > 2 * q else 0.0
