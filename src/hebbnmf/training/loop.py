"""The loop of training: read a chunk, prepare it, learn it, and now and then write a checkpoint."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from os import PathLike

import numpy as np

from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.learner import check_rows
from hebbnmf.parameters import COUNT, NON_NEGATIVE, check_parameter, optional
from hebbnmf.persistence import read_checkpoint, save
from hebbnmf.persistence.steps import Step
from hebbnmf.preprocessing import transform_rows
from hebbnmf.streams import Stream
from hebbnmf.streams.readers import describe

__all__ = ["resume", "train"]

_DEFAULT_SECONDS = 60.0


def train(
    model: OnlineSNMF,
    stream: Stream,
    *,
    preprocessing: Sequence[Step] = (),
    checkpoint: str | PathLike[str] | None = None,
    every: int | None = None,
    every_seconds: float | None = None,
    on_progress: Callable[[int], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> OnlineSNMF:
    """Learn a stream to its end, with checkpoints on the way.

    An interrupt (Ctrl-C, in a notebook too) is a KeyboardInterrupt as everywhere, raised once the
    chunk in hand is learned and the checkpoint is written.

    Parameters
    ----------
    model : OnlineSNMF
        The model, new or already fitted.
    stream : Stream
        The samples, from where it stands.
    preprocessing : sequence of fitted transformers, default=()
        Steps that every chunk passes first; they are stored in the checkpoint.
    checkpoint : path, optional
        File that model and position are written to: on the way, when interrupted or stopped, when
        the stream fails, and at the end.
    every : int, optional
        Number of samples between checkpoints, rounded up to whole chunks.
    every_seconds : float, optional
        Seconds between checkpoints; 60 if neither is given.
    on_progress : callable, optional
        Called with the number of rows of each chunk learned, as a progress bar's ``update``.
    should_stop : callable, optional
        Asked before every chunk; the training ends there once it returns True.

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
    is_due = _Schedule(every, every_seconds)
    run = _Run(model, stream, preprocessing, checkpoint)
    with ThreadPoolExecutor(1) as thread:
        try:
            while not (should_stop is not None and should_stop()):
                rows = run.next_rows()
                if rows is None:
                    break
                run.learn(rows, thread)
                if on_progress is not None:
                    on_progress(len(rows))
                if is_due(len(rows)):
                    run.store()
        except BaseException:
            run.store()
            raise
    run.store()
    run.warn()
    return model


def resume(
    path: str | PathLike[str],
    stream: Stream,
    *,
    every: int | None = None,
    every_seconds: float | None = None,
    on_progress: Callable[[int], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> OnlineSNMF:
    """Go on from the last checkpoint of `train`, to the same end as if it had never stopped.

    Parameters
    ----------
    path : path
        The checkpoint; it goes on being written.
    stream : Stream
        The stream, opened as it was for `train`; it is moved to the right position.
    every, every_seconds, on_progress, should_stop
        As in `train`.

    Returns
    -------
    OnlineSNMF
        The model: its weights equal, bit for bit, those of a training that was never stopped.
    """
    model, preprocessing, position = read_checkpoint(path)
    stream.seek(position)
    return train(
        model,
        stream,
        preprocessing=preprocessing,
        checkpoint=path,
        every=every,
        every_seconds=every_seconds,
        on_progress=on_progress,
        should_stop=should_stop,
    )


class _Schedule:
    """Tells, chunk by chunk, whether a checkpoint is due."""

    def __init__(self, every: int | None, every_seconds: float | None) -> None:
        check_parameter("every", every, optional(COUNT))
        check_parameter("every_seconds", every_seconds, optional(NON_NEGATIVE))
        self._every = np.inf if every is None else every
        if every_seconds is None:
            every_seconds = _DEFAULT_SECONDS if every is None else np.inf
        self._seconds = every_seconds
        self._restart()

    def __call__(self, n_rows: int) -> bool:
        self._n_rows += n_rows
        seconds = time.monotonic() - self._start
        is_due = self._n_rows >= self._every or seconds >= self._seconds
        if is_due:
            self._restart()
        return is_due

    def _restart(self) -> None:
        self._n_rows, self._start = 0, time.monotonic()


@dataclass
class _Run:
    """A model on its way through a stream, and the position up to which it has learned."""

    model: OnlineSNMF
    stream: Stream
    preprocessing: Sequence[Step]
    checkpoint: str | PathLike[str] | None

    def __post_init__(self) -> None:
        self._names = _feature_names(self.model, self.stream, self.preprocessing)
        self._position = self.stream.position
        self._in_mid_chunk = False
        self._n_learned = self._n_unconverged = 0
        if self.model.__sklearn_is_fitted__():
            self.model.learner_.configure(self.model.check_parameters())

    def next_rows(self) -> FloatArray | None:
        """Read the next chunk and prepare it for the model; None at the end."""
        chunk = next(self.stream, None)
        if chunk is None:
            return None
        rows: FloatArray = transform_rows(self.preprocessing, chunk)
        if self.model.__sklearn_is_fitted__():
            rows = self.model.learner_.check_rows(rows)
        else:
            rows = check_rows(rows, rows.dtype)
            self.model.begin(rows.shape[1], rows.dtype)
        if self._names is not None:
            self.model.feature_names_in_ = np.array(self._names, dtype=object)
        return rows

    def learn(self, rows: FloatArray, thread: Executor) -> None:
        """Learn a chunk to its end, in a thread where no KeyboardInterrupt can arise."""
        self._in_mid_chunk = True
        learning = thread.submit(self.model.learner_.learn_labels, rows)
        try:
            wait([learning])
        finally:
            self.model.labels_, n_unconverged = learning.result()
            self.model.n_iter_ = 1
            self._position = self.stream.position
            self._in_mid_chunk = False
        self._n_learned += len(rows)
        self._n_unconverged += n_unconverged

    def store(self) -> None:
        """Write a checkpoint, if one is wanted; never of a model that learned part of a chunk."""
        if self.checkpoint is not None and not self._in_mid_chunk:
            steps, position = self.preprocessing, self._position
            save(self.model, self.checkpoint, preprocessing=steps, position=position)

    def warn(self) -> None:
        """Warn of what a whole training should not end with."""
        if self._n_learned:
            self.model.learner_.warn_unconverged(self._n_unconverged, self._n_learned)
            self.model.learner_.warn_without_units()


def _feature_names(
    model: OnlineSNMF, stream: Stream, preprocessing: Sequence[Step]
) -> list[str] | None:
    """Return the names of the features after preprocessing; refuse others than the model knows."""
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
    return names
