"""Models in a file: the parameters and the learned state of each class that can be stored."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hebbnmf.clustering import cluster_labels
from hebbnmf.cost import RunningCost
from hebbnmf.engine.state import LARGEST_NORM2, Weights
from hebbnmf.engine.subspace import Subspace
from hebbnmf.engine.whitened import WhitenedState
from hebbnmf.estimators import NonnegativeICA, OnlineDictionary, OnlinePCA, OnlineSNMF, SymNMF
from hebbnmf.estimators.online import OnlineEstimator
from hebbnmf.learner import Learner, LearnerState
from hebbnmf.persistence.archives import Archive, Arrays, Json
from hebbnmf.persistence.parameters import pack_parameters, unpack_parameters

__all__ = ["Model", "pack_model", "unpack_model"]

Model = OnlineEstimator | SymNMF
State = dict[str, Json]

# Parameters that formats before these do not hold, and what they were.
_SINCE_FORMAT_2 = {"OnlineSNMF": {"memory": None, "recycle": False}}
_SINCE_FORMAT_3 = {"OnlineSNMF": {"similarity_offset": 0.0}}


def pack_model(model: Model, arrays: Arrays) -> State:
    """Describe a model, fitted or not, and add its arrays."""
    kind = next((kind for kind in _KINDS.values() if type(model) is kind.model), None)
    if kind is None:
        raise TypeError(
            f"{type(model).__name__} cannot be saved: give a model of class {' or '.join(_KINDS)}."
        )
    names = getattr(model, "feature_names_in_", None)
    return {
        "class": kind.model.__name__,
        "parameters": pack_parameters(model, arrays),
        "feature_names": None if names is None else [str(name) for name in names],
        "state": kind.pack(model, arrays) if hasattr(model, kind.fitted) else None,
    }


def unpack_model(archive: Archive, header: State) -> Model:
    """Make a model from its description and its arrays."""
    name, state, names = header["class"], header["state"], header["feature_names"]
    archive.require(name in list(_KINDS), f"{name!r} is not a known class")
    kind = _KINDS[name]
    known, stored = kind.model().get_params(), header["parameters"]
    for version, missing in ((2, _SINCE_FORMAT_2), (3, _SINCE_FORMAT_3)):
        if header["version"] < version and isinstance(stored, dict):
            stored = missing.get(name, {}) | stored
    model = kind.model(**unpack_parameters(archive, known, stored))
    model.check_parameters()
    if state is None:
        archive.require(names is None, "feature names belong to a fitted model")
        return model
    archive.require(isinstance(state, dict), "the state is not an object")
    kind.unpack(archive, model, state)
    archive.require(model.n_features_in_ > 0, "n_features is 0")
    if names is not None:
        archive.require(
            isinstance(names, list)
            and len(names) == model.n_features_in_
            and all(isinstance(name, str) for name in names),
            "feature names do not fit the features",
        )
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _pack_snmf(model: OnlineSNMF, arrays: Arrays) -> State:
    weights, _, cost = model.learner_.state
    labels = np.asarray(getattr(model, "labels_", np.empty(0)), np.int64)
    arrays.update(weights._asdict(), labels=labels)
    if cost is not None:
        arrays["triangle"] = cost.triangle
    return {
        **_counts(model),
        "n_labels": len(labels),
        "cost_samples": None if cost is None else cost.n_samples,
    }


def _unpack_snmf(archive: Archive, model: OnlineSNMF, state: State) -> None:
    n, K, n_samples, n_labels = archive.counts(
        state, "n_features", "n_units", "n_samples", "n_labels"
    )
    learner = _begin(archive, model, state)
    # The offset of the similarities is one more input, if there is or was one.
    width = archive.shape("V")[-1]
    archive.require(width in (n, n + 1), "weights do not fit the features")
    weights = _weights(archive, state, width)
    labels = archive.array("labels", (n_labels,), np.int64, -1, max(K, 1) - 1)
    cost = None if state["cost_samples"] is None else _unpack_cost(archive, state, n, K)
    learner.restore(LearnerState(weights, n_samples, cost))
    if n_labels:  # a training in rounds gives none
        model.labels_ = labels.astype(np.intp)


def _pack_dictionary(model: OnlineDictionary, arrays: Arrays) -> State:
    arrays.update(model.learner_.state.weights._asdict())
    return _counts(model)


def _unpack_dictionary(archive: Archive, model: OnlineDictionary, state: State) -> None:
    learner = _begin(archive, model, state)
    signed = not model.positive_code
    weights = _weights(archive, state, model.n_features_in_, signed=signed)
    learner.restore(LearnerState(weights, state["n_samples"], None))


def _pack_pca(model: OnlinePCA, arrays: Arrays) -> State:
    arrays.update(model.learner_.state.weights._asdict())
    return _counts(model)


def _unpack_pca(archive: Archive, model: OnlinePCA, state: State) -> None:
    learner = _begin(archive, model, state)
    subspace = _subspace(archive, state, state["n_units"], "")
    learner.restore(LearnerState(subspace, state["n_samples"], None))


def _pack_ica(model: NonnegativeICA, arrays: Arrays) -> State:
    whitening, Q, separation = model.learner_.state.weights
    arrays.update(separation._asdict(), Q=Q)
    arrays.update({f"whitening.{name}": array for name, array in whitening._asdict().items()})
    return {**_counts(model), "n_whitened": len(whitening.A), "n_components": len(Q)}


def _unpack_ica(archive: Archive, model: NonnegativeICA, state: State) -> None:
    learner = _begin(archive, model, state)
    K, m = archive.counts(state, "n_whitened", "n_components")
    archive.require(K <= m == model.n_components, "the whitening does not fit the units")
    whitened = WhitenedState(
        _subspace(archive, state, K, "whitening."),
        archive.array("Q", (m, model.n_features_in_), np.float64, -1e160, 1e160),
        _weights(archive, state, m),
    )
    learner.restore(LearnerState(whitened, state["n_samples"], None))


def _counts(model: OnlineEstimator) -> State:
    """Return what the states of all models that learn online have in common."""
    network = model.learner_.network
    return {
        "n_features": network.n_features,
        "n_units": network.n_units,
        "n_samples": network.n_samples,
        "dtype": network.dtype.name,
        "n_iter": int(getattr(model, "n_iter_", 0)),
    }


def _begin(archive: Archive, model: OnlineEstimator, state: State) -> Learner:
    """Check what `_counts` has written, and give the model a learner of this size."""
    n, K, n_samples, n_iter = archive.counts(state, "n_features", "n_units", "n_samples", "n_iter")
    dtype = state["dtype"]
    archive.require(dtype in ("float32", "float64"), "dtype is not float32 or float64")
    archive.require(K <= n_samples, f"{K} units cannot come from {n_samples} samples")
    learner = model.begin(n, dtype)
    model.n_iter_ = n_iter
    return learner


def _weights(archive: Archive, state: State, n: int, *, signed: bool = False) -> Weights:
    """Read the weights of units that have n inputs."""
    K, n_samples, dtype = state["n_units"], state["n_samples"], state["dtype"]
    # Learning stays within these bounds by far: a weight is a mean of x / y, and |x| / y is 1e16
    # where y is rounding; a scale below 2**-10 is folded into its row. Beyond, steps overflow.
    weights = Weights(
        V=archive.array("V", (K, n), dtype, -1e30, 1e30),
        N_T=archive.array("N_T", (K, K), dtype, -1e30 if signed else 0, 1e30),
        s=archive.array("s", (K,), np.float64, 1e-6, 1),
        Yhat=archive.array("Yhat", (K,), np.float64, 5e-324, 1e180),
        born=np.full(K, -1),
        energy=np.zeros(2),
    )
    if archive.header["version"] > 1:  # the first tells neither births nor energy
        weights = weights._replace(
            born=archive.array("born", (K,), np.int64, -1, n_samples - 1),
            energy=archive.array("energy", (2,), np.float64, 0),
        )
    archive.require(not weights.N_T.diagonal().any(), "units inhibit themselves")
    _check_energy(archive, weights.energy, state)
    return weights


def _subspace(archive: Archive, state: State, K: int, prefix: str) -> Subspace:
    """Read what K identity units have learned."""
    n = state["n_features"]
    subspace = Subspace(
        A=archive.array(prefix + "A", (K, K), np.float64, -1e180, 1e180),
        F=archive.array(prefix + "F", (K, n), np.float64, -1e30, 1e30),
        mean=archive.array(prefix + "mean", (n,), np.float64, -1e80, 1e80),
        energy=archive.array(prefix + "energy", (2,), np.float64, 0),
    )
    archive.require(bool((subspace.A.diagonal() > 0).all()), "a unit was never active")
    _check_energy(archive, subspace.energy, state)
    return subspace


def _check_energy(archive: Archive, energy: NDArray[np.float64], state: State) -> None:
    archive.require(
        energy[1] <= state["n_samples"]
        and energy[0] <= 2 * LARGEST_NORM2[np.dtype(state["dtype"])] * energy[1],
        "the energy is not that of the samples",
    )


def _unpack_cost(archive: Archive, state: State, n: int, K: int) -> RunningCost:
    (n_samples,) = archive.counts(state, "cost_samples")
    archive.require(n_samples <= state["n_samples"], "the cost is of more samples than came")
    if n_samples == 0:
        n = K = 0
    shape = archive.shape("triangle")
    archive.require(
        shape[1:] == (n + K,) and shape[0] <= n + K, "the cost does not fit features and units"
    )
    # In the memory order of LAPACK: sums over the other order round differently.
    triangle = np.asfortranarray(archive.array("triangle", shape, np.float64, -1e90, 1e90))
    is_triangle = not np.tril(triangle, -1).any()
    archive.require(len(triangle) < n + K or is_triangle, "the cost is not kept as a triangle")
    return RunningCost(triangle, n, n_samples)


def _pack_offline(model: SymNMF, arrays: Arrays) -> State:
    arrays.update(embedding=model.embedding_, cost_history=model.cost_history_)
    n_samples, n_components = model.embedding_.shape
    return {
        "n_features": int(model.n_features_in_),
        "n_samples": n_samples,
        "n_components": n_components,
        "n_iter": int(model.n_iter_),
    }


def _unpack_offline(archive: Archive, model: SymNMF, state: State) -> None:
    n, n_samples, n_components, n_iter = archive.counts(
        state, "n_features", "n_samples", "n_components", "n_iter"
    )
    model.embedding_ = archive.array("embedding", (n_samples, n_components), np.float64, 0)
    model.cost_history_ = archive.array("cost_history", (n_iter + 1,), np.float64)
    model.cost_ = float(model.cost_history_[-1])
    model.labels_ = cluster_labels(model.embedding_)
    model.n_iter_ = n_iter
    model.n_features_in_ = n


class _Kind(NamedTuple):
    """A class of models that can be stored."""

    model: type[Model]
    fitted: str  # an attribute that only a fitted model has
    pack: Callable[..., State]
    unpack: Callable[..., None]


_KINDS = {
    "OnlineSNMF": _Kind(OnlineSNMF, "learner_", _pack_snmf, _unpack_snmf),
    "OnlinePCA": _Kind(OnlinePCA, "learner_", _pack_pca, _unpack_pca),
    "OnlineDictionary": _Kind(OnlineDictionary, "learner_", _pack_dictionary, _unpack_dictionary),
    "NonnegativeICA": _Kind(NonnegativeICA, "learner_", _pack_ica, _unpack_ica),
    "SymNMF": _Kind(SymNMF, "embedding_", _pack_offline, _unpack_offline),
}
