"""The block loop: respond, recruit, learn, for one sample after the other."""

import numpy as np

from hebbnmf.engine._jit import jit
from hebbnmf.engine.plasticity import birth, finish_block, learn, start_block
from hebbnmf.engine.recruitment import recruit
from hebbnmf.engine.response import (
    FEW_UNITS,
    make_workspace,
    respond_in_order,
    respond_in_working_set,
)
from hebbnmf.engine.state import FloatArray, Rules, Weights, Workspace


@jit
def learn_block(
    K: int,
    n_free: int,
    recruiting: bool,
    X: FloatArray,
    Y: FloatArray,
    weights: Weights,
    rules: Rules,
) -> tuple[int, int, int]:
    """Run Algorithm 1 on a block of samples.

    Parameters
    ----------
    K : int
        Number of recruited units.
    n_free : int
        Number of units that may still be recruited.
    recruiting : bool
        Whether they are. If not, the block ends before the first sample that would recruit one.
    X : array of shape (B, n), IN
        The samples.
    Y : array of shape (B, >= m), OUT
        The responses; zeros on entry.
    weights : Weights, INOUT
        What is learned; with room for every unit that may be born.
    rules : Rules
        The settings.

    Returns
    -------
    K : int
        Number of recruited units.
    n_learned : int
        Number of samples learned.
    n_unconverged : int
        Number of those whose response stopped at ``max_sweeps``.
    """
    block = start_block(K, X, weights)
    work = make_workspace(len(weights.s), X)
    work.s[:K] = weights.s[:K]
    n_unconverged = 0
    n_learned = 0
    for t in range(len(X)):
        x_norm2 = float(block.G[t, t])
        n_old, converged = _respond(t, K, x_norm2, block.P, weights, rules, work)
        n_active = n_old
        if n_free > 0:
            y_norm2 = 0.0
            for a in range(n_old):
                y_norm2 += float(work.y[a]) ** 2
            y_new = recruit(x_norm2, y_norm2, rules.threshold, rules.floor)
            if y_new > 0:
                if not recruiting:
                    break
                birth(K, y_new, rules.initial_activity, weights, work)
                work.active[n_active] = K
                work.y[n_active] = y_new
                n_active += 1
                n_free -= 1
                K += 1
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
        learn(t, n_old, n_active, rules.gain, weights, block, work)
        n_learned += 1
        n_unconverged += not converged
    finish_block(K, weights, block)
    return K, n_learned, n_unconverged


@jit
def respond_block(X: FloatArray, Y: FloatArray, weights: Weights, rules: Rules) -> int:
    """Respond to a block of samples with frozen weights, no recruiting.

    ``Y``, zeros on entry, gets the responses of the units that ``weights`` holds, all recruited.
    Returns the number of samples whose response stopped at ``max_sweeps``.
    """
    K = len(weights.s)
    P = np.dot(weights.V, X.T)
    work = make_workspace(max(K, 1), X)
    work.s[:K] = weights.s
    n_unconverged = 0
    for t in range(len(X)):
        x_norm2 = 0.0
        for x_j in X[t]:
            x_norm2 += float(x_j) ** 2
        n_active, converged = _respond(t, K, x_norm2, P, weights, rules, work)
        n_unconverged += not converged
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
    return n_unconverged


@jit
def _respond(
    t: int,
    K: int,
    x_norm2: float,
    P: FloatArray,
    weights: Weights,
    rules: Rules,
    work: Workspace,
) -> tuple[int, bool]:
    """Respond to sample t by the recruited units, in ``work.active`` and ``work.y``."""
    for i in range(K):
        work.g[i] = P[i, t]
    tol = P.dtype.type(rules.tol)
    if rules.quartic or K <= FEW_UNITS:
        return respond_in_order(K, weights.N_T, weights.Yhat, x_norm2, rules, tol, work)
    return respond_in_working_set(K, weights.N_T, tol, rules.max_sweeps, work)
