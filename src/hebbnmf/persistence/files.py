"""Model files: what a fitted model is, in arrays and JSON, and back; see docs/model_format.md."""

import platform
from collections.abc import Sequence
from importlib.metadata import version as version_of
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import hebbnmf
from hebbnmf.cost import RunningCost, cluster_labels
from hebbnmf.engine.network import Network
from hebbnmf.engine.plasticity import Weights
from hebbnmf.estimators import OnlineSNMF, SymNMF
from hebbnmf.persistence.archives import Archive, ModelFileError, is_count, write_archive
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener

__all__ = ["ModelFile", "ModelFileError", "load", "read", "save"]

FORMAT = "hebbnmf-model"
VERSION = 1
Model = OnlineSNMF | SymNMF
Arrays = dict[str, NDArray[Any]]
_MODELS: dict[str, type[Model]] = {"OnlineSNMF": OnlineSNMF, "SymNMF": SymNMF}
_KEYS = {"format", "version", "class", "parameters", "feature_names", "state", "preprocessing"}
_KEYS |= {"position", "libraries"}
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


class ModelFile(NamedTuple):
    """What a model file holds."""

    model: Model
    preprocessing: list[Any]  # fitted steps, first to last, through which samples go to the model
    position: dict[str, Any] | None  # of the stream, in a checkpoint
    libraries: dict[str, str]  # versions that wrote the file


class _Step(NamedTuple):
    """A step of preprocessing that can be stored: its parameters, and its learned arrays."""

    kind: type[Any]
    parameters: tuple[str, ...]
    arrays: dict[str, int]  # attribute: number of dimensions, each of n_features


_STEPS = {
    "PatchNormalizer": _Step(PatchNormalizer, ("eps",), {}),
    "StandardScaler": _Step(
        StandardScaler, ("with_mean", "with_std"), {"mean_": 1, "var_": 1, "scale_": 1}
    ),
    "ZCAWhitener": _Step(ZCAWhitener, ("eps",), {"mean_": 1, "covariance_": 2, "whitening_": 2}),
}


def save(
    model: Model,
    path: str | PathLike[str],
    *,
    preprocessing: Sequence[Any] = (),
    position: dict[str, Any] | None = None,
) -> None:
    """Write a model to a file that goes on learning, once loaded, as if it had never stopped.

    The file appears whole or not at all: whatever was at `path` stays until the new file is
    safely on disk. It holds no code and no pickle.

    Parameters
    ----------
    model : OnlineSNMF or SymNMF
        The model, fitted or not.
    path : path
        Where to write; by custom the name ends in ``.npz``.
    preprocessing : sequence of fitted transformers, default=()
        The steps that samples go through before the model sees them, in order: `ZCAWhitener`,
        `PatchNormalizer` or scikit-learn's `StandardScaler`.
    position : dict, optional
        The position of the stream that the model learns from, which makes a checkpoint.

    Examples
    --------
    >>> import os, tempfile
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.persistence import load, save
    >>> net = OnlineSNMF(2, rank_penalty=0.5).partial_fit([[2.0, 0.0], [0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(net, os.path.join(folder, "net.npz"))
    ...     again = load(os.path.join(folder, "net.npz"))
    >>> again.partial_fit([[2.0, 1.0]]).components_.tolist()
    [[1.0, 0.25], [1.0, 1.0]]
    """
    name = next((name for name, kind in _MODELS.items() if type(model) is kind), None)
    if name is None:
        raise TypeError(
            f"{type(model).__name__} cannot be saved: give a model of class OnlineSNMF or SymNMF."
        )
    arrays: Arrays = {}
    feature_names = getattr(model, "feature_names_in_", None)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": name,
        "parameters": _plain_parameters(model, arrays),
        "feature_names": None if feature_names is None else [str(n) for n in feature_names],
        "state": _pack(model, arrays),
        "preprocessing": [_pack_step(step, i, arrays) for i, step in enumerate(preprocessing)],
        "position": position,
        "libraries": {
            "hebbnmf": hebbnmf.__version__,
            "python": platform.python_version(),
            **{library: version_of(library) for library in _LIBRARIES},
        },
    }
    write_archive(path, header, arrays)


