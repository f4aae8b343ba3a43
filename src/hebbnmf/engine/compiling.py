"""Tells when kernels are compiled, which happens once on each machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

__all__ = ["watch_compiler"]


@contextmanager
def watch_compiler(on_start: Callable[[], object], on_end: Callable[[], object]) -> Iterator[None]:
    """Call functions, from any thread, whenever the compiler starts and whenever it is done."""

    class Watch(event.Listener):
        depth = 0  # kernels that a kernel calls are compiled within it

        def on_start(self, _event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                on_start()

        def on_end(self, _event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                on_end()

    with event.install_listener("numba:compile", Watch()):
        yield
