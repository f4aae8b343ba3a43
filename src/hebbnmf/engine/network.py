"""The network of Fig. 2: its state, and the two things it does, learn and respond.

The paper's symbols, with samples as rows:

=========  ==================================  ==========================================
symbol     meaning                             here
=========  ==================================  ==========================================
n          number of features                  ``n_features``
m          largest number of units             ``n_components``; ``max_units`` in kernels
x_T        a sample                            a row of ``X``
y_T        its response, >= 0                  a row of ``Y``; its entries are activities
W          feedforward weights                 ``components``; ``s[:, None] * V`` in kernels
M          lateral weights, >= 0, M_ii = 0     ``lateral_weights``; ``s[:, None] * N_T.T``
Yhat       cumulative activity                 ``cumulative_activity``; ``Yhat``
lambda     rank regularizer of Eq. (4)         ``rank_penalty``; ``threshold`` is its root
gamma      discount of older samples, ours     from ``memory``; D in kernels is a product of it
{i}        active set                          the first ``n_units`` rows; ``K`` in kernels
=========  ==================================  ==========================================
"""

from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import DTypeLike, NDArray

from hebbnmf.engine._blas import ONE_BLAS_THREAD, one_blas_thread
from hebbnmf.engine.blocks import ends_call, learn_rows, respond_rows
from hebbnmf.engine.offset import with_offset
from hebbnmf.engine.state import BLOCK, FloatArray, LabelArray, Rules, Weights, empty_weights

__all__ = ["Network", "Responses", "writable"]

# Blocks that a network without free units learns in one call of the kernel.
_BLOCKS = 9
# Samples that one thread responds to at a time: again an odd number of cache lines.
_RESPONSE_BLOCK = 3 * BLOCK
# Above this number of units both are one block of 72: signals wait for the end of a call.
_MANY_UNITS = 1024


class Responses(NamedTuple):
    """What a network returns for some samples."""

    Y: FloatArray  # activities, one row a sample and one column a unit; no row if not wanted
    labels: LabelArray  # the unit with the strongest response to each sample, or -1
    n_unconverged: int  # samples whose response stopped at max_sweeps
    deferred: list[int]  # rows that were not learned, because they would have recruited a unit


