"""Messages: those of a page, read with distrust into orders, and facts for the page."""

import json
from typing import Any, NamedTuple

from hebbnmf.live.exchange import Order
from hebbnmf.parameters import NON_NEGATIVE, POSITIVE, either, optional

__all__ = ["MESSAGE_BYTES", "Message", "read_message", "to_json"]

MESSAGE_BYTES = 1024
_ACTIONS = ("pause", "resume", "step", "save")
# Whether the model takes a setting is for the model to say; here only its kind is looked at.
_SETTINGS = {
    "speed": optional(POSITIVE),
    "memory": optional(NON_NEGATIVE),
    "rank_penalty": either(NON_NEGATIVE, "auto"),
}
_MOST_UNITS = 2**31


class Message(NamedTuple):
    """What a page says: that it can draw another frame, which unit is chosen, an order."""

    is_ready: bool = False
    chooses: bool = False
    unit: int | None = None
    order: Order | None = None


def read_message(text: str) -> Message:
    """Read one message, or raise ValueError.

    Examples
    --------
    >>> from hebbnmf.live.messages import read_message
    >>> read_message('{"set": ["memory", 0.2]}').order
    Order(name='memory', value=0.2)
    >>> read_message('{"set": ["dtype", "float32"]}')
    Traceback (most recent call last):
    ...
    ValueError: {"set": ["dtype", "float32"]} is not a message of the page.
    """
    error = ValueError(f"{text[:80]} is not a message of the page.")
    try:
        ((kind, value),) = json.loads(text).items()
    except (ValueError, AttributeError, RecursionError):
        raise error from None
    message = _message(kind, value)
    if message is None:
        raise error
    return message


def to_json(facts: dict[str, Any]) -> str:
    """Write facts as JSON; numbers of numpy, and fractions, are numbers."""
    return json.dumps(facts, default=float, allow_nan=False)


def _message(kind: str, value: Any) -> Message | None:
    if kind == "ready" and value is True:
        return Message(is_ready=True)
    if kind == "unit" and (value is None or (type(value) is int and 0 <= value < _MOST_UNITS)):
        return Message(chooses=True, unit=value)
    if kind == "do" and isinstance(value, str) and value in _ACTIONS:
        return Message(order=Order(value))
    if kind == "set" and isinstance(value, list) and len(value) == 2:
        name, setting = value
        if isinstance(name, str) and name in _SETTINGS and _SETTINGS[name].holds(setting):
            return Message(order=Order(name, setting))
    return None
