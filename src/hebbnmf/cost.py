"""The cost of responses, Eq. (1) and (9): of a whole data set, or running along a stream."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack
from sklearn.utils import check_array

from hebbnmf.engine._blas import ONE_BLAS_THREAD

__all__ = ["RunningCost", "snmf_cost"]

# Rows folded into the triangle at a time: enough for BLAS-3 speed, few enough to copy cheaply.
_BLOCK_ROWS = 1024
# Width of the Householder panels: 8 and 32 columns measure alike, 1 is 2 to 7 times slower.
_PANEL = 32


def snmf_cost(X: ArrayLike, Y: ArrayLike) -> float:
    """Return the cost of representing the samples `X` by the non-negative responses `Y`, Eq. (9).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    Y : array-like of shape (n_samples, n_components)
        The responses, one row for each sample; may have no columns.

    Returns
    -------
    float
        The squared Frobenius norm of ``X X' - Y Y'``, never negative.

    Notes
    -----
    Written out, Eq. (9) is ``|X'X|^2 - 2 |Y'X|^2 + |Y'Y|^2``, which needs no array of
    ``n_samples`` squared entries but loses every digit where the cost is smaller than a rounding
    error of its terms. With ``Z = [X, Y]``, the signature ``S = diag(I, -I)`` and the triangular
    factor of ``Z = Q R``, the same cost is ``|Z S Z'|^2 = |R S R'|^2``: one sum of squares of a
    small matrix, accurate to about ``eps^2 |X X'|^2`` instead of ``eps |X X'|^2``.

    Examples
    --------
    >>> from hebbnmf.cost import snmf_cost
    >>> X = [[3.0, 0.0], [0.0, -2.0]]
    >>> snmf_cost(X, [[0.0, 0.0], [0.0, 0.0]])
    97.0
    >>> snmf_cost(X, [[3.0, 0.0], [0.0, 2.0]])
    0.0
    """
    running = RunningCost()
    running.update(X, Y)
    return running.value


@dataclass
class RunningCost:
    """Keep the cost (9) of a stream, in memory that does not grow with the stream.

    Parameters
    ----------
    triangle : ndarray of shape (n_rows, n_features + n_components)
        Upper triangular factor R of all rows ``[x, y]`` seen so far; while they are fewer than
        its columns, these rows themselves.
    n_features : int
        Number of features of a sample; 0 before the first update.
    n_samples : int
        Number of samples seen so far.

    Notes
    -----
    The three attributes are the whole state: passed back to the constructor, they continue the
    stream bit for bit. A new chunk is folded into R by a QR factorization of ``[R; chunk]``; see
    `snmf_cost` for why R is kept and not the sums ``X'X``, ``Y'X`` and ``Y'Y``. With
    ``n_features + n_components`` of 5, 128 and 512, a sample costs 0.2, 3 and 22 microseconds in
    chunks of 1000, and 100, 170 and 750 in chunks of one; sums would cost a third of the former.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.cost import RunningCost, snmf_cost
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(50, 2)), rng.random((50, 3))
    >>> running = RunningCost()
    >>> for t in range(0, 50, 10):
    ...     running.update(X[t : t + 10], Y[t : t + 10])
    >>> running.n_samples, bool(np.isclose(running.value, snmf_cost(X, Y)))
    (50, True)
    """

    triangle: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    n_features: int = 0
    n_samples: int = 0

    def update(self, X: ArrayLike, Y: ArrayLike) -> None:
        """Add a chunk of samples and of the responses to them.

        Parameters
        ----------
        X : array-like of shape (n_chunk, n_features)
        Y : array-like of shape (n_chunk, n_components)
            The responses. Columns beyond those of earlier chunks belong to components recruited
            since: the responses to earlier samples are zero there.
        """
        X, Y = _check_pair(X, Y)
        n_features, n_components = X.shape[1], Y.shape[1]
        if self.n_samples and n_features != self.n_features:
            raise ValueError(
                f"X has {n_features} features where earlier chunks had {self.n_features}; "
                "begin a new RunningCost for other data."
            )
        if self.n_samples and n_components < self.n_components:
            raise ValueError(
                f"Y has {n_components} columns where earlier chunks had {self.n_components}, "
                "and columns may only be added; give silent components as columns of zeros."
            )
        size = n_features + n_components
        triangle = _widened(self.triangle, size)
        for start in range(0, len(X), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            triangle = _fold(triangle, np.hstack([X[rows], Y[rows]]))
        self.triangle, self.n_features = triangle, n_features
        self.n_samples += len(X)

    def merge(self, other: "RunningCost") -> None:
        """Add the samples of another stream, of the same features and components.

        Parameters
        ----------
        other : RunningCost
            Not changed. Where one of the two has fewer components, the missing ones are its last,
            and its responses are zero there.

        Examples
        --------
        >>> from hebbnmf.cost import RunningCost
        >>> first, second = RunningCost(), RunningCost()
        >>> first.update([[2.0]], [[0.0]])
        >>> second.update([[1.0]], [[0.0]])
        >>> first.merge(second)
        >>> first.n_samples, round(first.value, 6)  # (2^2)^2 + 2 (2 * 1)^2 + (1^2)^2
        (2, 25.0)
        """
        if other.n_samples == 0:
            return
        # Z = [X, Y] enters Eq. (9) by Z'Z = R'R alone: the rows of R stand for those of Z.
        x, y = np.split(other.triangle, [other.n_features], axis=1)
        n_missing = max(0, self.n_components - other.n_components)
        self.update(x, np.pad(y, ((0, 0), (0, n_missing))))
        self.n_samples += other.n_samples - len(x)  # update counted the rows of R

    @property
    def n_components(self) -> int:
        """Number of columns of the responses so far."""
        return len(self.triangle) - self.n_features

    @property
    def value(self) -> float:
        """Cost (9) of all samples so far; 0 before the first."""
        x, y = np.split(self.triangle, [self.n_features], axis=1)
        return float(np.sum((x @ x.T - y @ y.T) ** 2))  # |R S R'|^2

    @property
    def silent_value(self) -> float:
        """Cost (9) had all responses been zero, ``|X X'|^2``."""
        x = self.triangle[:, : self.n_features]
        return float(np.sum((x @ x.T) ** 2))


def _widened(triangle: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Append columns of zeros; a triangle stays one."""
    n_rows, n_columns = triangle.shape
    n_more = size - n_columns
    n_below = n_more if 0 < n_rows == n_columns else 0
    return np.pad(triangle, ((0, n_below), (0, n_more))) if n_more else triangle


def _fold(triangle: NDArray[np.float64], block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what stands for more rows: all of them while they are few, or else a triangle."""
    n_rows, size = triangle.shape
    if n_rows < size:
        block = np.vstack([triangle, block])
        if len(block) < size:
            return np.asfortranarray(block)
        triangle = np.zeros((size, size))
    with ONE_BLAS_THREAD:
        block = np.asfortranarray(block)
        return lapack.dtpqrt(0, min(_PANEL, size), triangle, block, overwrite_b=1)[0]


def _check_pair(X: ArrayLike, Y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    samples = check_array(X, dtype=np.float64, input_name="X")
    responses = check_array(Y, dtype=np.float64, input_name="Y", ensure_min_features=0)
    if len(samples) != len(responses):
        raise ValueError(
            f"X has {len(samples)} rows but Y has {len(responses)}; give one response a sample."
        )
    return samples, responses
