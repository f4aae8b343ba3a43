"""Respond: Eq. (7), and its exact form Eq. (6).

The kernels find the response ``y`` of the recruited units to one sample. With ``p = V x``, the net
input of unit i is ``s_i (p_i - sum_k N_ik y_k)`` (see `hebbnmf.engine.network` for the symbols).
They leave the active units in ``work.active`` and their activities in ``work.y``.

**Steps of all units at once.** Eq. (7) asks for ``z = [h]+`` with the net inputs ``h = W x - M z``.
Lateral weights are positive, so ``I + M`` has one large eigenvalue, near ``1 - b + b k`` for k
active units with the mean lateral weight b, in the direction of all ones; on whitened data the
others lie about ``1 - b``. The matrix ``Q = (1 - b) I + b 1 1'`` has just these eigenvalues, so
the step::

    z <- [z + Q^-1 ([h]+ - z)]+      Q^-1 r = (r - b sum(r) / (1 - b + b k)) / (1 - b)

multiplies the error by ``I - Q^-1 (I + M)``, about 0.3 on whitened data, and costs one product
with the lateral weights. Without ``Q^-1`` it would be the simultaneous update that diverges.

**Where these steps contract too slowly**, as on raw data, whose similarities have several large
eigenvalues and many small ones, two sweeps of Gauss-Seidel correct the support, a direct solve of
``(I + M) z = W x`` on it the activities, and so on until Eq. (7) holds. Such solves need not end by
themselves: clipped at zero they may go round in circles. Sweeps do end where one clock drives all
units: each move lowers the convex energy ``z'Az/2 - z'Bx``, ``A = diag(Yhat) (I + M)``. So the runs
of sweeps between two solves get longer, and one that settles is the last. Under the schedule of
section III.C, A is only nearly symmetric and nothing is known to fall: ``max_sweeps`` bounds both.
Few units take sweeps instead of steps, and the same solves where sweeps are slow.

**Start and working set.** Inhibition is first taken as a mean field: unit i is inhibited by its
mean lateral weight ``u_i`` times the sum f of all activities, which solves the scalar equation
``(1 - b) f = sum of [h_i - u_i f]+``. Units whose input comes near to ``u_i f`` form the working
set; the small system of their lateral weights is gathered and solved. Then all units get their
net inputs, and those outside that turn out to be driven join.
"""

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine._jit import jit, jit_inline, jit_inner
from hebbnmf.engine.rows import add_row, add_rows
from hebbnmf.engine.state import FloatArray, IndexArray, Rules, Scalar, Workspace
from hebbnmf.engine.units import quartic_minimum, rectify

# Units up to which sweeps over all of them are faster than a working set.
FEW_UNITS = 16
# The first working set: units whose input is above this share of their mean inhibition.
_CANDIDATE_SHARE = 0.85
# Newton steps towards the mean field.
_FIELD_STEPS = 3
# Largest mean lateral weight in Q: it is singular at 1.
_LARGEST_MEAN_WEIGHT = 0.9
# Share of a step that is taken, and of the one before that is added: heavy ball, for eigenvalues of
# Q^-1 (I + M) between 0.7 and 1.4.
_STEP, _MOMENTUM = 0.95, 0.03
# A step that leaves more than this share of the residual is the last one; less than the other is
# taken for luck.
_SLOW, _LEAST_RATE = 0.6, 0.3
# The largest activity is at least this share of the norm, for some thirty active units.
_NORM_SHARE = 0.25
# Sweeps over few units that do not settle before direct solves take over.
_SWEEPS_OF_FEW = 16
# Sweeps before the first direct solve; one more before each further one.
_SWEEPS_BEFORE_SOLVE = 2


@jit
def make_workspace(like: FloatArray) -> Workspace:
    """Allocate scratch for lateral weights of a shape and type; untouched pages cost nothing."""
    m = len(like)
    return Workspace(
        np.empty(m, like.dtype),
        np.zeros(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, np.uint32),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m + 1, np.uint32),
        np.ones(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty_like(like),
        np.empty((m + 3, like.shape[1]), like.dtype),
        np.arange(m + 3).astype(np.uint32),
    )


