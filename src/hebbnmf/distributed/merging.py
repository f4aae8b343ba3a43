"""The driver's part of a round: merge what the workers learned.

The driver takes the network of the leading worker as it is, and lets the affine maps of the others
(see `hebbnmf.distributed.worker`) follow in order, each with the cumulative activity that the ones
before it have left. A unit to which worker w added the activity ``D``, from ``Yhat_0`` at the start
of the round, and which stands at ``Yhat`` when the turn of w comes, gets::

    rho  = log(1 + D / Yhat) / log(1 + D / Yhat_0)
    d'   = d ** rho
    W_i <- d' W_i + (1 - d') / (1 - d) b,    Yhat <- Yhat + D

and M the same. The exponent is that of Eq. (8) in the limit of small steps, where
``d = (Yhat_0 / (Yhat_0 + D)) ** (1 / gain)``; the factor of ``b`` keeps the row an average of
samples. With ``activity_gain=1`` that limit is exact, ``d = Yhat_0 / (Yhat_0 + D)``, and the merge
reads ``Yhat W_i <- Yhat W_i + sum_t y_i x_t``: the sums by which the paper defines W and M. With
another gain it forgets as the serial schedule does, had the shards come one after the other: a
round in which ``d`` gets small keeps mostly its last shards.

With memory the clock is that of the merged stream, in which the shards of a round come one after
the other: sample k of a shard is discounted as sample ``T + n + k`` of a serial run, T being the
number of samples before the round, and n the number of rows asked of the shards before it. The
worker starts its clock there, so that ``b`` and D are discounted sums over its own samples. They
follow sums that have faded by ``Gamma``, the product of its discounts: above, ``Gamma Yhat`` stands
for ``Yhat`` and ``Gamma Yhat_0`` for ``Yhat_0``. With ``activity_gain=1`` the merge then reads
``Yhat W_i <- Gamma Yhat W_i + sum_t w_t y_i x_t``, exactly. Units that the leading worker recruited
fade too.

Since n counts rows asked for, it is the same for files, whose length is not known, as for arrays.
With a number of samples gamma is constant, and any n gives the serial clock. With a share f of the
stream, n is too large if shards before this one ended within the round or deferred samples: by g,
if they learned g rows fewer. Each of the N samples after that gap then discounts too little, by
``(1/f - 1) g / T^2``, and weights from before it end too large by the factor
``1 + (1/f - 1) g N / T^2``, to first order. A round asks for T/40 rows at most (`rounds.fit`), so
``g + N <= T/40`` and ``g N <= T^2 / 6400``: 0.14 % or less with ``memory=0.1``. After the merge the
clock counts what was learned, so that the error does not grow from round to round.

A unit that the leading worker recycled is a new one: what the others added to the old one is
dropped.

For one worker nothing is left to merge, and the result is that of the serial engine to the last
bit.
"""

import numpy as np
from numpy.typing import NDArray

from hebbnmf.distributed.subspaces import SubspaceChange, composed
from hebbnmf.distributed.worker import Change, Outcome
from hebbnmf.engine.network import Network
from hebbnmf.engine.plasticity import FORGOTTEN
from hebbnmf.engine.state import Weights
from hebbnmf.learner import Learner, LearnerState

__all__ = ["merge"]

# What a unit that was all but forgotten may add, times what it had: keeps infinities out.
_LARGEST_RATIO = 1e300


def merge(learner: Learner, outcomes: list[Outcome]) -> int:
    """Merge a round in place, then learn what was deferred; return the unconverged count."""
    network = learner.network
    start = network.state
    n_deferred = sum(len(outcome.deferred) for outcome in outcomes)
    n_seen = network.n_samples + sum(outcome.n_read for outcome in outcomes) - n_deferred
    leading, *others = (outcome.learned for outcome in outcomes)
    if isinstance(leading, LearnerState):
        learner.restore(leading)
    of_subspaces = [learned for learned in others if isinstance(learned, SubspaceChange)]
    if of_subspaces and not outcomes[0].turned:
        network.restore(composed(network, of_subspaces), n_seen)
    changes = [learned for learned in others if isinstance(learned, Change)]
    if changes:
        network.restore(_composed(network, start, changes), n_seen)
    if learner.cost is not None:
        for change in changes:
            if change.cost is not None:
                learner.cost.merge(change.cost)
    n_unconverged = sum(outcome.n_unconverged for outcome in outcomes)
    if n_deferred:
        deferred = np.vstack([outcome.deferred for outcome in outcomes])
        n_unconverged += learner.learn(deferred, keep=False).n_unconverged
    return n_unconverged


def _composed(network: Network, start: Weights, changes: list[Change]) -> Weights:
    """Let the changes of a round follow one another on the units that were sent out."""
    V, N_T, s, Yhat, born, energy = network.state
    W, M = s[:, None] * V, s[:, None] * N_T.T  # in float64, whatever the network is
    K = len(start.s)
    recycled = born[:K] != start.born
    for change in changes:
        fading, decay, added_W, added_M, D, added_energy, _ = _without(recycled, change)
        Yhat = np.maximum(fading * Yhat, FORGOTTEN)
        Yhat_0 = np.maximum(fading * start.Yhat, FORGOTTEN)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rho = np.where(D > 0, _log1p(D / Yhat[:K]) / _log1p(D / Yhat_0), 1.0)
            kept = decay**rho
            factor = np.where(decay < 1, (1 - kept) / (1 - decay), rho)
        W[:K] = kept[:, None] * W[:K] + factor[:, None] * added_W
        M[:K] *= kept[:, None]
        M[:K, :K] += factor[:, None] * added_M
        Yhat[:K] += D
        energy = fading * energy + added_energy
    if not network.rules.signed:
        # Differences of nearly equal weights may leave a lateral weight below zero by a rounding.
        np.maximum(M, 0, out=M)
    return Weights(
        W.astype(network.dtype),
        np.ascontiguousarray(M.T, network.dtype),
        np.ones_like(s),
        Yhat,
        born,
        energy,
    )


def _without(units: NDArray[np.bool_], change: Change) -> Change:
    """Return a change that leaves some units alone."""
    if not units.any():
        return change
    others = ~units
    return change._replace(
        decay=np.where(units, 1.0, change.decay),
        added_W=others[:, None] * change.added_W,
        added_M=others[:, None] * change.added_M * others,
        activity=others * change.activity,
    )


def _log1p(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log1p(np.minimum(ratio, _LARGEST_RATIO))
