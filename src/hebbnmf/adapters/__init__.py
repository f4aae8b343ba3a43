"""The network in the terms of other packages; each adapter needs its own extra."""

from importlib import import_module
from typing import Any

__all__ = ["river"]


def __getattr__(name: str) -> Any:
    """Import an adapter on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"hebbnmf.adapters.{name}")