@jit_inner
def sum_lateral_weights(K: int, N_T: FloatArray, work: Workspace) -> None:
    """Set ``work.row_sums`` of K units; `learn` keeps them up to date within a block.

    They are summed anew in each block, so that rounding does not depend on where learning stopped.
    """
    for i in range(K):
        work.row_sums[i] = 0
        work.c[i] = 1
    add_rows(K, work.order, work.c, N_T, 0, K, work.row_sums)


@jit_inner
def respond_in_working_set(
    K: int, N_T: FloatArray, rules: Rules, work: Workspace
) -> tuple[int, bool]:
    """Solve Eq. (7) for one sample, on a working set that grows until no unit outside is active.

    Parameters
    ----------
    K : int
        Number of recruited units.
    N_T : array of shape (m, >= m), IN
        Lateral weights, ``M_ij = s_i N_T[j, i]``.
    rules : Rules
        The settings: tolerances, and the bound on steps and sweeps.
    work : Workspace, INOUT
        On entry holds ``s``, ``row_sums`` and ``p = V x`` of the K units.

    Returns
    -------
    n_active, converged : int, bool
        Number of active units, and whether steps and sweeps ended before their bound.
    """
    s, p, g, u, h, z, members = work.s, work.p, work.g, work.u, work.h, work.z, work.members
    tol = p.dtype.type(rules.tol)
    b, field = _mean_field(K, work)
    factor = p.dtype.type(1 / (1 - b))
    size = _first_members(K, field, work)
    for a in range(size):
        i = members[a]
        z[a] = rectify((s[i] * p[i] - u[i] * field) * factor)
        work.outside[i] = 0
        work.move[a] = -z[a]
    gathered = n_sweeps = 0
    settled = slow = False
    while True:
        _gather(gathered, size, N_T, work)
        for a in range(size):
            i = members[a]
            h[a] = s[i] * (g[i] if gathered else p[i])
        if not gathered:
            add_rows(size, work.order, work.move, work.lateral, 0, size, h)
        if not slow:
            n_sweeps, settled = _take_steps(size, b, tol, n_sweeps, rules.max_sweeps, work)
            slow = not settled
        if slow:
            # Small eigenvalues make large errors of small residuals.
            tol = p.dtype.type(rules.tight_tol)
            n_sweeps, settled = _sweep_and_solve(size, n_sweeps, rules, work)
        n_active = _collect(size, work)
        gathered, size = size, _look_outside(K, size, n_active, tol, N_T, work)
        if size == gathered or n_sweeps >= rules.max_sweeps:
            break
        for a in range(gathered, size):
            z[a] = work.move[a] = 0
            work.outside[members[a]] = 0
    for a in range(gathered):
        work.outside[members[a]] = 1
    return n_active, settled and size == gathered


@jit_inline
def respond_in_order(
    K: int,
    N_T: FloatArray,
    Yhat: NDArray[np.float64],
    gamma: float,
    x_norm2: float,
    rules: Rules,
    work: Workspace,
) -> tuple[int, bool]:
    """Solve Eq. (7) or Eq. (6) for one sample, by full sweeps in the order of recruitment.

    For few units this is the faster way, unless sweeps contract slowly. For Eq. (6) it is the only
    one: the energy is not convex while ``Yhat`` is small, so that the order of the sweep decides
    which minimum is found. It reads the cumulative activity ``gamma Yhat``. Other parameters and
    results as in `respond_in_working_set`.
    """
    s, p, y = work.s, work.p, work.z
    for i in range(K):
        y[i] = 0
        work.members[i] = i
    settled = False
    last = p.dtype.type(0)
    tol, tight_tol = p.dtype.type(rules.tol), p.dtype.type(rules.tight_tol)
    n_sweeps = rules.max_sweeps if rules.quartic else min(rules.max_sweeps, _SWEEPS_OF_FEW)
    for _ in range(n_sweeps):
        move = top = p.dtype.type(0)
        y_norm2 = 0.0
        if rules.quartic:
            for i in range(K):
                y_norm2 += float(y[i]) ** 2
        for i in range(K):
            old = y[i]
            if rules.quartic:
                others = y_norm2 - float(old) ** 2
                activity = gamma * Yhat[i]
                y[i] = quartic_minimum(activity + others - x_norm2, activity * s[i] * p[i])
                y_norm2 = others + float(y[i]) ** 2
            else:
                y[i] = rectify(s[i] * p[i])
            change = y[i] - old
            if change != 0:
                add_row(-change, N_T[i], 0, K, p)
                move = max(move, abs(change))
            top = max(top, y[i])
        # As in `_take_steps`; moves that are mere rounding do not contract.
        settled = _is_within(tol * top, move, last) or bool(move <= tight_tol * top)
        if settled:
            break
        last = move
    if not settled and n_sweeps < rules.max_sweeps:
        _gather(0, K, N_T, work)
        for i in range(K):
            work.h[i] = s[i] * p[i]
        _, settled = _sweep_and_solve(K, n_sweeps, rules, work)
    return _collect(K, work), settled


