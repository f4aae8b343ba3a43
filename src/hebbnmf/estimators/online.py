"""OnlineEstimator: what the estimators that learn online share; it validates, and learns in chunks.

A subclass names the class of its settings, and adds the attributes of its own.
"""

from dataclasses import fields
from numbers import Integral
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf._sklearn import in_chosen_container
from hebbnmf.engine.network import Responses
from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import BATCH, Learner, check_rows
from hebbnmf.parameters import COUNT, FLAG, Rule, check_parameter, optional

__all__ = ["OnlineEstimator", "RespondingEstimator"]

_N_JOBS = optional(
    Rule("an integer other than 0", lambda v: COUNT.holds(v) or (isinstance(v, Integral) and v < 0))
)
# Attributes that validate_data sets.
_FEATURES = ("n_features_in_", "feature_names_in_")


class OnlineEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """An estimator around a `Learner`: rows are checked here, and learned there.

    Every parameter of the settings is one of the estimator, by the same name.
    """

    settings: ClassVar[type[Any]]
    learner_: Learner
    n_epochs: int
    shuffle: bool
    random_state: int | np.random.RandomState | None
    n_jobs: int | None = None  # a parameter of those whose responses take threads

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from the data, from the beginning.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, presented in order unless ``shuffle`` is set.
        y : Ignored

        Returns
        -------
        self : object
            The fitted estimator.
        """
        samples = self._rows_to_learn(X, reset=True)
        rng = check_random_state(self.random_state)
        n_unconverged = 0
        for _ in range(self.n_epochs):
            order = rng.permutation(samples.shape[0]) if self.shuffle else None
            for rows in gen_batches(samples.shape[0], BATCH):
                batch = samples[rows if order is None else order[rows]]
                n_unconverged += self.learner_.learn(batch, keep=False).n_unconverged
        n_unconverged += self._complete_fit(samples)
        self.n_iter_ = self.n_epochs
        self.learner_.warn_without_units(samples)
        self.learner_.warn_unconverged(n_unconverged, (self.n_epochs + 1) * samples.shape[0])
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from one more chunk, of any number of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples, presented in order.
        y : Ignored

        Returns
        -------
        self : object
            The estimator.
        """
        self._present(X, keep=False)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Respond to samples with frozen weights, each on its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components_)
            The responses.
        """
        return self._respond(X, keep=True).Y

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of the parameters that are settings of the network."""
        return [field.name for field in fields(cls.settings)]

    def check_parameters(self) -> Any:
        """Check every parameter, and return those of the network."""
        check_parameter("n_epochs", self.n_epochs, COUNT)
        check_parameter("shuffle", self.shuffle, FLAG)
        check_parameter("n_jobs", self.n_jobs, _N_JOBS)
        return self.settings(**{name: getattr(self, name) for name in self.setting_names()})

    def begin(self, n_features: int, dtype: DTypeLike = np.float64) -> Learner:
        """Reset to an empty network, for callers with checked rows; return its learner."""
        learner = Learner(self.check_parameters(), n_features, dtype)
        for name in ("labels_", "n_iter_", *_FEATURES):
            self.__dict__.pop(name, None)
        self.learner_ = learner
        self.n_features_in_ = n_features
        return learner

    def respond(self, rows: FloatArray, *, keep: bool = True) -> Responses:
        """Respond to rows that the learner has checked, with frozen weights."""
        return self.learner_.respond(rows, self.n_jobs, keep=keep)

    def note(self, responses: Responses) -> None:
        """Note the responses that the learner gave online to the last chunk."""
        self.n_iter_ = 1

    @property
    def n_components_(self) -> int:
        """Number of units recruited so far."""
        return self.learner_.network.n_units

    @property
    def n_samples_seen_(self) -> int:
        """Number of presentations so far."""
        return self.learner_.network.n_samples

    @property
    def lateral_weights_(self) -> FloatArray:
        """Lateral weights M, zero on the diagonal."""
        return self.learner_.network.lateral_weights

    @property
    def cumulative_activity_(self) -> NDArray[np.float64]:
        """Cumulative activity Yhat."""
        return self.learner_.network.cumulative_activity

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _complete_fit(self, samples: FloatArray) -> int:
        """Set what only `fit` knows, and return the unconverged count of that."""
        return 0

    def _present(self, X: ArrayLike, *, keep: bool) -> Responses:
        """Check one chunk and learn it."""
        rows = self._rows_to_learn(X, reset=not self.__sklearn_is_fitted__())
        responses = self.learner_.learn(rows, keep=keep)
        self.note(responses)
        self.learner_.warn_unconverged(responses.n_unconverged, rows.shape[0])
        return responses

    def _respond(self, X: ArrayLike, *, keep: bool) -> Responses:
        rows = self._rows_to_respond_to(X)
        responses = self.respond(rows, keep=keep)
        self.learner_.warn_unconverged(responses.n_unconverged, rows.shape[0])
        return responses

    def _rows_to_respond_to(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        check_parameter("n_jobs", self.n_jobs, _N_JOBS)
        return self._checked(X, reset=False)

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

    def _has_changed(self) -> bool:
        """Return whether a parameter has changed since the learner got its settings."""
        known = self.learner_.settings
        return any(getattr(self, name) is not getattr(known, name) for name in self.setting_names())

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
        sparse: Any = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        known = {name: self.__dict__[name] for name in _FEATURES if name in self.__dict__}
        try:
            with np.errstate(over="ignore"):
                rows = validate_data(
                    self, X, accept_sparse=sparse, dtype=dtype, order="C", reset=reset
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


class RespondingEstimator(OnlineEstimator):
    """One whose `transform` gives responses of units: those given on arrival mean the same."""

    def partial_fit_transform(self, X: ArrayLike, y: object = None) -> Any:
        """Learn from each sample of a chunk, and return its response on arrival: Algorithm 1.

        Parameters
        ----------
        X, y
            As in `partial_fit`.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components_)
            The responses, one column for each unit recruited by the end of the call.
        """
        return in_chosen_container(self, self._present(X, keep=True).Y, X)


def _is_single(dtypes: Any) -> bool:
    """Return whether all columns of a frame are float32, whatever its library calls it."""
    return len(dtypes) > 0 and all(str(dtype).lower() == "float32" for dtype in dtypes)
