"""OnlineSNMF: the scikit-learn face of the network. It validates, and leaves the rest to it."""

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf.cost import RunningCost, cluster_labels
from hebbnmf.engine.network import BLOCK, FloatArray, Network

# Rows that are presented between two looks at the answers; it bounds the memory they take.
_CHUNK = 8 * BLOCK
# What scikit-learn notes of the features.
_FEATURES = ("n_features_in_", "feature_names_in_")


class OnlineSNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Online symmetric non-negative matrix factorization by a Hebbian/anti-Hebbian network.

    Samples are presented one at a time. The units answer each with non-negative activities
    ``y`` whose inner products approach those of the samples, ``y_t . y_s ~ x_t . x_s``, and learn
    from it by local rules, before the next one comes. On clustered data each unit comes to stand
    for a cluster; on whitened natural data, for a sparse feature. Units are recruited as the
    stream demands them.

    Batch methods such as `sklearn.decomposition.NMF` factorize the data and need them to be
    non-negative; here the *similarities* of the samples are factorized, features may have any
    sign, and a sample is never looked at twice unless ``n_epochs`` says so.

    Parameters
    ----------
    n_components : int, default=8
        Largest number of units. Fewer are recruited where ``rank_penalty`` holds them back.
    rank_penalty : float, default=1.0
        Price of a further unit, lambda of Eq. (4), on the scale of ``|x|**4``: a sample recruits
        a unit if ``|x|^2 - |y|^2 > sqrt(rank_penalty)``. At 0 every sample that is not yet
        answered in full recruits one, up to ``n_components``. The default suits standardised
        features; see the README for how to choose it.
    initial_activity : float or None, default=None
        Cumulative activity that a new unit starts with, on the scale of ``|x|**2``; the larger,
        the smaller its first learning steps. None takes the square of its first answer (the plain
        schedule); the paper takes 1000 for natural images (section III.C).
    activity_gain : float, default=1.0
        Share of a squared answer that is added to the cumulative activity. At 1 learning rates
        fall as one over time (the plain schedule); the paper takes 0.01 for natural images.
    dynamics : {"rectified", "quartic"}, default="rectified"
        How units answer: rectified net input, Eq. (7), or the exact minimum of Eq. (6), which
        matters while cumulative activity is small.
    tol : float, default=1e-4
        An answer is final when no activity moves by more than ``tol`` times the largest one in
        a sweep over the units.
    max_sweeps : int, default=1000
        Bound on these sweeps.
    n_epochs : int, default=1
        Number of times `fit` presents the data.
    shuffle : bool, default=False
        Whether `fit` presents the samples of each epoch in random order.
    random_state : int, RandomState instance or None, default=None
        Seed of that order.
    track_cost : bool, default=False
        Whether to keep account of the cost (9) of the online answers. It takes longer than
        learning itself where units are many: 0.2 microseconds a sample for 5 features and units
        together, 3 for 128, 22 for 512.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Feedforward weights W of the recruited units.
    lateral_weights_ : ndarray of shape (n_components_, n_components_)
        Lateral weights M: row i holds the strengths with which the other units inhibit unit i.
        Never negative, zero on the diagonal, not symmetric.
    cumulative_activity_ : ndarray of shape (n_components_,)
        Cumulative activity of each unit; one over it is the unit's learning rate.
    n_components_ : int
        Number of units recruited so far.
    n_samples_seen_ : int
        Number of presentations so far.
    cost_ : float
        Cost (9) of the answers given online so far; only with ``track_cost=True``.
    labels_ : ndarray of shape (n_samples,)
        The unit with the strongest answer to each sample, -1 where all are silent: after `fit`
        those of `predict` on the training data, after `partial_fit` those given online to the
        last chunk.
    n_iter_ : int
        Number of passes over the data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where the data had them.

    See Also
    --------
    Network : The same without validation.

    Notes
    -----
    The method is Algorithm 1 of [1]_. Weights are the ratios of sums that the paper defines,
    updated by Eq. (8); presenting the same rows in any chunks gives the same weights.

    References
    ----------
    .. [1] C. Pehlevan and D. B. Chklovskii, "A Hebbian/Anti-Hebbian Network Derived from Online
       Non-Negative Matrix Factorization Can Cluster and Discover Sparse Features", Asilomar
       Conference on Signals, Systems and Computers, 2014.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> net = OnlineSNMF(n_components=3, rank_penalty=0.1)
    >>> for chunk in (X[:100], X[100:200], X[200:]):
    ...     Y = net.partial_fit_transform(chunk)
    >>> net.n_components_, Y.shape
    (3, (100, 3))
    >>> net.predict([[1.1, 1.1], [-0.6, 0.9], [0.0, 0.0]]).tolist()
    [1, 0, -1]
    """

    _network: Network
    _running_cost: RunningCost | None

    def __init__(
        self,
        n_components: int = 8,
        *,
        rank_penalty: float = 1.0,
        initial_activity: float | None = None,
        activity_gain: float = 1.0,
        dynamics: str = "rectified",
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        track_cost: bool = False,
    ) -> None:
        self.n_components = n_components
        self.rank_penalty = rank_penalty
        self.initial_activity = initial_activity
        self.activity_gain = activity_gain
        self.dynamics = dynamics
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.track_cost = track_cost

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from the data, from the beginning.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, presented in order unless ``shuffle`` is set.
        y : Ignored
            For the conventions of scikit-learn.

        Returns
        -------
        self : OnlineSNMF
            The fitted estimator.
        """
        X = self._validate(X, reset=True)
        rng = check_random_state(self.random_state)
        n_unconverged = 0
        for _ in range(self.n_epochs):
            order = rng.permutation(len(X)) if self.shuffle else None
            for rows in _batches(len(X), _CHUNK):
                _, failed = self._learn(X[rows if order is None else order[rows]])
                n_unconverged += failed
        self.n_iter_ = self.n_epochs
        self._warn(n_unconverged, self.n_epochs * len(X))
        if self.n_components_ == 0:
            largest = np.square(X, dtype=np.float64).sum(axis=1).max()
            warnings.warn(
                f"No unit was recruited: rank_penalty={self.rank_penalty!r} is not below |x|^4 of "
                f"any sample, at most {largest**2:.3g} in these data; lower it, or scale X up.",
                stacklevel=2,
            )
        self.labels_ = self._predict(X)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Go on learning, from a chunk of any number of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, presented in order.
        y : Ignored
            For the conventions of scikit-learn.

        Returns
        -------
        self : OnlineSNMF
            The estimator.
        """
        X = self._validate(X, reset=not self.__sklearn_is_fitted__())
        labels = np.empty(len(X), np.intp)
        n_unconverged = 0
        for rows in _batches(len(X), _CHUNK):
            Y, failed = self._learn(X[rows])
            labels[rows] = cluster_labels(Y)
            n_unconverged += failed
        self._finish_chunk(labels, n_unconverged)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Algorithm 1 as printed: learn from each sample, and return the answer it got on arrival.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, presented in order.
        y : Ignored
            For the conventions of scikit-learn.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components_)
            The answers, one column for each unit recruited by the end of the call.
        """
        rows = self._validate(X, reset=not self.__sklearn_is_fitted__())
        Y, n_unconverged = self._learn(rows)
        self._finish_chunk(cluster_labels(Y), n_unconverged)
        return _wrap_data_with_container("transform", Y, X, self)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Answer samples with frozen weights, each on its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components_)
            The answers, non-negative.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        Y, n_unconverged = self._network.answer(X)
        self._warn(n_unconverged, len(X))
        return Y

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Name the unit that answers each sample most strongly, with frozen weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices of units; -1 for a sample that no unit answers.
        """
        check_is_fitted(self)
        return self._predict(self._validate(X, reset=False))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Share of the similarities of the samples that the answers explain, frozen weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        y : Ignored
            For the conventions of scikit-learn.

        Returns
        -------
        score : float
            ``1 - C / |X X'|^2`` with the cost C of Eq. (9): 1 if the answers have the inner
            products of the samples, 0 if all units are silent, below 0 if silence were better.
            Samples that are all zero are answered in full by silence, and score 1.

        Examples
        --------
        >>> from hebbnmf import OnlineSNMF
        >>> net = OnlineSNMF(2, rank_penalty=0.5).fit([[2.0, 0.0], [0.0, 1.0]])
        >>> net.score([[3.0, 0.0], [0.0, 1.0]]), net.score([[-3.0, 0.0]])
        (1.0, 0.0)
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        # The score has no scale, but its parts have that of |x|^4, beyond the range of numbers.
        exponent = np.frexp(np.abs(X).max())[1]
        cost = RunningCost()
        n_unconverged = 0
        for rows in _batches(len(X), 8 * _CHUNK):
            Y, failed = self._network.answer(X[rows])
            cost.update(np.ldexp(X[rows], -exponent), np.ldexp(Y, -exponent))
            n_unconverged += failed
        self._warn(n_unconverged, len(X))
        whole = cost.of_silence
        return 1 - cost.value / whole if whole > 0 else 1.0

    @property
    def components_(self) -> FloatArray:
        """Feedforward weights W."""
        return self._network.components

    @property
    def lateral_weights_(self) -> FloatArray:
        """Lateral weights M."""
        return self._network.lateral_weights

    @property
    def cumulative_activity_(self) -> NDArray[np.float64]:
        """Cumulative activity Yhat."""
        return self._network.cumulative_activity

    @property
    def n_components_(self) -> int:
        """Number of units recruited so far."""
        return self._network.n_units

    @property
    def n_samples_seen_(self) -> int:
        """Number of presentations so far."""
        return self._network.n_samples

    @property
    def cost_(self) -> float:
        """Cost (9) of the answers given online so far."""
        if self._running_cost is None:
            raise AttributeError("cost_ is known only with track_cost=True, set before learning.")
        return self._running_cost.value

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_network")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _validate(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        """Check parameters and data; only then make the network, or set its rules anew."""
        settings = self._checked_settings()
        known = {name: self.__dict__[name] for name in _FEATURES if name in self.__dict__}
        try:
            rows = self._checked_rows(X, reset=reset)
        except BaseException:
            # scikit-learn notes the features of data before it has seen that they are bad.
            for name in _FEATURES:
                self.__dict__.pop(name, None)
            self.__dict__.update(known)
            raise
        if reset:
            self._network = Network(rows.shape[1], dtype=rows.dtype, **settings)
            self._running_cost = RunningCost() if self.track_cost else None
        else:
            self._network.configure(**settings)
        return rows

    def _checked_rows(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        rows = X if not reset and self._is_ready(X) else self._validated(X, reset=reset)
        # Eq. (5) and (6) live on the scale of |x|^4, taken in float64.
        limit = min(float(np.finfo(rows.dtype).max), float(np.sqrt(np.finfo(np.float64).max)))
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.einsum("ij,ij->i", rows, rows, dtype=np.float64).max()
        if not largest <= limit:
            self._validated(rows, reset=reset)  # where the cause is a NaN or an infinity
            raise ValueError(
                f"X has a row with squared norm {largest:.3g}, above the limit of {limit:.3g} "
                f"for {rows.dtype}: divide X by a factor, and rank_penalty by its fourth power."
            )
        return rows

    def _validated(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        if hasattr(X, "collect"):
            raise TypeError(
                f"X is a {type(X).__name__}, whose rows are not known yet: pass X.collect()."
            )
        dtype: Any = [np.float64, np.float32] if reset else self._network.dtype
        if reset and _is_single(getattr(X, "dtypes", ())):
            dtype = np.float32
        with np.errstate(over="ignore"):
            return validate_data(self, X, dtype=dtype, order="C", reset=reset)

    def _is_ready(self, X: object) -> TypeGuard[FloatArray]:
        """Whether scikit-learn's validation, 90 microseconds a call, would return X as it is.

        All but finite: a NaN or an infinity shows in the norms.
        """
        return (
            type(X) is np.ndarray
            and X.dtype == self._network.dtype
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
            and len(X) > 0
            and X.flags.c_contiguous
            and not hasattr(self, "feature_names_in_")
        )

    def _checked_settings(self) -> dict[str, Any]:
        """Check every parameter, and return those of the network."""
        for name, rule, holds in (
            ("n_components", "an integer of at least 1", _is_count),
            ("rank_penalty", "a finite number of at least 0", lambda v: _is_real(v) and v >= 0),
            (
                "initial_activity",
                "a finite number above 0, or None for the plain schedule",
                lambda v: v is None or (_is_real(v) and v > 0),
            ),
            ("activity_gain", "a finite number above 0", lambda v: _is_real(v) and v > 0),
            ("dynamics", "'rectified' or 'quartic'", lambda v: v in ("rectified", "quartic")),
            ("tol", "a finite number above 0", lambda v: _is_real(v) and v > 0),
            ("max_sweeps", "an integer of at least 1", _is_count),
            ("n_epochs", "an integer of at least 1", _is_count),
            ("shuffle", "True or False", _is_bool),
            ("track_cost", "True or False", _is_bool),
        ):
            value = getattr(self, name)
            if not holds(value):
                raise ValueError(f"{name}={value!r} cannot be used: set it to {rule}.")
        names = ("n_components", "rank_penalty", "initial_activity", "activity_gain")
        return {name: getattr(self, name) for name in (*names, "dynamics", "tol", "max_sweeps")}

    def _learn(self, X: FloatArray) -> tuple[FloatArray, int]:
        Y, n_unconverged = self._network.learn(X)
        if self._running_cost is not None:
            self._running_cost.update(X, Y)
        return Y, n_unconverged

    def _predict(self, X: FloatArray) -> NDArray[np.intp]:
        labels = np.empty(len(X), np.intp)
        n_unconverged = 0
        for rows in _batches(len(X), 8 * _CHUNK):
            Y, failed = self._network.answer(X[rows])
            labels[rows] = cluster_labels(Y)
            n_unconverged += failed
        self._warn(n_unconverged, len(X))
        return labels

    def _finish_chunk(self, labels: NDArray[np.intp], n_unconverged: int) -> None:
        self.labels_ = labels
        self.n_iter_ = 1
        self._warn(n_unconverged, len(labels))

    def _warn(self, n_unconverged: int, n_samples: int) -> None:
        if n_unconverged:
            warnings.warn(
                f"The answers to {n_unconverged} of {n_samples} samples did not converge within "
                f"max_sweeps={self.max_sweeps}; raise max_sweeps or tol, or whiten the data.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _batches(n_samples: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n_samples, size))


def _is_single(dtypes: Any) -> bool:
    """Whether all columns of a frame have single precision, whatever its library calls it."""
    return len(dtypes) > 0 and all(str(dtype).lower() == "float32" for dtype in dtypes)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_real(value: object) -> bool:
    return (
        isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    )
