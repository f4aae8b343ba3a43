"""Steps of preprocessing in a model file: their parameters, and the arrays they learned."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from hebbnmf.parameters import FLAG, NON_NEGATIVE
from hebbnmf.persistence.archives import Archive, Arrays, Json
from hebbnmf.persistence.parameters import pack_value
from hebbnmf.preprocessing import MissingFiller, PatchNormalizer, ZCAWhitener

__all__ = ["Step", "pack_step", "unpack_step"]

Step = Any  # a fitted transformer of any of the classes below


class _Step(NamedTuple):
    """A step of preprocessing that can be stored: its parameters, and its learned arrays."""

    kind: type[Step]
    parameters: tuple[str, ...]
    arrays: dict[str, int]  # attribute: number of dimensions, each of n_features


_STEPS = {
    "MissingFiller": _Step(MissingFiller, ("with_mean",), {"mean_": 1, "n_present_": 1}),
    "PatchNormalizer": _Step(PatchNormalizer, ("eps",), {}),
    "StandardScaler": _Step(
        StandardScaler, ("with_mean", "with_std"), {"mean_": 1, "var_": 1, "scale_": 1}
    ),
    "ZCAWhitener": _Step(ZCAWhitener, ("eps",), {"mean_": 1, "covariance_": 2, "whitening_": 2}),
}
# Ranges of their entries: squares of rows that went through them are numbers.
_RANGES = {
    "mean_": (-1e150, 1e150),
    "n_present_": (0.0, 2.0**53),
    "var_": (0.0, 1e300),
    "scale_": (1e-150, 1e150),
    "covariance_": (-1e300, 1e300),
    "whitening_": (-1e150, 1e150),
}


def pack_step(step: Step, i: int, arrays: Arrays) -> dict[str, Json]:
    """Describe fitted step number i, and add its arrays."""
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
        "parameters": {p: pack_value(p, getattr(step, p)) for p in _STEPS[name].parameters},
        "n_features": int(step.n_features_in_),
        "n_samples": int(n_samples),
    }


def unpack_step(archive: Archive, plain: Json, i: int) -> Step:
    """Make step number i from its description and its arrays."""
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
            FLAG.holds(value) if name.startswith("with_") else NON_NEGATIVE.holds(value)
            for name, value in parameters.items()
        ),
        f"parameters of step {i} do not fit",
    )
    step = known.kind(**parameters)
    n, n_samples = archive.counts(plain, "n_features", "n_samples")
    for attribute, n_dimensions in known.arrays.items():
        name = f"step{i}.{attribute}"
        if name in archive:
            shape, (least, most) = (n,) * n_dimensions, _RANGES[attribute]
            setattr(step, attribute, archive.array(name, shape, np.float64, least, most))
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
    step.n_features_in_ = n
    if known.arrays:
        step.n_samples_seen_ = np.int64(n_samples)  # a numpy integer: scikit-learn reads its shape
    return step
