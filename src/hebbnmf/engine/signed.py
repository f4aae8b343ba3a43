"""Respond, for signed units with a threshold: sparse codes whose entries may be negative.

A price ``2 alpha |y_i|`` on each activity, times ``2 Yhat_i``, turns Eq. (7) into::

    y_i = f(W_i x - sum_{k != i} M_ik y_k),    f(h) = sign(h) max(|h| - alpha, 0)

so a unit is silent where its net input is within alpha of zero, on either side. M has entries of
both signs then: the mean field and the steps of `hebbnmf.engine.response`, which rest on
``M >= 0``, do not apply. Coordinate descent does, for ``diag(Yhat) (I + M)`` is still a Gram matrix
where one clock drives all units, and each move lowers the energy.

Rectified units with a threshold are rectified units whose input is smaller by alpha; they need
nothing of this.
"""

from hebbnmf.engine._jit import jit_inner
from hebbnmf.engine.rows import add_row
from hebbnmf.engine.state import FloatArray, Rules, Workspace
from hebbnmf.engine.units import soft_threshold


@jit_inner
def respond_signed(K: int, N_T: FloatArray, rules: Rules, work: Workspace) -> tuple[int, bool]:
    """Respond to one sample by sweeps over the units, in the order of recruitment.

    Parameters and results as in `hebbnmf.engine.response.respond_in_working_set`. Every move
    updates the net inputs of all units, so that a sweep over silent ones costs a comparison each.
    """
    s, p, y = work.s, work.p, work.z
    alpha, tol = p.dtype.type(rules.alpha), p.dtype.type(rules.tol)
    tight_tol = p.dtype.type(rules.tight_tol)
    last = p.dtype.type(0)
    settled = False
    for i in range(K):
        y[i] = 0
    for _ in range(rules.max_sweeps):
        move = top = p.dtype.type(0)
        for i in range(K):
            new = soft_threshold(s[i] * p[i], alpha)
            change = new - y[i]
            if change != 0:
                y[i] = new
                add_row(-change, N_T[i], 0, K, p)
                move = max(move, abs(change))
            top = max(top, abs(new))
        # What later moves would add up to, if they shrink as the last two did.
        settled = bool(move * move <= tol * top * (last - move)) or bool(move <= tight_tol * top)
        if settled:
            break
        last = move
    n_active = 0
    for i in range(K):
        work.active[n_active] = i
        work.y[n_active] = y[i]
        n_active += y[i] != 0
    return n_active, settled
