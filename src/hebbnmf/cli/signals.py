"""Signals of a command: they end it as a KeyboardInterrupt, with a shell's code."""

import atexit
import gc
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

__all__ = ["Interrupts"]

# Ctrl-C, the end of a job, a terminal that is closed (not on Windows).
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
# Seconds in which a command must have ended, or begun to save.
_PATIENCE = 0.8

# The last collections of the interpreter go through all that numba, scipy and matplotlib hold, and
# take three quarters of a second: most of what passes between Ctrl-C and the prompt.
atexit.register(gc.freeze)


class Interrupts:
    """Raises KeyboardInterrupt at a signal to end in a with block, and notes which it was.

    So the stack unwinds, and no unfinished file is left behind. Python drops exceptions
    raised in destructors; `should_stop` still reports the signal.

    Python handles signals between calls of kernels, and a single response of a large network that
    does not converge takes minutes. A thread hears of signals at once, and ends the process if the
    command does not end soon. Files are whole or absent then too, since they appear at once.

    It takes `os._exit`: neither an exception nor `sys.exit` reaches a thread that is in a kernel,
    and the interpreter waits for that thread on any other way out.

    Signals that are ignored stay so: those that `nohup`, or a shell in the background, keeps away.
    """

    signum: int | None = None
    # Set by a command that saves what it has: that may take as long as it takes.
    saves = False
    _is_waiting = False

    def __enter__(self) -> Self:
        self._previous = {}
        self._bell: socket.socket | None = None
        self._is_heard, self._is_over = threading.Event(), threading.Event()
        if threading.current_thread() is threading.main_thread():
            bell, self._bell = socket.socketpair()
            self._bell.setblocking(False)
            self._previous_bell = signal.set_wakeup_fd(self._bell.fileno())
            for signum in _SIGNALS:
                if signal.getsignal(signum) != signal.SIG_IGN:
                    self._previous[signum] = signal.signal(signum, self._interrupt)
            threading.Thread(target=self._watch, args=(bell,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        if self._bell is not None:
            signal.set_wakeup_fd(self._previous_bell)
            self._bell.close()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for what is done within, however long a disk takes: nothing of it would be left."""
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False

    def should_stop(self) -> bool:
        """Return whether a signal has come."""
        return self.signum is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a command that a signal has ended."""
        return 128 + (self.signum or signal.SIGINT)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.signum = signum
        self._is_heard.set()
        raise KeyboardInterrupt

    def _watch(self, bell: socket.socket) -> None:
        """End the process after a signal, unless the command ends, or begins to save, by itself."""
        with bell:
            while number := bell.recv(1):
                awaited = self._is_heard if self.saves else self._is_over
                patience = None if self._is_waiting else _PATIENCE
                if number[0] in _SIGNALS and not awaited.wait(patience):
                    os.write(2, b"Interrupted.\n")
                    os._exit(128 + number[0])
