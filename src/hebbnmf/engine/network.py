"""The network of Fig. 2: its state, and the two things it does, learn and answer.

The paper's symbols, with samples as rows:

=========  ==================================  ==========================================
symbol     meaning                             here
=========  ==================================  ==========================================
n          number of features                  ``n_features``
m          largest number of units             ``n_components``
x_T        a sample                            a row of ``X``
y_T        its answer, >= 0                    a row of ``Y``
W          feedforward weights                 ``components``; ``s[:, None] * V`` in kernels
M          lateral weights, >= 0, M_ii = 0     ``lateral_weights``; ``s[:, None] * N_T.T``
Yhat       cumulative activity                 ``cumulative_activity``; ``Yhat``
lambda     rank regularizer of Eq. (4)         ``rank_penalty``; ``threshold`` is its root
{i}        active set                          the first ``n_units`` rows; ``K`` in kernels
=========  ==================================  ==========================================
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import DTypeLike, NDArray

from hebbnmf.engine._blas import ONE_BLAS_THREAD, one_blas_thread
from hebbnmf.engine.blocks import Rules, answer_block, learn_block
from hebbnmf.engine.plasticity import Weights
from hebbnmf.engine.state import BLOCK, FloatArray

_ANSWER_BLOCK = 264


class Network:
    """Hebbian/anti-Hebbian network that learns online: the core, without validation.

    It trusts its caller: rows must be finite, C-contiguous and of the network's dtype. Use
    `OnlineSNMF` unless these are already known, as in a live stream.

    Parameters
    ----------
    n_features : int
        Number of features of a sample, n.
    n_components : int
        Largest number of units, m.
    rank_penalty : float, default=1.0
        The rank regularizer lambda of Eq. (4).
    initial_activity : float or None, default=None
        Cumulative activity of a new unit; None for the square of its first answer.
    activity_gain : float, default=1.0
        Share of a squared answer that is added to the cumulative activity.
    dynamics : {"rectified", "quartic"}, default="rectified"
        Eq. (7), or Eq. (6).
    tol : float, default=1e-4
        The response ends when no answer moves by more than ``tol * max(y)`` in a sweep.
    max_sweeps : int, default=1000
        Bound on the sweeps of one response.
    dtype : dtype, default=numpy.float64
        Type of the weights and answers; cumulative activity is always float64.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import Network
    >>> net = Network(n_features=2, n_components=3, rank_penalty=0.5)
    >>> Y, n_unconverged = net.learn(np.array([[2.0, 0.0], [0.0, 1.0], [2.0, 0.0]]))
    >>> Y
    array([[2., 0.],
           [0., 1.],
           [2., 0.]])
    >>> net.components
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        rank_penalty: float = 1.0,
        initial_activity: float | None = None,
        activity_gain: float = 1.0,
        dynamics: str = "rectified",
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.n_features = n_features
        self.dtype = np.dtype(dtype)
        self.n_units = 0
        self.n_samples = 0
        self.configure(
            n_components,
            rank_penalty=rank_penalty,
            initial_activity=initial_activity,
            activity_gain=activity_gain,
            dynamics=dynamics,
            tol=tol,
            max_sweeps=max_sweeps,
        )
        self._weights = _empty_weights(0, n_features, self.dtype)

    def configure(
        self,
        n_components: int,
        *,
        rank_penalty: float,
        initial_activity: float | None,
        activity_gain: float,
        dynamics: str,
        tol: float,
        max_sweeps: int,
    ) -> None:
        """Set the rules by which the network goes on; what it has learned stays."""
        eps = float(np.finfo(self.dtype).eps)
        # Answers cannot settle below the rounding of the sums they come from.
        tol = max(float(tol), 8 * eps)
        self.rules = Rules(
            max_units=int(n_components),
            threshold=float(np.sqrt(rank_penalty)),
            # |y|^2 is known to about tol |x|^2, and to sqrt(eps) where sums nearly cancel.
            floor=max(tol, float(np.sqrt(eps))),
            initial_activity=0.0 if initial_activity is None else float(initial_activity),
            gain=float(activity_gain),
            quartic=dynamics == "quartic",
            tol=tol,
            max_sweeps=int(max_sweeps),
        )

    @property
    def components(self) -> FloatArray:
        """W, the feedforward weights, (n_units, n_features)."""
        V, _, s, _ = self._recruited()
        return (s[:, None] * V).astype(self.dtype)

    @property
    def lateral_weights(self) -> FloatArray:
        """M, the lateral weights, (n_units, n_units): row i inhibits unit i."""
        _, N_T, s, _ = self._recruited()
        return (s[:, None] * N_T.T).astype(self.dtype)

    @property
    def cumulative_activity(self) -> NDArray[np.float64]:
        """Yhat, which sets the learning rate of each unit, (n_units,)."""
        return self._recruited().Yhat.copy()

    @property
    def state(self) -> Weights:
        """Copies of all that was learned, without spare room; `restore` goes on from them."""
        return Weights(*(np.ascontiguousarray(part).copy() for part in self._recruited()))

    def restore(self, weights: Weights, n_samples: int) -> None:
        """Go on from a `state`, as if the network had seen the samples itself."""
        self._weights = weights
        self.n_units = len(weights.s)
        self.n_samples = n_samples

    def add_features(self, n_new: int) -> None:
        """Widen the samples by features that were zero so far, as exactly their weights are."""
        if n_new:
            self._weights = self._weights._replace(V=np.pad(self._weights.V, ((0, 0), (0, n_new))))
            self.n_features += n_new

    def learn(self, X: FloatArray) -> tuple[FloatArray, int]:
        """Present samples in order; learn from each and return the answers given on arrival.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_units)
            The answers; a column is zero before its unit was recruited.
        n_unconverged : int
            Number of samples whose response stopped at ``max_sweeps``.
        """
        Y = np.zeros((len(X), len(self._weights.s)), self.dtype)
        n_unconverged = 0
        n_rows = min(len(X), BLOCK)
        # The most units that this call may reach, lest bits depend on where another one begins.
        most = max(self.n_units, min(self.n_units + len(X), self.rules.max_units), n_rows)
        with one_blas_thread(self.n_features, n_rows, most):
            for start in range(0, len(X), BLOCK):
                rows = _writable(X[start : start + BLOCK])
                self._reserve(self.n_units + len(rows))
                if Y.shape[1] < len(self._weights.s):
                    Y = np.pad(Y, ((0, 0), (0, len(self._weights.s) - Y.shape[1])))
                self.n_units, failed = learn_block(
                    self.n_units, rows, Y[start : start + BLOCK], self._weights, self.rules
                )
                self.n_samples += len(rows)
                n_unconverged += failed
        return np.ascontiguousarray(Y[:, : self.n_units]), n_unconverged

    def answer(self, X: FloatArray) -> tuple[FloatArray, int]:
        """Answer samples with frozen weights, each on its own, without recruiting.

        Parameters and results as in `learn`.
        """
        weights = self._recruited()
        Y = np.zeros((len(X), self.n_units), self.dtype)
        starts = range(0, len(X), _ANSWER_BLOCK)

        def answer_from(start: int) -> int:
            rows = slice(start, start + _ANSWER_BLOCK)
            return int(answer_block(_writable(X[rows]), Y[rows], weights, self.rules))

        if len(starts) < 2:
            return Y, sum(map(answer_from, starts))
        # The division into blocks does not depend on the number of threads: neither do answers.
        with ONE_BLAS_THREAD, ThreadPoolExecutor(cpu_count()) as pool:
            return Y, sum(pool.map(answer_from, starts))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over weights, also those that joblib has mapped from a file for reading."""
        self.__dict__.update(state)
        self._weights = Weights(*map(_writable, self._weights))

    def _recruited(self) -> Weights:
        """Return the weights of the recruited units, where possible as views."""
        V, N_T, s, Yhat = self._weights
        K = self.n_units
        return Weights(V[:K], np.ascontiguousarray(N_T[:K, :K]), s[:K], Yhat[:K])

    def _reserve(self, n_units: int) -> None:
        """Make room for so many units, up to the largest number; room grows by doubling."""
        n_units = max(self.n_units, min(n_units, self.rules.max_units))
        room = len(self._weights.s)
        if n_units > room:
            room = max(n_units, min(2 * room, self.rules.max_units))
            grown = _empty_weights(room, self.n_features, self.dtype)
            for new, old in zip(grown, self._weights, strict=True):
                new[tuple(slice(size) for size in old.shape)] = old
            self._weights = grown


def _writable(array: Any) -> Any:
    """Copy an array if it is read-only: for such arrays numba would compile a kernel of its own."""
    return array if array.flags.writeable else array.copy()


def _empty_weights(m: int, n: int, dtype: DTypeLike) -> Weights:
    return Weights(np.zeros((m, n), dtype), np.zeros((m, m), dtype), np.zeros(m), np.zeros(m))
