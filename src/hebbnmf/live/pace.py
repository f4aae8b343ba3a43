"""Pace: how fast the learner may go on. Pause, steps, a limit of speed, and a gentle start."""

import time

__all__ = ["Pace"]

# A gentle start: seconds after the first chunk, and by how much this shrinks with each.
_FIRST_PAUSE = 0.35
_SHRINKING = 0.94


class Pace:
    """Tells after each chunk how long the learner has to wait.

    Parameters
    ----------
    speed : float, optional
        Samples a second at most.
    gentle : bool, default=False
        Whether to begin slowly, so that the first units can be seen as they are born.
    """

    def __init__(self, speed: float | None = None, *, gentle: bool = False) -> None:
        self.is_paused = False
        self._speed = speed
        self._extra = _FIRST_PAUSE if gentle else 0.0
        self._n_steps = 0
        self._due = time.monotonic()  # when the next chunk may be learned

    @property
    def speed(self) -> float | None:
        """Samples a second at most; None for no limit."""
        return self._speed

    @speed.setter
    def speed(self, speed: float | None) -> None:
        self._speed = speed
        self._extra = 0.0
        self._due = time.monotonic()

    def step(self) -> None:
        """Let one chunk through, and pause after it."""
        self.is_paused = True
        self._n_steps += 1

    def count(self, n_samples: int) -> None:
        """Count a chunk that was learned."""
        seconds = self._extra + (n_samples / self._speed if self._speed else 0.0)
        self._extra = self._extra * _SHRINKING if self._extra > 1e-3 else 0.0
        # Time lost is not made up for: a learner that was held up does not rush.
        self._due = max(self._due + seconds, time.monotonic())

    def take_step(self) -> bool:
        """Return whether a paused learner may learn a chunk, which uses up one step."""
        if self._n_steps:
            self._n_steps -= 1
            return True
        return not self.is_paused

    def delay(self) -> float:
        """Return the seconds until the next chunk is due."""
        return self._due - time.monotonic()
