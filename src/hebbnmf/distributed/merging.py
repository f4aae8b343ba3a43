"""Merging: what a worker learns in a round, and how the driver adds it up.

During a round the rows of worker w undergo an affine map, ``W_i -> d W_i + b``: by Eq. (8) each
sample keeps the share ``1 - y_i^2 / Yhat_i`` of the row, ``d`` is the product of these shares, and
``b`` what the samples themselves brought. The driver takes the network of the first worker as it
is, and lets the maps of the others follow in order, each with the cumulative activity that the
ones before it have left. A unit to which worker w added the activity ``D``, from ``Yhat_0`` at the
start of the round, and which stands at ``Yhat`` when the turn of w comes, gets::

    rho  = log(1 + D / Yhat) / log(1 + D / Yhat_0)
    d'   = d ** rho
    W_i <- d' W_i + (1 - d') / (1 - d) b,    Yhat <- Yhat + D

and M the same. The exponent is that of Eq. (8) in the limit of small steps, where
``d = (Yhat_0 / (Yhat_0 + D)) ** (1 / gain)``; the factor of ``b`` keeps the row an average of
samples. With ``activity_gain=1`` that limit is exact, ``d = Yhat_0 / (Yhat_0 + D)``, and the merge
reads ``Yhat W_i <- Yhat W_i + sum_t y_i x_t``: the sums by which the paper defines W and M. With
another gain it forgets as the serial schedule does, had the shards come one after the other: a
round in which ``d`` gets small keeps mostly its last shards.

For one worker nothing is left to merge, and the result is that of the serial engine to the last
bit.
"""

import pickle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hebbnmf.cost import RunningCost
from hebbnmf.distributed.shards import read_part
from hebbnmf.engine.network import BLOCK, FloatArray, Network
from hebbnmf.engine.plasticity import Weights
from hebbnmf.estimators import OnlineSNMF


class Change(NamedTuple):
    """The affine map of a round on the units that were sent out, and the activity it added."""

    decay: NDArray[np.float64]  # (K,) d
    brought_W: FloatArray  # (K, n) b, of the feedforward weights
    brought_M: FloatArray  # (K, K) b, of the lateral weights
    activity: NDArray[np.float64]  # (K,) D


class Outcome(NamedTuple):
    """What a worker sends back."""

    learned: Weights | Change | None  # the leading shard's whole state, or another's change
    aside: FloatArray  # samples that would recruit a unit, not learned
    cost: RunningCost | None
    n_read: int
    n_unconverged: int
    cursor: Any


def learn_shard(packed: bytes, part: Any, leads: bool) -> Outcome:
    """Learn the next rows of a shard: a pure function of the network sent out and of the rows.

    Parameters
    ----------
    packed : bytes
        The pickled model as it stood at the start of the round.
    part : ndarray or FilePart
        The rows.
    leads : bool
        Whether this shard may recruit units. The others set the samples aside that would.
    """
    model: OnlineSNMF = pickle.loads(packed)
    rows, cursor = read_part(part)
    network = model._network
    if not len(rows):
        return Outcome(None, np.empty((0, network.n_features), network.dtype), None, 0, 0, cursor)
    X = model._validate(rows, reset=False)
    if leads:
        _, failed = model._learn(X)
        none = X[:0]
        return Outcome(network.state, none, model._running_cost, len(X), failed, cursor)
    cost = RunningCost() if model._running_cost is not None else None
    change, aside, failed = _change(network, X, cost)
    return Outcome(change, X[aside], cost, len(X), failed, cursor)


def merge(model: OnlineSNMF, outcomes: list[Outcome]) -> int:
    """Add up a round in place, then present what was set aside. Returns the unconverged count."""
    network = model._network
    start = network.cumulative_activity
    n_new = sum(len(outcome.aside) for outcome in outcomes)
    n_seen = network.n_samples + sum(outcome.n_read for outcome in outcomes) - n_new
    lead, *others = outcomes
    if isinstance(lead.learned, Weights):
        network.restore(lead.learned, n_seen)
        model._running_cost = lead.cost
    changes = [outcome.learned for outcome in others if isinstance(outcome.learned, Change)]
    if changes:
        network.restore(_composed(network, start, changes), n_seen)
    if model._running_cost is not None:
        for outcome in others:
            _add_cost(model._running_cost, outcome.cost, network)
    n_unconverged = sum(outcome.n_unconverged for outcome in outcomes)
    if n_new:
        n_unconverged += model._learn(np.vstack([outcome.aside for outcome in outcomes]))[1]
    return n_unconverged


