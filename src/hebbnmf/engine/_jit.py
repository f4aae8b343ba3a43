"""The only place that configures numba."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Everything that lets LLVM vectorise a sum, and nothing that assumes there are no NaN.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def jit(function: F) -> F:
    """Compile a kernel on its first call, and keep the machine code on disk where possible."""
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written.
        return numba.njit(**_OPTIONS)(function)
