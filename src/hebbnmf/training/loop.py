"""The loop of training: read a chunk, prepare it, learn it, write a checkpoint when one is due."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from numbers import Real
from os import PathLike
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from hebbnmf.engine.network import Responses
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators.online import OnlineEstimator
from hebbnmf.learner import Learner, LearnerState, check_rows
from hebbnmf.parameters import COUNT, Rule, check_parameter, optional
from hebbnmf.persistence import read_checkpoint, save
from hebbnmf.persistence.steps import Step
from hebbnmf.pipeline import StreamPipeline
from hebbnmf.preprocessing import (
    PatchNormalizer,
    RunningScaler,
    ZCAWhitener,
    as_dense,
    transform_rows,
    unnamed_rows,
)
from hebbnmf.streams import Stream
from hebbnmf.streams.readers import describe
from hebbnmf.streams.stream import Position
from hebbnmf.training.checkpoints import hold_checkpoint, store_checkpoint
from hebbnmf.training.fingerprints import Fingerprint, find_position

__all__ = ["resume", "train"]

_DEFAULT_SECONDS = 60.0
# Seconds that an interrupt waits for the end of the current chunk.
_PATIENCE = 0.5
# Rows that a pipeline learns at a time: features may be many more than columns.
_PIECE = 2048
# Rows that are waited for, from a stream that gives less at a time, before the steps of a pipeline
# are fitted to them.
_FIRST_ROWS = 1000
# Steps that take the mean off.
_CENTRING = (StandardScaler, RunningScaler, PatchNormalizer, ZCAWhitener)
_SECONDS = optional(Rule("seconds, at least 0", lambda v: isinstance(v, Real) and float(v) >= 0))

Trainable = OnlineEstimator | StreamPipeline
Save = Callable[[str | PathLike[str]], None]


def train(
    model: Trainable,
    stream: Stream,
    *,
    preprocessing: Sequence[Step] = (),
    checkpoint: str | PathLike[str] | None = None,
    position: Position | None = None,
    force: bool = False,
    every: int | None = None,
    every_seconds: float | None = None,
    on_progress: Callable[[int], object] | None = None,
    on_rows: Callable[[FloatArray], object] | None = None,
    on_begin: Callable[[Save], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Trainable:
    """Learn a stream to its end, with checkpoints on the way.

    An interrupt (Ctrl-C, in a notebook too) is a KeyboardInterrupt as everywhere, raised once the
    current chunk is learned and the checkpoint is written. A chunk that would take another half
    second is given up: model and checkpoint are those from before it.

    Parameters
    ----------
    model : OnlineSNMF, OnlinePCA, OnlineDictionary, NonnegativeICA or StreamPipeline
        The model, new or already fitted. A pipeline must end in one of the others; its steps learn
        as by `StreamPipeline.partial_fit`, and are stored in the checkpoint.
    stream : Stream
        The samples, from where it stands.
    preprocessing : sequence of fitted transformers, default=()
        Steps that every chunk passes first; they are stored in the checkpoint. None with a
        pipeline, which has its own.
    checkpoint : path, optional
        File that model and position are written to: on the way, when interrupted or stopped, when
        the stream fails, and at the end. If that fails on the way, as on a full disk, there is a
        warning and the training goes on. It must be new, unless there is a `position`, and no other
        training may write it meanwhile.
    position : dict, optional
        The position of a checkpoint, to go on from; `resume` does so. Rows learned before must not
        have changed.
    force : bool, default=False
        Whether to replace what is at `checkpoint`, and to go on though the source has changed.
    every : int, optional
        Number of samples between checkpoints, rounded up to whole chunks.
    every_seconds : float, optional
        Seconds between checkpoints; 60 if neither is given.
    on_progress : callable, optional
        Called with the number of rows of each chunk learned, as a progress bar's ``update``.
    on_rows : callable, optional
        Called with the rows of each chunk before they are learned, as they come from
        ``preprocessing``, or from the stream into a pipeline.
    on_begin : callable, optional
        Called first, with a function that writes a checkpoint to any other file. That may be called
        by any thread, but not between ``on_rows`` and ``on_progress``, while a chunk is learned.
    should_stop : callable, optional
        Asked before every chunk; the training ends there once it returns True.

    Returns
    -------
    estimator
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
    schedule = _Schedule(every, every_seconds)
    is_new, steps = position is None, [*preprocessing]
    if isinstance(model, StreamPipeline):
        steps += [step for _, step in model.steps[:-1]]
    with hold_checkpoint(checkpoint, stream.files, steps, is_new=is_new, force=force):
        if position is not None:
            fingerprint = find_position(stream, position, force=force)
        else:
            # Rows of a log may have been moved away when its training is resumed.
            is_kept = stream.is_at_start and not stream.follows_file
            fingerprint = Fingerprint(stream, [] if is_kept else None)
        kind = _PipelineRun if isinstance(model, StreamPipeline) else _Run
        n_before = None if position is None else position.get("n_before", 0)
        run = kind(model, stream, preprocessing, checkpoint, fingerprint, n_before)
        if on_begin is not None:
            run.may_be_saved = True
            on_begin(run.save)
        _learn_all(run, schedule, on_progress, on_rows, should_stop)
    run.warn()
    return model


