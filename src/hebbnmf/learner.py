"""Learner: settings, network and running cost on bare rows; what every face of the package shares.

The settings decide on the kind of network: `Settings` on that of the paper, `SubspaceSettings` on
one of identity units.

Callers (estimator, river adapter, training, rounds) pass rows already checked by `check_rows`;
names, labels and files stay with them.
"""

import inspect
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import ConvergenceWarning

from hebbnmf.cost import RunningCost
from hebbnmf.engine.network import Network, Responses
from hebbnmf.engine.recruitment import RELATIVE_THRESHOLD
from hebbnmf.engine.state import BLOCK, LARGEST_NORM2, FloatArray, Rules
from hebbnmf.engine.subspace import SubspaceNetwork, SubspaceRules
from hebbnmf.engine.whitened import WhitenedNetwork, WhitenedRules
from hebbnmf.parameters import (
    COUNT,
    FLAG,
    LARGEST_COUNT,
    MEMORY,
    NON_NEGATIVE,
    OFFSET,
    SHARE,
    check_fields,
    count_up_to,
    either,
    one_of,
    optional,
    parameter,
    positive_up_to,
    share_of_percent,
)

__all__ = [
    "BATCH",
    "AnySettings",
    "DictionarySettings",
    "Learner",
    "LearnerState",
    "SeparationSettings",
    "Settings",
    "SubspaceSettings",
    "check_rows",
    "warn_user",
]

# Rows in a batch, while learning and with frozen weights: bounds the memory of the responses. A
# multiple of the blocks of both, which decide the last bits of a product.
BATCH = 9 * BLOCK
_FROZEN_BATCH = 8 * BATCH
# Share of the features up to which a sparse block is learned in its own: a copy of their weights
# goes there and back.
_NARROW = 0.5
# Samples after which their mean is looked at, and the share of their squared length that it may
# explain.
_LEADING_SAMPLES, _LARGEST_SHARE_OF_MEAN = 100, 0.5
# Packages whose frames lie between a warning and the line of the user that caused it.
_PACKAGES = ("hebbnmf", "joblib", "river", "sklearn")


@dataclass(frozen=True)
class Settings:
    """All parameters of the network, checked; `OnlineSNMF` explains them.

    Examples
    --------
    >>> from hebbnmf import Settings
    >>> Settings(n_components=3, rank_penalty=4.0).rules().threshold
    2.0
    >>> Settings(tol=0.0)
    Traceback (most recent call last):
    ...
    ValueError: tol=0.0 cannot be used: set it to a number above 0 and below 1.
    """

    n_components: int = parameter(8, COUNT)
    rank_penalty: float | str = parameter("auto", either(NON_NEGATIVE, "auto"))
    memory: float | None = parameter(0.1, optional(MEMORY, "None for all samples"))
    recycle: bool = parameter(False, FLAG)
    # Bounds on activity and its gain keep cumulative activity, and roots of its cube, finite.
    initial_activity: float | None = parameter(
        None, optional(positive_up_to(1e160), "None for the plain schedule")
    )
    activity_gain: float = parameter(1.0, positive_up_to(1e9))
    similarity_offset: float | str = parameter(0.0, OFFSET)
    dynamics: str = parameter("rectified", one_of("rectified", "quartic"))
    tol: float = parameter(1e-4, SHARE)
    max_sweeps: int = parameter(1000, count_up_to(100_000))
    track_cost: bool = parameter(False, FLAG)

    def __post_init__(self) -> None:
        check_fields(self)

    def rules(self, dtype: DTypeLike = np.float64) -> Rules:
        """Return the settings as the kernels take them, for weights of this type."""
        eps = float(np.finfo(dtype).eps)
        # Responses cannot settle below the rounding of the sums they come from.
        tol = max(float(self.tol), 8 * eps)
        share = share_of_percent(self.similarity_offset)
        return Rules(
            max_units=int(self.n_components),
            threshold=(
                RELATIVE_THRESHOLD
                if isinstance(self.rank_penalty, str)
                else math.sqrt(float(self.rank_penalty))
            ),
            relative=self.rank_penalty == "auto",
            # |y|^2 is known to about tol |x|^2, and to sqrt(eps) where sums nearly cancel.
            floor=max(tol, float(np.sqrt(eps))),
            initial_activity=float(self.initial_activity or 0),
            gain=float(self.activity_gain),
            memory=float(self.memory or 0),
            recycle=bool(self.recycle),
            quartic=self.dynamics == "quartic",
            alpha=0.0,
            signed=False,
            offset=float(self.similarity_offset if share is None else share),
            offset_is_share=share is not None,
            tol=tol,
            tight_tol=max(tol / 100, 8 * eps),
            rounding=4 * eps,
            max_sweeps=int(self.max_sweeps),
        )

    def network(self, n_features: int, dtype: DTypeLike) -> Network:
        """Make a network that has learned nothing."""
        return Network(n_features, self.rules(dtype), dtype)

    def reason_for_no_unit(self, scale: str) -> str:
        """Explain why no sample recruited a unit, and what to do; `scale` may tell their size."""
        if self.rank_penalty == "auto":
            return "all samples are zero; check the data"  # the first other one would recruit
        return (
            f"rank_penalty={self.rank_penalty!r} is not below |x|^4 of any sample{scale}; "
            "lower it, or scale the data up"
        )


