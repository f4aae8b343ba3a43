"""Learn: Eq. (8), with the plain schedule, that of section III.C, and memory.

Rows are kept scaled, ``W_i = s_i V_i`` and ``M_i = s_i N_i``: the decay of a whole row is then
one multiplication, and a step touches only what the sample itself adds. Within a block the
additions to ``V`` wait in ``C``, and the inputs ``P = V X'`` of the samples still to come are
corrected instead: the same rank-one updates, applied later.

Memory
------
In the cost (1) of the paper all pairs of samples count alike. With memory, samples that came long
ago count less::

    sum_ts w_t w_s (x_t'x_s - y_t'y_s)^2,    w_T = 1,    w_t = gamma_{t+1} w_{t+1}

so that every sample that comes multiplies all earlier weights by its gamma. As in the paper, the
response ``y`` to sample T minimises the terms that contain it, up to a constant::

    2 y'A y - 4 y'B x + (|x|^2 - |y|^2)^2
    A = sum_{t<T} w_t y_t y_t',    B = sum_{t<T} w_t y_t x_t',    Yhat_i = A_ii

W and M are ratios of these sums as before, ``W_i = B_i / Yhat_i`` and ``M_ij = A_ij / Yhat_i``.
When a sample arrives, A, B and ``Yhat`` are multiplied by gamma, which leaves the ratios alone;
then the network responds; then the sample adds its own terms, of weight 1. With the new
``Yhat_i`` the ratios move as in Eq. (8)::

    W_i <- (gamma B_i + y_i x) / Yhat_i = W_i + y_i (x - y_i W_i) / Yhat_i

since ``gamma B_i = (Yhat_i - y_i^2) W_i``, and M likewise. So only line 1 of Eq. (8) changes,
``Yhat_i <- gamma Yhat_i + y_i^2``, and it changes for silent units too.

``diag(Yhat) (I + M)`` is A, the Gram matrix of the units' responses, each scaled by
``sqrt(w_t)``: symmetric and positive semidefinite, because all units share the weights. The
response by Eq. (7) therefore still minimises a convex energy. Section III.C's gain, which slows
the diagonal of A alone, loses that.
"""

import numpy as np

from hebbnmf.engine._jit import jit_inline, jit_inner
from hebbnmf.engine.rows import add_row, scale_row
from hebbnmf.engine.state import Block, Rules, Weights, Workspace

# t0: samples that a share of the stream is taken to remember when it begins.
_FIRST_MEMORY = 10
# Cumulative activity that counts as nothing; it keeps what decays from reaching zero.
FORGOTTEN = float(np.finfo(np.float64).tiny)
# A row scale below this is folded back into its row, long before it can underflow.
_SMALLEST_SCALE = 2.0**-10


@jit_inline
def discount(T: int, memory: float) -> float:
    """Return gamma, which multiplies the sums over T samples when the next one arrives.

    A memory of N samples is ``gamma = 1 - 1/N``: the weights of old samples sum up to N. A share f
    of the stream is::

        gamma = 1 - (1/f - 1) / (T + t0/f),    t0 = 10

    Here sample t has a weight near ``(t / T)^(1/f - 1)``, and all sum up to ``f T + t0``: early
    samples fade, while learning rates still fall as 1/T.
    """
    if memory == 0:
        return 1.0
    if memory < 1:
        return 1 - (1 / memory - 1) / (T + _FIRST_MEMORY / memory)
    return 1 - 1 / memory


@jit_inner
def discount_over(T: int, n: int, memory: float) -> tuple[float, float]:
    """Return what is left after n samples of the weights before, and the sum of their own."""
    left, total = 1.0, 0.0
    for t in range(T, T + n):
        gamma = discount(t, memory)
        left *= gamma
        total = gamma * total + 1
    return left, total


@jit_inline
def fade(K: int, gamma: float, weights: Weights) -> None:
    """Discount what all units have done, silent ones too: Eq. (8), line 1, with memory."""
    if gamma < 1:
        for i in range(K):
            weights.Yhat[i] = max(gamma * weights.Yhat[i], FORGOTTEN)


@jit_inner
def birth(
    i: int,
    t: int,
    T: int,
    y_i: float,
    rules: Rules,
    weights: Weights,
    block: Block,
    work: Workspace,
) -> None:
    """Make unit i, born from sample t of the block and T of the stream, an empty row.

    Its weights come from `learn`.
    """
    weights.s[i] = work.s[i] = 1.0
    weights.Yhat[i] = rules.initial_activity if rules.initial_activity > 0 else y_i * y_i
    weights.born[i] = T
    work.row_sums[i] = 0
    for later in range(t + 1, len(block.X)):
        block.P[i, later] = 0


@jit_inner
def forget(i: int, K: int, weights: Weights, block: Block, work: Workspace) -> None:
    """Clear all that unit i has learned, and what waits in the block for it."""
    V, N_T = weights.V, weights.N_T
    for j in range(V.shape[1]):
        V[i, j] = 0
    for j in range(K):
        work.row_sums[j] -= N_T[i, j]
        N_T[i, j] = N_T[j, i] = 0
    block.n_steps[i] = 0


@jit_inline
def learn(
    t: int,
    n_old: int,
    n_active: int,
    gain: float,
    at_once: bool,
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
    at_once : bool
        Whether V learns now, instead of at the end of the block.
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
        row_sums[i] += c_i * (y_sum - y[a])
        if at_once:
            add_row(c_i, block.X[t], 0, weights.V.shape[1], weights.V[i])  # Eq. (8), line 2
        else:
            step = block.n_steps[i]
            block.C[i, step] = c_i
            block.when[i, step] = t
            block.n_steps[i] = step + 1
            add_row(c_i, block.G[t], t + 1, n_samples, block.P[i])  # the same, for later inputs
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