@jit_inner
def _mean_field(K: int, work: Workspace) -> tuple[Scalar, Scalar]:
    """Return the mean lateral weight b, and the summed activity f under mean inhibition.

    The right side of f's equation is convex and falls: from 0, Newton's method climbs to f.
    """
    s, u, h = work.s, work.u, work.h
    # In float32 an integer constant would turn a sum into float64.
    zero, one = h.dtype.type(0), h.dtype.type(1)
    share = h.dtype.type(1 / (K - 1))
    sum_u = zero
    for i in range(K):
        h[i] = s[i] * work.p[i]
        u[i] = s[i] * work.row_sums[i] * share
        sum_u += u[i]
    b = min(sum_u / h.dtype.type(K), h.dtype.type(_LARGEST_MEAN_WEIGHT))
    field = zero
    for _ in range(_FIELD_STEPS):
        drive, inhibition = zero, zero
        for i in range(K):
            is_driven = h[i] > u[i] * field
            drive += h[i] if is_driven else zero
            inhibition += u[i] if is_driven else zero
        field = drive / (one - b + inhibition)
    return b, field


@jit_inner
def _first_members(K: int, field: Scalar, work: Workspace) -> int:
    """Start the working set with the units whose input comes near to their mean inhibition."""
    h, u, members = work.h, work.u, work.members
    bound = np.float32(_CANDIDATE_SHARE) * field
    size = 0
    for i in range(K):  # no branch: which units these are cannot be predicted
        members[size] = i
        size += h[i] > u[i] * bound
    return size


@jit_inner
def _gather(gathered: int, size: int, N_T: FloatArray, work: Workspace) -> None:
    """Bring the small system up to date with the members beyond the first ``gathered``."""
    members, scale, lateral = work.members, work.scale, work.lateral
    for a in range(gathered, size):
        scale[a] = work.s[members[a]]
    twos = np.uint64(size - size % 2)
    one = np.uint64(1)
    for a in range(np.uint64(0), twos, np.uint64(2)):  # two rows at a time, to read members once
        i_0, i_1 = members[a], members[a + one]
        for b in range(np.uint64(gathered if a + one < gathered else 0), np.uint64(size)):
            j, scale_b = members[b], scale[b]
            lateral[a, b] = scale_b * N_T[i_0, j]
            lateral[a + one, b] = scale_b * N_T[i_1, j]
    for a in range(twos, size):
        for b in range(gathered if a < gathered else 0, size):
            lateral[a, b] = scale[b] * N_T[members[a], members[b]]


@jit_inner
def _take_steps(
    size: int, b: Scalar, tol: Scalar, n_sweeps: int, max_sweeps: int, work: Workspace
) -> tuple[int, bool]:
    """Move all members at once until they settle, or until a step contracts too little.

    Returns the number of steps and sweeps so far, and whether the members settled; the net inputs
    ``work.h`` lack the last step then.
    """
    last = momentum = work.h.dtype.type(0)
    bound = np.float32(_NORM_SHARE) * tol
    while n_sweeps < max_sweeps:
        residual, norm = _step(size, b, momentum, work.h, work.z, work.move)
        if _is_within(bound * norm, residual, last):
            return n_sweeps, True
        add_rows(size, work.order, work.move, work.lateral, 0, size, work.h)
        n_sweeps += 1
        if 0 < np.float32(_SLOW) * last < residual:
            break
        last = residual
        momentum = work.h.dtype.type(_MOMENTUM)
    return n_sweeps, False


