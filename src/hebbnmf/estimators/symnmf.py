"""Offline symmetric NMF: a projected Newton method for Eq. (1), after ref. [24]."""

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from hebbnmf.clustering import cluster_labels
from hebbnmf.cost import snmf_cost
from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import warn_user
from hebbnmf.parameters import COUNT, POSITIVE, Rule, check_parameter, one_of

__all__ = ["SymNMF"]

_INIT = one_of("pca", "random")
_RULES = {
    "n_components": COUNT,
    "init": Rule(
        f"{_INIT.text}, or a non-negative array",
        lambda init: _INIT.holds(init) or not isinstance(init, str),
    ),
    "affinity": one_of("linear", "precomputed"),
    "tol": POSITIVE,
    "max_iter": COUNT,
}
# A principal component of less variance than this, relative to |A|, is rounding.
_RANK_TOL = 1e-12
# A rectified projection with less energy than this, relative to a centred one, is too weak a start.
_WEAK_COLUMN = 0.01
# A given start may exceed the scale of the factor by as much: its sixth powers must be numbers.
_LARGEST_START = 1e20
# Curvature along a direction, relative to that of its columns, that counts as zero.
_FLAT = 1e-12
_MAX_CG = 100
# A column of norm c takes gradient steps of 1 / c: enough halvings for the smallest columns.
_MAX_HALVINGS = 60
_ARMIJO = 0.01


class SymNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Offline symmetric non-negative matrix factorization of a similarity matrix, Eq. (1).

    Minimises ``|A - Y Y'|^2`` over non-negative Y, for the similarity ``A = X X'`` of the data or
    for a given one. Where `OnlineSNMF` responds to each sample as it arrives, this sees all
    samples at once, and represents those alone: there is no ``transform``.

    Parameters
    ----------
    n_components : int, default=3
        Number of columns of Y, at most the number of samples.
    init : {"pca", "random"} or array-like of shape (n_samples, n_components), default="pca"
        The start. "pca" is that of section III.B: rectified projections of the data on the
        first principal components of the centred data, half of them also with the opposite sign;
        three components give the paper's three. "random" is uniform, with ``|Y Y'| = |A|``. In a
        given start, a column of zeros stays zero.
    affinity : {"linear", "precomputed"}, default="linear"
        Whether X holds data, or their symmetric similarity matrix (which may have negatives).
    tol : float, default=1e-6
        The run ends once the norm of the projected gradient is at most ``tol * |A|^(3/2)``, a
        bound that does not depend on the start, on the scale of the data or on their number.
    max_iter : int, default=200
        Largest number of Newton iterations.
    random_state : int, RandomState or None, default=None
        Seed of the random start, and of the directions that "pca" adds where more components are
        asked for than there are signed principal components.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The factor Y: the offline response to each sample.
    labels_ : ndarray of shape (n_samples,)
        Largest component of each sample; -1 for a row of zeros.
    cost_ : float
        Cost (9) of ``embedding_``.
    cost_history_ : ndarray of shape (n_iter_ + 1,)
        Cost of the start and after each iteration; it never rises.
    n_iter_ : int
        Number of Newton iterations.
    n_features_in_ : int
        Number of columns of X.

    Notes
    -----
    Kuang, Ding and Park (ref. [24]) take Newton steps on the entries that are free to move, with
    the blocks of the Hessian that couple two columns of Y left out, and search along the
    projection of the step onto ``Y >= 0``. Here those blocks are kept: without them the paper's
    data take 22 (columns in turn) or 41 iterations (all at once) instead of 6, and a poor start
    takes hundreds. The Hessian needs no factorization: its product with a direction,

        H(D) = 4 (D Y'Y + Y D'Y + Y Y'D - A D),

    costs O(n_samples (n_features + n_components) n_components), and conjugate gradients solve for
    the step. They also detect a lack of positive curvature; the step is then along the gradient.

    References
    ----------
    .. [24] D. Kuang, C. Ding, H. Park, "Symmetric nonnegative matrix factorization for graph
       clustering", SIAM International Conference on Data Mining, 2012.

    Examples
    --------
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> from hebbnmf.estimators import SymNMF
    >>> X, y = make_three_gaussians(random_state=0)
    >>> snmf = SymNMF(n_components=3).fit(X)
    >>> snmf.embedding_.shape, bool(snmf.embedding_.min() >= 0)
    ((300, 3), True)
    >>> adjusted_rand_score(y, snmf.labels_) > 0.8
    True
    """

    def __init__(
        self,
        n_components: int = 3,
        *,
        init: str | ArrayLike = "pca",
        affinity: str = "linear",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.affinity = affinity
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Factorize the similarity of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            The data, or with ``affinity="precomputed"`` their similarity.
        y : None
            Ignored.

        Returns
        -------
        SymNMF
            The fitted estimator.
        """
        self.check_parameters()
        samples: FloatArray = validate_data(self, X, dtype=np.float64)
        if self.n_components > len(samples):
            raise ValueError(
                f"n_components={self.n_components} exceeds n_samples={len(samples)}; ask for at "
                "most one component a sample."
            )
        make = _MatrixSimilarity if self.affinity == "precomputed" else _DataSimilarity
        similarity = make(samples)
        start = self._start(similarity, len(samples))
        Y, decreases, gradient_norm = _minimize(similarity, start, self.tol, self.max_iter)
        if gradient_norm > self.tol:
            warn_user(
                f"SymNMF stopped after {len(decreases)} iterations at a projected gradient of "
                f"{gradient_norm:.1e} where tol={self.tol:.1e}; raise max_iter={self.max_iter}, "
                "or loosen tol.",
                ConvergenceWarning,
            )
        # Summed backwards from the final cost, the history keeps its digits however small that is.
        costs = np.cumsum([similarity.cost(Y), *decreases[::-1]])[::-1]
        self.cost_history_ = costs * similarity.scale**2 * similarity.scale**2
        self.cost_ = float(self.cost_history_[-1])
        self.embedding_ = Y * similarity.scale
        self.labels_ = cluster_labels(self.embedding_)
        self.n_iter_ = len(decreases)
        return self

    def fit_transform(self, X: ArrayLike, y: None = None) -> FloatArray:
        """Factorize the similarity of the samples, as `fit` does, and return ``embedding_``."""
        return self.fit(X).embedding_

    def check_parameters(self) -> None:
        """Check every parameter."""
        for name, rule in _RULES.items():
            check_parameter(name, getattr(self, name), rule)

    def _start(self, similarity: "_Similarity", n_samples: int) -> FloatArray:
        rng = check_random_state(self.random_state)
        shape = (n_samples, int(self.n_components))
        if isinstance(self.init, str):
            make = _pca_start if self.init == "pca" else _random_start
            return make(similarity, shape, rng)
        start: FloatArray = check_array(self.init, dtype=np.float64, input_name="init")
        if start.shape != shape:
            raise ValueError(
                f"init has shape {start.shape}, but one row a sample and one column a component "
                f"make {shape}; give an array of that shape."
            )
        if start.min() < 0:
            raise ValueError(
                f"init has negative entries, such as {start.min():.3g}, but a start must be "
                "non-negative; rectify it with np.maximum(init, 0)."
            )
        largest = start.max() / similarity.scale
        if largest > _LARGEST_START:
            raise ValueError(
                f"init has an entry of {start.max():.3g}, which is {largest:.3g} times the scale "
                f"of the factor, but at most {_LARGEST_START:g} times is possible; give a start "
                "on the scale of X."
            )
        return start / similarity.scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])


# The similarity A, scaled to |A| = 1 --------------------------------------------------------------


