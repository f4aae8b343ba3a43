"""The loop: respond, recruit, learn, for one sample after the other, in blocks.

The products of a block, ``P = V X'`` and ``G = X X'``, are taken at its beginning by BLAS; `learn`
keeps P up to date for the samples still to come, and V gets all its steps at the end. For few
units each sample is multiplied, and V learns from it, when its turn comes: the weights stay in the
first cache, and a product costs less than the account of its corrections.
"""

import numpy as np

from hebbnmf.engine._jit import jit, jit_inline, jit_inner
from hebbnmf.engine.offset import read, read_opposite
from hebbnmf.engine.plasticity import birth, discount, fade, forget, learn
from hebbnmf.engine.recruitment import recruit, threshold_for, weakest_silent_unit
from hebbnmf.engine.response import (
    FEW_UNITS,
    make_workspace,
    respond_in_order,
    respond_in_working_set,
    sum_lateral_weights,
)
from hebbnmf.engine.rows import add_rows
from hebbnmf.engine.signed import respond_signed
from hebbnmf.engine.state import Block, FloatArray, LabelArray, Rules, Weights, Workspace

# From this bound on, a response that stops at `max_sweeps` ends the call of a kernel: Python
# handles signals between calls, and a call takes no longer than one such response.
_MANY_SWEEPS = 100


