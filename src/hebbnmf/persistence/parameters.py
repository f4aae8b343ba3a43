"""Parameters of a model as JSON, and back."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from hebbnmf.persistence.archives import Archive, Arrays, Json, is_count

__all__ = ["pack_parameters", "pack_seed", "pack_value", "unpack_parameters", "unpack_seed"]

_NOT_STORED = {"n_jobs"}  # a matter of the machine, not of the model
_RANDOM_STATE = ("MT19937", "position", "has_gauss", "cached_gaussian")
# The size of the state of MT19937, and the largest deviate that it makes from 106 bits, rounded up.
_N_WORDS, _LARGEST_GAUSSIAN = 624, 16.0


def pack_parameters(model: BaseEstimator, arrays: Arrays) -> dict[str, Json]:
    """Describe the parameters of a model; the number of threads belongs to the machine."""
    plain = {}
    for name, value in model.get_params(deep=False).items():
        if name in _NOT_STORED:
            continue
        if name == "random_state":
            plain[name] = pack_seed(value)
        elif name == "init" and not isinstance(value, str):
            arrays["init"] = np.asarray(value, np.float64)
            plain[name] = {"array": "init"}
        else:
            plain[name] = pack_value(name, value)
    return plain


def pack_value(name: str, value: object) -> Json:
    """Return a parameter as JSON; refuse one that JSON cannot hold."""
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


def pack_seed(state: int | np.random.RandomState | None) -> Json:
    """Return the parameter ``random_state`` as JSON."""
    if not isinstance(state, np.random.RandomState):
        return pack_value("random_state", state)
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


def unpack_parameters(archive: Archive, names: Iterable[str], plain: Json) -> dict[str, Json]:
    """Return the parameters of a model that has those names; their values are not checked yet."""
    wanted = set(names) - _NOT_STORED
    archive.require(isinstance(plain, dict) and set(plain) == wanted, "parameters do not fit")
    values = dict(plain)
    values["random_state"] = unpack_seed(archive, values["random_state"])
    if isinstance(values.get("init"), dict):
        shape = archive.shape("init")
        archive.require(len(shape) == 2, "init is not a matrix")
        values["init"] = archive.array("init", shape, np.float64)
    return values


def unpack_seed(archive: Archive, plain: Json) -> int | np.random.RandomState | None:
    """Return the parameter ``random_state``."""
    if isinstance(plain, dict):
        return _unpack_random_state(archive, plain)
    archive.require(
        plain is None or (is_count(plain) and plain < 2**32), "random_state is not a seed"
    )
    return plain


def _unpack_random_state(archive: Archive, state: dict[str, Json]) -> np.random.RandomState:
    """Make a random state; numpy would read out of bounds at a wrong position."""
    archive.require(set(state) == set(_RANDOM_STATE), "random_state has other keys than the format")
    words, position, has_gauss, gauss = (state[key] for key in _RANDOM_STATE)
    archive.require(
        isinstance(words, list)
        and len(words) == _N_WORDS
        and all(is_count(word) and word < 2**32 for word in words)
        and any(words[1:])  # from zeros come zeros alone, which a normal deviate is never made of
        and is_count(position)
        and position <= _N_WORDS
        and is_count(has_gauss)
        and has_gauss <= 1
        and isinstance(gauss, float)
        and abs(gauss) <= _LARGEST_GAUSSIAN,
        "random_state is not a state of MT19937",
    )
    made = np.random.RandomState()
    made.set_state(("MT19937", words, position, has_gauss, gauss))
    return made
