"""Learn: Eq. (8), with the plain schedule and that of section III.C.

Rows are kept scaled, ``W_i = s_i V_i`` and ``M_i = s_i N_i``: the decay of a whole row is then
one multiplication, and a step touches only what the sample itself adds. Within a block the
additions to ``V`` wait in ``C``, and the inputs ``P = V X'`` of the samples still to come are
corrected instead: the same rank-one updates, applied later.
"""

import numpy as np

from hebbnmf.engine._jit import jit_inner
from hebbnmf.engine.rows import add_row, scale_row
from hebbnmf.engine.state import Block, Weights, Workspace

# A row scale below this is folded back into its row, long before it can underflow.
_SMALLEST_SCALE = 2.0**-10


@jit_inner
def birth(
    i: int,
    t: int,
    y_i: float,
    initial_activity: float,
    weights: Weights,
    block: Block,
    work: Workspace,
) -> None:
    """Make unit i, born from sample t, an empty row; its weights come from `learn`."""
    weights.s[i] = work.s[i] = 1.0
    weights.Yhat[i] = initial_activity if initial_activity > 0 else y_i * y_i
    work.row_sums[i] = 0
    for later in range(t + 1, len(block.X)):
        block.P[i, later] = 0


@jit_inner
def learn(
    t: int,
    n_old: int,
    n_active: int,
    gain: float,
    weights: Weights,
    block: Block,
    work: Workspace,
) -> None:
    """Learn from sample t of the block, Eq. (8).

    On a row, Eq. (8) reads ``W_i = (1 - rate) W_i + (rate / y_i) x`` with the rate
    ``y_i^2 / Yhat_i``; on a scaled row, ``s_i *= 1 - rate`` and ``V_i += c_i x`` with the step
    ``c_i = rate / (y_i s_i)``. Under the plain schedule the rate is at most 1. Under that of
    section III.C an activity with ``y_i^2 > Yhat_i`` would overshoot its own sample and turn
    lateral weights negative: there the rate is held at 1, and the row starts anew from this
    sample.

    Parameters
    ----------
    t : int
        The sample.
    n_old, n_active : int
        ``work.active[:n_active]`` responded with ``work.y``; those from ``n_old`` on are newborn.
    gain : float
        Share of ``y_i^2`` that is added to ``Yhat_i``.
    weights, block, work : Weights, Block, Workspace, INOUT
        What is learned, the samples, the response.
    """
    active, y, c, row_sums = work.active, work.y, work.c, work.row_sums
    N_T, Yhat, s = weights.N_T, weights.Yhat, weights.s
    n_samples = len(block.X)
    for a in range(n_old):
        i, y_i = active[a], float(y[a])
        Yhat[i] += gain * y_i * y_i  # Eq. (8), line 1
        scale = max(Yhat[i], y_i * y_i)
        s[i] *= (scale - y_i * y_i) / scale
        if s[i] < _SMALLEST_SCALE:
            row_sums[i] *= s[i]
            _fold(i, weights, block)
        work.s[i] = s[i]
        c[a] = y_i / (scale * s[i])
    y_sum = y.dtype.type(0)
    for a in range(n_active):
        y_sum += y[a]
    for a in range(n_old, n_active):
        c[a] = 1 / y[a]  # a newborn row is empty: W = x / y and M = y / y_new are its first step
    for a in range(n_active):
        i, c_i = active[a], c[a]
        step = block.n_steps[i]
        block.C[i, step] = c_i
        block.when[i, step] = t
        block.n_steps[i] = step + 1
        row_sums[i] += c_i * (y_sum - y[a])
        add_row(c_i, block.G[t], t + 1, n_samples, block.P[i])  # Eq. (8), line 2
    twos = n_active - n_active % 2
    for a in range(0, twos, 2):  # Eq. (8), line 3: two columns at a time, to read the steps once
        j_0, j_1, y_0, y_1 = active[a], active[a + 1], y[a], y[a + 1]
        for b in range(np.uint64(n_active)):
            N_T[j_0, active[b]] += c[b] * y_0
            N_T[j_1, active[b]] += c[b] * y_1
    for a in range(twos, n_active):
        for b in range(n_active):
            N_T[active[a], active[b]] += c[b] * y[a]
    for a in range(n_active):
        N_T[active[a], active[a]] = 0


@jit_inner
def _fold(i: int, weights: Weights, block: Block) -> None:
    """Multiply the scale of row i into the row, and set it to one."""
    scale = weights.s[i]
    scale_row(scale, weights.V[i], weights.V.shape[1])
    scale_row(scale, block.P[i], len(block.X))
    scale_row(scale, block.C[i], block.n_steps[i])
    for j in range(len(weights.s)):
        weights.N_T[j, i] *= scale
    weights.s[i] = 1.0