@jit
def learn_rows(
    K: int,
    n_free: int,
    recruiting: bool,
    n_samples: int,
    block_size: int,
    X: FloatArray,
    Y: FloatArray,
    labels: LabelArray,
    weights: Weights,
    rules: Rules,
) -> tuple[int, int, int]:
    """Run Algorithm 1 on some rows, or on the first of them, see `ends_call`.

    Parameters
    ----------
    K : int
        Number of recruited units.
    n_free : int
        Number of units that may still be recruited, less the number of samples deferred.
    recruiting : bool
        Whether they are. If not, the rows end before the first sample that would recruit one.
    n_samples : int
        Number of samples presented before.
    block_size : int
        Samples a block.
    X : array of shape (n_rows, n), IN
        The samples.
    Y : array of shape (n_rows, >= m) or (0, m), OUT
        The responses, zeros on entry; not wanted if there is no row.
    labels : array of shape (n_rows,), OUT
        The unit with the strongest response to each sample, or -1.
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
    m, dtype = len(weights.s), X.dtype
    work = make_workspace(weights.N_T)
    work.s[:K] = weights.s[:K]
    products, gram = np.empty(m * block_size, dtype), np.empty(block_size * block_size, dtype)
    C, when = np.empty((m, block_size), dtype), np.empty((m, block_size), np.uint32)
    n_steps = np.zeros(m, np.uint32)
    n_learned = n_unconverged = 0
    for start in range(0, len(X), block_size):
        rows = X[start : start + block_size]
        B = len(rows)
        P, G = products[: m * B].reshape(m, B), gram[: B * B].reshape(B, B)
        few = K <= FEW_UNITS
        if not few:
            sum_lateral_weights(K, weights.N_T, work)
            np.dot(weights.V[:K], rows.T, P[:K])
            np.dot(rows, rows.T, G)
            if rules.offset > 0:
                read_opposite(weights.V[:K], rows, P)
                read_opposite(rows, rows, G)
        n_before = K
        K, learned, failed = _learn_block(
            K,
            n_free,
            recruiting,
            n_samples + n_learned,
            few,
            Block(rows, P, G, C, when, n_steps),
            Y[start:],
            labels[start:],
            weights,
            rules,
            work,
        )
        n_free -= K - n_before
        n_learned += learned
        n_unconverged += failed
        if learned < B or ends_call(failed, rules):
            break
    return K, n_learned, n_unconverged


@jit
def respond_rows(
    K: int, X: FloatArray, Y: FloatArray, labels: LabelArray, weights: Weights, rules: Rules
) -> tuple[int, int]:
    """Respond to some rows with frozen weights, without recruiting, or to the first of them.

    ``Y`` and ``labels`` as in `learn_rows`. Returns the number of samples responded to, and of
    those whose response stopped at ``max_sweeps``, see `ends_call`.
    """
    P = np.dot(weights.V[:K], X.T)
    if rules.offset > 0:
        read_opposite(weights.V[:K], X, P)
    work = make_workspace(weights.N_T)
    work.s[:K] = weights.s[:K]
    few = K <= FEW_UNITS
    if not few:
        sum_lateral_weights(K, weights.N_T, work)
    n_unconverged = 0
    for t in range(len(X)):
        x_norm2 = float(read(X[t], X[t], rules))
        for i in range(K):
            work.p[i] = P[i, t]
        n_active, converged = _respond(K, few, 1.0, x_norm2, weights, rules, work)
        labels[t] = _write(t, n_active, work, Y)
        n_unconverged += not converged
        if ends_call(n_unconverged, rules):
            return t + 1, n_unconverged
    return len(X), n_unconverged


@jit_inline
def ends_call(n_unconverged: int, rules: Rules) -> bool:
    """Return whether a kernel is to return to Python, after so many responses that failed."""
    return n_unconverged > 0 and rules.max_sweeps >= _MANY_SWEEPS


@jit_inline
def _learn_block(
    K: int,
    n_free: int,
    recruiting: bool,
    n_samples: int,
    few: bool,
    block: Block,
    Y: FloatArray,
    labels: LabelArray,
    weights: Weights,
    rules: Rules,
    work: Workspace,
) -> tuple[int, int, int]:
    """Run Algorithm 1 on a block; parameters and results as in `learn_rows`."""
    energy = weights.energy
    # Deferred samples make n_free negative: one for each unit that might be replaced is enough.
    recycling = rules.recycle and n_free > -K
    n_learned = n_unconverged = 0
    for t in range(len(block.X)):
        x_norm2 = float(read(block.X[t], block.X[t], rules) if few else block.G[t, t])
        offset = float(block.X[t, -1]) ** 2 if rules.offset > 0 else 0.0
        gamma = discount(n_samples + t, rules.memory)
        # A large offset leaves rounding alone of |x|^2, which may be negative.
        x_norm2_sum = gamma * energy[0] + max(x_norm2 + offset, 0.0)
        n_discounted = gamma * energy[1] + 1
        for i in range(K):
            work.p[i] = read(weights.V[i], block.X[t], rules) if few else block.P[i, t]
        n_old, converged = _respond(K, few, gamma, x_norm2, weights, rules, work)
        newborn, y_new = -1, 0.0
        if n_free > 0 or recycling:
            y_norm2 = 0.0
            for a in range(n_old):
                y_norm2 += float(work.y[a]) ** 2
            threshold = threshold_for(x_norm2, x_norm2_sum / n_discounted - offset, rules)
            y_new = recruit(x_norm2, y_norm2, threshold, rules.floor)
            if y_new > 0 and n_free > 0:
                newborn = K
            elif y_new > 0:
                newborn = weakest_silent_unit(K, n_old, y_new * y_new / gamma, weights, work)
            if newborn >= 0 and not recruiting:
                break
        fade(K, gamma, weights)
        energy[0], energy[1] = x_norm2_sum, n_discounted
        n_active = n_old
        if newborn >= 0:
            if newborn < K:
                forget(newborn, K, weights, block, work)
            else:
                K += 1
                n_free -= 1
            birth(newborn, t, n_samples + t, y_new, rules, weights, block, work)
            work.active[n_active] = newborn
            work.y[n_active] = y_new
            n_active += 1
        labels[t] = _write(t, n_active, work, Y)
        learn(t, n_old, n_active, rules.gain, few, weights, block, work)
        n_learned += 1
        n_unconverged += not converged
        if ends_call(n_unconverged, rules):
            break
    if not few:
        _apply_steps(K, weights.V, block)
    return K, n_learned, n_unconverged


@jit_inline
def _respond(
    K: int,
    few: bool,
    gamma: float,
    x_norm2: float,
    weights: Weights,
    rules: Rules,
    work: Workspace,
) -> tuple[int, bool]:
    """Respond to the inputs ``work.p`` of K units, in ``work.active`` and ``work.y``."""
    if rules.signed:
        return respond_signed(K, weights.N_T, rules, work)
    if rules.alpha > 0:
        for i in range(K):
            work.p[i] -= rules.alpha / work.s[i]
    if few or rules.quartic:
        return respond_in_order(K, weights.N_T, weights.Yhat, gamma, x_norm2, rules, work)
    return respond_in_working_set(K, weights.N_T, rules, work)


@jit_inline
def _write(t: int, n_active: int, work: Workspace, Y: FloatArray) -> int:
    """Write the response to sample t, if wanted; return its label, the strongest unit or -1."""
    label, top = -1, work.y.dtype.type(0)
    for a in range(n_active):
        i, y_i = int(work.active[a]), work.y[a]
        if abs(y_i) > top or (abs(y_i) == top and i < label):
            label, top = i, abs(y_i)
    if len(Y):
        for a in range(n_active):
            Y[t, work.active[a]] = work.y[a]
    return label


@jit_inner
def _apply_steps(K: int, V: FloatArray, block: Block) -> None:
    """Add to V the steps that waited, ``V_i += sum of c_t x_t``, one unit at a time.

    Up to a third of all units being active this beats a matrix product.
    """
    X, n_steps = block.X, block.n_steps
    for i in range(K):
        add_rows(n_steps[i], block.when[i], block.C[i], X, 0, X.shape[1], V[i])
        n_steps[i] = 0