@jit_inner
def _sweep_and_solve(size: int, n_sweeps: int, rules: Rules, work: Workspace) -> tuple[int, bool]:
    """Correct the support by sweeps and the activities by direct solves until Eq. (7) holds.

    No residual can be known better than the inputs ``h + M z``, whose sums round. Parameters and
    results as in `_take_steps`.
    """
    h, z, before = work.h, work.z, work.move
    tol, noise = h.dtype.type(rules.tight_tol), h.dtype.type(0)
    for a in range(size):
        before[a] = h[a]
    add_rows(size, work.order, z, work.lateral, 0, size, before)
    for a in range(size):
        noise += before[a] * before[a]
    noise = h.dtype.type(rules.rounding) * np.sqrt(noise)
    n_between = _SWEEPS_BEFORE_SOLVE
    while n_sweeps < rules.max_sweeps:
        settled = False
        for _ in range(min(n_between, rules.max_sweeps - n_sweeps)):
            largest_move, top = _sweep(size, work.lateral, h, z)
            n_sweeps += 1
            settled = bool(largest_move <= tol * top + noise)
            if settled:
                break
        for a in range(size):
            before[a] = z[a]
        _solve_on_support(size, h.dtype.type(rules.rounding), work)
        residual, norm = _violation(size, h, z)
        if residual <= tol * norm + noise:
            return n_sweeps, True
        if settled:  # and the solve was of no use, as for two units that always respond alike
            for a in range(size):
                z[a] = before[a]
            return n_sweeps, True
        n_between += 1
    return n_sweeps, False


@jit_inline
def _is_within(bound: Scalar, move: Scalar, last: Scalar) -> bool:
    """Return whether the error that a move leaves is within a bound, given the move before.

    It is about ``move * rate / (1 - rate)``, with the rate of contraction ``move / last``, which
    is small by chance at times. Without a move before, nothing is known unless there was none.
    """
    scaled_rate = max(move, np.float32(_LEAST_RATE) * last)
    return bool(move * scaled_rate <= bound * (last - scaled_rate))


@jit_inner
def _step(
    size: int, b: Scalar, momentum: Scalar, h: FloatArray, z: FloatArray, move: FloatArray
) -> tuple[Scalar, Scalar]:
    """Move all members at once through the inverse of Q; h still has to follow.

    Returns the norms of the violation of Eq. (7) before the step, and of the activities. Norms and
    not maxima: LLVM makes vectors of a loop of sums, and not if there is one maximum in it.
    """
    zero, one = h.dtype.type(0), h.dtype.type(1)
    residual, norm, total, k = zero, zero, zero, zero
    for a in range(size):
        r = max(h[a], zero) - z[a]
        residual += r * r
        norm += z[a] * z[a]
        total += r
        k += one if r != 0 else zero
    shift = b * total / (one - b + b * k)
    factor = h.dtype.type(_STEP) / (one - b)
    for a in range(size):
        old = z[a]
        r = max(h[a], zero) - old
        new = max(old + (r - shift) * factor - momentum * move[a], zero) if r != 0 else old
        move[a] = old - new
        z[a] = new
    return np.sqrt(residual), np.sqrt(norm)


@jit_inner
def _sweep(size: int, lateral: FloatArray, h: FloatArray, z: FloatArray) -> tuple[Scalar, Scalar]:
    """Run one Gauss-Seidel pass over the working set; return the largest move and activity."""
    move = h.dtype.type(0)
    top = move
    for a in range(size):
        new = rectify(h[a])
        change = new - z[a]
        if change != 0:
            z[a] = new
            add_row(-change, lateral[a], 0, size, h)
            move = max(move, abs(change))
        top = max(top, new)
    return move, top


@jit_inner
def _violation(size: int, h: FloatArray, z: FloatArray) -> tuple[Scalar, Scalar]:
    """Return the norms of the violation of Eq. (7) on the working set, and of the activities."""
    residual = norm = h.dtype.type(0)
    for a in range(size):
        r = rectify(h[a]) - z[a]
        residual += r * r
        norm += z[a] * z[a]
    return np.sqrt(residual), np.sqrt(norm)


