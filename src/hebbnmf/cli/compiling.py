"""A word to who waits while the kernels are compiled, which happens once on each machine."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hebbnmf.cli.messages import say

_SECONDS = 2.0
_TEXT = "Compiling for this machine, which is done once and may take a minute ..."


@contextmanager
def compile_notice(seconds: float = _SECONDS) -> Iterator[None]:
    """Say on standard error that kernels are being compiled, once that has taken some time."""
    from numba.core import event

    class Notice(event.Listener):
        depth = 0  # kernels that a kernel calls are compiled within it
        spent = 0.0
        said = False

        def on_start(self, _event: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                self.start = time.monotonic()
                self.timer = threading.Timer(max(seconds - self.spent, 0), self.say)
                self.timer.daemon = True
                self.timer.start()

        def on_end(self, _event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.timer.cancel()
                self.spent += time.monotonic() - self.start

        def say(self) -> None:
            if not self.said:
                say(_TEXT, err=True)
            self.said = True

    with event.install_listener("numba:compile", Notice()):
        yield