class Network:
    """Hebbian/anti-Hebbian network that learns online: the core, without validation.

    It trusts its caller: rows must be finite, C-contiguous and of the network's dtype. Use
    `OnlineSNMF` unless these are already known, as in a live stream.

    Parameters
    ----------
    n_features : int
        Number of features of a sample, n.
    rules : Rules
        How it responds, recruits and learns; `Settings.rules` makes them. They may be replaced at
        any time; what was learned stays.
    dtype : dtype, default=numpy.float64
        Type of the weights and activities; cumulative activity is always float64.

    Attributes
    ----------
    n_units, n_samples : int
        Numbers of units recruited and of samples learned so far.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import Network, Settings
    >>> net = Network(2, Settings(n_components=3, rank_penalty=0.5).rules())
    >>> net.learn(np.array([[2.0, 0.0], [0.0, 1.0], [2.0, 0.0]])).Y
    array([[2., 0.],
           [0., 1.],
           [2., 0.]])
    >>> net.components
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(self, n_features: int, rules: Rules, dtype: DTypeLike = np.float64) -> None:
        self.n_features = n_features
        self.rules = rules
        self.dtype = np.dtype(dtype)
        self.n_units = 0
        self.n_samples = 0
        self._weights = empty_weights(0, n_features, self.dtype)

    @property
    def components(self) -> FloatArray:
        """W, the feedforward weights, (n_units, n_features)."""
        weights = self._recruited()
        return (weights.s[:, None] * weights.V[:, : self.n_features]).astype(self.dtype)

    @property
    def thresholds(self) -> FloatArray:
        """What the offset of the similarities takes from the net input of each unit, (n_units,)."""
        weights = self._recruited()
        if not self._has_offset:
            return np.zeros(self.n_units, self.dtype)
        none = np.zeros((1, self.n_features), self.dtype)
        root = with_offset(none, 0, weights.energy, self.rules, learning=False)[0, -1]
        return (root * weights.s * weights.V[:, -1]).astype(self.dtype)

    @property
    def lateral_weights(self) -> FloatArray:
        """M, the lateral weights, (n_units, n_units): row i inhibits unit i."""
        weights = self._recruited()
        return (weights.s[:, None] * weights.N_T.T).astype(self.dtype)

    @property
    def cumulative_activity(self) -> NDArray[np.float64]:
        """Yhat, which sets the learning rate of each unit, (n_units,)."""
        return self._recruited().Yhat.copy()

    @property
    def unit_births(self) -> NDArray[np.int64]:
        """Number of samples presented before the one that recruited each unit, (n_units,)."""
        return self._recruited().born.copy()

    @property
    def state(self) -> Weights:
        """Copies of all that was learned, without spare room; `restore` goes on from them."""
        return deepcopy(self._recruited())

    def restore(self, weights: Weights, n_samples: int) -> None:
        """Continue from a `state`."""
        self.n_units = len(weights.s)
        self._weights = _with_room(weights, self.n_units, weights.V.shape[1], self.dtype)
        self.n_samples = n_samples

    def add_features(self, n_new: int) -> None:
        """Add features that were zero in all samples so far: their weights are exactly zero."""
        if n_new:
            V, n = self._weights.V, self.n_features
            V = np.hstack([V[:, :n], np.zeros((len(V), n_new), self.dtype), V[:, n:]])
            self._weights = self._weights._replace(V=V)
            self.n_features += n_new

    def learn(self, X: FloatArray, *, recruit: bool = True, keep: bool = True) -> Responses:
        """Present samples in order; learn from each and return the responses given on arrival.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            The samples.
        recruit : bool, default=True
            Whether samples may recruit units, Eq. (5). If not, samples that would are deferred,
            at most one for each free unit, or for each unit where units are recycled: they are
            not learned, their rows of Y are zero and their labels -1. Later ones are learned as by
            a full network.
        keep : bool, default=True
            Whether to return the responses, or their labels alone.

        Returns
        -------
        Responses
            Those given on arrival; a column is zero before its unit was recruited.
        """
        X = self._with_offset(X, learning=True)
        Y = np.zeros((len(X) if keep else 0, len(self._weights.s)), self.dtype)
        labels = np.full(len(X), -1)
        n_unconverged = start = 0
        deferred: list[int] = []
        # Bound on units after this call: the choice of BLAS threads must not depend on chunking.
        n_rows = min(len(X), BLOCK)
        n_units_bound = max(self.n_units, min(self.n_units + len(X), self.rules.max_units), n_rows)
        with one_blas_thread(self.n_features, n_rows, n_units_bound):
            while start < len(X):
                n_free = self.rules.max_units - self.n_units - len(deferred)
                n_blocks = 1 if n_free > 0 or self.n_units > _MANY_UNITS else _BLOCKS
                # After an early end only the rest of a block: its division depends on the data
                # alone, and not on how many blocks a call or a chunk has.
                rows = writable(X[start : (start // BLOCK + n_blocks) * BLOCK])
                if recruit and n_free > 0:
                    self._reserve(self.n_units + len(rows))
                    if Y.shape[1] < len(self._weights.s):
                        Y = np.pad(Y, ((0, 0), (0, len(self._weights.s) - Y.shape[1])))
                self.n_units, n_learned, failed = learn_rows(
                    self.n_units,
                    n_free,
                    recruit,
                    self.n_samples,
                    BLOCK,
                    rows,
                    Y[start:],
                    labels[start:],
                    self._weights,
                    self.rules,
                )
                self.n_samples += n_learned
                n_unconverged += failed
                start += n_learned
                if n_learned < len(rows) and not ends_call(failed, self.rules):
                    deferred.append(start)
                    start += 1
        if Y.shape[1] > self.n_units:
            Y = np.ascontiguousarray(Y[:, : self.n_units])
        return Responses(Y, labels, n_unconverged, deferred)

    def narrowed(self, columns: NDArray[np.intp]) -> "Network":
        """Return a network of some features, for samples in which all others are zero.

        It copies their weights and shares all else, so once it has learned, `widen` must follow.
        It has one feature more, which must be zero, of weight 1: that ends as the factor by which
        the weights of the features left out have changed, 0 for a newborn unit.
        """
        narrow = copy(self)
        V, n = self._weights.V, self.n_features
        V = np.hstack([V[:, columns], np.ones((len(V), 1), self.dtype), V[:, n:]])
        narrow.n_features = len(columns) + 1
        narrow._weights = self._weights._replace(V=V)  # noqa: SLF001  (of its own class)
        return narrow

    def widen(self, narrow: "Network", columns: NDArray[np.intp]) -> None:
        """Take over what a network of some features has learned."""
        learned, k = narrow._weights, len(columns)  # noqa: SLF001  (of its own class)
        V = self._weights.V
        if len(V) < len(learned.V):
            V = np.pad(V, ((0, len(learned.V) - len(V)), (0, 0)))
        self._weights = learned._replace(V=V)
        self.n_units, self.n_samples = narrow.n_units, narrow.n_samples
        changed = np.flatnonzero(learned.V[: self.n_units, k] != 1)
        V[changed] *= learned.V[changed, k, None]
        V[:, columns] = learned.V[:, :k]

    def respond(self, X: FloatArray, n_jobs: int | None = None, *, keep: bool = True) -> Responses:
        """Respond to samples with frozen weights, each on its own, without recruiting.

        The number of threads changes no bit: None is all cores, but one inside a worker of joblib;
        negative numbers count from the number of cores, as in joblib. With ``keep=False`` only
        the labels are returned.
        """
        X = self._with_offset(X, learning=False)
        Y = np.zeros((len(X) if keep else 0, self.n_units), self.dtype)
        labels = np.full(len(X), -1)
        block = BLOCK if self.n_units > _MANY_UNITS else _RESPONSE_BLOCK
        starts = range(0, len(X), block)

        def respond_from(start: int) -> int:
            stop, n_unconverged = min(start + block, len(X)), 0
            while start < stop:
                rows = slice(start, stop)
                n_done, failed = respond_rows(
                    self.n_units,
                    writable(X[rows]),
                    Y[rows],
                    labels[rows],
                    self._weights,
                    self.rules,
                )
                start, n_unconverged = start + n_done, n_unconverged + failed
            return n_unconverged

        if len(starts) < 2:
            return Responses(Y, labels, sum(map(respond_from, starts)), [])
        # The division into blocks does not depend on the number of threads: neither do responses.
        with ONE_BLAS_THREAD, ThreadPoolExecutor(_n_threads(n_jobs)) as pool:
            return Responses(Y, labels, sum(pool.map(respond_from, starts)), [])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over weights, also those that joblib has mapped from a file for reading."""
        self.__dict__.update(state)
        self._weights = Weights(*map(writable, self._weights))

    @property
    def _has_offset(self) -> bool:
        return self._weights.V.shape[1] > self.n_features

    def _with_offset(self, X: FloatArray, *, learning: bool) -> FloatArray:
        """Return samples with the feature of the offset, if there is or was one."""
        if self.rules.offset > 0 and not self._has_offset:  # it was 0 so far, and so its weights
            V = np.pad(self._weights.V, ((0, 0), (0, 1)))
            self._weights = self._weights._replace(V=V)
        if not self._has_offset:
            return X
        return with_offset(X, self.n_samples, self._weights.energy, self.rules, learning=learning)

    def _recruited(self) -> Weights:
        """Return the weights of the recruited units, where possible as views."""
        V, N_T, s, Yhat, born, energy = self._weights
        K = self.n_units
        N_T = np.ascontiguousarray(N_T[:K, :K])
        return Weights(V[:K], N_T, s[:K], Yhat[:K], born[:K], energy)

    def _reserve(self, n_units: int) -> None:
        """Make room for `n_units` units, at most ``max_units``; capacity doubles."""
        n_units = max(self.n_units, min(n_units, self.rules.max_units))
        room = len(self._weights.s)
        if n_units > room:
            room = max(n_units, min(2 * room, self.rules.max_units))
            width = self._weights.V.shape[1]
            self._weights = _with_room(self._weights, room, width, self.dtype)


def _with_room(weights: Weights, room: int, n_features: int, dtype: DTypeLike) -> Weights:
    """Copy weights into arrays with room for more units."""
    roomy = empty_weights(room, n_features, dtype)
    for new, old in zip(roomy, weights, strict=True):
        part = tuple(slice(min(sizes)) for sizes in zip(new.shape, old.shape, strict=True))
        new[part] = old[part]
    return roomy


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array if it is read-only: for such arrays numba would compile a second kernel."""
    return array if array.flags.writeable else array.copy()


def _n_threads(n_jobs: int | None) -> int:
    if n_jobs is not None:
        return effective_n_jobs(n_jobs)
    inside_worker = get_active_backend()[0].nesting_level > 0
    return 1 if inside_worker else cpu_count()
