"""The only place that configures numba."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core.options import DefaultOptions

F = TypeVar("F", bound=Callable[..., Any])

# Everything that lets LLVM vectorise a sum, and nothing that assumes there are no NaN.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}
# `_nrt` is not a public option of numba: only where it is known.
_UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_INNER = _OPTIONS | _UNCOUNTED | {"fastmath": _OPTIONS["fastmath"] | {"nnan"}}


def jit(function: F) -> F:
    """Compile a kernel on its first call, and keep the machine code on disk where possible."""
    return _compile(function, _OPTIONS)


def jit_inner(function: F) -> F:
    """Compile a kernel that allocates nothing, and is called for every sample.

    It needs no reference counts; with them each view of a row costs a locked increment and
    decrement, a seventh of the time at 256 units. What such a kernel calls must not allocate
    either: numba hands the option on. Rows hold no NaN, as `check_rows` sees to, and to know that
    saves LLVM a quarter of the time; but it may then take two roots for the root of a product,
    which overflows: not for kernels that multiply roots.
    """
    return _compile(function, _INNER)


def jit_inline(function: F) -> F:
    """Compile as by `jit_inner`, into the caller: for few units a call costs more than its work."""
    return _compile(function, _INNER | {"forceinline": True})


def _compile(function: F, options: dict[str, Any]) -> F:
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written.
        return numba.njit(**options)(function)