class _DataSimilarity:
    def __init__(self, X: FloatArray) -> None:
        if X.shape[1] > len(X):  # the triangular factor of X', smaller, has the same similarity
            X = scipy.linalg.qr(X.T, mode="economic")[1].T
        peak = np.abs(X).max() or 1.0  # divided out first: fourth powers of the data may overflow
        X = X / peak
        root = np.sqrt(np.linalg.norm(X.T @ X)) or 1.0
        self.X = X / root
        self.scale = float(peak * root)  # the factor of the unscaled similarity is scale * Y

    def dot(self, Y: FloatArray) -> FloatArray:  # A Y
        return self.X @ (self.X.T @ Y)

    def cost(self, Y: FloatArray) -> float:  # |A - Y Y'|^2
        return snmf_cost(self.X, Y)

    def projections(self, n: int) -> FloatArray:
        # The data, not centred, on at most n principal axes of the centred data.
        centred = self.X - self.X.mean(axis=0)
        variances, axes = np.linalg.eigh(centred.T @ centred)
        leading = np.flatnonzero(variances > _RANK_TOL)[::-1][:n]
        return self.X @ axes[:, leading]


class _MatrixSimilarity:
    def __init__(self, A: FloatArray) -> None:
        if A.shape[0] != A.shape[1]:
            raise ValueError(
                f"X has shape {A.shape}, but affinity='precomputed' takes a square similarity "
                "matrix; give X @ X.T, or affinity='linear' for data."
            )
        peak = np.abs(A).max() or 1.0
        A = A / peak
        gap = np.abs(A - A.T).max()
        if gap > 1e-8:
            raise ValueError(
                f"X differs from its transpose by {gap:.1e} of its largest entry, but a "
                "precomputed similarity must be symmetric; give (X + X.T) / 2."
            )
        A = (A + A.T) / 2
        norm = np.linalg.norm(A) or 1.0
        self.A = A / norm
        self.scale = float(np.sqrt(peak) * np.sqrt(norm))

    def dot(self, Y: FloatArray) -> FloatArray:
        return self.A @ Y

    def cost(self, Y: FloatArray) -> float:
        return float(np.sum((self.A - Y @ Y.T) ** 2))

    def projections(self, n: int) -> FloatArray:
        # An eigenvector u of the doubly centred A, of eigenvalue s^2, belongs to the principal
        # axis v = Xc' u / s of any X with A = X X', and u is centred: X v = X X' u / s = A u / s.
        means, size = self.A.mean(axis=0), len(self.A)
        centred = self.A - means - means[:, None] + means.mean()
        variances, u = scipy.linalg.eigh(centred, subset_by_index=[max(0, size - n), size - 1])
        leading = np.flatnonzero(variances > _RANK_TOL)[::-1]
        return self.A @ (u[:, leading] / np.sqrt(variances[leading]))


_Similarity = _DataSimilarity | _MatrixSimilarity


# Starts -------------------------------------------------------------------------------------------


def _random_start(
    similarity: _Similarity, shape: tuple[int, int], rng: np.random.RandomState
) -> FloatArray:
    # Not the usual 2 sqrt(mean(A) / k): on centred data mean(A) is zero, and so is that start.
    Y = rng.uniform(size=shape)
    square = similarity.cost(np.zeros(shape))  # |A|^2
    return Y * (square / np.sum((Y.T @ Y) ** 2)) ** 0.25


