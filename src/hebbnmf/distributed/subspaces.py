"""Rounds of linear units: A and ``B = A F`` are discounted sums over samples, and add up as such.

The driver takes what the leading worker has learned, fades it by the discounts of the next worker's
samples, and adds what these added, worker by worker (see `hebbnmf.distributed.merging` for the
clock). Their responses come from the units as they were sent out, and each worker centres by the
mean that it was sent and its own samples: the products of differences between the means of the
shards of a round are left out.

A worker that turned its units, because a direction had faded, has responses in another basis: the
leading worker's alone counts then, and another one's is dropped.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.plasticity import discount_over
from hebbnmf.engine.state import FloatArray
from hebbnmf.engine.subspace import Subspace, SubspaceNetwork

__all__ = ["SubspaceChange", "composed", "learn_change"]


class SubspaceChange(NamedTuple):
    """What the samples of a shard added in a round."""

    fading: float  # product of the discounts
    A: NDArray[np.float64]  # (K, K)
    B: NDArray[np.float64]  # (K, n)
    samples: NDArray[np.float64]  # (n,) discounted sum; zeros where they are not centred
    energy: NDArray[np.float64]  # (2,)


def learn_change(network: SubspaceNetwork, X: FloatArray) -> SubspaceChange | None:
    """Learn without recruiting, and return the change; None if the units were turned."""
    before, n_seen, n_turns = network.state, network.n_samples, network.n_turns
    network.learn(X, recruit=False, keep=False)
    after = network.learned
    if network.n_turns > n_turns:
        return None
    fading, _ = discount_over(n_seen, len(X), network.rules.memory)
    return SubspaceChange(
        fading,
        after.A - fading * before.A,
        after.A @ after.F - fading * before.A @ before.F,
        after.energy[1] * after.mean - fading * before.energy[1] * before.mean,
        after.energy - fading * before.energy,
    )


def composed(network: SubspaceNetwork, changes: list[SubspaceChange]) -> Subspace:
    """Let the changes follow one another on the units of the leading worker."""
    A, F, mean, energy = network.state
    B = A @ F
    for change in changes:
        K = len(change.A)
        A *= change.fading
        B *= change.fading
        A[:K, :K] += change.A
        B[:K] += change.B
        samples = change.fading * energy[1] * mean + change.samples
        energy = change.fading * energy + change.energy
        mean = samples / energy[1]
    return Subspace(A, np.asarray(np.linalg.solve(A, B), np.float64), mean, energy)