def load(path: str | PathLike[str]) -> Model:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path
        The file. One with preprocessing is refused, since the model alone would answer raw
        samples wrongly: use `read`.

    Returns
    -------
    OnlineSNMF or SymNMF
        The model, the same to the last bit.
    """
    file = read(path)
    if file.preprocessing:
        steps = ", ".join(type(step).__name__ for step in file.preprocessing)
        raise ValueError(
            f"{path!s} holds preprocessing too ({steps}), without which the model answers wrongly; "
            "use hebbnmf.persistence.read, which returns both."
        )
    return file.model


def read(path: str | PathLike[str]) -> ModelFile:
    """Read all that a model file holds: model, preprocessing and, in a checkpoint, position.

    Parameters
    ----------
    path : path
        The file. It need not be trusted: every byte is checked before use.

    Returns
    -------
    ModelFile
        The contents. A file that is not sound raises `ModelFileError`.
    """
    with Archive(path) as archive:
        header = archive.header
        _check_version(archive, header)
        archive.require(set(header) == _KEYS, "its JSON text has other keys than the format")
        archive.require(header["class"] in list(_MODELS), f"{header['class']!r} is no known class")
        with archive.sound():
            model = _unpack(archive, header)
            steps = header["preprocessing"]
            archive.require(isinstance(steps, list), "preprocessing is not a list")
            preprocessing = [_unpack_step(archive, step, i) for i, step in enumerate(steps)]
            n_features = getattr(model, "n_features_in_", None)
            for step in preprocessing:
                archive.require(
                    n_features in (None, step.n_features_in_), "features of a step do not fit"
                )
            position, libraries = header["position"], header["libraries"]
            archive.require(isinstance(position, dict | None), "position is not an object")
            archive.require(
                isinstance(libraries, dict)
                and all(isinstance(value, str) for value in libraries.values()),
                "libraries are not named",
            )
        archive.finish()
        return ModelFile(model, preprocessing, position, libraries)


def _check_version(archive: Archive, header: dict[str, Any]) -> None:
    archive.require(header.get("format") == FORMAT, f"its format is not {FORMAT!r}")
    version = header.get("version")
    archive.require(is_count(version) and version != 0, "it has no format version")
    if version != VERSION:
        libraries = header.get("libraries")
        writer = libraries.get("hebbnmf") if isinstance(libraries, dict) else None
        raise ModelFileError(
            f"{archive.path!r} is of format version {version}, but hebbnmf "
            f"{hebbnmf.__version__} reads version {VERSION}: install hebbnmf "
            f"{writer or 'in a newer version'} or later to load it."
        )


# Parameters ---------------------------------------------------------------------------------------


def _plain_parameters(model: Model, arrays: Arrays) -> dict[str, Any]:
    plain = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            plain[name] = _pack_random_state(value)
        elif name == "init" and not isinstance(value, str):
            arrays["init"] = np.asarray(value, np.float64)
            plain[name] = {"array": "init"}
        else:
            plain[name] = _plain(name, value)
    return plain


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and np.isfinite(float(value)):
        return float(value)
    raise ValueError(
        f"{name}={value!r} cannot be saved: parameters must be finite numbers, strings or None."
    )


def _pack_random_state(state: np.random.RandomState) -> dict[str, Any]:
    full: Any = state.get_state(legacy=False)
    if full["bit_generator"] != "MT19937":
        raise ValueError(
            f"random_state of kind {full['bit_generator']} cannot be saved: use an integer."
        )
    return {
        "MT19937": full["state"]["key"].tolist(),
        "position": int(full["state"]["pos"]),
        "has_gauss": int(full["has_gauss"]),
        "cached_gaussian": float(full["gauss"]),
    }


def _unpack_parameters(archive: Archive, kind: type[Model], plain: Any) -> Model:
    names = set(kind().get_params())
    archive.require(isinstance(plain, dict) and set(plain) == names, "parameters do not fit")
    values = dict(plain)
    state = values["random_state"]
    if isinstance(state, dict):
        values["random_state"] = np.random.RandomState()
        values["random_state"].set_state(
            (
                "MT19937",
                state["MT19937"],
                state["position"],
                state["has_gauss"],
                state["cached_gaussian"],
            )
        )
    else:
        archive.require(
            state is None or (is_count(state) and state < 2**32), "random_state is no seed"
        )
    if isinstance(values.get("init"), dict):
        shape = archive.shape("init")
        archive.require(len(shape) == 2, "init is not a matrix")
        values["init"] = archive.array("init", shape, np.float64)
    model = kind(**values)
    if isinstance(model, OnlineSNMF):
        model._checked_settings()
    else:
        model._check_parameters()
    return model


# State of the models ------------------------------------------------------------------------------


def _pack(model: Model, arrays: Arrays) -> dict[str, Any] | None:
    """Describe what a model has learned; None for a model that is not fitted."""
    if isinstance(model, SymNMF):
        if not hasattr(model, "embedding_"):
            return None
        arrays["embedding"] = model.embedding_
        arrays["cost_history"] = model.cost_history_
        return {"n_features": int(model.n_features_in_), "n_samples": len(model.embedding_)} | {
            "n_components": model.embedding_.shape[1],
            "n_iter": int(model.n_iter_),
        }
    if not model.__sklearn_is_fitted__():
        return None
    network, cost = model._network, model._running_cost
    arrays.update(network.state._asdict())
    labels = np.asarray(getattr(model, "labels_", np.empty(0)), np.int64)
    arrays["labels"] = labels
    if cost is not None:
        arrays["triangle"] = cost.triangle
    return {
        "n_features": network.n_features,
        "n_units": network.n_units,
        "n_samples": network.n_samples,
        "dtype": network.dtype.name,
        "n_iter": int(getattr(model, "n_iter_", 0)),
        "n_labels": len(labels),
        "cost_samples": None if cost is None else cost.n_samples,
    }


def _unpack(archive: Archive, header: dict[str, Any]) -> Model:
    model = _unpack_parameters(archive, _MODELS[header["class"]], header["parameters"])
    state, names = header["state"], header["feature_names"]
    if state is None:
        archive.require(names is None, "feature names belong to a fitted model")
        return model
    archive.require(isinstance(state, dict), "the state is not an object")
    if isinstance(model, OnlineSNMF):
        _restore_online(archive, model, state)
    else:
        _restore_offline(archive, model, state)
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


def _restore_online(archive: Archive, model: OnlineSNMF, state: dict[str, Any]) -> None:
    n, K, n_samples, n_iter, n_labels = _counts(
        archive, state, "n_features", "n_units", "n_samples", "n_iter", "n_labels"
    )
    archive.require(state["dtype"] in ("float32", "float64"), "dtype is not float32 or float64")
    archive.require(K <= n_samples, f"{K} units cannot come from {n_samples} samples")
    weights = Weights(
        V=archive.array("V", (K, n), state["dtype"]),
        N_T=archive.array("N_T", (K, K), state["dtype"]),
        s=archive.array("s", (K,), np.float64),
        Yhat=archive.array("Yhat", (K,), np.float64),
    )
    archive.require(bool((weights.N_T >= 0).all()), "lateral weights are negative")
    archive.require(not weights.N_T.diagonal().any(), "units inhibit themselves")
    archive.require(bool((weights.s > 0).all()), "row scales are not positive")
    archive.require(bool((weights.Yhat > 0).all()), "cumulative activity is not positive")
    labels = archive.array("labels", (n_labels,), np.int64)
    archive.require(bool(((labels >= -1) & (labels < max(K, 1))).all()), "labels are no units")
    model._network = Network(n, dtype=state["dtype"], **model._checked_settings())
    model._network.restore(weights, n_samples)
    model._running_cost = None
    if state["cost_samples"] is not None:
        model._running_cost = _restore_cost(archive, state, n + K, n)
    model.n_features_in_ = n
    model.labels_ = labels.astype(np.intp)
    model.n_iter_ = n_iter


def _restore_cost(archive: Archive, state: dict[str, Any], size: int, n: int) -> RunningCost:
    (n_samples,) = _counts(archive, state, "cost_samples")
    if n_samples == 0:
        size = n = 0
    # In the memory order of LAPACK: sums over the other order round differently.
    triangle = np.asfortranarray(archive.array("triangle", (size, size), np.float64))
    archive.require(not np.tril(triangle, -1).any(), "the cost is not kept as a triangle")
    return RunningCost(triangle, n, n_samples)


def _restore_offline(archive: Archive, model: SymNMF, state: dict[str, Any]) -> None:
    n, n_samples, n_components, n_iter = _counts(
        archive, state, "n_features", "n_samples", "n_components", "n_iter"
    )
    model.embedding_ = archive.array("embedding", (n_samples, n_components), np.float64)
    archive.require(bool((model.embedding_ >= 0).all()), "the embedding is negative")
    model.cost_history_ = archive.array("cost_history", (n_iter + 1,), np.float64)
    model.cost_ = float(model.cost_history_[-1])
    model.labels_ = cluster_labels(model.embedding_)
    model.n_iter_ = n_iter
    model.n_features_in_ = n


def _counts(archive: Archive, state: dict[str, Any], *names: str) -> tuple[int, ...]:
    for name in names:
        archive.require(is_count(state.get(name)), f"{name} is not a count")
    return tuple(state[name] for name in names)


# Preprocessing ------------------------------------------------------------------------------------


def _pack_step(step: Any, i: int, arrays: Arrays) -> dict[str, Any]:
    name = next((name for name, known in _STEPS.items() if type(step) is known.kind), None)
    if name is None:
        raise TypeError(
            f"{type(step).__name__} cannot be saved: preprocessing may be {', '.join(_STEPS)}."
        )
    check_is_fitted(step, "n_features_in_")
    for attribute in _STEPS[name].arrays:
        # From the instance alone: a whitening matrix not yet asked for is not computed here.
        value = vars(step).get(attribute)
        if value is not None:
            arrays[f"step{i}.{attribute}"] = np.asarray(value, np.float64)
    n_samples = getattr(step, "n_samples_seen_", 0)
    if np.ndim(n_samples):
        raise ValueError(f"{name} was fitted to data with missing values and cannot be saved.")
    return {
        "class": name,
        "parameters": {p: _plain(p, getattr(step, p)) for p in _STEPS[name].parameters},
        "n_features": int(step.n_features_in_),
        "n_samples": int(n_samples),
    }


def _unpack_step(archive: Archive, plain: Any, i: int) -> Any:
    archive.require(
        isinstance(plain, dict)
        and set(plain) == {"class", "parameters", "n_features", "n_samples"}
        and plain["class"] in list(_STEPS),
        f"step {i} of preprocessing is not known",
    )
    known = _STEPS[plain["class"]]
    parameters = plain["parameters"]
    archive.require(
        isinstance(parameters, dict)
        and set(parameters) == set(known.parameters)
        and all(
            isinstance(v, bool) or (isinstance(v, int | float) and v >= 0)
            for v in parameters.values()
        ),
        f"parameters of step {i} do not fit",
    )
    step = known.kind(**parameters)
    n, n_samples = _counts(archive, plain, "n_features", "n_samples")
    for attribute, n_dimensions in known.arrays.items():
        name = f"step{i}.{attribute}"
        if name in archive:
            setattr(step, attribute, archive.array(name, (n,) * n_dimensions, np.float64))
        else:
            optional = known.kind is StandardScaler or attribute == "whitening_"
            archive.require(optional, f"the array {name!r} is missing")
            if known.kind is StandardScaler:
                setattr(step, attribute, None)
    if isinstance(step, StandardScaler):
        whole = (step.mean_ is not None or not step.with_mean) and (
            step.scale_ is None
        ) != step.with_std
        archive.require(whole, f"arrays of step {i} do not fit its parameters")
        archive.require(step.scale_ is None or step.scale_.min() > 0, f"scales of step {i} vanish")
    step.n_features_in_ = n
    if known.arrays:
        # Of numpy's own integers, as scikit-learn looks for its shape.
        step.n_samples_seen_ = np.int64(n_samples)
    return step
