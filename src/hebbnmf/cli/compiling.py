"""A word to who waits while the kernels are compiled, which happens once on each machine."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hebbnmf.cli.messages import say

_SECONDS = 2.0
_TEXT = "Compiling for this machine, which is done once and may take a minute ..."


@contextmanager
def compile_notice(seconds: float = _SECONDS) -> Iterator[None]:
    """Say on standard error that kernels are being compiled, once that has taken some time."""
    from hebbnmf.engine.compiling import watch_compiler

    notice = _Notice(seconds)
    with watch_compiler(notice.start, notice.stop):
        yield


class _Notice:
    """A timer that runs while the compiler does."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._is_said = False

    def start(self) -> None:
        self._start = time.monotonic()
        self._timer = threading.Timer(max(self._left, 0), self._say)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        self._left -= time.monotonic() - self._start

    def _say(self) -> None:
        if not self._is_said:
            say(_TEXT, err=True)
        self._is_said = True