def resume(
    path: str | PathLike[str],
    stream: Stream,
    *,
    force: bool = False,
    every: int | None = None,
    every_seconds: float | None = None,
    on_progress: Callable[[int], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Trainable:
    """Continue from the last checkpoint of `train`, to the same end as if it had never stopped.

    Parameters
    ----------
    path : path
        The checkpoint; it is updated as training continues.
    stream : Stream
        The stream, opened as it was for `train`; it is moved to the right position. Rows learned
        before must not have changed.
    force : bool, default=False
        Whether to go on though they have.
    every, every_seconds, on_progress, should_stop
        As in `train`.

    Returns
    -------
    estimator
        The model: its weights equal, bit for bit, those of a training that was never stopped.
    """
    model, preprocessing, position = read_checkpoint(path)
    return train(
        model,
        stream,
        preprocessing=preprocessing,
        checkpoint=path,
        position=position,
        force=force,
        every=every,
        every_seconds=every_seconds,
        on_progress=on_progress,
        should_stop=should_stop,
    )


def _learn_all(
    run: "_Run",
    schedule: "_Schedule",
    on_progress: Callable[[int], object] | None,
    on_rows: Callable[[FloatArray], object] | None,
    should_stop: Callable[[], bool] | None,
) -> None:
    """Learn chunk by chunk, and write the checkpoint, however it ends."""
    # KeyboardInterrupt is raised in the main thread only: this one learns whole chunks.
    background = _Background()
    try:
        while not (should_stop is not None and should_stop()):
            rows = run.next_rows()
            if rows is None:
                break
            if on_rows is not None:
                on_rows(rows)
            background.call(run.learn, rows).result()
            run.warn_uncentred()
            if on_progress is not None:
                on_progress(len(rows))
            if schedule.is_due(len(rows)):
                run.store()
                schedule.restart()
        run.store()
    except BaseException:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(run.end, background).result()
        raise
    finally:
        background.close()


class _Background:
    """Calls functions in turn, in a thread that does not keep the process from its end."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[None], Callable[[], None]] | None] = SimpleQueue()
        Thread(target=self._work, daemon=True).start()

    def call(self, function: Callable[..., None], *args: Any) -> "Future[None]":
        """Call a function after those before it."""
        future: Future[None] = Future()
        self._calls.put((future, partial(function, *args)))
        return future

    def close(self) -> None:
        """End the thread after the last call."""
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            try:
                call()
                future.set_result(None)
            except BaseException as error:
                future.set_exception(error)


class _Schedule:
    """Tells, chunk by chunk, whether a checkpoint is due."""

    def __init__(self, every: int | None, every_seconds: float | None) -> None:
        check_parameter("every", every, optional(COUNT))
        check_parameter("every_seconds", every_seconds, _SECONDS)
        self._every = np.inf if every is None else every
        if every_seconds is None:
            every_seconds = _DEFAULT_SECONDS if every is None else np.inf
        self._seconds = every_seconds
        self.restart()

    def restart(self) -> None:
        """Count from now on."""
        self._n_rows, self._start = 0, time.monotonic()

    def is_due(self, n_rows: int) -> bool:
        """Count rows; return whether a checkpoint is due."""
        self._n_rows += n_rows
        seconds = time.monotonic() - self._start
        return self._n_rows >= self._every or seconds >= self._seconds


@dataclass
class _Run:
    """A model on its way through a stream, and the position up to which it has learned."""

    model: Trainable
    stream: Stream
    preprocessing: Sequence[Step]
    checkpoint: str | PathLike[str] | None
    fingerprint: Fingerprint
    n_before: int | None  # samples that the model had seen before its training began; None if now

    def __post_init__(self) -> None:
        self.may_be_saved = self.checkpoint is not None
        self._network = self._last_step()
        if self.n_before is None:
            self.n_before = self._network.n_samples_seen_ if self._has_begun() else 0
        self._names = self._feature_names()
        self._position = self.stream.position
        self._in_mid_chunk = self._is_given_up = False
        self._before: Any = None
        self._seconds = np.inf  # that the chunk before took
        self._lock = Lock()
        self._n_learned = self._n_unconverged = 0
        self._taken: FloatArray  # by the network: its latest rows
        if self._has_begun():
            self._network.learner_.configure(self._network.check_parameters())

    def next_rows(self) -> FloatArray | None:
        """Read the next chunk and prepare it for the model; None at the end."""
        chunk = self._next_chunk()
        if chunk is None:
            return None
        rows = self._prepared(chunk)
        self._chunk = chunk
        # Where chunks take long, a copy of the weights is little work beside.
        self._before = self._copy() if self._seconds > _PATIENCE else None
        return rows

    def learn(self, rows: FloatArray) -> None:
        """Learn a chunk to its end, and note the position after it, unless it was given up."""
        start = time.monotonic()
        self._in_mid_chunk = True
        responses = self._learn(rows)
        with self._lock:
            if self._is_given_up:
                return
            self._network.note(responses)
            self._position = self.stream.position
            if self.may_be_saved:
                self.fingerprint.add(self._chunk, self._position["epoch"])
            self._in_mid_chunk = False
            self._n_learned += len(rows)
            self._n_unconverged += responses.n_unconverged
            self._seconds = time.monotonic() - start

    def end(self, background: _Background) -> None:
        """Write the last checkpoint, after the current chunk, or before it if that takes long."""
        is_learned = background.call(lambda: None)
        wait([is_learned], timeout=None if self._before is None else _PATIENCE)
        with self._lock:
            if not is_learned.done() and self._in_mid_chunk:
                self._go_back()
                self._in_mid_chunk, self._is_given_up = False, True
        self.store()

    def store(self) -> None:
        """Write a checkpoint, if one is wanted; never of a model that learned part of a chunk."""
        if self.checkpoint is not None and not self._in_mid_chunk:
            store_checkpoint(self.model, self.checkpoint, **self._parts())

    def save(self, path: str | PathLike[str]) -> None:
        """Write model and position to a file from which the training can be resumed."""
        if self._in_mid_chunk:
            raise ValueError(
                "part of a chunk was learned, after which no training can be resumed; resume it "
                "from an earlier checkpoint."
            )
        save(self.model, path, **self._parts())

    def warn_uncentred(self) -> None:
        """Warn of a mean that hides how samples differ, once there are enough of them.

        Not behind a step that takes it off: the first samples of sorted data have another.
        """
        if not any(isinstance(step, _CENTRING) for step in self._steps()):
            self._network.learner_.warn_uncentred(self._taken)

    def warn(self) -> None:
        """Warn of unconverged responses and of a network without units."""
        if self._n_learned:
            self._network.learner_.warn_unconverged(self._n_unconverged, self._n_learned)
            self._network.learner_.warn_without_units()

    def _parts(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside the model."""
        position = {"source": self.fingerprint.stored(), "n_before": self.n_before}
        return {"preprocessing": self.preprocessing, "position": self._position | position}

    def _last_step(self) -> OnlineEstimator:
        return self.model

    def _steps(self) -> Sequence[Step]:
        return self.preprocessing

    def _next_chunk(self) -> FloatArray | None:
        return next(self.stream, None)

    def _prepared(self, chunk: FloatArray) -> FloatArray:
        """Return a chunk as `_learn` takes it."""
        rows = self._begun(self._network, transform_rows(self.preprocessing, chunk))
        if self._names is not None:
            self._network.feature_names_in_ = np.array(self._names, dtype=object)
        return rows

    def _feature_names(self) -> list[str] | None:
        """Return the names of the features that the network takes; raise if it learned others."""
        return _names_after(self.preprocessing, self.stream, self._network)

    def _has_begun(self) -> bool:
        return hasattr(self._network, "learner_")

    def _begun(self, network: OnlineEstimator, rows: FloatArray) -> FloatArray:
        """Return rows as the network takes them; the first ones begin it."""
        try:
            if hasattr(network, "learner_"):
                return network.learner_.check_rows(rows)
            dtype = np.float32 if rows.dtype == np.float32 else np.float64
            rows = check_rows(rows, dtype)
        except ValueError as error:
            # The stream has let them pass: it is preprocessing that made them too large.
            error.add_note(
                f"X are the {len(rows)} rows of {self.stream.name}, after preprocessing, that "
                f"follow the first {self._n_learned} rows of this training."
            )
            raise
        network.begin(rows.shape[1], dtype)
        return rows

    def _learn(self, rows: FloatArray) -> Responses:
        """Learn rows; return their labels, and how many responses did not converge."""
        self._taken = rows
        return self._network.learner_.learn(rows, keep=False)

    def _copy(self) -> Any:
        """Return copies of what a chunk changes."""
        return self._network_state()

    def _network_state(self) -> LearnerState | None:
        return self._network.learner_.state if self._has_begun() else None

    def _go_back(self) -> None:
        """Give the model a learner that knows nothing of the current chunk."""
        _restore(self._network, self._before)


class _PipelineRun(_Run):
    """The same of a pipeline: chunks are prepared by steps that learn from them."""

    def _last_step(self) -> OnlineEstimator:
        if self.preprocessing:
            raise ValueError(
                f"preprocessing={self.preprocessing!r} cannot be used with a pipeline: make its "
                "steps steps of the pipeline."
            )
        network = self.model[-1]
        if not isinstance(network, OnlineEstimator):
            raise TypeError(
                f"the last step of the pipeline is a {type(network).__name__}, but a stream trains "
                "an OnlineSNMF or another network: make that the last step."
            )
        self._head = self.model[:-1]  # shares the steps
        return network

    def _feature_names(self) -> list[str] | None:
        if self._has_begun():
            first = self.model[0]
            self.stream.require(first.n_features_in_, getattr(first, "feature_names_in_", None))
        return self.stream.feature_names

    def _steps(self) -> Sequence[Step]:
        return [step for _, step in self._head.steps]

    def _next_chunk(self) -> FloatArray | None:
        chunk = next(self.stream, None)
        if chunk is not None and not self._has_begun() and self._wants_first_rows():
            return self._with_more(chunk)
        return chunk

    def _prepared(self, chunk: FloatArray) -> FloatArray:
        return chunk

    def _with_more(self, chunk: FloatArray) -> FloatArray:
        """Add chunks of the same epoch until there are rows enough for the steps to begin with."""
        last = chunk
        # A short chunk ends an epoch, but where rows are given as they arrive.
        while len(chunk) < _FIRST_ROWS and (
            self.stream.live or len(last) == self.stream.chunk_rows
        ):
            more = next(self.stream, None)
            if more is None:
                break
            chunk, last = np.concatenate([chunk, more]), more
        return chunk

    def _wants_first_rows(self) -> bool:
        """Return whether a step learns otherwise than row by row, from the first one on."""
        return not all(isinstance(step, RunningScaler) for step in self._steps())

    def _learn(self, rows: FloatArray) -> Responses:
        # Those of now: the model gets others if this chunk is given up.
        head, network = self._head, self._network
        first = head[0] if head.steps else network
        labels, n_unconverged = [np.empty(0, np.intp)], 0
        for start in range(0, len(rows), _PIECE):
            if self._is_given_up:
                break
            features = self._begun(network, _passed(head, rows[start : start + _PIECE]))
            if self._names is not None:
                first.feature_names_in_ = np.array(self._names, dtype=object)
            self._taken = features
            responses = network.learner_.learn(features, keep=False)
            labels.append(responses.labels)
            n_unconverged += responses.n_unconverged
        return Responses(np.empty((0, 0)), np.concatenate(labels), n_unconverged, [])

    def _copy(self) -> Any:
        return [deepcopy(step) for step in self._steps()], self._network_state()

    def _go_back(self) -> None:
        # The current chunk still changes the steps as they are: the model gets others.
        steps, state = self._before
        network = copy(self._network)
        _restore(network, state)
        names = [name for name, _ in self.model.steps]
        self.model.steps = list(zip(names, [*steps, network], strict=True))
        self._network = network


def _passed(head: StreamPipeline, rows: FloatArray) -> FloatArray:
    """Let steps, if there are any, learn rows; return what they make of them."""
    if not head.steps:
        return rows
    with unnamed_rows:
        return as_dense(head.partial_fit_transform(rows), head[-1])


def _restore(network: OnlineEstimator, state: LearnerState | None) -> None:
    """Give a network a learner of this state, or none if it had not begun then."""
    if state is None:
        if hasattr(network, "learner_"):
            del network.learner_
        return
    old = network.learner_
    learner = Learner(old.settings, old.network.n_features, old.network.dtype)
    learner.restore(state)
    network.learner_ = learner


def _names_after(
    preprocessing: Sequence[Step], stream: Stream, model: OnlineEstimator
) -> list[str] | None:
    """Return the names of the features after preprocessing; raise if the model learned others."""
    names = stream.feature_names
    for step in preprocessing:
        if names is not None and hasattr(step, "get_feature_names_out"):
            names = list(step.get_feature_names_out(names))  # refuses others than it was fitted to
        else:
            names = None
    if hasattr(model, "learner_"):
        known = getattr(model, "feature_names_in_", None)
        if not preprocessing:
            stream.require(model.n_features_in_, known)
        elif names is not None and known is not None and names != list(known):
            raise ValueError(
                f"preprocessing gives {describe(len(names), names)}, but the model learned "
                f"{describe(len(known), list(known))}; choose the columns that it learned."
            )
    return names
