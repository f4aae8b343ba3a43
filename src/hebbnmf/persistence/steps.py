"""Steps of preprocessing in a model file: their parameters, and the arrays they learned."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from hebbnmf.feature_map import RBFMap
from hebbnmf.parameters import COUNT, FLAG, MEMORY, NON_NEGATIVE, POSITIVE, Rule, either, optional
from hebbnmf.persistence.archives import Archive, Arrays, Json
from hebbnmf.persistence.parameters import pack_seed, pack_value, unpack_seed
from hebbnmf.preprocessing import MissingFiller, PatchNormalizer, RunningScaler, ZCAWhitener

__all__ = ["Step", "name_of_step", "pack_step", "unpack_step"]

Step = Any  # a transformer of any of the classes below


class _Step(NamedTuple):
    """A step of preprocessing that can be stored: its parameters, and its learned arrays."""

    kind: type[Step]
    parameters: dict[str, Rule]
    arrays: dict[str, str]  # attribute: its shape; n features, k landmarks, 1 for a number
    optional: tuple[str, ...] = ()  # attributes that may be missing
    counts_samples: bool = True
    seeded: bool = False


_EPS = {"eps": NON_NEGATIVE}
_STEPS = {
    "MissingFiller": _Step(MissingFiller, {"with_mean": FLAG}, {"mean_": "n", "n_present_": "n"}),
    "PatchNormalizer": _Step(PatchNormalizer, _EPS, {}, counts_samples=False),
    "RBFMap": _Step(
        RBFMap,
        {"gamma": either(POSITIVE, "median"), "n_landmarks": COUNT},
        {"landmarks_": "kn", "normalization_": "kk", "gamma_": "1"},
        counts_samples=False,
        seeded=True,
    ),
    "RunningScaler": _Step(
        RunningScaler,
        {"memory": optional(MEMORY)},
        {"mean_": "n", "var_": "n", "weight_": "1"},
    ),
    "StandardScaler": _Step(
        StandardScaler,
        {"with_mean": FLAG, "with_std": FLAG},
        {"mean_": "n", "var_": "n", "scale_": "n"},
        optional=("mean_", "var_", "scale_"),
    ),
    "ZCAWhitener": _Step(
        ZCAWhitener,
        _EPS,
        {
            "mean_": "n",
            "covariance_": "nn",
            "whitening_": "nn",
            "stream_mean_": "n",
            "stream_whitening_": "nn",
        },
        optional=("whitening_", "stream_mean_", "stream_whitening_"),
    ),
}
# Ranges of their entries: squares of rows that went through them are numbers.
_RANGES = {
    "gamma_": (1e-300, 1e300),
    "landmarks_": (-1e150, 1e150),
    "normalization_": (-1e12, 1e12),
    "weight_": (1.0, 2.0**63),
    "mean_": (-1e150, 1e150),
    "n_present_": (0.0, 2.0**53),
    "var_": (0.0, 1e300),
    "scale_": (1e-150, 1e150),
    "covariance_": (-1e300, 1e300),
    "whitening_": (-1e150, 1e150),
    "stream_mean_": (-1e150, 1e150),
    "stream_whitening_": (-1e150, 1e150),
}


def name_of_step(step: Step) -> str:
    """Return the name that files give to a step, or raise TypeError if it cannot be saved."""
    name = next((name for name, known in _STEPS.items() if type(step) is known.kind), None)
    if name is None:
        raise TypeError(
            f"{type(step).__name__} cannot be saved: preprocessing may be {', '.join(_STEPS)}."
        )
    return name


def pack_step(step: Step, i: int, arrays: Arrays, *, fitted: bool = True) -> dict[str, Json]:
    """Describe step number i, and add its arrays; it must be fitted unless told otherwise."""
    name = name_of_step(step)
    known = _STEPS[name]
    if fitted:
        check_is_fitted(step, "n_features_in_")
    for attribute in known.arrays:
        # From the instance alone: a whitening matrix not yet asked for is not computed here.
        value = vars(step).get(attribute)
        if value is not None:
            arrays[f"step{i}.{attribute}"] = np.atleast_1d(np.asarray(value, np.float64))
    n_samples = getattr(step, "n_samples_seen_", 0)
    if np.ndim(n_samples):
        raise ValueError(f"{name} was fitted to data with missing values and cannot be saved.")
    parameters = {p: pack_value(p, getattr(step, p)) for p in known.parameters}
    if known.seeded:
        parameters["random_state"] = pack_seed(step.random_state)
    names = getattr(step, "feature_names_in_", None)
    return {
        "class": name,
        "parameters": parameters,
        "n_features": int(getattr(step, "n_features_in_", 0)),
        "n_samples": int(n_samples),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def unpack_step(archive: Archive, plain: Json, i: int) -> Step:
    """Make step number i from its description and its arrays."""
    keys = {"class", "parameters", "n_features", "n_samples"}
    if archive.header["version"] >= 3:
        keys.add("feature_names")
    archive.require(
        isinstance(plain, dict) and set(plain) == keys and plain["class"] in list(_STEPS),
        f"step {i} of preprocessing is not known",
    )
    known = _STEPS[plain["class"]]
    step = known.kind(**_unpack_parameters(archive, known, plain["parameters"], i))
    n, n_samples = archive.counts(plain, "n_features", "n_samples")
    names = plain.get("feature_names")
    archive.require(
        names is None
        or (isinstance(names, list) and len(names) == n and all(isinstance(x, str) for x in names)),
        f"feature names of step {i} do not fit",
    )
    if n == 0:
        return step
    _unpack_arrays(archive, known, step, i, n)
    step.n_features_in_ = n
    if names is not None:
        step.feature_names_in_ = np.array(names, dtype=object)
    if known.counts_samples:
        step.n_samples_seen_ = np.int64(n_samples)  # a numpy integer: scikit-learn reads its shape
    return step


def _unpack_parameters(archive: Archive, known: _Step, plain: Json, i: int) -> dict[str, Json]:
    wanted = {*known.parameters, "random_state"} if known.seeded else set(known.parameters)
    archive.require(
        isinstance(plain, dict)
        and set(plain) == wanted
        and all(rule.holds(plain[name]) for name, rule in known.parameters.items()),
        f"parameters of step {i} do not fit",
    )
    if known.seeded:
        return {**plain, "random_state": unpack_seed(archive, plain["random_state"])}
    return dict(plain)


def _unpack_arrays(archive: Archive, known: _Step, step: Step, i: int, n: int) -> None:
    """Set the learned attributes of a step of n features."""
    sizes = {"n": n, "1": 1}
    for attribute, letters in known.arrays.items():
        name = f"step{i}.{attribute}"
        if name not in archive:
            archive.require(attribute in known.optional, f"the array {name!r} is missing")
            if known.kind is StandardScaler:
                setattr(step, attribute, None)
            continue
        for letter, size in zip(letters, archive.shape(name), strict=False):
            sizes.setdefault(letter, size)
        shape = tuple(sizes[letter] for letter in letters)
        value = archive.array(name, shape, np.float64, *_RANGES[attribute])
        setattr(step, attribute, float(value[0]) if letters == "1" else value)
    if isinstance(step, StandardScaler):
        whole = (step.mean_ is not None or not step.with_mean) and (
            step.scale_ is None
        ) != step.with_std
        archive.require(whole, f"arrays of step {i} do not fit its parameters")
    if isinstance(step, ZCAWhitener):
        whole = hasattr(step, "stream_mean_") == hasattr(step, "stream_whitening_")
        archive.require(whole, f"arrays of step {i} are missing")
