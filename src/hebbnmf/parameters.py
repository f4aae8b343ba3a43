"""Parameters: the rules that values must obey, and the one error for a value that does not."""

import re
from collections.abc import Callable
from dataclasses import field, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np


class Rule(NamedTuple):
    """What a value must be: in words, to follow "set it to", and as a test."""

    text: str
    holds: Callable[[object], bool]


def check_parameter(name: str, value: object, rule: Rule) -> None:
    """Raise ValueError, naming parameter, value and rule, unless the rule holds."""
    if not rule.holds(value):
        raise ValueError(f"{name}={value!r} cannot be used: set it to {rule.text}.")


def parameter(default: Any, rule: Rule) -> Any:
    """Declare a field of a dataclass with its rule, which `check_fields` checks."""
    return field(default=default, metadata={"rule": rule})


def check_fields(record: Any) -> None:
    """Check all fields of a dataclass that have a rule."""
    for f in fields(record):
        if "rule" in f.metadata:
            check_parameter(f.name, getattr(record, f.name), f.metadata["rule"])


def one_of(*choices: str) -> Rule:
    """Make the rule that a value is one of some strings."""
    text = " or ".join(filter(None, (", ".join(map(repr, choices[:-1])), repr(choices[-1]))))
    return Rule(text, lambda value: isinstance(value, str) and value in choices)


def optional(rule: Rule, meaning: str = "None") -> Rule:
    """Make the rule that a value obeys another one, or is None, whose meaning may be given."""
    return Rule(f"{rule.text}, or {meaning}", lambda value: value is None or rule.holds(value))


def either(rule: Rule, choice: str) -> Rule:
    """Make the rule that a value obeys another one, or is a string."""
    return Rule(
        f"{rule.text}, or {choice!r}",
        lambda value: rule.holds(value) or (isinstance(value, str) and value == choice),
    )


def count_up_to(limit: int) -> Rule:
    """Make the rule that a value is an integer from 1 to a limit."""

    def holds(value: Any) -> bool:
        return (
            isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= limit
        )

    return Rule(f"an integer from 1 to {limit:,}", holds)


def positive_up_to(limit: float) -> Rule:
    """Make the rule that a value is a number above 0, and at most a limit."""
    return Rule(
        f"a number above 0, at most {limit:g}",
        lambda value: _is_between(value, 0.0, limit) and value != 0,
    )


def _is_between(value: Any, least: float, most: float = float(np.finfo(np.float64).max)) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(value, np.floating):
        value = float(value)  # numpy would compare in its own type, where `most` may be infinite
    # Others as they are: an integer may be larger than any float.
    return is_number and bool(least <= value <= most)


def _is_memory(value: Any) -> bool:
    return _is_between(value, 0.0) and (_LEAST_SHARE <= value < 1 or value >= 2)


def share_of_percent(value: object) -> float | None:
    """Return the share that a text such as "50%" names, below 1; None if it names none."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?) ?%", value) if isinstance(value, str) else None
    share = float(match[1]) / 100 if match else 1.0
    return share if share < 1 else None


# Of a stream; one over it must be a number.
_LEAST_SHARE = 1e-12
# Some way below the largest integers, so that kernels can count on.
COUNT = count_up_to(10**15)
# Of samples: a thousand years at 250,000 a second. As floats, larger numbers are not exact.
LARGEST_COUNT = 2**53 - 1
POSITIVE = Rule("a finite number above 0", lambda value: _is_between(value, 0.0) and value != 0)
SHARE = Rule(
    "a number above 0 and below 1",
    lambda value: _is_between(value, 0.0, 1.0) and value not in (0, 1),
)
NON_NEGATIVE = Rule("a finite number of at least 0", lambda value: _is_between(value, 0.0))
# Its root is a feature of every sample, and weights are to stay far within the range of float32.
_LARGEST_OFFSET = 1e30
OFFSET = Rule(
    f"a number from 0 to {_LARGEST_OFFSET:g} or a share of the mean of |x|^2 below '100%', such as "
    "'50%'",
    lambda value: _is_between(value, 0.0, _LARGEST_OFFSET) or share_of_percent(value) is not None,
)
FLAG = Rule("True or False", lambda value: isinstance(value, bool | np.bool_))
MEMORY = Rule(
    "a number of samples of at least 2 or a share of the stream between 0 and 1", _is_memory
)
