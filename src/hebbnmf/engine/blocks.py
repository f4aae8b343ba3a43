"""The block loop: respond, recruit, learn, for one sample after the other."""

import numpy as np

from hebbnmf.engine._jit import jit
from hebbnmf.engine.plasticity import birth, discount, forget, learn, settle_discount
from hebbnmf.engine.recruitment import recruit, threshold_for, weakest_silent_unit
from hebbnmf.engine.response import (
    FEW_UNITS,
    axpy,
    make_workspace,
    respond_in_order,
    respond_in_working_set,
)
from hebbnmf.engine.state import Block, FloatArray, Rules, Weights, Workspace


@jit
def learn_block(
    K: int,
    n_free: int,
    recruiting: bool,
    n_samples: int,
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
        Number of units that may still be recruited, less the number of samples deferred.
    recruiting : bool
        Whether they are. If not, the block ends before the first sample that would recruit one.
    n_samples : int
        Number of samples presented before the block.
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
    K, n_learned, n_unconverged : int
        Numbers of recruited units, of samples learned, and of those whose response stopped at
        ``max_sweeps``.
    """
    block = _start_block(K, X, weights)
    work = make_workspace(len(weights.s), X)
    work.s[:K] = weights.s[:K]
    n_unconverged = 0
    n_learned = 0
    D = 1.0
    # Deferred samples make n_free negative: one for each unit that might be replaced is enough.
    recycling = rules.recycle and n_free > -K
    for t in range(len(X)):
        x_norm2 = float(block.G[t, t])
        gamma = discount(n_samples + t, rules.memory)
        D_t = D * gamma
        x_norm2_sum = gamma * weights.energy[0] + x_norm2
        n_discounted = gamma * weights.energy[1] + 1
        n_old, converged = _respond(t, K, x_norm2, D_t, block.P, weights, rules, work)
        n_active = n_old
        if n_free > 0 or recycling:
            y_norm2 = 0.0
            for a in range(n_old):
                y_norm2 += float(work.y[a]) ** 2
            threshold = threshold_for(x_norm2, x_norm2_sum, n_discounted, rules)
            y_new = recruit(x_norm2, y_norm2, threshold, rules.floor)
            newborn = -1
            if y_new > 0:
                newborn = K
                if n_free <= 0:
                    newborn = weakest_silent_unit(K, n_old, y_new * y_new / D_t, weights, work)
            if newborn >= 0:
                if not recruiting:
                    break
                if newborn < K:
                    forget(newborn, weights, block)
                else:
                    n_free -= 1
                    K += 1
                birth(newborn, n_samples + t, y_new, D_t, rules, weights, work)
                work.active[n_active] = newborn
                work.y[n_active] = y_new
                n_active += 1
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
        D = D_t
        weights.energy[0], weights.energy[1] = x_norm2_sum, n_discounted
        learn(t, n_old, n_active, rules.gain, D, weights, block, work)
        n_learned += 1
        n_unconverged += not converged
    settle_discount(K, D, weights)
    _finish_block(K, weights, block)
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
        n_active, converged = _respond(t, K, x_norm2, 1.0, P, weights, rules, work)
        n_unconverged += not converged
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
    return n_unconverged


@jit
def _start_block(K: int, X: FloatArray, weights: Weights) -> Block:
    """Take all products of a block with the weights as they are now, by BLAS."""
    m, n_samples = len(weights.s), len(X)
    P = np.zeros((m, n_samples), X.dtype)
    np.dot(weights.V[:K], X.T, P[:K])
    C, when = np.empty((m, n_samples), X.dtype), np.empty((m, n_samples), np.uint32)
    return Block(X, P, np.dot(X, X.T), C, when, np.zeros(m, np.uint32))


@jit
def _respond(
    t: int,
    K: int,
    x_norm2: float,
    D: float,
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
        # Eq. (7) does not read Yhat, and Eq. (6) takes long enough to hide a copy.
        Yhat = D * weights.Yhat if rules.quartic else weights.Yhat
        return respond_in_order(K, weights.N_T, Yhat, x_norm2, rules, tol, work)
    return respond_in_working_set(K, weights.N_T, tol, rules.max_sweeps, work)


@jit
def _finish_block(K: int, weights: Weights, block: Block) -> None:
    """Apply the steps that waited, ``V_i += sum of c_t x_t``, one unit at a time.

    Up to a third of all units being active this beats a matrix product; four samples at a time,
    since V is then read and written once for all of them.
    """
    X = block.X
    n = X.shape[1]
    for i in range(K):
        V_i, c, when, n_steps = weights.V[i], block.C[i], block.when[i], block.n_steps[i]
        fours = n_steps - n_steps % 4
        for a in range(0, fours, 4):
            x_a, x_b, x_c, x_d = X[when[a]], X[when[a + 1]], X[when[a + 2]], X[when[a + 3]]
            c_a, c_b, c_c, c_d = c[a], c[a + 1], c[a + 2], c[a + 3]
            for j in range(n):
                V_i[j] += c_a * x_a[j] + c_b * x_b[j] + c_c * x_c[j] + c_d * x_d[j]
        for a in range(fours, n_steps):
            axpy(c[a], X[when[a]], V_i, n)