def _change(
    network: Network, X: FloatArray, cost: RunningCost | None
) -> tuple[Change, list[int], int]:
    """Learn with recruiting off; return the change, the rows set aside, the unconverged count."""
    W, M, Yhat = network.components, network.lateral_weights, network.cumulative_activity
    n = network.n_features
    closed_form = network.rules.gain == 1
    if not closed_form:
        # A feature that is always zero, with weight one: all it does is decay.
        network.add_features(1)
        V, N_T, s, activity = network.state
        V[:, n] = 1 / s
        network.restore(Weights(V, N_T, s, activity), network.n_samples)
        X = np.pad(X, ((0, 0), (0, 1)))
    aside, n_unconverged = _learn_without_recruiting(network, X, n, cost)
    after, D = network.components, network.cumulative_activity - Yhat
    decay = Yhat / (Yhat + D) if closed_form else after[:, n].astype(np.float64)
    d = decay[:, None].astype(network.dtype)
    change = Change(decay, after[:, :n] - d * W, network.lateral_weights - d * M, D)
    return change, aside, n_unconverged


def _learn_without_recruiting(
    network: Network, X: FloatArray, n: int, cost: RunningCost | None
) -> tuple[list[int], int]:
    """Learn all rows but those that Eq. (5) would have recruit a unit, at most one a free place.

    Beyond that many the network may be full once the driver has seen them, and rows are learned
    as in a full one.
    """
    rules = network.rules
    n_free = rules.max_units - network.n_units
    network.rules = rules._replace(max_units=network.n_units)
    aside: list[int] = []
    n_unconverged = start = 0
    while start < len(X):
        watched = len(aside) < n_free
        rows = X[start : start + (BLOCK if watched or cost is not None else len(X))]
        before, n_samples = (network.state if watched else None), network.n_samples
        Y, failed = network.learn(rows)
        recruiting = _recruiting(rows, Y, rules) if before is not None else []
        if before is not None and len(recruiting):
            aside.append(start + recruiting[0])
            rows = rows[: recruiting[0]]
            start += 1
            network.restore(before, n_samples)
            Y, failed = network.learn(rows)
        if cost is not None and len(rows):
            cost.update(rows[:, :n], Y)
        start += len(rows)
        n_unconverged += failed
    return aside, n_unconverged


def _recruiting(X: FloatArray, Y: FloatArray, rules: Any) -> Any:
    """Rows whose residual passes Eq. (5)."""
    x_norm2 = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    residual = x_norm2 - np.einsum("ij,ij->i", Y, Y, dtype=np.float64)
    return np.flatnonzero(residual > np.maximum(rules.threshold, rules.floor * x_norm2))


def _composed(network: Network, start: NDArray[np.float64], changes: list[Change]) -> Weights:
    """Let the changes of a round follow one another on the units that were sent out."""
    V, N_T, s, Yhat = network.state
    W, M = s[:, None] * V, s[:, None] * N_T.T
    K = len(start)
    for decay, brought_W, brought_M, D in changes:
        with np.errstate(divide="ignore", invalid="ignore"):
            rho = np.where(D > 0, np.log1p(D / Yhat[:K]) / np.log1p(D / start), 1.0)
            kept = decay**rho
            factor = np.where(decay < 1, (1 - kept) / (1 - decay), rho)
        W[:K] = kept[:, None] * W[:K] + factor[:, None] * brought_W
        M[:K] *= kept[:, None]
        M[:K, :K] += factor[:, None] * brought_M
        Yhat[:K] += D
    # Differences of nearly equal weights may leave a lateral weight below zero by a rounding.
    np.maximum(M, 0, out=M)
    return Weights(
        W.astype(network.dtype),
        np.ascontiguousarray(M.T, network.dtype),
        np.ones_like(s),
        Yhat,
    )


def _add_cost(total: RunningCost, part: RunningCost | None, network: Network) -> None:
    """Fold the triangle of a worker's rows into another: it stands for them in Eq. (9)."""
    if part is not None and part.n_samples:
        n = part.n_features
        R_x, R_y = np.split(part.triangle, [n], axis=1)
        n_samples = total.n_samples + part.n_samples
        total.update(R_x, np.pad(R_y, ((0, 0), (0, network.n_units - R_y.shape[1]))))
        total.n_samples = n_samples
