"""Whiten, then respond: the network of non-negative independent components.

A network of identity units finds the principal subspace of the samples, not centred. Its responses
``y = F x`` are the coordinates in a basis that moves smoothly, and their second moments are
``A / N``, N being the discounted number of samples, so::

    z = (A/N - sigma^2)^(-1/2) F x

is whitened data of as few dimensions as there are sources, in which the sources are a rotation
away. sigma^2 is the mean square along the directions left out: noise that the subspace contains
too. Rectified units that learn from z find the rotation whose outputs are not negative [1]_.

The root is taken anew after 1, 2, 4, ... samples, then after every block: how a stream is cut into
chunks changes nothing.

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

# Second moments below this share of the largest are not amplified further.
_SMALLEST_SHARE = 1e-6


class WhitenedRules(NamedTuple):
    """Settings of both networks."""

    whitening: SubspaceRules
    separation: Rules


class WhitenedState(NamedTuple):
    """What both networks have learned, and the root in use."""

    whitening: Subspace
    root: NDArray[np.float64]
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
        self._root = np.zeros((m, m))

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
    def whitening_matrix(self) -> FloatArray:
        """What turns x into z, (max_units, n_features)."""
        filters = self._whitening.filters
        return np.asarray(self._root[:, : len(filters)] @ filters, self.dtype)

    @property
    def state(self) -> WhitenedState:
        """Copies of all that was learned; `restore` goes on from them."""
        return WhitenedState(self._whitening.state, self._root.copy(), self._separation.state)

    def restore(self, state: WhitenedState, n_samples: int) -> None:
        """Continue from a `state`."""
        self._whitening.restore(state.whitening, n_samples)
        self._separation.restore(state.separation, n_samples)
        self._root = state.root

    def learn(self, X: FloatArray, *, recruit: bool = True, keep: bool = True) -> Responses:
        """Present samples in order, as `Network.learn` does, to both networks."""
        parts = []
        start = 0
        while start < len(X):
            stop = start + _samples_to_next_root(self.n_samples)
            Y = self._whitening.learn(X[start:stop]).Y
            Z = (Y @ self._root[:, : Y.shape[1]].T).astype(self.dtype)
            parts.append(self._separation.learn(Z, recruit=recruit, keep=keep))
            start += len(Y)
            if start == stop:
                self._root = self._next_root()
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

    def _next_root(self) -> NDArray[np.float64]:
        """Return ``(A/N - sigma^2)^(-1/2)`` of the units that there are, zero elsewhere."""
        A, _, _, energy = self._whitening.learned
        K, m = len(A), self._whitening.rules.max_units
        root = np.zeros((m, m))
        if K:
            moments, axes = np.linalg.eigh(A / energy[1])
            n_left_out = self.n_features - K
            noise = (energy[0] / energy[1] - moments.sum()) / n_left_out if n_left_out else 0.0
            signal = np.maximum(moments - max(noise, 0.0), _SMALLEST_SHARE * moments[-1])
            root[:K, :K] = (axes / np.sqrt(signal)) @ axes.T
        return root


def _samples_to_next_root(n_samples: int) -> int:
    if n_samples < 64:
        return int(2 ** n_samples.bit_length()) - n_samples
    return BLOCK - n_samples % BLOCK
