"""The block loop: respond, recruit, learn, for one sample after the other."""

from typing import Any, NamedTuple

from hebbnmf._jit import jit
from hebbnmf.dynamics import respond_quartic, respond_rectified
from hebbnmf.plasticity import birth, finish_block, learn
from hebbnmf.recruitment import recruit


class Rules(NamedTuple):
    """Settings of a network, as the kernels take them."""

    max_units: int  # m
    threshold: float  # sqrt(lambda)
    floor: float  # share of |x|^2 that is never a reason to recruit
    initial_activity: float  # Yhat of a new unit, or 0 for y_new^2
    gain: float  # share of y_i^2 added to Yhat_i
    quartic: bool  # Eq. (6) instead of Eq. (7)
    tol: float
    max_sweeps: int


@jit
def learn_block(K: int, block: Any, Y: Any, weights: Any, rules: Any, work: Any) -> Any:
    """Algorithm 1 on a block of samples.

    Parameters
    ----------
    K : int
        Number of recruited units.
    block : Block, INOUT
        The samples; its P must have a zero row for every unit that may be born.
    Y : array of shape (B, >= K + B), OUT
        The answers; zeros on entry.
    weights, rules, work : Weights, Rules, Workspace
        The network: INOUT, IN, scratch.

    Returns
    -------
    K : int
        Number of recruited units.
    n_unconverged : int
        Number of samples whose response stopped at ``max_sweeps``.
    """
    n_unconverged = 0
    for t in range(block.X.shape[0]):
        x_norm2 = float(block.G[t, t])
        n_old, converged = _respond(t, K, x_norm2, block.P, weights, rules, work)
        n_unconverged += not converged
        n_active = n_old
        if K < rules.max_units:
            y_norm2 = 0.0
            for a in range(n_old):
                y_norm2 += float(work.y[a]) ** 2
            y_new = recruit(x_norm2, y_norm2, rules.threshold, rules.floor)
            if y_new > 0:
                birth(K, y_new, rules.initial_activity, weights)
                work.active[n_active] = K
                work.y[n_active] = y_new
                n_active += 1
                K += 1
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
        learn(t, n_old, n_active, rules.gain, weights, block, work)
    finish_block(K, weights, block)
    return K, n_unconverged


@jit
def answer_block(K: int, P: Any, x_norm2: Any, Y: Any, weights: Any, rules: Any, work: Any) -> Any:
    """Answer a block of samples with frozen weights, no recruiting.

    ``P`` is ``V X'`` and ``x_norm2`` the squared norms of the samples; ``Y``, zeros on entry, gets
    the answers. Returns the number of samples whose response stopped at ``max_sweeps``.
    """
    n_unconverged = 0
    for t in range(Y.shape[0]):
        n_active, converged = _respond(t, K, x_norm2[t], P, weights, rules, work)
        n_unconverged += not converged
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
    return n_unconverged


@jit
def _respond(t: int, K: int, x_norm2: float, P: Any, weights: Any, rules: Any, work: Any) -> Any:
    """Answer of the recruited units to sample t, in ``work.active`` and ``work.y``."""
    for i in range(K):
        work.g[i] = P[i, t]
    tol = P.dtype.type(rules.tol)
    if rules.quartic:
        return respond_quartic(
            K, weights.s, weights.N_T, weights.Yhat, x_norm2, tol, rules.max_sweeps, work
        )
    return respond_rectified(K, weights.s, weights.N_T, tol, rules.max_sweeps, work)
