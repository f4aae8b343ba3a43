"""Preprocessing of samples before the network: running scaling, contrast, whitening.

The recipe for patches is that of section III.C and ref. [2] of the paper (Coates & Ng), for pixels
in 0..255: each patch is centred and divided by its contrast, then the ensemble of patches is
whitened.
"""

import threading
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf._sklearn import in_chosen_container
from hebbnmf.engine.moments import learn_moments, scale_of
from hebbnmf.engine.state import FloatArray
from hebbnmf.parameters import FLAG, MEMORY, NON_NEGATIVE, check_parameter, optional

__all__ = [
    "MissingFiller",
    "PatchNormalizer",
    "RunningScaler",
    "ZCAWhitener",
    "image_filters",
    "input_filters",
    "transform_rows",
]

_FLOATS = [np.float64, np.float32]
_ROWS_AT_ONCE = 8192


class _FloatTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What the transformers share: a parameter that is checked, and the precision of their input.

    ``_rule`` holds the name of the parameter, and its rule.
    """

    _rule = ("eps", NON_NEGATIVE)

    def _validate(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        name, rule = self._rule
        check_parameter(name, getattr(self, name), rule)
        return np.asarray(validate_data(self, X, dtype=_FLOATS, reset=reset))

    def _validate_transformed(self, X: ArrayLike) -> FloatArray:
        """Check rows that `transform` returned, to be transformed back."""
        check_is_fitted(self)
        rows = check_array(X, dtype=_FLOATS)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but this {type(self).__name__} was fitted with "
                f"{self.n_features_in_}: give samples that its transform returned."
            )
        return np.asarray(rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class MissingFiller(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill in missing values, NaN, by the mean of their column or by zero.

    As `sklearn.impute.SimpleImputer`, but the means can be learned from a stream.

    Parameters
    ----------
    with_mean : bool, default=True
        Whether to fill in means; zeros if not.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the values of each column that are there; 0 where none is.
    n_present_ : ndarray of shape (n_features,)
        Number of these values.
    n_samples_seen_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, of a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.preprocessing import MissingFiller
    >>> MissingFiller().fit_transform([[1.0, np.nan], [3.0, 5.0], [np.nan, 7.0]])
    array([[1., 6.],
           [3., 5.],
           [2., 7.]])
    """

    def __init__(self, with_mean: bool = True) -> None:
        self.with_mean = with_mean

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the means; earlier samples are forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, with NaN for missing values.
        y : None
            Ignored.

        Returns
        -------
        self : MissingFiller
        """
        self._learn(X, reset=True)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Add a chunk of samples, of one row or many, to those seen; otherwise as `fit`."""
        self._learn(X, reset=not hasattr(self, "n_samples_seen_"))
        return self

    def partial_fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Learn from a chunk, and return each row filled in by the means of the rows up to it.

        The first chunk is filled in as a whole: its first rows have no means yet.
        """
        if not hasattr(self, "n_samples_seen_"):
            return self.partial_fit(X).transform(X)
        mean, n_present = self.mean_, self.n_present_
        samples = self._learn(X, reset=False)
        present = ~np.isnan(samples)
        sums = np.where(present, samples - mean, 0.0).cumsum(axis=0)
        means = mean + sums / np.maximum(n_present + present.cumsum(axis=0), 1)
        filled = np.where(present, samples, means if self.with_mean else 0.0)
        return in_chosen_container(self, filled.astype(samples.dtype, copy=False), X)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the samples with every value filled in."""
        check_is_fitted(self)
        samples = self._validate(X, reset=False)
        fill = self.mean_.astype(samples.dtype) if self.with_mean else samples.dtype.type(0)
        return np.where(np.isnan(samples), fill, samples)

    def _learn(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        """Add samples to the means, and return them as an array."""
        check_parameter("with_mean", self.with_mean, FLAG)
        samples = self._validate(X, reset=reset)
        if reset:
            self.n_samples_seen_ = 0
            self.mean_ = np.zeros(self.n_features_in_)
            self.n_present_ = np.zeros(self.n_features_in_)
        present = ~np.isnan(samples)
        self.n_samples_seen_ += len(samples)
        self.n_present_ = self.n_present_ + present.sum(axis=0)
        deviations = np.where(present, samples - self.mean_, 0.0).sum(axis=0)
        self.mean_ = self.mean_ + deviations / np.maximum(self.n_present_, 1)
        return samples

    def _validate(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        return np.asarray(
            validate_data(self, X, dtype=_FLOATS, reset=reset, ensure_all_finite="allow-nan")
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PatchNormalizer(_FloatTransformer):
    """Centre each patch and divide it by its contrast.

    Each row is normalised by itself: nothing is learned, and `fit` only records the number of
    pixels.

    Parameters
    ----------
    eps : float, default=10.0
        Added to the variance of a patch, so that noise in flat patches is not amplified. The
        default suits pixels in 0..255; for pixels multiplied by `a`, set `eps * a**2`.

    Attributes
    ----------
    n_features_in_ : int
        Number of pixels in a patch.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, of a data frame.

    Notes
    -----
    A row x becomes ``(x - mean(x)) / sqrt(var(x) + eps)``. A patch without any contrast becomes
    zero, also where ``eps=0``.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.preprocessing import PatchNormalizer
    >>> PatchNormalizer(eps=0.0).fit_transform([[1.0, 3.0], [20.0, 20.0]])
    array([[-1.,  1.],
           [ 0.,  0.]])
    """

    def __init__(self, eps: float = 10.0) -> None:
        self.eps = eps

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check the patches and the parameter; nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The patches, one a row.
        y : None
            Ignored.

        Returns
        -------
        self : PatchNormalizer
        """
        self._validate(X, reset=True)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the patches with zero mean and, if well above `eps`, unit variance."""
        patches = self._validate(X, reset=False)
        mean = patches.mean(axis=1, keepdims=True)
        centred = patches - mean
        variance = np.square(centred).mean(axis=1, keepdims=True)
        contrast = np.sqrt(variance + patches.dtype.type(self.eps))
        # The mean of equal numbers may be off by a rounding error, which is not contrast.
        is_flat = contrast <= patches.shape[1] * np.finfo(patches.dtype).eps * np.abs(mean)
        return np.asarray(centred / np.where(is_flat, np.inf, contrast), dtype=patches.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class RunningScaler(_FloatTransformer):
    """Centre features and scale them to unit variance by running moments, row by row.

    Every row is scaled by the moments of the rows up to it, itself included, so that a stream can
    be standardised in one pass. scikit-learn's `StandardScaler` scales all rows of a chunk by the
    same moments, and its results depend on how the stream is cut into chunks; these do not.

    Parameters
    ----------
    memory : float or None, default=None
        How much of the stream the moments remember, by the same clock as `OnlineSNMF`: a share of
        it, above 0 and below 1, a number of samples, at least 2, or all of it (None).

    Attributes
    ----------
    mean_, var_ : ndarray of shape (n_features,)
        The running moments, in float64. The variance is normalised by the number of samples.
    scale_ : ndarray of shape (n_features,)
        What features are divided by: the standard deviation, 1 where it is a rounding error.
    weight_ : float
        Total weight of the samples that are remembered; their number without ``memory``.
    n_samples_seen_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, of a data frame.

    Notes
    -----
    With W the total weight of the rows so far, a row x has the share ``a = 1 / W``; with
    ``d = x - mean``, ``mean += a d`` and ``var = (1 - a) (var + a d^2)``. Only differences from
    the mean are squared, so nothing cancels however far from zero a feature lies. A feature that
    is constant becomes zero, and so does the first row.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.preprocessing import RunningScaler
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    >>> scaler = RunningScaler()
    >>> scaler.partial_fit_transform(X)
    array([[0., 0.],
           [1., 0.],
           [0., 0.]])
    >>> scaler.mean_, scaler.var_
    (array([2., 5.]), array([0.66666667, 0.        ]))
    """

    _rule = ("memory", optional(MEMORY, "None for all samples"))

    def __init__(self, memory: float | None = None) -> None:
        self.memory = memory

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the moments; earlier samples are forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, in order.
        y : None
            Ignored.

        Returns
        -------
        self : RunningScaler
        """
        samples = self._validate(X, reset=True)
        self._forget()
        self._learn(samples, keep=False)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from a chunk of samples, of one row or many; otherwise as `fit`."""
        self._learn(self._validate_next(X), keep=False)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Learn from a chunk, and return each row scaled by the moments of the rows up to it."""
        return in_chosen_container(self, self._learn(self._validate_next(X), keep=True), X)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return ``(X - mean_) / scale_``, in the precision of X."""
        check_is_fitted(self)
        samples = self._validate(X, reset=False)
        # In float64 until the end: a mean may be large beside its feature's deviation.
        return ((samples - self.mean_) / self.scale_).astype(samples.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Return the samples that `transform` scaled."""
        scaled = self._validate_transformed(X)
        return (scaled * self.scale_ + self.mean_).astype(scaled.dtype, copy=False)

    @property
    def scale_(self) -> NDArray[np.float64]:
        """What features are divided by."""
        memory = float(self.memory or 0)
        moments = zip(self.mean_, self.var_, strict=True)
        return np.array([scale_of(mean, var, memory) for mean, var in moments])

    def _validate_next(self, X: ArrayLike) -> FloatArray:
        first = not hasattr(self, "n_samples_seen_")
        samples = self._validate(X, reset=first)
        if first:
            self._forget()
        return samples

    def _forget(self) -> None:
        self.n_samples_seen_, self.weight_ = 0, 0.0
        self.mean_, self.var_ = np.zeros(self.n_features_in_), np.zeros(self.n_features_in_)

    def _learn(self, X: FloatArray, *, keep: bool) -> FloatArray:
        scaled = np.empty((len(X) if keep else 0, X.shape[1]), X.dtype)
        self.weight_ = learn_moments(
            self.n_samples_seen_,
            self.weight_,
            float(self.memory or 0),
            X,
            self.mean_,
            self.var_,
            scaled,
        )
        self.n_samples_seen_ += len(X)
        return scaled


class ZCAWhitener(_FloatTransformer):
    """Decorrelate features by the symmetric whitening matrix, learned at once or from a stream.

    Of all whitening matrices the symmetric one moves the data least, so that a whitened patch
    still looks like a patch. Mean and covariance are accumulated in float64, whatever the data
    are, and depend on how a stream is cut into chunks by rounding errors only.

    Parameters
    ----------
    eps : float, default=0.01
        Added to each eigenvalue of the covariance: directions of much smaller variance are not
        amplified to unit variance. The default suits 16 x 16 patches from `PatchNormalizer`.
        With ``eps=0`` the whitening is exact, and the covariance must have full rank; patches
        centred one by one never have it.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the samples seen.
    covariance_ : ndarray of shape (n_features, n_features)
        Their covariance, normalised by the number of samples.
    whitening_ : ndarray of shape (n_features, n_features)
        The matrix Q of Eq. (11), symmetric. After `partial_fit` it is computed on first access,
        so that short chunks stay cheap.
    stream_mean_, stream_whitening_ : ndarray
        What `partial_fit_transform` whitens the next rows by.
    n_samples_seen_, n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, of a data frame.

    Notes
    -----
    ``Q = V (D + eps)^(-1/2) V'``, with ``V D V'`` the covariance; a row x becomes
    ``(x - mean) Q``. A constant feature becomes zero.

    A matrix for each row of a stream would cost the cube of the number of features. So
    `partial_fit_transform` renews it at fixed numbers of samples, those with at most four binary
    digits before zeros: each time the stream has grown by a sixteenth to an eighth. However it is
    cut into chunks, every row is whitened by the same matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.preprocessing import ZCAWhitener
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2)) @ [[3.0, 1.0], [0.0, 1.0]]
    >>> Z = ZCAWhitener(eps=0.0).fit_transform(X)
    >>> bool(np.allclose(Z.T @ Z / 500, np.eye(2)))
    True
    """

    def __init__(self, eps: float = 0.01) -> None:
        self.eps = eps

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn mean, covariance and whitening matrix; earlier samples are forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.

        Returns
        -------
        self : ZCAWhitener
        """
        samples = self._validate(X, reset=True)
        self._forget()
        # In pieces, so that float32 samples are never copied whole into float64.
        for rows in gen_batches(samples.shape[0], _ROWS_AT_ONCE):
            self._learn(samples[rows])
        self.whitening_  # noqa: B018  A singular covariance is reported here, not in `transform`.
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Add a chunk of samples, of one row or many, to those seen; otherwise as `fit`."""
        first = not hasattr(self, "n_samples_seen_")
        samples = self._validate(X, reset=first)
        if first:
            self._forget()
        self._learn(samples)
        self._drop("stream_mean_", "stream_whitening_")
        return self

    def partial_fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Learn from a chunk, and return each row whitened by the matrix as it was on arrival.

        The first chunk is whitened as a whole. From then on the matrix is renewed as the stream
        grows, see Notes.
        """
        if not hasattr(self, "n_samples_seen_"):
            return self.partial_fit(X).transform(X)
        samples = self._validate(X, reset=False)
        if not hasattr(self, "stream_whitening_"):
            self._renew()
        whitened = np.empty_like(samples)
        start = 0
        while start < len(samples):
            step = _renewal_step(int(self.n_samples_seen_))
            part = slice(start, start + step - self.n_samples_seen_ % step)
            whitened[part] = _whitened(samples[part], self.stream_mean_, self.stream_whitening_)
            self._learn(samples[part])
            if self.n_samples_seen_ % step == 0:
                self._renew()
            start = part.stop
        return in_chosen_container(self, whitened, X)

    def merge(self, other: "ZCAWhitener") -> None:
        """Add the samples that another whitener has seen."""
        self._add(other.n_samples_seen_, other.mean_, other.covariance_)
        self._drop("stream_mean_", "stream_whitening_")

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return ``(X - mean_) @ whitening_``, in the precision of X."""
        check_is_fitted(self)
        return _whitened(self._validate(X, reset=False), self.mean_, self.whitening_)

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Return the samples that `transform` whitened."""
        whitened = self._validate_transformed(X)
        dtype = whitened.dtype
        samples = whitened @ self._covariance_power(0.5).astype(dtype) + self.mean_.astype(dtype)
        return np.asarray(samples)

    @cached_property
    def whitening_(self) -> NDArray[np.float64]:
        """The matrix Q of Eq. (11)."""
        check_is_fitted(self)
        return self._covariance_power(-0.5)

    def _forget(self) -> None:
        self.n_samples_seen_ = 0
        self.mean_ = np.zeros(self.n_features_in_)
        self.covariance_ = np.zeros((self.n_features_in_, self.n_features_in_))
        self._drop("stream_mean_", "stream_whitening_")

    def _drop(self, *attributes: str) -> None:
        for name in attributes:
            self.__dict__.pop(name, None)

    def _renew(self) -> None:
        """Whiten the next rows of a stream by what was learned so far."""
        self.stream_whitening_ = self._covariance_power(-0.5)
        self.stream_mean_ = self.mean_

    def _learn(self, X: FloatArray) -> None:
        # Moments about the mean, never raw moments, which cancel where the mean is large.
        X = X.astype(np.float64)
        mean = X.mean(axis=0)
        X -= mean
        self._add(len(X), mean, X.T @ X / len(X))

    def _add(
        self, n_samples: int, mean: NDArray[np.float64], covariance: NDArray[np.float64]
    ) -> None:
        # Chan, Golub & LeVeque (1979)
        share = n_samples / (self.n_samples_seen_ + n_samples)
        shift = mean - self.mean_
        self.covariance_ = (1 - share) * (
            self.covariance_ + share * np.outer(shift, shift)
        ) + share * covariance
        self.mean_ = self.mean_ + share * shift
        self.n_samples_seen_ += n_samples
        self._drop("whitening_")

    def _covariance_power(self, exponent: float) -> NDArray[np.float64]:
        """Return ``V (D + eps)^exponent V'``."""
        variances, axes = eigh(self.covariance_)
        # Rounding turns zero eigenvalues into small ones of either sign.
        residue = variances.size * np.finfo(np.float64).eps * variances[-1]
        spectrum = np.maximum(variances, 0.0) + self.eps
        if spectrum[0] <= residue:
            raise ValueError(
                f"eps={self.eps!r} cannot whiten a covariance of rank "
                f"{np.count_nonzero(variances > residue)} in {variances.size} features: with "
                "dependent or constant features eps must be positive; try eps=0.01."
            )
        return np.asarray((axes * spectrum**exponent) @ axes.T)


def _whitened(
    X: FloatArray, mean: NDArray[np.float64], whitening: NDArray[np.float64]
) -> FloatArray:
    return np.asarray((X - mean.astype(X.dtype)) @ whitening.astype(X.dtype))


def _renewal_step(n_samples: int) -> int:
    """Return the distance between the numbers of samples, from this one on, at which to renew."""
    return 1 << max(n_samples.bit_length() - 4, 0)


def image_filters(components: ArrayLike, whitener: ZCAWhitener) -> FloatArray:
    """Turn weights on whitened patches into the filters that act on images (section III.C).

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Feedforward weights W, as learned from whitened patches.
    whitener : ZCAWhitener
        The fitted whitener that these patches came from.

    Returns
    -------
    filters : ndarray of shape (n_components, n_features)
        The rows of ``W Q``: those of Fig. 4A.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.preprocessing import ZCAWhitener, image_filters
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> whitener = ZCAWhitener().fit(X)
    >>> filters = image_filters(np.eye(3), whitener)
    >>> centred = X - whitener.mean_
    >>> bool(np.allclose(centred @ filters.T, whitener.transform(X)))
    True
    """
    weights = check_array(components, dtype=_FLOATS, ensure_min_samples=0)
    check_is_fitted(whitener)
    if weights.shape[1] != whitener.n_features_in_:
        raise ValueError(
            f"components have {weights.shape[1]} features, but the whitener was fitted with "
            f"{whitener.n_features_in_}: give the whitener that prepared their training data."
        )
    return np.asarray(weights @ whitener.whitening_.astype(weights.dtype))


def input_filters(components: FloatArray, steps: Sequence[TransformerMixin]) -> FloatArray:
    """Turn weights on prepared rows into filters on the rows as they were, last step first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hebbnmf.preprocessing import input_filters
    >>> input_filters(np.ones((1, 2)), [StandardScaler().fit([[-2.0, -4.0], [2.0, 4.0]])])
    array([[0.5 , 0.25]])
    """
    for step in reversed(steps):
        if isinstance(step, ZCAWhitener):
            components = image_filters(components, step)
        elif getattr(step, "scale_", None) is not None:
            components = components / step.scale_
    return components


def transform_rows(steps: Iterable[TransformerMixin], rows: FloatArray) -> FloatArray:
    """Pass rows through fitted steps, the first one first; there may be none.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener, transform_rows
    >>> X = np.array([[1.0, 3.0], [20.0, 20.0]])
    >>> transform_rows([ZCAWhitener(eps=1.0).fit(X), PatchNormalizer(eps=0.0).fit(X)], X).round(6)
    array([[-1.,  1.],
           [ 1., -1.]])
    """
    with unnamed_rows:
        for step in steps:
            rows = as_dense(step.transform(rows), step)
    return rows


def as_dense(rows: Any, step: TransformerMixin) -> FloatArray:
    """Return what a step made of rows as an array, or raise TypeError if it is sparse."""
    if issparse(rows):
        raise TypeError(
            f"{type(step).__name__} returns a sparse matrix, but rows must be dense: set it to "
            "return dense rows."
        )
    return np.asarray(rows)


class _UnnamedRows:
    """Ignores scikit-learn's warning about missing feature names in a with block.

    Streams give bare arrays, and compare the names of their columns once. Blocks may overlap in
    several threads, which `warnings.catch_warnings` alone does not allow: the last to leave would
    not be the first that came, and leave the filter behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.filterwarnings("ignore", "X does not have valid feature names")
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._filters.__exit__(None, None, None)


unnamed_rows = _UnnamedRows()
