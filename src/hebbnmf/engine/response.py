"""Respond: Eq. (7), and its exact form Eq. (6).

Both kernels solve for the response ``y`` of the recruited units to one sample, by coordinate
descent on the residual ``g = V x - N y``; ``s_i g_i`` is then the net input of unit i (see
`hebbnmf.engine.network` for the symbols). They leave the active units in ``work.active`` and
their activities in ``work.y``.
"""

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine._jit import jit
from hebbnmf.engine.state import FloatArray, Rules, Scalar, Workspace
from hebbnmf.engine.units import quartic_minimum, rectify

# Units up to which full sweeps are faster than a working set.
FEW_UNITS = 64
# The first working set: units whose input alone is above this share of the strongest one.
_CANDIDATE_SHARE = 0.3
# Sweeps on it before a first look at the units outside: strong activities are in place by then.
_SWEEPS_BEFORE_LOOK = 3
# Sweeps after which the support has settled, and one direct solve beats going on.
_SWEEPS_BEFORE_SOLVE = 16


@jit
def make_workspace(m: int, like: FloatArray) -> Workspace:
    """Allocate scratch for m units, in the type of an array; pages never touched cost nothing."""
    return Workspace(
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, np.uint32),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m + 1, np.uint32),
        np.zeros(m, np.bool_),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty(m, like.dtype),
        np.empty((m, m), like.dtype),
        np.empty((m, m), like.dtype),
    )


@jit
def respond_in_working_set(
    K: int, N_T: FloatArray, tol: Scalar, max_sweeps: int, work: Workspace
) -> tuple[int, bool]:
    """Solve Eq. (7) for one sample, on a working set that grows until no unit outside is active.

    Parameters
    ----------
    K : int
        Number of recruited units.
    N_T : array of shape (m, m), IN
        Lateral weights, ``M_ij = s_i N_T[j, i]``.
    tol : float
        Stop when no activity moves by more than ``tol * max(y)`` in a sweep.
    max_sweeps : int
        Bound on the sweeps.
    work : Workspace, INOUT
        On entry ``work.s[:K]`` holds the row scales and ``work.g[:K]`` is ``V x``.

    Returns
    -------
    n_active, converged : int, bool
        Number of active units, and whether the sweeps ended before their bound.
    """
    # Kernels called in the inner loop take the arrays they need: a whole record costs 50 ns.
    s, g, h, z, before = work.s, work.g, work.h, work.z, work.before
    members, lateral = work.members, work.lateral
    size = _first_members(K, work)
    gathered = 0
    sweeps = 0
    look_at = _SWEEPS_BEFORE_LOOK
    solve_at = _SWEEPS_BEFORE_SOLVE
    while True:
        _gather(gathered, size, N_T, work)
        for a in range(size):
            z[a] = z[a] if a < gathered else 0
            h[a] = s[members[a]] * g[members[a]]
            before[a] = z[a]
        gathered = size
        while True:
            move, top = _sweep(size, lateral, h, z)
            sweeps += 1
            settled = bool(move <= tol * top)
            if settled or sweeps == look_at or sweeps >= max_sweeps:
                break
            if sweeps >= solve_at:
                _solve_on_support(size, work)
                # Doubled, so that sweeps, which always converge, have the last word.
                solve_at *= 2
        for a in range(size):
            if z[a] != before[a]:
                axpy(before[a] - z[a], N_T[members[a]], g, K)
        size = _add_violators(K, size, tol * top, work)
        if (settled and size == gathered) or sweeps >= max_sweeps:
            break
    return _collect(gathered, work), settled and size == gathered


@jit
def respond_in_order(
    K: int,
    N_T: FloatArray,
    Yhat: NDArray[np.float64],
    x_norm2: float,
    rules: Rules,
    tol: Scalar,
    work: Workspace,
) -> tuple[int, bool]:
    """Solve Eq. (7) or Eq. (6) for one sample, by full sweeps in the order of recruitment.

    For few units this is the faster way. For Eq. (6) it is the only one: the energy is not
    convex while ``Yhat`` is small, so that the order of the sweep decides which minimum is found.
    Parameters and results as in `respond_in_working_set`.
    """
    s, g, y = work.s, work.g, work.z
    y[:K] = 0
    settled = False
    for _ in range(rules.max_sweeps):
        move = top = g.dtype.type(0)
        y_norm2 = 0.0
        if rules.quartic:
            for i in range(K):
                y_norm2 += float(y[i]) ** 2
        for i in range(K):
            old = y[i]
            if rules.quartic:
                others = y_norm2 - float(old) ** 2
                p = Yhat[i] + others - x_norm2
                y[i] = quartic_minimum(p, Yhat[i] * s[i] * g[i])
                y_norm2 = others + float(y[i]) ** 2
            else:
                y[i] = rectify(s[i] * g[i])
            change = y[i] - old
            if change != 0:
                axpy(-change, N_T[i], g, K)
                move = max(move, abs(change))
            top = max(top, y[i])
        settled = bool(move <= tol * top)
        if settled:
            break
    for i in range(K):
        work.members[i] = i
    return _collect(K, work), settled


