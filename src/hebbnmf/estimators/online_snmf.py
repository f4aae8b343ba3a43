"""OnlineSNMF: the scikit-learn face of the network. It validates, and leaves the rest to it."""

from dataclasses import fields
from numbers import Integral
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf._sklearn import in_chosen_container
from hebbnmf.engine.network import Responses
from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import BATCH, Learner, Settings, check_rows
from hebbnmf.parameters import COUNT, FLAG, Rule, check_parameter, optional

__all__ = ["OnlineSNMF"]

_SETTINGS = tuple(field.name for field in fields(Settings))
_N_JOBS = optional(
    Rule("an integer other than 0", lambda v: COUNT.holds(v) or (isinstance(v, Integral) and v < 0))
)
# Attributes that validate_data sets.
_FEATURES = ("n_features_in_", "feature_names_in_")


class OnlineSNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Online symmetric non-negative matrix factorization by a Hebbian/anti-Hebbian network.

    Samples are presented one at a time. The units respond to each with non-negative activities
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
    rank_penalty : float or "auto", default="auto"
        Price of a further unit. With "auto" a sample recruits a unit if the part ``|x|^2 - |y|^2``
        of its squared length that the network does not explain exceeds 0.6 times the geometric
        mean of ``|x|^2`` and of its mean over the stream so far: the scale of the data plays no
        part. A number is lambda of Eq. (4), on the scale of ``|x|**4``: the threshold is then
        ``sqrt(rank_penalty)``. At 0 every sample whose response falls short of it recruits a
        unit, up to ``n_components``.
    memory : float or None, default=0.1
        How much of the stream the weights remember: older samples count less and less, by one
        clock for all units. A share of the stream, above 0 and below 1, lets early mistakes
        fade, while learning rates still fall as one over time. A number of samples, at least 2,
        follows a stream that drifts. None is all of it, as in the paper.
    recycle : bool, default=False
        Whether a sample that would recruit a unit, where there are ``n_components`` already,
        takes the place of the weakest unit that is silent for it, if the cumulative activity of
        that unit is below ``|x|^2 - |y|^2``. It takes a ``memory`` for units to grow weak.
    initial_activity : float or None, default=None
        Cumulative activity that a new unit starts with, on the scale of ``|x|**2``; the larger,
        the smaller its first learning steps. None takes the square of its first activity (the
        plain schedule); the paper takes 1000 for natural images (section III.C). Meant for
        ``memory=None``, as is ``activity_gain``: both forget, and together too fast.
    activity_gain : float, default=1.0
        Share of a squared activity that is added to the cumulative activity. At 1 learning rates
        fall as one over time (the plain schedule); the paper takes 0.01 for natural images.
    dynamics : {"rectified", "quartic"}, default="rectified"
        How units respond: rectified net input, Eq. (7), or the exact minimum of Eq. (6), which
        matters while cumulative activity is small.
    tol : float, default=1e-4
        Error of a response, as a share of its largest activity: it is final when what further
        steps would change is estimated to be less.
    max_sweeps : int, default=1000
        Bound on the steps and sweeps over the units that a response may take.
    n_epochs : int, default=1
        Number of times `fit` presents the data.
    shuffle : bool, default=False
        Whether `fit` presents the samples of each epoch in random order.
    random_state : int, RandomState instance or None, default=None
        Seed of that order.
    track_cost : bool, default=False
        Whether to keep account of the cost (9) of the online responses. It takes longer than
        learning itself where units are many: 0.2 microseconds a sample for 5 features and units
        together, 3 for 128, 22 for 512.

    n_jobs : int or None, default=None
        Number of threads of `transform`, `predict` and `score`, which changes no result. None
        takes all cores, but one inside a worker of joblib; -1 all cores, as joblib counts them.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Feedforward weights W of the recruited units.
    lateral_weights_ : ndarray of shape (n_components_, n_components_)
        Lateral weights M: row i holds the strengths with which the other units inhibit unit i.
        Never negative, zero on the diagonal, not symmetric.
    cumulative_activity_ : ndarray of shape (n_components_,)
        Cumulative activity of each unit; one over it is the unit's learning rate.
    unit_births_ : ndarray of shape (n_components_,)
        Number of samples presented before the one that recruited each unit; -1 where a file of
        an older version does not tell. With ``recycle``, index and birth together identify what
        a label stands for.
    n_components_ : int
        Number of units recruited so far.
    n_samples_seen_ : int
        Number of presentations so far.
    cost_ : float
        Cost (9) of the responses given online so far; only with ``track_cost=True``.
    labels_ : ndarray of shape (n_samples,)
        The unit with the strongest response to each sample, -1 where all are silent: after `fit`
        those of `predict` on the training data, after `partial_fit` those given online to the
        last chunk.
    learner_ : Learner
        The network, its settings and its running cost, for use without validation.
    n_iter_ : int
        Number of passes over the data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where the data had them.

    See Also
    --------
    Learner : The same without validation, on bare rows.

    Notes
    -----
    The method is Algorithm 1 of [1]_. Weights are the ratios of sums that the paper defines,
    updated by Eq. (8); presenting the same rows in any chunks gives the same weights.

    The defaults of ``rank_penalty`` and ``memory`` are ours, not the paper's. Its own settings:

    ======  ====================================================================================
    figure  parameters
    ======  ====================================================================================
    3       ``n_components=3, rank_penalty=0.6, memory=None``
    4       ``n_components=256, rank_penalty=200, memory=None, initial_activity=1000,
            activity_gain=0.01``
    5       ``n_components=4, rank_penalty=4, memory=None``; ``activity_gain=0.1`` is faster
    ======  ====================================================================================

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
    >>> net = OnlineSNMF(n_components=3)
    >>> for chunk in (X[:100], X[100:200], X[200:]):
    ...     Y = net.partial_fit_transform(chunk)
    >>> net.n_components_, Y.shape
    (3, (100, 3))
    >>> net.predict([[1.1, 1.1], [-0.6, 0.9], [0.0, 0.0]]).tolist()
    [1, 2, -1]
    """

    learner_: Learner

    def __init__(
        self,
        n_components: int = 8,
        *,
        rank_penalty: float | str = "auto",
        memory: float | None = 0.1,
        recycle: bool = False,
        initial_activity: float | None = None,
        activity_gain: float = 1.0,
        dynamics: str = "rectified",
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        track_cost: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.rank_penalty = rank_penalty
        self.memory = memory
        self.recycle = recycle
        self.initial_activity = initial_activity
        self.activity_gain = activity_gain
        self.dynamics = dynamics
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.track_cost = track_cost
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from the data, from the beginning.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples, presented in order unless ``shuffle`` is set. A sparse matrix is made
            dense a batch at a time; rows are compressed best (CSR).
        y : Ignored

        Returns
        -------
        self : OnlineSNMF
            The fitted estimator.
        """
        samples = self._rows_to_learn(X, reset=True)
        rng = check_random_state(self.random_state)
        n_unconverged = 0
        for _ in range(self.n_epochs):
            n = samples.shape[0]
            order = rng.permutation(n) if self.shuffle else np.arange(n)
            for rows in gen_batches(n, BATCH):
                batch = self.learner_.learn(samples[order[rows]], keep=False)
                n_unconverged += batch.n_unconverged
        responses = self.learner_.respond(samples, self.n_jobs, keep=False)
        self.labels_ = responses.labels
        self.n_iter_ = self.n_epochs
        self.learner_.warn_without_units(samples)
        n_unconverged += responses.n_unconverged
        self.learner_.warn_unconverged(n_unconverged, (self.n_epochs + 1) * samples.shape[0])
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from one more chunk, of any number of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples, presented in order.
        y : Ignored

        Returns
        -------
        self : OnlineSNMF
            The estimator.
        """
        rows = self._rows_to_learn(X, reset=not self.__sklearn_is_fitted__())
        self._learn(rows, keep=False)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Run Algorithm 1 as printed: learn from each sample, and return its response on arrival.

        Parameters
        ----------
        X, y
            As in `partial_fit`.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components_)
            The responses, one column for each unit recruited by the end of the call.
        """
        rows = self._rows_to_learn(X, reset=not self.__sklearn_is_fitted__())
        return in_chosen_container(self, self._learn(rows, keep=True), X)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Respond to samples with frozen weights, each on its own.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components_)
            The responses, non-negative.
        """
        return self._respond(X, keep=True).Y

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Name the unit that responds to each sample most strongly, with frozen weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices of units; -1 for a sample to which no unit responds.
        """
        return self._respond(X, keep=False).labels

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the share of the similarities of samples that frozen responses explain.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : Ignored

        Returns
        -------
        score : float
            ``1 - C / |X X'|^2`` with the cost C of Eq. (9): 1 if the responses have the inner
            products of the samples, 0 if all units are silent, below 0 if zero responses cost less.
            Samples that are all zero are explained by silence, and score 1.

        Examples
        --------
        >>> from hebbnmf import OnlineSNMF
        >>> net = OnlineSNMF(2, rank_penalty=0.5).fit([[2.0, 0.0], [0.0, 1.0]])
        >>> net.score([[3.0, 0.0], [0.0, 1.0]]), net.score([[-3.0, 0.0]])
        (1.0, 0.0)
        """
        rows = self._rows_to_respond_to(X)
        score, n_unconverged = self.learner_.score(rows, self.n_jobs)
        self.learner_.warn_unconverged(n_unconverged, rows.shape[0])
        return score

    def check_parameters(self) -> Settings:
        """Check every parameter, and return those of the network."""
        check_parameter("n_epochs", self.n_epochs, COUNT)
        check_parameter("shuffle", self.shuffle, FLAG)
        check_parameter("n_jobs", self.n_jobs, _N_JOBS)
        return Settings(**{name: getattr(self, name) for name in _SETTINGS})

    def begin(self, n_features: int, dtype: DTypeLike = np.float64) -> Learner:
        """Reset to an empty network, for callers with checked rows; return its learner."""
        learner = Learner(self.check_parameters(), n_features, dtype)
        for name in ("labels_", "n_iter_", *_FEATURES):
            self.__dict__.pop(name, None)
        self.learner_ = learner
        self.n_features_in_ = n_features
        return learner

    @property
    def components_(self) -> FloatArray:
        """Feedforward weights W."""
        return self.learner_.network.components

    @property
    def lateral_weights_(self) -> FloatArray:
        """Lateral weights M."""
        return self.learner_.network.lateral_weights

    @property
    def cumulative_activity_(self) -> NDArray[np.float64]:
        """Cumulative activity Yhat."""
        return self.learner_.network.cumulative_activity

    @property
    def unit_births_(self) -> NDArray[np.int64]:
        """Number of samples presented before the one that recruited each unit."""
        return self.learner_.network.unit_births

    @property
    def n_components_(self) -> int:
        """Number of units recruited so far."""
        return self.learner_.network.n_units

    @property
    def n_samples_seen_(self) -> int:
        """Number of presentations so far."""
        return self.learner_.network.n_samples

    @property
    def cost_(self) -> float:
        """Cost (9) of the responses given online so far."""
        if self.learner_.cost is None:
            raise AttributeError("cost_ is known only with track_cost=True, set before learning.")
        return self.learner_.cost.value

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        return tags

    def _rows_to_learn(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        """Check parameters and data; only then make a learner, or give it the parameters."""
        changed = reset or self._has_changed()
        settings = self.check_parameters() if changed else self.learner_.settings
        rows = self._checked(X, reset=reset)
        if reset:
            self.learner_ = Learner(settings, rows.shape[1], rows.dtype)
        else:
            self.learner_.configure(settings)
        self.learner_.warn_uncentred(rows)
        return rows

    def _learn(self, rows: FloatArray, *, keep: bool) -> FloatArray:
        """Learn one chunk, set its labels, and return the responses if they are kept."""
        responses = self.learner_.learn(rows, keep=keep)
        self.labels_ = responses.labels
        self.n_iter_ = 1
        self.learner_.warn_unconverged(responses.n_unconverged, rows.shape[0])
        return responses.Y

    def _respond(self, X: ArrayLike, *, keep: bool) -> Responses:
        rows = self._rows_to_respond_to(X)
        responses = self.learner_.respond(rows, self.n_jobs, keep=keep)
        self.learner_.warn_unconverged(responses.n_unconverged, rows.shape[0])
        return responses

    def _rows_to_respond_to(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        check_parameter("n_jobs", self.n_jobs, _N_JOBS)
        return self._checked(X, reset=False)

    def _has_changed(self) -> bool:
        """Return whether a parameter has changed since the learner got its settings."""
        known = self.learner_.settings
        return any(getattr(self, name) is not getattr(known, name) for name in _SETTINGS)

    def _checked(self, X: ArrayLike, *, reset: bool) -> FloatArray:
        if not reset and self._is_ready(X):
            return check_rows(X, X.dtype)
        if hasattr(X, "collect"):
            raise TypeError(
                f"X is a {type(X).__name__}, whose rows are not known yet: pass X.collect()."
            )
        dtype: Any = [np.float64, np.float32] if reset else self.learner_.network.dtype
        if reset and _is_single(getattr(X, "dtypes", ())):
            dtype = np.float32
        known = {name: self.__dict__[name] for name in _FEATURES if name in self.__dict__}
        try:
            with np.errstate(over="ignore"):
                rows = validate_data(
                    self, X, accept_sparse="csr", dtype=dtype, order="C", reset=reset
                )
            return check_rows(rows, rows.dtype)
        except BaseException:
            # validate_data sets these before it rejects X: roll back.
            for name in _FEATURES:
                self.__dict__.pop(name, None)
            self.__dict__.update(known)
            raise

    def _is_ready(self, X: object) -> TypeGuard[FloatArray]:
        """Return whether scikit-learn's validation, 90 us a call, would return a finite X as is."""
        return (
            type(X) is np.ndarray
            and X.dtype == self.learner_.network.dtype
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
            and len(X) > 0
            and X.flags.c_contiguous
            and not hasattr(self, "feature_names_in_")
        )


def _is_single(dtypes: Any) -> bool:
    """Return whether all columns of a frame are float32, whatever its library calls it."""
    return len(dtypes) > 0 and all(str(dtype).lower() == "float32" for dtype in dtypes)
