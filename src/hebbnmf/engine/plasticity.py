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

from hebbnmf.engine._jit import jit
from hebbnmf.engine.state import Block, Rules, Weights, Workspace

# t0: samples that a share of the stream is taken to remember when it begins.
_FIRST_MEMORY = 10
# Cumulative activity that counts as nothing; it keeps what decays from reaching zero.
FORGOTTEN = float(np.finfo(np.float64).tiny)
# A row scale below this is folded back into its row, long before it can underflow.
_SMALLEST_SCALE = 2.0**-10


@jit
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


@jit
def discount_over(T: int, n: int, memory: float) -> tuple[float, float]:
    """Return what is left after n samples of the weights before, and the sum of their own."""
    left, total = 1.0, 0.0
    for t in range(T, T + n):
        gamma = discount(t, memory)
        left *= gamma
        total = gamma * total + 1
    return left, total


@jit
def settle_discount(K: int, D: float, weights: Weights) -> None:
    """Multiply the discount of a block into ``Yhat``."""
    if D < 1:
        for i in range(K):
            weights.Yhat[i] = max(D * weights.Yhat[i], FORGOTTEN)


@jit
def birth(
    i: int, T: int, y_i: float, D: float, rules: Rules, weights: Weights, work: Workspace
) -> None:
    """Give the unit that sample T recruits its scale and cumulative activity.

    Its weights come from `learn`.
    """
    weights.s[i] = work.s[i] = 1.0
    weights.Yhat[i] = (rules.initial_activity if rules.initial_activity > 0 else y_i * y_i) / D
    weights.born[i] = T


@jit
def forget(i: int, weights: Weights, block: Block) -> None:
    """Clear all that unit i has learned, and what waits in the block for it."""
    weights.V[i] = 0
    weights.N_T[i] = 0
    weights.N_T[:, i] = 0
    block.P[i] = 0
    block.n_steps[i] = 0


@jit
def learn(
    t: int,
    n_old: int,
    n_active: int,
    gain: float,
    D: float,
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
    D : float
        Product of the discounts since the block began, this sample's included. It is one clock
        for all units: ``weights.Yhat`` holds ``Yhat / D``, so that a sample touches the active
        units alone.
    weights, block, work : Weights, Block, Workspace, INOUT
        What is learned, the samples, the response.
    """
    active, y, c = work.active, work.y, work.c
    Yhat, s = weights.Yhat, weights.s
    n_samples = len(block.X)
    for a in range(n_old):
        i, y_i = active[a], float(y[a])
        # A branch: in one sum the compiler would fuse another product, also without memory.
        activity = Yhat[i] if D == 1 else D * Yhat[i]
        activity += gain * y_i * y_i  # Eq. (8), line 1
        Yhat[i] = activity / D
        scale = max(activity, y_i * y_i)
        s[i] *= (scale - y_i * y_i) / scale
        if s[i] < _SMALLEST_SCALE:
            _fold(i, weights, block)
        work.s[i] = s[i]
        c[a] = y_i / (scale * s[i])
    for a in range(n_old, n_active):
        c[a] = 1 / y[a]  # a newborn row is empty: W = x / y and M = y / y_new are its first step
    G_t = block.G[t]
    for a in range(n_active):
        i, c_i, y_i = active[a], c[a], y[a]
        step = block.n_steps[i]
        block.C[i, step] = c_i
        block.when[i, step] = t
        block.n_steps[i] = step + 1
        P_i = block.P[i]
        for u in range(t + 1, n_samples):
            P_i[u] += c_i * G_t[u]  # Eq. (8), line 2
        N_i = weights.N_T[i]
        for b in range(n_active):
            N_i[active[b]] += c[b] * y_i  # Eq. (8), line 3
        N_i[i] = 0


@jit
def _fold(i: int, weights: Weights, block: Block) -> None:
    """Multiply the scale of row i into the row, and set it to one."""
    weights.V[i] *= weights.s[i]
    weights.N_T[:, i] *= weights.s[i]
    block.P[i] *= weights.s[i]
    block.C[i, : block.n_steps[i]] *= weights.s[i]
    weights.s[i] = 1.0
