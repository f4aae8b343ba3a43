"""Signals of a command: SIGINT and SIGTERM end it as a KeyboardInterrupt, with a shell's code."""

import signal
import threading
from types import FrameType
from typing import Self

__all__ = ["Interrupts"]


class Interrupts:
    """Raises KeyboardInterrupt at SIGINT and SIGTERM in a with block, and notes which it was.

    So the stack unwinds, and no unfinished file is left behind. Python drops exceptions
    raised in destructors; `should_stop` still reports the signal.
    """

    signum: int | None = None

    def __enter__(self) -> Self:
        self._previous = {}
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._previous[signum] = signal.signal(signum, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def should_stop(self) -> bool:
        """Return whether a signal has come."""
        return self.signum is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a command that a signal has ended."""
        return 128 + (self.signum or signal.SIGINT)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.signum = signum
        raise KeyboardInterrupt
