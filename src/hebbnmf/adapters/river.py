"""RiverSNMF and RiverPCA: networks as a clusterer and as transformers of river, on dicts."""

import copy
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.network import Responses
from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import AnySettings, Learner, Settings, SubspaceSettings, check_rows

try:
    from river import base
    from river.utils.dataframe import into_frame, to_native_frame, to_native_series, to_numpy
except ImportError as error:
    raise ImportError(
        f"hebbnmf.adapters.river needs {error.name}: install the extra by "
        "pip install 'hebbnmf[river]'."
    ) from error

__all__ = ["RiverPCA", "RiverSNMF"]

Sample = Mapping[Hashable, Any]
Frame = Any  # of pandas, polars or pyarrow


class _OnDicts(base.MiniBatchTransformer):
    """A learner of dicts and frames, whose features may come and go."""

    _settings: type[AnySettings]
    learner: Learner
    columns: dict[Hashable, int]

    def learn_one(self, x: Sample) -> None:
        """Learn from a sample, a dict of finite numbers."""
        self._learn(x, _row(x))

    def learn_many(self, X: Frame) -> None:
        """Learn from the rows of a frame of pandas, polars or pyarrow, one after the other.

        Absent features are absent columns, or zeros.
        """
        frame = into_frame(X)
        self._learn(frame.columns, to_numpy(frame))

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Copy the model, with other parameters if given, and with what it learned if asked for.

        With `include_attributes`, learning continues with the new parameters.
        """
        copied: Self = super().clone(new_params, include_attributes)
        copied.learner.configure(self._settings(**self._get_params() | (new_params or {})))
        return copied

    def _begin(self) -> None:
        self.learner = Learner(self._settings(**self._get_params()), n_features=0)
        self.columns = {}

    def _learn(self, names: Iterable[Hashable], values: NDArray[np.float64]) -> None:
        columns, rows = self._placed(names, values)
        network = self.learner.network
        self.columns = columns
        network.add_features(len(columns) - network.n_features)
        responses = self.learner.learn(rows, keep=False)
        self.learner.warn_unconverged(responses.n_unconverged, len(rows))

    def _placed(
        self, names: Iterable[Hashable], values: NDArray[np.float64]
    ) -> tuple[dict[Hashable, int], FloatArray]:
        """Place values in the columns of the network, after which come those of new features."""
        columns = dict(self.columns)
        places = [columns.setdefault(name, len(columns)) for name in names]
        rows = np.zeros((len(values), len(columns)))
        rows[:, places] = values
        return columns, check_rows(rows, np.float64)


class RiverSNMF(_OnDicts, base.Clusterer):
    """Online symmetric non-negative matrix factorization on dicts of features.

    The same network as `OnlineSNMF`, fed one dict at a time. Features may come and go. An absent
    feature counts as 0. A feature that appears for the first time was 0 in all samples so far,
    for which its weights, Eq. (8), are exactly 0: the network is what it would be had the feature
    been there from the start.

    Parameters
    ----------
    n_components : int, default=8
        Largest number of units.
    rank_penalty : float or "auto", default="auto"
        Price of a further unit, on the scale of ``|x|**4``; with "auto" the scale of the data
        plays no part.
    memory : float or None, default=0.1
        How much of the stream is remembered: a share of it, a number of samples, or all (None).
    recycle, initial_activity, activity_gain, dynamics, tol, max_sweeps
        As in `OnlineSNMF`. With ``recycle`` the birth of a unit tells what its label stands for:
        ``learner.network.unit_births``.

    Attributes
    ----------
    learner : Learner
        The network; its features are in the order of ``columns``.
    columns : dict
        The column of each feature that was learned from.

    Notes
    -----
    river takes a transformer for a step that learns when it transforms: under
    `river.compose.learn_during_predict` it would not learn, so leave that out. Units have no
    centres, which `river.metrics.Silhouette` would need; metrics that compare labels, such as
    `AdjustedRand`, work. Units of two networks in one union have the same names: put a
    `river.compose.Prefixer` after each.

    Examples
    --------
    >>> from hebbnmf.adapters.river import RiverSNMF
    >>> from river import preprocessing
    >>> model = preprocessing.StandardScaler() | RiverSNMF(n_components=2)
    >>> for x in [{"a": 0.0}, {"a": 2.0}, {"a": 1.0, "b": 3.0}, {"a": -1.0}, {"b": -3.0}] * 4:
    ...     model.learn_one(x)
    >>> model.predict_one({"a": 3.0}), model.predict_one({"a": -3.0})
    (0, 1)
    >>> sorted(model.transform_one({"a": 3.0}))
    ['unit0', 'unit1']
    """

    _settings = Settings

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
        self._begin()

    def transform_one(self, x: Sample) -> dict[Hashable, float]:
        """Return the activity of each unit recruited so far, as ``unit0``, ``unit1`` and so on."""
        Y = self._respond(x, _row(x)).Y
        return dict(zip(_names("unit", Y), Y[0].tolist(), strict=True))

    def transform_many(self, X: Frame) -> Frame:
        """Return the responses to the rows of a frame, as a frame of its library and index."""
        frame = into_frame(X)
        Y = self._respond(frame.columns, to_numpy(frame)).Y
        return to_native_frame(Y, columns=_names("unit", Y), like=frame)

    def predict_one(self, x: Sample) -> int:
        """Name the unit that responds to a sample most strongly; -1 where all are silent."""
        return int(self._respond(x, _row(x)).labels[0])

    def predict_many(self, X: Frame) -> Frame:
        """Name the units of `predict_one` for the rows of a frame, as a series of its library."""
        frame = into_frame(X)
        labels = self._respond(frame.columns, to_numpy(frame)).labels
        return to_native_series(labels, name="label", like=frame)

    def _respond(self, names: Iterable[Hashable], values: NDArray[np.float64]) -> Responses:
        columns, rows = self._placed(names, values)
        network = self.learner.network
        if len(columns) > network.n_features:
            # Features not learned from are still part of |x|^2 in Eq. (6).
            network = copy.copy(network)
            network.add_features(len(columns) - network.n_features)
        responses = network.respond(rows)
        self.learner.warn_unconverged(responses.n_unconverged, len(rows))
        return responses


class RiverPCA(_OnDicts):
    """Principal component analysis on dicts of features, tracked as the stream moves.

    The same network as `OnlinePCA`, fed one dict at a time; features may come and go as in
    `RiverSNMF`. Each sample costs a small decomposition if it is learned and then transformed.

    Parameters
    ----------
    n_components : int, default=8
        Number of components.
    memory : float or None, default=None
        How much of the stream is remembered: all of it, a number of samples, or a share.
    center : bool, default=True
        Whether the running mean is taken from the samples.

    Attributes
    ----------
    learner : Learner
        The network; its features are in the order of ``columns``.
    columns : dict
        The column of each feature that was learned from.

    Examples
    --------
    >>> from hebbnmf.adapters.river import RiverPCA
    >>> model = RiverPCA(n_components=1, memory=100)
    >>> for t in range(20):
    ...     model.learn_one({"a": t % 5, "b": 2 * (t % 5)})
    >>> {name: round(value, 3) for name, value in model.transform_one({"a": 3, "b": 6}).items()}
    {'component0': 2.191}
    """

    _settings = SubspaceSettings

    def __init__(
        self, n_components: int = 8, *, memory: float | None = None, center: bool = True
    ) -> None:
        self.n_components = n_components
        self.memory = memory
        self.center = center
        self._begin()

    def transform_one(self, x: Sample) -> dict[Hashable, float]:
        """Return the coordinates of a sample, as ``component0``, ``component1`` and so on."""
        coordinates = self._coordinates(x, _row(x))
        return dict(zip(_names("component", coordinates), coordinates[0].tolist(), strict=True))

    def transform_many(self, X: Frame) -> Frame:
        """Return the coordinates of the rows of a frame, as a frame of its library and index."""
        frame = into_frame(X)
        coordinates = self._coordinates(frame.columns, to_numpy(frame))
        return to_native_frame(coordinates, columns=_names("component", coordinates), like=frame)

    def _coordinates(self, names: Iterable[Hashable], values: NDArray[np.float64]) -> FloatArray:
        _, rows = self._placed(names, values)
        network = self.learner.network
        axes, _ = network.principal_axes()
        # Features that were never learned lie outside the subspace.
        coordinates = (rows[:, : network.n_features] - network.learned.mean) @ axes.T
        return np.asarray(coordinates * self._signs(axes))

    def _signs(self, axes: FloatArray) -> FloatArray:
        """Return signs by which the largest entry of each axis is positive.

        Of entries that are equal but for rounding, it is that of the first name: the order in which
        a dict holds its features plays no part.
        """
        if not axes.size:
            return np.ones(len(axes))
        by_name = axes[:, [self.columns[name] for name in sorted(self.columns, key=str)]]
        size = np.abs(by_name)
        first = (size > (1 - 1e-6) * size.max(axis=1, keepdims=True)).argmax(axis=1)
        return np.sign(by_name[np.arange(len(axes)), first])


def _row(x: Sample) -> NDArray[np.float64]:
    return np.array([list(x.values())], np.float64)


def _names(kind: str, Y: FloatArray) -> list[str]:
    # Not bare numbers, which may be the names of features in a union, and which frames refuse.
    return [f"{kind}{k}" for k in range(Y.shape[1])]