@dataclass(frozen=True)
class DictionarySettings:
    """All parameters of a network of units with a threshold; `OnlineDictionary` explains them."""

    n_components: int = parameter(8, COUNT)
    alpha: float = parameter(0.5, NON_NEGATIVE)
    positive_code: bool = parameter(False, FLAG)
    memory: float | None = parameter(0.1, optional(MEMORY, "None for all samples"))
    tol: float = parameter(1e-4, SHARE)
    max_sweeps: int = parameter(1000, count_up_to(100_000))
    track_cost = False

    def __post_init__(self) -> None:
        check_fields(self)

    def rules(self, dtype: DTypeLike = np.float64) -> Rules:
        """Return the settings as the kernels take them, for weights of this type."""
        like = Settings(
            self.n_components,
            rank_penalty=0.0,
            memory=self.memory,
            tol=self.tol,
            max_sweeps=self.max_sweeps,
        )
        rules = like.rules(dtype)
        return rules._replace(alpha=float(self.alpha), signed=not self.positive_code)

    def network(self, n_features: int, dtype: DTypeLike) -> Network:
        """Make a network that has learned nothing."""
        return Network(n_features, self.rules(dtype), dtype)

    def reason_for_no_unit(self, scale: str) -> str:  # noqa: ARG002
        """Explain why no sample recruited a unit, and what to do."""
        return "all samples are zero; check the data"


@dataclass(frozen=True)
class SubspaceSettings:
    """All parameters of a network of identity units, checked; `OnlinePCA` explains them."""

    n_components: int = parameter(8, COUNT)
    memory: float | None = parameter(None, optional(MEMORY, "None for all samples"))
    center: bool = parameter(True, FLAG)
    track_cost = False

    def __post_init__(self) -> None:
        check_fields(self)

    def rules(self, dtype: DTypeLike = np.float64) -> SubspaceRules:
        """Return the settings as the kernel takes them, for samples of this type."""
        return SubspaceRules(
            max_units=int(self.n_components),
            memory=float(self.memory or 0),
            center=bool(self.center),
            # |y|^2 is a sum of terms that may cancel.
            floor=float(np.sqrt(np.finfo(dtype).eps)),
        )

    def network(self, n_features: int, dtype: DTypeLike) -> SubspaceNetwork:
        """Make a network that has learned nothing."""
        return SubspaceNetwork(n_features, self.rules(dtype), dtype)

    def reason_for_no_unit(self, scale: str) -> str:  # noqa: ARG002
        """Explain why no sample recruited a unit, and what to do."""
        return f"all samples are {'equal' if self.center else 'zero'}; check the data"


@dataclass(frozen=True)
class SeparationSettings:
    """All parameters of a network behind a whitener, checked; `NonnegativeICA` explains them."""

    n_components: int = parameter(8, COUNT)
    memory: float | None = parameter(0.01, optional(MEMORY, "None for all samples"))
    whitening_memory: float | None = parameter(None, optional(MEMORY, "None for all samples"))
    tol: float = parameter(1e-4, SHARE)
    max_sweeps: int = parameter(1000, count_up_to(100_000))
    track_cost = False

    def __post_init__(self) -> None:
        check_fields(self)

    def rules(self, dtype: DTypeLike = np.float64) -> WhitenedRules:
        """Return the settings as the kernels take them, for weights of this type."""
        whitening = SubspaceSettings(self.n_components, self.whitening_memory)
        separation = Settings(
            self.n_components,
            rank_penalty=0.0,
            memory=self.memory,
            tol=self.tol,
            max_sweeps=self.max_sweeps,
        )
        return WhitenedRules(whitening.rules(dtype), separation.rules(dtype))

    def network(self, n_features: int, dtype: DTypeLike) -> WhitenedNetwork:
        """Make a network that has learned nothing."""
        return WhitenedNetwork(n_features, self.rules(dtype), dtype)

    def reason_for_no_unit(self, scale: str) -> str:  # noqa: ARG002
        """Explain why no sample recruited a unit, and what to do."""
        return (
            "all samples are equal, or there are fewer than four for each component; give more, "
            "or lower n_components"
        )