@jit
def axpy(a: Scalar, x: FloatArray, y: FloatArray, size: int) -> None:
    """Add ``a * x[:size]`` to ``y[:size]``."""
    for i in range(size):
        y[i] += a * x[i]


@jit
def _first_members(K: int, work: Workspace) -> int:
    """Start the working set with the strongly driven units; h holds all inputs meanwhile."""
    s, g, h, members = work.s, work.g, work.h, work.members
    top = g.dtype.type(0)
    for i in range(K):
        h[i] = s[i] * g[i]
        top = max(top, h[i])
    bound = np.float32(_CANDIDATE_SHARE) * top
    size = 0
    for i in range(K):  # no branch: which units these are cannot be predicted
        members[size] = i
        size += h[i] > bound
    return size


@jit
def _gather(gathered: int, size: int, N_T: FloatArray, work: Workspace) -> None:
    """Bring the small system up to date with the members beyond the first ``gathered``."""
    members, s, scale, lateral = work.members, work.s, work.scale, work.lateral
    for a in range(gathered, size):
        scale[a] = s[members[a]]
    for a in range(size):
        row, source = lateral[a], N_T[members[a]]
        for b in range(gathered if a < gathered else 0, size):
            row[b] = scale[b] * source[members[b]]


@jit
def _sweep(size: int, lateral: FloatArray, h: FloatArray, z: FloatArray) -> tuple[Scalar, Scalar]:
    """Run one Gauss-Seidel pass over the working set; return the largest move and activity."""
    move = h.dtype.type(0)
    top = move
    for a in range(size):
        new = rectify(h[a])
        change = new - z[a]
        if change != 0:
            z[a] = new
            axpy(-change, lateral[a], h, size)
            move = max(move, abs(change))
        top = max(top, new)
    return move, top


@jit
def _solve_on_support(size: int, work: Workspace) -> None:
    """Move the active members to the solution of their linear system, clipped at zero.

    Elimination without pivoting: the diagonal is one, and the matrix positive definite up to
    row scales under the plain schedule. Where a pivot comes near zero, nothing is done.
    """
    h, z, lateral, A = work.h, work.z, work.lateral, work.system
    support, step = work.active, work.y
    k = 0
    for a in range(size):
        if z[a] > 0:
            support[k] = a
            step[k] = h[a] - z[a]
            k += 1
    # A is the transpose of I + M on the support, so that all loops run along rows.
    for p in range(k):
        source, row = lateral[support[p]], A[p]
        for q in range(k):
            row[q] = source[support[q]]
        row[p] = 1
    for p in range(k):
        pivot_row = A[p]
        if not pivot_row[p] > 1e-6:
            return
        for q in range(p + 1, k):
            row = A[q]
            factor = row[p] / pivot_row[p]
            row[p] = factor
            for r in range(p + 1, k):
                row[r] -= factor * pivot_row[r]
    # A = L U, so (I + M) step = residual reads U' w = residual, then L' step = w.
    for p in range(k):
        step[p] /= A[p, p]
        for q in range(p + 1, k):
            step[q] -= step[p] * A[p, q]
    for p in range(k - 1, -1, -1):
        axpy(-step[p], A[p], step, p)
    for p in range(k):
        a = support[p]
        new = rectify(z[a] + step[p])
        axpy(z[a] - new, lateral[a], h, size)
        z[a] = new


@jit
def _add_violators(K: int, size: int, bound: Scalar, work: Workspace) -> int:
    """Add every silent unit whose net input is above the bound; return the new size."""
    s, g, members, is_member = work.s, work.g, work.members, work.is_member
    for a in range(size):
        is_member[members[a]] = True
    grown = size
    for i in range(K):
        members[grown] = i
        grown += (s[i] * g[i] > bound) & (not is_member[i])
    for a in range(size):
        is_member[members[a]] = False
    return grown


@jit
def _collect(size: int, work: Workspace) -> int:
    """Write the active members and their activities as the result; return their number."""
    k = 0
    for a in range(size):
        if work.z[a] > 0:
            work.active[k] = work.members[a]
            work.y[k] = work.z[a]
            k += 1
    return k