@jit_inner
def _solve_on_support(size: int, rounding: Scalar, work: Workspace) -> None:
    """Move the active members to the solution of their linear system, clipped at zero.

    Where the system is close to singular, nothing is done.
    """
    h, z, lateral, A = work.h, work.z, work.lateral, work.system
    support, step = work.active, work.y
    k = 0
    for a in range(size):
        support[k] = a
        step[k] = h[a] - z[a]
        k += z[a] > 0
    # A is the transpose of I + M on the support, so that all loops run along rows; it is filled up
    # to a multiple of four by units that no other one inhibits.
    full = k + -k % 4
    for p in range(full):
        row = A[p]
        for q in range(k if p < k else 0, full):
            row[q] = 0
        if p < k:
            source = lateral[support[p]]
            for q in range(np.uint64(k)):
                row[q] = source[support[q]]
        row[p] = 1
    if not _factorize(full, rounding, A, work.order):
        return
    # (I + M) step = residual reads U' w = residual, then L' step = w.
    for p in range(k):
        step[p] /= A[p, p]
        add_row(-step[p], A[p], p + 1, k, step)
    for p in range(k - 1, -1, -1):
        add_row(step[p], A[p], 0, p, step)
    for p in range(k):
        a = support[p]
        old = z[a]
        z[a] = rectify(old + step[p])
        step[p] = old - z[a]
    add_rows(k, support, step, lateral, 0, size, h)


@jit_inner
def _factorize(k: int, rounding: Scalar, A: FloatArray, order: IndexArray) -> bool:
    """Factorize ``A = L U`` in place, k a multiple of four; L is kept negative, without its ones.

    No pivoting: the diagonal is one, and the matrix positive definite up to row scales where one
    clock drives all units. Returns False where a pivot comes near zero.
    """
    for f in range(0, k, 4):
        for p in range(f, f + 4):  # four pivot rows, among themselves
            if not A[p, p] > np.float32(64) * rounding:
                return False
            for q in range(p + 1, f + 4):
                A[q, p] /= -A[p, p]
                add_row(A[q, p], A[p], p + 1, k, A[q])
        d_0, d_1, d_2, d_3 = A[f, f], A[f + 1, f + 1], A[f + 2, f + 2], A[f + 3, f + 3]
        u_01, u_02, u_03 = A[f, f + 1], A[f, f + 2], A[f, f + 3]
        u_12, u_13, u_23 = A[f + 1, f + 2], A[f + 1, f + 3], A[f + 2, f + 3]
        for q in range(f + 4, k):  # all rows below, by the four at once
            row = A[q]
            row[f] = l_0 = -row[f] / d_0
            row[f + 1] = l_1 = -(row[f + 1] + l_0 * u_01) / d_1
            row[f + 2] = l_2 = -(row[f + 2] + l_0 * u_02 + l_1 * u_12) / d_2
            row[f + 3] = -(row[f + 3] + l_0 * u_03 + l_1 * u_13 + l_2 * u_23) / d_3
            add_rows(4, order[f:], row[f:], A, f + 4, k, row)
    return True


@jit_inner
def _look_outside(
    K: int, size: int, n_active: int, tol: Scalar, N_T: FloatArray, work: Workspace
) -> int:
    """Add every unit outside with a net input above ``tol`` times the root mean square activity.

    Sets the residual ``work.g`` of all units, and returns the new size of the working set.
    """
    s, g, y, members, outside, c = work.s, work.g, work.y, work.members, work.outside, work.c
    zero, one = g.dtype.type(0), g.dtype.type(1)
    for i in range(K):
        g[i] = work.p[i]
    norm2 = zero
    for a in range(n_active):
        c[a] = -y[a]
        norm2 += y[a] * y[a]
    add_rows(n_active, work.active, c, N_T, 0, K, g)
    bound = tol * np.sqrt(norm2 / g.dtype.type(max(n_active, 1)))
    n_driven = zero
    for i in range(K):
        n_driven += one if s[i] * g[i] * outside[i] > bound else zero
    if n_driven > 0:
        for i in range(K):
            members[size] = i
            size += s[i] * g[i] * outside[i] > bound
    return size


@jit_inline
def _collect(size: int, work: Workspace) -> int:
    """Write the active members and their activities as the result; return their number."""
    k = 0
    for a in range(size):  # no branch, as for the members
        work.active[k] = work.members[a]
        work.y[k] = work.z[a]
        k += work.z[a] > 0
    return k