AnySettings = Settings | DictionarySettings | SeparationSettings | SubspaceSettings


class LearnerState(NamedTuple):
    """All that a learner has learned: what a file or a message must hold."""

    weights: Any  # Weights, Subspace or WhitenedState
    n_samples: int
    cost: RunningCost | None


class Learner:
    """A network that learns by settings, and keeps the running cost if they ask for it.

    It trusts its caller: rows must have passed `check_rows`.

    Parameters
    ----------
    settings : Settings, DictionarySettings, SeparationSettings or SubspaceSettings
        The parameters; their class decides on that of the network.
    n_features : int
        Number of features of a sample.
    dtype : dtype, default=numpy.float64
        Type of the weights and activities.

    Attributes
    ----------
    network : Network, SubspaceNetwork or WhitenedNetwork
        The network.
    cost : RunningCost or None
        Cost (9) of the responses given while learning; None unless the settings ask for it.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import Learner, Settings
    >>> learner = Learner(Settings(n_components=3, rank_penalty=0.5), n_features=2)
    >>> learner.learn(np.array([[2.0, 0.0], [0.0, 1.0], [2.0, 0.0]])).Y
    array([[2., 0.],
           [0., 1.],
           [2., 0.]])
    >>> learner.respond(np.array([[3.0, 0.1], [-1.0, 0.0]])).labels.tolist()
    [0, -1]
    """

    # Not a union: callers know which settings they gave.
    network: Any
    settings: Any

    def __init__(
        self,
        settings: AnySettings,
        n_features: int,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.settings = settings
        self.network = settings.network(n_features, dtype)
        self.cost = RunningCost() if settings.track_cost else None
        self._lead = _Lead() if _is_about_zero(settings) else None

    def configure(self, settings: AnySettings) -> None:
        """Replace the settings; the weights stay, and the cost is tracked or not as before."""
        if settings.n_components < (n_units := self.network.n_units):
            raise ValueError(
                f"n_components={settings.n_components} cannot be used: {n_units} units are "
                f"recruited already; set it to at least {n_units}, or fit anew."
            )
        if settings != self.settings:
            self.network.rules = settings.rules(self.network.dtype)
        self.settings = settings

    @property
    def state(self) -> LearnerState:
        """Copies of all that was learned; `restore` continues from them, bit for bit."""
        cost = None if self.cost is None else replace(self.cost)
        return LearnerState(self.network.state, self.network.n_samples, cost)

    def restore(self, state: LearnerState) -> None:
        """Continue from a `state`, whose arrays now belong to the learner."""
        self.network.restore(state.weights, state.n_samples)
        self.cost = state.cost
        self._lead = None

    def check_rows(self, X: ArrayLike) -> FloatArray:
        """Return rows as the network takes them, or raise ValueError; see `check_rows`."""
        return check_rows(X, self.network.dtype, self.network.n_features)

    def learn(self, X: FloatArray, *, keep: bool = True) -> Responses:
        """Learn from samples in order, as `Network.learn` does, and update the cost.

        Rows of a sparse matrix are made dense a block at a time, in the features that it has.
        """
        if self.network.n_samples + X.shape[0] > LARGEST_COUNT:
            raise ValueError(
                f"{X.shape[0]} samples after {self.network.n_samples} cannot be learned: more than "
                f"{LARGEST_COUNT} are not counted; fit a new model."
            )
        if issparse(X):
            starts = range(0, X.shape[0], BLOCK)
            return _joined([self._learn_sparse(X[i : i + BLOCK], keep) for i in starts])
        if keep or self.cost is None:
            return self._learn(X, keep)
        # The cost needs responses: of a batch at a time.
        parts = [self._learn(X[i : i + BATCH], True) for i in range(0, len(X), BATCH)]
        return _joined([part._replace(Y=part.Y[:0]) for part in parts])

    def _learn(self, X: FloatArray, keep: bool) -> Responses:
        responses = self.network.learn(X, keep=keep)
        self.update_cost(X, responses)
        return responses

    def _learn_sparse(self, X: Any, keep: bool) -> Responses:
        columns, rows = _in_own_columns(X)
        if self.cost is not None or not self._is_narrow(columns):
            return self.learn(X.toarray(), keep=keep)
        narrow = self.network.narrowed(columns)
        try:
            responses: Responses = narrow.learn(rows, keep=keep)
        finally:  # also after an interrupt: the two share what does not belong to features
            self.network.widen(narrow, columns)
        return responses

    def _is_narrow(self, columns: NDArray[np.intp]) -> bool:
        """Return whether the products of some features are much cheaper than those of all."""
        network = self.network
        return (
            isinstance(network, Network)
            and len(columns) < _NARROW * network.n_features
            and network.rules.offset == 0
        )

    def update_cost(self, X: FloatArray, responses: Responses) -> None:
        """Add samples that were learned, and their responses, to the cost, if it is tracked."""
        Y, deferred = responses.Y, responses.deferred
        if self.cost is not None and len(deferred) < len(X):
            if deferred:
                X, Y = (np.delete(rows, deferred, axis=0) for rows in (X, Y))
            self.cost.update(X, Y)

    def respond(self, X: FloatArray, n_jobs: int | None = None, *, keep: bool = True) -> Responses:
        """Respond to samples with frozen weights, as `Network.respond` does."""
        if issparse(X):
            starts = range(0, X.shape[0], BATCH)
            parts = [self._respond_sparse(X[i : i + BATCH], n_jobs, keep) for i in starts]
            return _joined(parts)
        return self.network.respond(X, n_jobs, keep=keep)

    def _respond_sparse(self, X: Any, n_jobs: int | None, keep: bool) -> Responses:
        columns, rows = _in_own_columns(X)
        if not self._is_narrow(columns):
            return self.respond(X.toarray(), n_jobs, keep=keep)
        narrow: Network = self.network.narrowed(columns)
        return narrow.respond(rows, n_jobs, keep=keep)

    def score(self, X: FloatArray, n_jobs: int | None = None) -> tuple[float, int]:
        """Return the explained similarity, see `OnlineSNMF.score`, and the unconverged count."""
        return self.score_chunks([X], n_jobs)

    def score_chunks(
        self, chunks: Iterable[FloatArray], n_jobs: int | None = None
    ) -> tuple[float, int]:
        """Return the same as `score` for rows that come in chunks."""
        cost, exponent = RunningCost(), 0
        n_unconverged = 0
        for rows in (rows for X in chunks for rows in _dense_batches(X, _FROZEN_BATCH)):
            # The score has no scale, but its terms grow as |x|^4 and may overflow: rescale.
            if (largest := np.abs(rows).max()) > 0:
                own = int(np.frexp(largest)[1])
                if not cost.triangle.any() or own > exponent:
                    cost.triangle = np.ldexp(cost.triangle, exponent - own)
                    exponent = own
            responses = self.respond(rows, n_jobs)
            cost.update(np.ldexp(rows, -exponent), np.ldexp(responses.Y, -exponent))
            n_unconverged += responses.n_unconverged
        whole = cost.silent_value
        return (1 - cost.value / whole if whole > 0 else 1.0), n_unconverged

    def warn_unconverged(self, n_unconverged: int, n_samples: int) -> None:
        """Warn the user, once a call, that some responses did not converge."""
        if n_unconverged:
            warn_user(
                f"The responses to {n_unconverged} of {n_samples} samples did not converge within "
                f"max_sweeps={self.settings.max_sweeps}; raise max_sweeps or tol, or whiten the "
                "data.",
                ConvergenceWarning,
            )

    def warn_without_units(self, X: FloatArray | None = None) -> None:
        """Warn the user that no sample recruited a unit, with the scale of X if it is given."""
        if not self.network.n_units:
            scale = ""
            if X is not None:
                norm2 = _largest_norm2(X)
                scale = f", at most {norm2**2:.3g} in these data"
            reason = self.settings.reason_for_no_unit(scale)
            warn_user(f"No unit was recruited: {reason}.", UserWarning)

    def warn_uncentred(self, X: FloatArray) -> None:
        """Warn the user, once the first samples came, if their mean is most of what they have."""
        if self._lead is None:
            return
        self._lead.add(X)
        if self._lead.n_samples < _LEADING_SAMPLES:
            return
        share = self._lead.share_of_mean()
        self._lead = None
        if share > _LARGEST_SHARE_OF_MEAN:
            warn_user(
                f"The mean of X explains {share:.0%} of the squared length of its rows, so that "
                "all of them are similar by their inner products: centre X, by RunningScaler in a "
                "StreamPipeline, or use make_online_clusterer, unless its zero is meant.",
                UserWarning,
            )


def _is_about_zero(settings: AnySettings) -> bool:
    """Return whether similarities are plain inner products, which a mean makes alike."""
    # A dictionary codes the samples themselves; the others centre them, or want their mean.
    return isinstance(settings, Settings) and not settings.rules().offset


class _Lead:
    """The first samples of a stream: their number, their sum, and that of their squared lengths."""

    def __init__(self) -> None:
        self.n_samples, self._norm2 = 0, 0.0
        self._sum: Any = 0.0

    def add(self, X: FloatArray) -> None:
        """Add samples, up to the number that is looked at, from all over a chunk that is sorted."""
        n = min(X.shape[0], _LEADING_SAMPLES - self.n_samples)
        X = _dense(X[np.linspace(0, X.shape[0] - 1, n, dtype=int)]).astype(np.float64)
        self.n_samples += len(X)
        self._sum = self._sum + X.sum(axis=0)
        self._norm2 += float(np.einsum("ij,ij->", X, X))

    def share_of_mean(self) -> float:
        """Return the share of their mean squared length that the mean explains."""
        return float(self._sum @ self._sum / (self.n_samples * self._norm2 or 1.0))


def check_rows(X: ArrayLike, dtype: DTypeLike, n_features: int | None = None) -> FloatArray:
    """Return X as C-contiguous rows of a dtype, or raise ValueError.

    They are finite, with norms whose fourth power is finite, and have `n_features` if given. A
    sparse matrix stays one, of compressed rows.
    """
    rows: FloatArray = csr_array(X) if issparse(X) else np.asarray(X, order="C")
    if rows.ndim != 2:
        shape = "(1, -1)" if rows.ndim == 1 else "(n_samples, n_features)"
        raise ValueError(
            f"X has shape {rows.shape}, but rows of features are needed: reshape "
            f"{'one sample' if rows.ndim == 1 else 'it'} by X.reshape{shape}."
        )
    if rows.dtype != dtype:
        with np.errstate(over="ignore"):  # infinity is refused below
            rows = rows.astype(dtype)
    if n_features not in (None, rows.shape[1]):
        raise ValueError(
            f"X has {rows.shape[1]} features, but the network learned {n_features}: give the "
            "columns, and the preprocessing, that it learned with."
        )
    limit = LARGEST_NORM2[rows.dtype]
    largest = _largest_norm2(rows)
    if largest <= limit:
        return rows
    if not np.isfinite(rows.data if issparse(rows) else rows).all():
        raise ValueError("X contains NaN or infinity: leave such samples out, or fill them.")
    raise ValueError(
        f"X has a row with squared norm {largest:.3g}, above the limit of {limit:.3g} for "
        f"{rows.dtype}: divide X by a factor, and rank_penalty, unless 'auto', by its fourth power."
    )


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into the package, however many frames lie between."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        _PACKAGES
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)


