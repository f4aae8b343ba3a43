"""The worker's part of a round: learn the next rows of a shard, and report the change.

During a round the rows of the weights undergo an affine map, ``W_i -> d W_i + b``: by Eq. (8) each
sample keeps the share ``1 - y_i^2 / Yhat_i`` of the row, ``d`` is the product of these shares, and
``b`` what the samples themselves added.
"""

import pickle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hebbnmf.cost import RunningCost
from hebbnmf.distributed.shards import Part, read_part
from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import Learner, LearnerState

__all__ = ["Change", "Outcome", "learn_shard"]


class Change(NamedTuple):
    """The affine map of a round on the units that were sent out, and the activity it added."""

    decay: NDArray[np.float64]  # (K,) d
    added_W: FloatArray  # (K, n) b, of the feedforward weights
    added_M: FloatArray  # (K, K) b, of the lateral weights
    activity: NDArray[np.float64]  # (K,) D
    cost: RunningCost | None  # of these samples alone


class Outcome(NamedTuple):
    """What a worker sends back."""

    learned: LearnerState | Change | None  # all of the leading shard, or the change of another
    deferred: FloatArray  # samples that would recruit a unit, not learned
    n_read: int
    n_unconverged: int
    cursor: Any  # of the shard, after these rows


def learn_shard(packed: bytes, part: Part, leading: bool) -> Outcome:
    """Learn the next rows of a shard: a pure function of the pickled learner and of the rows.

    The leading shard may recruit units. The others defer the samples that would.
    """
    learner: Learner = pickle.loads(packed)
    rows, cursor = read_part(part)
    X = learner.check_rows(rows)
    if not len(X):
        return Outcome(None, X, 0, 0, cursor)
    if leading:
        n_unconverged = learner.learn(X, keep=False).n_unconverged
        return Outcome(learner.state, X[:0], len(X), n_unconverged, cursor)
    change, deferred, n_unconverged = _change(learner, X)
    return Outcome(change, X[deferred], len(X), n_unconverged, cursor)


def _change(learner: Learner, X: FloatArray) -> tuple[Change, list[int], int]:
    """Learn without recruiting; return the change, the deferred rows, the unconverged count."""
    network = learner.network
    W, M, Yhat = network.components, network.lateral_weights, network.cumulative_activity
    n = network.n_features
    closed_form = network.rules.gain == 1
    rows = X
    if not closed_form:
        # An input that is always zero, of weight 1: it ends as the decay factor d.
        network.add_features(1)
        weights = network.state
        weights.V[:, n] = 1 / weights.s
        network.restore(weights, network.n_samples)
        rows = np.pad(X, ((0, 0), (0, 1)))
    responses = network.learn(rows, recruit=False, keep=learner.cost is not None)
    if learner.cost is not None:
        learner.cost = RunningCost()
        learner.update_cost(X, responses)
    after, D = network.components, network.cumulative_activity - Yhat
    decay = Yhat / (Yhat + D) if closed_form else after[:, n].astype(np.float64)
    d = decay[:, None].astype(network.dtype)
    added_W, added_M = after[:, :n] - d * W, network.lateral_weights - d * M
    change = Change(decay, added_W, added_M, D, learner.cost)
    return change, responses.deferred, responses.n_unconverged
