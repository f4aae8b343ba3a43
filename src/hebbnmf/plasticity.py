"""Learn: Eq. (8), with the plain schedule and that of section III.C.

Rows are kept scaled, ``W_i = s_i V_i`` and ``M_i = s_i N_i``: the decay of a whole row is then
one multiplication, and a step touches only what the sample itself adds. Within a block the
additions to ``V`` wait in ``C``, and the inputs ``P = V X'`` of the samples still to come are
corrected instead: the same rank-one updates, applied later.
"""

from typing import Any, NamedTuple

from hebbnmf._jit import jit

# A row scale below this is folded back into its row, long before it can underflow.
_SMALLEST_SCALE = 2.0**-10


class Weights(NamedTuple):
    """What the network has learned; the first K rows are recruited units, the rest zeros."""

    V: Any  # (m, n) feedforward weights, W_i = s_i V_i
    N_T: Any  # (m, m) lateral weights, M_ij = s_i N_T[j, i]
    s: Any  # (m,) float64, row scales
    Yhat: Any  # (m,) float64, cumulative activity


class Block(NamedTuple):
    """A block of B samples on its way through the network."""

    X: Any  # (B, n) the samples
    P: Any  # (m, B) V X', true for the samples still to come
    G: Any  # (B, B) X X'
    C: Any  # (m, B) steps still to be added to V: V += C X at the end


@jit
def birth(i: int, y_i: float, initial_activity: float, weights: Any) -> None:
    """Give a new unit its scale and cumulative activity; its weights come from `learn`."""
    weights.s[i] = 1.0
    weights.Yhat[i] = initial_activity if initial_activity > 0 else y_i * y_i


@jit
def learn(
    t: int, n_old: int, n_active: int, gain: float, weights: Any, block: Any, work: Any
) -> None:
    """Learn from sample t of the block, Eq. (8).

    Parameters
    ----------
    t : int
        The sample.
    n_old, n_active : int
        ``work.active[:n_active]`` answered with ``work.y``; those from ``n_old`` on are newborn.
    gain : float
        Share of ``y_i^2`` that is added to ``Yhat_i``.
    weights, block, work : Weights, Block, Workspace, INOUT
        What is learned, the samples, the answers.
    """
    active, y, c = work.active, work.y, work.c
    n_samples = block.X.shape[0]
    for a in range(n_active):
        # A newborn row is empty: W = x / y and M = y / y_new are its first step.
        c[a] = _advance(active[a], y[a], gain, weights, block) if a < n_old else 1 / y[a]
    for a in range(n_active):
        i = active[a]
        block.C[i, t] = c[a]
        P_i = block.P[i]
        for u in range(t + 1, n_samples):
            P_i[u] += c[a] * block.G[t, u]  # Eq. (8), line 2
        N_i = weights.N_T[i]
        for b in range(n_active):
            N_i[active[b]] += c[b] * y[a]  # Eq. (8), line 3
        N_i[i] = 0


@jit
def finish_block(K: int, weights: Any, block: Any) -> None:
    """Apply the steps that waited: ``V += C X``, one unit at a time, silent samples skipped."""
    n_samples, n = block.X.shape
    for i in range(K):
        V_i = weights.V[i]
        for t in range(n_samples):
            c = block.C[i, t]
            if c != 0:
                for j in range(n):
                    V_i[j] += c * block.X[t, j]


@jit
def _advance(i: int, y_i: Any, gain: float, weights: Any, block: Any) -> Any:
    """Advance ``Yhat_i`` and ``s_i`` by one answer, and return the step of the scaled row.

    Eq. (8) reads ``W_i = (1 - rate) W_i + (rate / y_i) x`` with ``rate = y_i^2 / Yhat_i``. Under
    the plain schedule ``rate <= 1`` always. Under that of section III.C an answer with
    ``y_i^2 > Yhat_i`` would overshoot its own sample and turn lateral weights negative: there
    the rate is held at 1, and the row starts anew from this sample.
    """
    Yhat, s = weights.Yhat, weights.s
    square = float(y_i) * float(y_i)
    Yhat[i] += gain * square  # Eq. (8), line 1
    scale = max(Yhat[i], square)
    s[i] *= (scale - square) / scale
    if s[i] < _SMALLEST_SCALE:
        weights.V[i] *= s[i]
        weights.N_T[:, i] *= s[i]
        block.P[i] *= s[i]
        block.C[i] *= s[i]
        s[i] = 1.0
    return y_i / (scale * s[i])
