"""The block loop: respond, recruit, learn, for one sample after the other."""

from typing import Any, NamedTuple

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
def learn_block(K: int, X: Any, Y: Any, weights: Any, rules: Any) -> Any:
    """Algorithm 1 on a block of samples.

    Parameters
    ----------
    K : int
        Number of recruited units.
    X : array of shape (B, n), IN
        The samples.
    Y : array of shape (B, >= m), OUT
        The answers; zeros on entry.
    weights : Weights, INOUT
        What is learned; with room for every unit that may be born, K + B or ``max_units``.
    rules : Rules
        The settings.

    Returns
    -------
    K : int
        Number of recruited units.
    n_unconverged : int
        Number of samples whose response stopped at ``max_sweeps``.
    """
    block = start_block(K, X, weights)
    work = make_workspace(len(weights.s), X)
    work.s[:K] = weights.s[:K]
    n_unconverged = 0
    for t in range(len(X)):
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
                birth(K, y_new, rules.initial_activity, weights, work)
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
def answer_block(X: Any, Y: Any, weights: Any, rules: Any) -> Any:
    """Answer a block of samples with frozen weights, no recruiting.

    ``Y``, zeros on entry, gets the answers of the units that ``weights`` holds, all recruited.
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
def _respond(t: int, K: int, x_norm2: float, P: Any, weights: Any, rules: Any, work: Any) -> Any:
    """Answer of the recruited units to sample t, in ``work.active`` and ``work.y``."""
    for i in range(K):
        work.g[i] = P[i, t]
    tol = P.dtype.type(rules.tol)
    if rules.quartic or K <= FEW_UNITS:
        return respond_in_order(K, weights.N_T, weights.Yhat, x_norm2, rules, tol, work)
    return respond_in_working_set(K, weights.N_T, tol, rules.max_sweeps, work)
