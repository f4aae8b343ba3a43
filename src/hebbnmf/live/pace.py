"""Pace: how fast the learner may go on. Pause, steps, a limit of speed, and a gentle start."""

import time
from threading import Condition

__all__ = ["Pace"]

# A gentle start: seconds after the first chunk, and by how much this shrinks with each.
_FIRST_PAUSE = 0.35
_SHRINKING = 0.94
# Longest wait without a look at signals, in seconds.
_NAP = 0.1


class Pace:
    """Lets the learner wait before each chunk as long as it must; others set the pace meanwhile.

    Parameters
    ----------
    speed : float, optional
        Samples a second at most.
    gentle : bool, default=False
        Whether to begin slowly, so that the first units can be seen as they are born.

    Attributes
    ----------
    is_free : bool
        Whether the learner need not wait or count: as fast as it can.
    """

    def __init__(self, speed: float | None = None, *, gentle: bool = False) -> None:
        self._is_paused = False
        self._speed = speed
        self._extra = _FIRST_PAUSE if gentle else 0.0
        self._n_steps = 0
        self._due = time.monotonic()  # when the next chunk may be learned
        self._changed = Condition()
        self._change()

    @property
    def is_paused(self) -> bool:
        """Whether the learner waits until it is told to go on."""
        return self._is_paused

    @property
    def speed(self) -> float | None:
        """Samples a second at most; None for no limit."""
        return self._speed

    @speed.setter
    def speed(self, speed: float | None) -> None:
        self._speed = speed
        self._extra = 0.0
        self._due = time.monotonic()
        self._change()

    def pause(self) -> None:
        """Learn no further chunk."""
        self._is_paused = True
        self._change()

    def resume(self) -> None:
        """Go on."""
        self._is_paused, self._n_steps = False, 0
        self._change()

    def step(self) -> None:
        """Let one chunk through, and pause after it."""
        self._is_paused = True
        self._n_steps += 1
        self._change()

    def take(self) -> bool:
        """Return whether a chunk may be learned now, which uses up one step."""
        with self._changed:
            may_go = self._seconds() <= 0
            self._n_steps -= may_go and self._n_steps > 0
        return may_go

    def wait(self) -> None:
        """Wait until a chunk may be learned."""
        with self._changed:
            while (seconds := self._seconds()) > 0:
                self._changed.wait(min(seconds, _NAP))

    def count(self, n_samples: int) -> None:
        """Count a chunk that was learned."""
        seconds = self._extra + (n_samples / self._speed if self._speed else 0.0)
        self._extra = self._extra * _SHRINKING if self._extra > 1e-3 else 0.0
        # Time lost is not made up for: a learner that was held up does not rush.
        self._due = max(self._due + seconds, time.monotonic())
        self._change()

    def _seconds(self) -> float:
        """Return the seconds until the next chunk."""
        has_to_stay = self._is_paused and not self._n_steps
        return float("inf") if has_to_stay else self._due - time.monotonic()

    def _change(self) -> None:
        with self._changed:
            self.is_free = not (self._is_paused or self._speed or self._extra)
            self._changed.notify_all()
