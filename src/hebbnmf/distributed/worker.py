"""The worker's part of a round: learn the next rows of a shard, and report the change.

During a round the rows of the weights undergo an affine map, ``W_i -> d W_i + b``: by Eq. (8) each
sample keeps the share ``1 - y_i^2 / Yhat_i`` of the row, ``d`` is the product of these shares, and
``b`` what the samples themselves added. With memory all cumulative activity fades meanwhile, by the
product of the discounts of these samples.
"""

import pickle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hebbnmf.cost import RunningCost
from hebbnmf.distributed.shards import Part, read_part
from hebbnmf.distributed.steps import pass_leading, pass_other
from hebbnmf.distributed.subspaces import SubspaceChange, learn_change
from hebbnmf.engine.plasticity import FORGOTTEN, discount_over
from hebbnmf.engine.state import FloatArray
from hebbnmf.engine.subspace import SubspaceNetwork
from hebbnmf.learner import Learner, LearnerState
from hebbnmf.pipeline import StreamPipeline

__all__ = ["Change", "Outcome", "learn_shard"]


class Change(NamedTuple):
    """The affine map of a round on the units that were sent out, and the activity it added."""

    fading: float  # Gamma, product of the discounts
    decay: NDArray[np.float64]  # (K,) d
    added_W: FloatArray  # (K, n) b, of the feedforward weights
    added_M: FloatArray  # (K, K) b, of the lateral weights
    activity: NDArray[np.float64]  # (K,) D
    energy: NDArray[np.float64]  # (2,) what was added to `Weights.energy`
    cost: RunningCost | None  # of these samples alone


class Outcome(NamedTuple):
    """What a worker sends back."""

    learned: LearnerState | Change | SubspaceChange | None  # whole, or the change
    deferred: FloatArray  # samples that would recruit a unit, not learned
    n_read: int
    n_unconverged: int
    cursor: Any  # of the shard, after these rows
    turned: bool = False  # linear units changed their basis: changes of others do not fit
    steps: Any = None  # before the network: the leading worker's whole, or what each is to add


def learn_shard(packed: bytes, part: Part, n_before: int) -> Outcome:
    """Learn the next rows of a shard: a pure function of the pickled model and of the rows.

    `packed` holds the steps before the network, as a pipeline, and the learner. `n_before` is the
    number of rows asked of the shards before it, on which its clock starts. The leading shard, at
    0, may recruit units. The others defer the samples that would.
    """
    head: StreamPipeline
    learner: Learner
    head, learner = pickle.loads(packed)
    learner.network.n_samples += n_before
    rows, cursor = read_part(part)
    n_read = len(rows)
    if not n_read:
        return Outcome(None, np.empty((0, 0)), 0, 0, cursor)
    if n_before == 0:
        X = learner.check_rows(pass_leading(head, rows))
        n_turns = getattr(learner.network, "n_turns", 0)
        n_unconverged = learner.learn(X, keep=False).n_unconverged
        turned = getattr(learner.network, "n_turns", 0) > n_turns
        return Outcome(learner.state, X[:0], n_read, n_unconverged, cursor, turned, head)
    passed, added = pass_other(head, rows, n_before)
    X = learner.check_rows(passed)
    if isinstance(learner.network, SubspaceNetwork):
        return Outcome(learn_change(learner.network, X), X[:0], n_read, 0, cursor, steps=added)
    change, deferred, n_unconverged = _change(learner, X)
    return Outcome(change, X[deferred], n_read, n_unconverged, cursor, steps=added)


def _change(learner: Learner, X: FloatArray) -> tuple[Change, list[int], int]:
    """Learn without recruiting; return the change, the deferred rows, the unconverged count."""
    network = learner.network
    W, M, Yhat = network.components, network.lateral_weights, network.cumulative_activity
    n, n_seen, energy = network.n_features, network.n_samples, network.state.energy
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
    fading, _ = discount_over(n_seen, network.n_samples - n_seen, network.rules.memory)
    Yhat = np.maximum(fading * Yhat, FORGOTTEN)
    # Not below zero: the engine takes the same product in another order.
    after, D = network.components, np.maximum(network.cumulative_activity - Yhat, 0)
    decay = Yhat / (Yhat + D) if closed_form else after[:, n].astype(np.float64)
    d = decay[:, None].astype(network.dtype)
    added_W, added_M = after[:, :n] - d * W, network.lateral_weights - d * M
    added_energy = network.state.energy - fading * energy
    change = Change(fading, decay, added_W, added_M, D, added_energy, learner.cost)
    return change, responses.deferred, responses.n_unconverged
