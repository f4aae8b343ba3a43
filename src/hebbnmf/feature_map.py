"""RBFMap: features whose inner products are the similarities of a Gaussian kernel."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import warn_user
from hebbnmf.parameters import COUNT, POSITIVE, check_parameter, either

__all__ = ["RBFMap"]

_FLOATS = [np.float64, np.float32]
# The median squared distance in units of the kernel's, chosen by benchmarks/practice.py.
_MEDIAN_EXPONENT = 3.0
# Rows that the median distance is taken of.
_MEDIAN_ROWS = 1000


class RBFMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Map samples to features whose inner products are about those of a Gaussian kernel.

    A network whose similarities are inner products cannot tell clusters apart that lie in the same
    direction from the origin. Behind this map every cluster of near samples has a direction of its
    own. It is scikit-learn's `Nystroem`, with a kernel as wide as the data: it learns landmarks and
    width from the samples it is fitted to, in a `StreamPipeline` those of the first chunk.

    Parameters
    ----------
    gamma : float or "median", default="median"
        Of the kernel ``exp(-gamma |x - x'|^2)``. With "median" it is 3 over the median squared
        distance of two samples.
    n_landmarks : int, default=300
        Number of samples that the kernel is approximated by, and of features. Fewer samples than
        that are all landmarks.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of landmarks.

    Attributes
    ----------
    gamma_ : float
        The parameter of the kernel.
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        The landmarks.
    normalization_ : ndarray of shape (n_landmarks, n_landmarks)
        Inverse square root of the kernel of the landmarks.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, of a data frame.

    Notes
    -----
    A sample far from all landmarks, by the width of the kernel, is mapped to about zero: it is
    similar to none. So a cluster that appears far from all samples of the first chunk is not seen;
    a map fitted anew sees it.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.feature_map import RBFMap
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> F = RBFMap(gamma=1.0, n_landmarks=3).fit_transform(X)
    >>> bool(np.allclose(F @ F.T, np.exp(-np.square(X - X.T))))
    True
    """

    def __init__(
        self,
        gamma: float | str = "median",
        *,
        n_landmarks: int = 300,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose the landmarks, and the width of the kernel.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, at least two that differ if the width is theirs.
        y : None
            Ignored.

        Returns
        -------
        self : RBFMap
        """
        check_parameter("gamma", self.gamma, either(POSITIVE, "median"))
        check_parameter("n_landmarks", self.n_landmarks, COUNT)
        samples: FloatArray = np.asarray(validate_data(self, X, dtype=_FLOATS))
        n_landmarks = min(int(self.n_landmarks), len(samples))
        if n_landmarks < self.n_landmarks:
            warn_user(
                f"n_landmarks={self.n_landmarks}, but there are {len(samples)} samples to choose "
                "from: all are landmarks. Where more come later, give a larger first chunk.",
                UserWarning,
            )
        rng = check_random_state(self.random_state)
        self.gamma_ = self._chosen_gamma(samples, rng)
        nystroem = Nystroem(gamma=self.gamma_, n_components=n_landmarks, random_state=rng)
        nystroem.fit(samples)
        self.landmarks_, self.normalization_ = nystroem.components_, nystroem.normalization_
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the features of samples, in the precision of X."""
        check_is_fitted(self)
        samples = np.asarray(validate_data(self, X, dtype=_FLOATS, reset=False))
        similarities = rbf_kernel(samples, self.landmarks_, self.gamma_)
        return np.asarray(similarities @ self.normalization_.T, dtype=samples.dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.landmarks_)

    def _chosen_gamma(self, X: FloatArray, rng: np.random.RandomState) -> float:
        if self.gamma != "median":
            return float(self.gamma)
        some = X[rng.permutation(len(X))[:_MEDIAN_ROWS]]
        distances: NDArray[np.float64] = pdist(some, "sqeuclidean")
        # Where most samples are equal, of those that differ.
        median = np.median(distances[distances > 0]) if distances.any() else 0.0
        if not median > 0:
            raise ValueError(
                f"gamma='median' needs samples that differ, but n_samples={len(X)} are all equal: "
                "give more samples, or a number."
            )
        return float(_MEDIAN_EXPONENT / median)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
