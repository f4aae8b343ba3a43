"""Whiten, then respond: the network of non-negative independent components.

A network of identity units finds the principal subspace of the centred samples. Its responses
``F (x - mean)`` are coordinates in a basis that moves smoothly, and their covariance is ``A / N``,
N being the discounted number of samples, so::

    z = Q x,    Q = (A/N - sigma^2)^(-1/2) F

has a unit covariance and keeps its mean, in as few dimensions as there are sources. sigma^2 is the
variance along the directions left out: noise that the subspace contains too. The sources, of unit
variance, are then a rotation away, and rectified units that learn from z find the rotation whose
outputs are not negative [1]_.

Q is taken anew after 1, 2, 4, ... samples, then after every block: how a stream is cut into chunks
changes nothing. It is zero, and no sample learned from, while there are few.

.. [1] C. Pehlevan, S. Mohan and D. B. Chklovskii, "Blind Nonnegative Source Separation Using
   Biological Neural Networks", Neural Computation, 2017.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hebbnmf.engine.network import Network, Responses
from hebbnmf.engine.state import BLOCK, FloatArray, Rules, Weights
from hebbnmf.engine.subspace import Subspace, SubspaceNetwork, SubspaceRules

__all__ = ["WhitenedNetwork", "WhitenedRules", "WhitenedState"]

# Samples a unit before the first whitening: with fewer, some directions seem to have no variance.
_FIRST = 4
# Variances below this share of the largest are not amplified further.
_SMALLEST_SHARE = 1e-6


class WhitenedRules(NamedTuple):
    """Settings of both networks."""

    whitening: SubspaceRules
    separation: Rules


class WhitenedState(NamedTuple):
    """What both networks have learned, and the whitening in use."""

    whitening: Subspace
    Q: NDArray[np.float64]  # (max_units, n)
    separation: Weights


class WhitenedNetwork:
    """Network of rectified units behind one of identity units, without validation.

    It has what `Learner` asks of a network.

    Parameters
    ----------
    n_features : int
        Number of features of a sample.
    rules : WhitenedRules
        How the two learn, with as many units each.
    dtype : dtype, default=numpy.float64
        Type of the samples and activities.
    """

    def __init__(
        self, n_features: int, rules: WhitenedRules, dtype: DTypeLike = np.float64
    ) -> None:
        m = rules.whitening.max_units
        self._whitening = SubspaceNetwork(n_features, rules.whitening, dtype)
        self._separation = Network(m, rules.separation, dtype)
        self._Q = np.zeros((m, n_features))

    @property
    def rules(self) -> WhitenedRules:
        """How the two learn."""
        return WhitenedRules(self._whitening.rules, self._separation.rules)

    @rules.setter
    def rules(self, rules: WhitenedRules) -> None:
        self._whitening.rules, self._separation.rules = rules

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the samples and activities."""
        return self._whitening.dtype

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self._whitening.n_features

    @property
    def n_samples(self) -> int:
        """Number of samples learned so far."""
        return self._whitening.n_samples

    @property
    def n_units(self) -> int:
        """Number of rectified units recruited so far."""
        return self._separation.n_units

    @property
    def separation(self) -> Network:
        """The network of rectified units."""
        return self._separation

    @property
    def lateral_weights(self) -> FloatArray:
        """M of the rectified units, zero on the diagonal."""
        return self._separation.lateral_weights

    @property
    def cumulative_activity(self) -> NDArray[np.float64]:
        """Yhat of the rectified units."""
        return self._separation.cumulative_activity

    @property
    def whitening_matrix(self) -> FloatArray:
        """Q, which turns x into z, (max_units, n_features)."""
        return self._Q.astype(self.dtype)

    @property
    def state(self) -> WhitenedState:
        """Copies of all that was learned; `restore` goes on from them."""
        return WhitenedState(self._whitening.state, self._Q.copy(), self._separation.state)

    def restore(self, state: WhitenedState, n_samples: int) -> None:
        """Continue from a `state`."""
        self._whitening.restore(state.whitening, n_samples)
        self._separation.restore(state.separation, n_samples)
        self._Q = state.Q

    def learn(self, X: FloatArray, *, recruit: bool = True, keep: bool = True) -> Responses:
        """Present samples in order, as `Network.learn` does, to both networks."""
        parts = []
        start = 0
        while start < len(X):
            n_left = _samples_to_next_whitening(self.n_samples)
            rows = X[start : start + n_left]
            Z = rows @ self.whitening_matrix.T
            parts.append(self._separation.learn(Z, recruit=recruit, keep=keep))
            self._whitening.learn(rows, keep=False)
            start += len(rows)
            if len(rows) == n_left:
                self._Q = self._next_whitening()
        Y = np.zeros((len(X) if keep else 0, self.n_units), self.dtype)
        labels = np.concatenate([part.labels for part in parts])
        row = 0
        for part in parts:
            Y[row : row + len(part.Y), : part.Y.shape[1]] = part.Y
            row += len(part.Y)
        return Responses(Y, labels, sum(part.n_unconverged for part in parts), [])

    def respond(self, X: FloatArray, n_jobs: int | None = None, *, keep: bool = True) -> Responses:
        """Respond to samples with frozen weights, as `Network.respond` does."""
        return self._separation.respond(X @ self.whitening_matrix.T, n_jobs, keep=keep)

    def _next_whitening(self) -> NDArray[np.float64]:
        """Return Q by the units that there are; rows of zeros for others."""
        A, F, _, energy = self._whitening.learned
        Q, K = np.zeros_like(self._Q), len(A)
        if K and self.n_samples >= _FIRST * K:
            variances, axes = np.linalg.eigh(A / energy[1])
            n_left_out = self.n_features - K
            noise = (energy[0] / energy[1] - variances.sum()) / n_left_out if n_left_out else 0.0
            signal = np.maximum(variances - max(noise, 0.0), _SMALLEST_SHARE * variances[-1])
            Q[:K] = (axes / np.sqrt(signal)) @ axes.T @ F
        return Q


def _samples_to_next_whitening(n_samples: int) -> int:
    if n_samples < 64:
        return int(2 ** n_samples.bit_length()) - n_samples
    return BLOCK - n_samples % BLOCK