def _largest_norm2(X: Any) -> float:
    if issparse(X):
        with np.errstate(over="ignore"):
            return float(X.astype(np.float64).power(2).sum(axis=1).max(initial=0.0))
    return float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max(initial=0.0))


def _dense(X: Any) -> FloatArray:
    return X.toarray() if issparse(X) else X


def _dense_batches(X: FloatArray, size: int) -> Iterator[FloatArray]:
    """Yield the rows of an array or a sparse matrix, so many at a time."""
    for start in range(0, X.shape[0], size):
        yield _dense(X[start : start + size])


def _in_own_columns(X: Any) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the columns of a CSR matrix that are not empty, and these, dense, before a zero."""
    columns, inverse = np.unique(X.indices, return_inverse=True)
    shape = (X.shape[0], len(columns) + 1)
    return columns, csr_array((X.data, inverse, X.indptr), shape).toarray()


def _joined(parts: list[Responses]) -> Responses:
    """Join the responses to successive batches; columns of units born later are zero before."""
    n_units = parts[-1].Y.shape[1]
    Y = [np.pad(part.Y, ((0, 0), (0, n_units - part.Y.shape[1]))) for part in parts]
    labels = np.concatenate([part.labels for part in parts])
    return Responses(np.concatenate(Y), labels, sum(part.n_unconverged for part in parts), [])
