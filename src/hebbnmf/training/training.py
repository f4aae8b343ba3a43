"""Training: learn a stream chunk by chunk, with checkpoints that outlive the process."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.estimators import OnlineSNMF
from hebbnmf.persistence import read, save
from hebbnmf.persistence.archives import remove_leftovers
from hebbnmf.streams import Stream
from hebbnmf.streams.readers import describe

__all__ = ["TrainingInterrupted", "resume", "train"]

_DEFAULT_SECONDS = 60.0


class TrainingInterrupted(Exception):
    """SIGINT or SIGTERM ended the training between two chunks, after a checkpoint if asked for.

    Attributes
    ----------
    signum : int
        The signal.
    exit_code : int
        What a command should end with: 130 after SIGINT, 143 after SIGTERM.
    position : dict
        Position of the stream after the last chunk learned.
    """

    def __init__(self, signum: int, position: dict[str, Any], checkpoint: str | None) -> None:
        self.signum = signum
        self.exit_code = 128 + signum
        self.position = position
        kept = f"resume from {checkpoint!r}" if checkpoint else "no checkpoint was asked for"
        super().__init__(f"training was interrupted by {signal.Signals(signum).name}; {kept}.")


def train(
    model: OnlineSNMF,
    stream: Stream,
    *,
    preprocessing: Sequence[Any] = (),
    checkpoint: str | PathLike[str] | None = None,
    every: int | None = None,
    every_seconds: float | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> OnlineSNMF:
    """Learn a stream to its end, with checkpoints on the way.

    SIGINT and SIGTERM end the training once the chunk in hand is learned and a checkpoint is
    written; a second one acts as it would without this function. Signals are left alone outside
    the main thread.

    Parameters
    ----------
    model : OnlineSNMF
        The model, new or already fitted.
    stream : Stream
        The samples, from where it stands.
    preprocessing : sequence of fitted transformers, default=()
        Steps that every chunk goes through first; they are stored in the checkpoint.
    checkpoint : path, optional
        File that model and position are written to: on the way, when interrupted, when the stream
        fails, and at the end.
    every : int, optional
        Number of samples between checkpoints, rounded up to whole chunks.
    every_seconds : float, optional
        Seconds between checkpoints; 60 if neither is given.
    on_progress : callable, optional
        Called with the number of rows of each chunk learned, as a progress bar's ``update``.

    Returns
    -------
    OnlineSNMF
        The model.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> from hebbnmf.streams import open_stream
    >>> from hebbnmf.training import train
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> stream = open_stream(X, epochs=3, shuffle=True, random_state=0)
    >>> train(OnlineSNMF(3, rank_penalty=0.1), stream).n_samples_seen_
    900
    """
    if every is not None and every < 1:
        raise ValueError(f"every={every!r} cannot be used: set it to a number of samples >= 1.")
    if every_seconds is not None and not every_seconds >= 0:
        raise ValueError(f"every_seconds={every_seconds!r} cannot be used: set it to seconds >= 0.")
    if every is None and every_seconds is None:
        every_seconds = _DEFAULT_SECONDS
    names = _checked_names(model, stream, preprocessing)
    position = stream.position

    def store() -> None:
        if checkpoint is not None:
            save(model, checkpoint, preprocessing=preprocessing, position=position)

    n_new, saved_at = 0, time.monotonic()
    with _signals() as caught:
        while True:
            try:
                with caught.waiting():
                    chunk = next(stream, None)
                    with _unnamed(*preprocessing):
                        for step in preprocessing if chunk is not None else ():
                            chunk = step.transform(chunk)
            except _Caught:
                break
            except BaseException:
                # The model stands at `position`, whatever became of the chunk.
                store()
                raise
            if chunk is None:
                break
            with _unnamed(model):
                model.partial_fit(chunk)
            if names is not None:
                model.feature_names_in_ = names
            position = stream.position
            if on_progress is not None:
                on_progress(len(chunk))
            if caught.signum is not None:
                break
            n_new += len(chunk)
            late = every_seconds is not None and time.monotonic() - saved_at >= every_seconds
            if late or (every is not None and n_new >= every):
                store()
                n_new, saved_at = 0, time.monotonic()
        store()
    if caught.signum is not None:
        raise TrainingInterrupted(
            caught.signum, position, None if checkpoint is None else str(checkpoint)
        )
    return model


def _checked_names(
    model: OnlineSNMF, stream: Stream, preprocessing: Sequence[Any]
) -> NDArray[np.object_] | None:
    """Names of the model's features, once they are compared with those that it knows."""
    names = stream.feature_names
    for step in preprocessing:
        if names is not None and hasattr(step, "get_feature_names_out"):
            names = list(step.get_feature_names_out(names))  # refuses others than it was fitted to
        else:
            names = None
    if model.__sklearn_is_fitted__():
        known = getattr(model, "feature_names_in_", None)
        if not preprocessing:
            stream.require(model.n_features_in_, known)
        elif names is not None and known is not None and names != list(known):
            raise ValueError(
                f"preprocessing gives {describe(len(names), names)}, but the model learned "
                f"{describe(len(known), list(known))}; choose the columns that it learned."
            )
    return None if names is None else np.array(names, dtype=object)


@contextmanager
def _unnamed(*estimators: Any) -> Iterator[None]:
    """Hide names of features from chunks, which are bare arrays: streams compare them once."""
    names = [estimator.__dict__.pop("feature_names_in_", None) for estimator in estimators]
    try:
        yield
    finally:
        for estimator, known in zip(estimators, names, strict=True):
            if known is not None:
                estimator.feature_names_in_ = known


def resume(
    path: str | PathLike[str],
    stream: Stream,
    *,
    every: int | None = None,
    every_seconds: float | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> OnlineSNMF:
    """Go on from the last checkpoint of `train`, to the same end as if it had never stopped.

    Parameters
    ----------
    path : path
        The checkpoint; it goes on being written.
    stream : Stream
        The stream, opened as it was for `train`; it is moved to the right position.
    every, every_seconds, on_progress
        As in `train`.

    Returns
    -------
    OnlineSNMF
        The model: its weights equal, bit for bit, those of a training that was never stopped.
    """
    file = read(path)
    if file.position is None or not isinstance(file.model, OnlineSNMF):
        raise ValueError(f"{path!s} is a model but no checkpoint: use train to go on learning.")
    remove_leftovers(path)
    stream.seek(file.position)
    return train(
        file.model,
        stream,
        preprocessing=file.preprocessing,
        checkpoint=path,
        every=every,
        every_seconds=every_seconds,
        on_progress=on_progress,
    )


class _Caught(BaseException):
    """Raised by the handler where training waits for samples: a pipe may stay silent for long."""


class _Signals:
    """The first signal to arrive, noted while a chunk is learned, acted on while one is awaited."""

    signum: int | None = None
    _waiting = False

    def __init__(self) -> None:
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGINT, signal.SIGTERM):
                self._previous[signum] = signal.signal(signum, self._handle)

    def restore(self) -> None:
        while self._previous:
            signum, handler = self._previous.popitem()
            signal.signal(signum, handler or signal.SIG_DFL)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waiting = True
        try:
            if self.signum is not None:
                raise _Caught
            yield
        finally:
            self._waiting = False

    def _handle(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.signum = signum
        self.restore()
        if self._waiting:
            raise _Caught


@contextmanager
def _signals() -> Iterator[_Signals]:
    caught = _Signals()
    caught.install()
    try:
        yield caught
    finally:
        caught.restore()