def _pca_start(
    similarity: _Similarity, shape: tuple[int, int], rng: np.random.RandomState
) -> FloatArray:
    n_components = shape[1]
    projections = similarity.projections((n_components + 1) // 2)
    rank = projections.shape[1]
    if rank == 0:  # equal samples, or a similarity without positive directions
        return _random_start(similarity, shape, rng)
    # The sign of an axis is arbitrary: let the side that holds more of the data be positive.
    projections *= np.where(np.sum(projections * np.abs(projections), axis=0) < 0, -1.0, 1.0)
    negatives = -projections[:, : n_components // 2]
    n_others = n_components - rank - negatives.shape[1]
    others = projections @ rng.standard_normal((rank, n_others)) / np.sqrt(rank)
    signed = np.hstack([projections, negatives, others])
    start = np.maximum(signed, 0)
    # Far from the origin all data may lie on one side of it: rectify about their mean instead.
    centred = np.maximum(signed - signed.mean(axis=0), 0)
    is_weak = np.sum(start**2, axis=0) < _WEAK_COLUMN * np.sum(centred**2, axis=0)
    return np.where(is_weak, centred, start)


# Projected Newton method --------------------------------------------------------------------------


def _minimize(
    similarity: _Similarity, Y: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, list[float], float]:
    """Return the factor, how much each iteration lowered the cost, and the last gradient's norm."""
    decreases: list[float] = []
    while True:
        gradient = 4 * (Y @ (Y.T @ Y) - similarity.dot(Y))
        free = (Y > 0) | (gradient < 0)
        projected = np.where(free, gradient, 0.0)
        norm = float(np.linalg.norm(projected))
        if norm <= tol or len(decreases) == max_iter:
            break
        # The residual shrinks with the gradient, which makes convergence superlinear.
        step = _newton_step(similarity, Y, projected, free, rtol=min(0.1, norm**0.5))
        move = _arc_search(similarity, Y, gradient, step)
        if move is None:  # a Newton step may not descend where entries are about to vanish
            move = _arc_search(similarity, Y, gradient, projected / _column_curvature(Y))
        if move is None:  # no decrease is left above rounding
            break
        Y, change = move
        decreases.append(-change)
    return Y, decreases, norm


def _hessian_product(similarity: _Similarity, Y: FloatArray, D: FloatArray) -> FloatArray:
    cross = Y.T @ D
    return 4 * (D @ (Y.T @ Y) + Y @ (cross.T + cross) - similarity.dot(D))


def _column_curvature(Y: FloatArray) -> FloatArray:
    """Return each column's multiple of the identity in the Hessian; 1 for a column of zeros."""
    squares = 4 * np.sum(Y**2, axis=0)
    return np.where(squares > 0, squares, 1.0)


def _newton_step(
    similarity: _Similarity,
    Y: FloatArray,
    gradient: FloatArray,
    free: NDArray[np.bool_],
    rtol: float,
) -> FloatArray:
    """Solve ``H(step) = gradient`` on the free entries by conjugate gradients.

    It ends early at a direction without positive curvature. Where that is the first one, the
    gradient divided by the column curvature (the preconditioner), the step is that direction.
    """
    curvature = _column_curvature(Y)
    step = np.zeros_like(gradient)
    residual = gradient
    direction = scaled = residual / curvature
    slope = float(np.vdot(residual, scaled))
    target = rtol * np.linalg.norm(gradient)
    for _ in range(_MAX_CG):
        image = np.where(free, _hessian_product(similarity, Y, direction), 0.0)
        bend = float(np.vdot(direction, image))
        if bend <= _FLAT * float(np.vdot(direction, direction * curvature)):
            return step if step.any() else direction
        step = step + (slope / bend) * direction
        residual = residual - (slope / bend) * image
        if np.linalg.norm(residual) <= target:
            break
        scaled = residual / curvature
        previous, slope = slope, float(np.vdot(residual, scaled))
        direction = scaled + (slope / previous) * direction
    return step


def _arc_search(
    similarity: _Similarity, Y: FloatArray, gradient: FloatArray, step: FloatArray
) -> tuple[FloatArray, float] | None:
    """Halve the step until its projection lowers the cost enough (Armijo)."""
    for halving in range(_MAX_HALVINGS):
        moved = np.maximum(Y - 0.5**halving * step, 0)
        D = moved - Y
        slope, square = np.vdot(gradient, D), D.T @ D
        # The cost at Y + D less that at Y, as a polynomial in D: without the rounding of either.
        bend = np.vdot(D, _hessian_product(similarity, Y, D)) / 2
        change = float(slope + bend + 4 * np.sum((Y.T @ D) * square) + np.sum(square**2))
        if change < 0 and change <= _ARMIJO * float(slope):
            return moved, change
    return None
