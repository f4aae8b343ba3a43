"""Rounds: the driver grows a network, then sends it out, and merges what the shards learned."""

import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hebbnmf.distributed.executors import Executor, check_executor, compute, run
from hebbnmf.distributed.merging import merge
from hebbnmf.distributed.shards import (
    Cursor,
    Data,
    Shards,
    file_options,
    open_shards,
    read_part,
)
from hebbnmf.distributed.steps import check_steps, divided, merge_steps, pass_leading
from hebbnmf.distributed.worker import learn_shard
from hebbnmf.engine.plasticity import discount_over
from hebbnmf.engine.state import BLOCK
from hebbnmf.estimators import OnlineDictionary, OnlinePCA, OnlineSNMF
from hebbnmf.learner import check_rows
from hebbnmf.parameters import COUNT, check_parameter, optional
from hebbnmf.persistence import ModelFileError, read_checkpoint
from hebbnmf.persistence.archives import is_count
from hebbnmf.pipeline import StreamPipeline
from hebbnmf.training.checkpoints import hold_checkpoint, store_checkpoint

__all__ = ["fit", "resume"]

Networks = OnlineSNMF | OnlinePCA | OnlineDictionary
Rounded = Networks | StreamPipeline

# Rows that the driver learns before it checks again whether the network grows, and the first ones
# of a pipeline, to which some of its steps are fitted.
_GROWTH_ROWS, _FIRST_ROWS = 8 * BLOCK, 14 * BLOCK
# A round presents at most 1/_PACE of the samples seen so far. Its responses come from weights that
# do not know the rest of it; docs/scaling.md shows what is lost at 40, 10, 4 and 1.
_PACE = 40
# Rows of a shard in a round of chosen length, at most: enough to hide what a round costs.
_LONGEST_ROUND = 280 * BLOCK


@dataclass
class _Progress:
    """How far a training has come, as it is written to checkpoints."""

    n_shards: int
    round_rows: int | None
    extent: list[Any]
    reading: dict[str, Any]
    cursors: list[Cursor]
    ended: list[bool]
    epoch: int = 0
    n_unconverged: int = 0
    n_remembered: int = 0
    source: dict[str, Any] | None = None  # the fingerprint of the data


def fit(
    model: Rounded,
    data: Data,
    executor: Executor,
    *,
    n_shards: int,
    round_rows: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    force: bool = False,
    on_progress: Callable[[int], object] | None = None,
    **reading: Any,
) -> Rounded:
    """Learn from data in shards, in rounds: send the network out, learn, add up.

    The driver grows the network on the first samples of the shards. Then, round by round, every
    worker runs the online engine on the next rows of its shard, starting from the same network,
    and the driver merges what they learned. The result depends on the data, ``n_shards`` and
    ``round_rows`` alone, not on the workers, their number or speed, nor on the death of some of a
    cluster. A process pool breaks with a process of it: `resume` with a new one.

    Parameters
    ----------
    model : OnlineSNMF, OnlinePCA, OnlineDictionary, or StreamPipeline that ends in one
        The model; it is fitted from the beginning, in ``n_epochs`` passes of the network. For the
        steps of a pipeline see Notes.
    data : array, Dask array, or list of paths
        The samples. Arrays are divided into contiguous shards, files are divided into
        contiguous groups and read by the workers, and the first rows of each group by the driver;
        see `hebbnmf.streams.open_stream` for their formats.
    executor : concurrent.futures.Executor or distributed.Client
        The workers.
    n_shards : int
        Number of shards. One gives the weights of `OnlineSNMF.fit` to the last bit.
    round_rows : int, optional
        Samples of a shard in a round at most, rounded up to whole blocks of 72, the engine's. By
        default the length is chosen, round by round, so that the result is as good as a serial
        one: at most 20,160, and in all shards together no more samples than the weights remember,
        see Notes. However it is set, a round presents no more than a 40th of the samples seen
        before it, but at least a block of each shard.
    checkpoint : path, optional
        File that the model is written to after every round; `resume` goes on from it. If that
        fails, as on a full disk, there is a warning and the training goes on. It must be new, and
        no other training may write it meanwhile.
    force : bool, default=False
        Whether to replace what is at `checkpoint`.
    on_progress : callable, optional
        Called with the number of rows of each round, as a progress bar's ``update``.
    **reading
        For files: ``columns``, ``header``, ``dtype``, ``on_bad_row``, ``width`` and ``format`` of
        `hebbnmf.streams.open_stream`. Files are read as float64 unless ``dtype`` says otherwise.

    Returns
    -------
    OnlineSNMF, OnlinePCA, OnlineDictionary or StreamPipeline
        The model, without ``labels_``: ask `predict` for them.

    Notes
    -----
    `hebbnmf.distributed.merging` says how shards are merged: with ``activity_gain=1``, exactly as
    sums, discounted by ``memory`` as if the shards of a round had come one after the other. The
    leading shard of a round recruits and recycles units as it goes. The others defer the samples
    that would, and the driver presents these after the merge, in order.

    By Eq. (8) a sample replaces the share ``y_i^2 / Yhat_i`` of row i of the weights. So they
    remember ``Yhat`` over the mean square of an activity, in samples: with ``activity_gain=1`` all
    that were seen, with a gain of 0.1 a tenth of them, under the schedule of section III.C a
    number that hardly grows, and with ``memory`` no more than it says. Workers that train longer
    than this diverge.

    Of a pipeline, steps without ``partial_fit``, such as `RBFMap`, are fitted to the first 1,008
    rows of the first shard, which should be of all kinds, and go out as they are. `RunningScaler`,
    `MissingFiller` and `ZCAWhitener` learn on: in a round every worker passes its rows through
    them as a stream would, and what its rows add to their moments is merged, exactly, as the sums
    of the network are. One shard gives what `StreamPipeline.partial_fit` gives. Other steps that
    learn on are refused.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_sparse_sources
    >>> from hebbnmf.distributed import fit
    >>> X = make_sparse_sources(20_000, 5, random_state=0)
    >>> with ThreadPoolExecutor(2) as executor:
    ...     net = fit(OnlineSNMF(10), X, executor, n_shards=2)
    >>> net.n_samples_seen_, net.n_components_
    (20000, 10)
    """
    _check_model(model)
    check_executor(executor)
    check_parameter("n_shards", n_shards, COUNT)
    check_parameter("round_rows", round_rows, optional(COUNT))
    if divided(model)[1].shuffle:
        raise ValueError(
            "shuffle=True cannot be used on shards, which are read in order: shuffle the data "
            "beforehand, and set it to False."
        )
    shards = open_shards(data, int(n_shards), file_options(data, reading))
    progress = _Progress(
        n_shards=int(n_shards),
        round_rows=None if round_rows is None else -(-int(round_rows) // BLOCK) * BLOCK,
        extent=shards.extent,
        reading=shards.reading,
        cursors=[shards.begin(shard) for shard in range(n_shards)],
        ended=[False] * n_shards,
    )
    steps = [step for _, step in divided(model)[0].steps]
    with hold_checkpoint(checkpoint, shards.files, steps, is_new=True, force=force):
        if checkpoint is not None:
            progress.source = shards.fingerprint(partial(compute, executor))
        training = _Training(model, shards, executor, progress, checkpoint, on_progress)
        training.grow()
        training.store()
        return training.finish()


def resume(
    path: str | PathLike[str],
    data: Data,
    executor: Executor,
    *,
    force: bool = False,
    on_progress: Callable[[int], object] | None = None,
) -> Rounded:
    """Continue from the last checkpoint of `fit`, to the same end as if it had never stopped.

    Parameters
    ----------
    path : path
        The checkpoint; it is updated as training continues.
    data : array, Dask array, or list of paths
        The data that were given to `fit`; files are read as they were.
    executor : concurrent.futures.Executor or distributed.Client
        The workers; they need not be those of the first run.
    force : bool, default=False
        Whether to go on though the data have changed: files in size or time, arrays in their rows,
        lazy ones in the first rows of a shard.
    on_progress : callable, optional
        As in `fit`.

    Returns
    -------
    OnlineSNMF, OnlinePCA, OnlineDictionary or StreamPipeline
        The model.
    """
    check_executor(executor)
    model, _, position = read_checkpoint(path, rounds=True)
    progress = _read_progress(path, position["rounds"])
    shards = open_shards(data, progress.n_shards, file_options(data, progress.reading))
    if shards.extent != progress.extent:
        raise ValueError(
            f"{path!s} was made from data with {_extent_of(progress.extent)}, but these have "
            f"{_extent_of(shards.extent)}: give those that were given to fit."
        )
    with hold_checkpoint(path, shards.files, [], is_new=False, force=force):
        source = shards.fingerprint(partial(compute, executor))
        known = progress.source
        if known is not None and (change := _change(known, source)) and not force:
            raise ValueError(
                f"the data have changed since {path!s} was written, {change}: restore them, begin "
                "anew, or pass force=True to take them as they are now."
            )
        progress.source = source
        return _Training(model, shards, executor, progress, path, on_progress).finish()


@dataclass
class _Training:
    """A model on its way through shards."""

    model: Rounded
    shards: Shards
    executor: Executor
    progress: _Progress
    checkpoint: str | PathLike[str] | None
    on_progress: Callable[[int], object] | None

    def __post_init__(self) -> None:
        self.head, self.network = divided(self.model)

    def grow(self) -> None:
        """Learn the first samples here, until some recruit no further unit and a round is due."""
        progress, n_units = self.progress, None
        self.head = clone(self.head)
        # In turn from all shards, so that none is left behind when rounds begin.
        for shard in cycle(range(progress.n_shards)):
            if all(progress.ended):
                break
            if progress.ended[shard]:
                continue
            n_rows = _FIRST_ROWS if n_units is None and self.head.steps else _GROWTH_ROWS
            part = self.shards.part(shard, progress.cursors[shard], n_rows)
            rows, cursor = read_part(compute(self.executor, part))
            self._advance(shard, len(rows), n_rows, cursor)
            if not len(rows):
                continue
            self._learn(rows, begin=n_units is None)
            grown = self.network.n_components_
            settled = grown > 0 and grown in (n_units, self.network.n_components)
            n_units = grown
            n_seen = self.network.n_samples_seen_
            if settled and n_seen >= _PACE * BLOCK * progress.n_shards:
                break
        if n_units is None:
            raise ValueError(
                "the data have no row to learn from; check that they are the right ones."
            )

    def finish(self) -> Rounded:
        """Learn what is left, round by round and epoch by epoch."""
        progress = self.progress
        while True:
            while not all(progress.ended):
                n_before = self.network.n_samples_seen_
                self._round()
                self.store()
                self._report(self.network.n_samples_seen_ - n_before)
            if progress.epoch + 1 >= self.network.n_epochs:
                break
            progress.epoch += 1
            progress.cursors = [self.shards.begin(shard) for shard in range(progress.n_shards)]
            progress.ended = [False] * progress.n_shards
        self._complete()
        self.network.learner_.warn_unconverged(progress.n_unconverged, self.network.n_samples_seen_)
        self.network.learner_.warn_without_units()
        return self.model

    def store(self) -> None:
        """Write a checkpoint, if one is wanted."""
        if self.checkpoint is not None:
            self._complete()
            position = {"rounds": asdict(self.progress)}
            store_checkpoint(self.model, self.checkpoint, position=position)

    def _learn(self, rows: NDArray[Any], *, begin: bool) -> None:
        """Learn rows of any shard here."""
        X = pass_leading(self.head, rows)
        if begin:
            dtype = np.float32 if X.dtype == np.float32 else np.float64
            X = check_rows(X, dtype)
            self.network.begin(X.shape[1], dtype)
            self._put(self.head)
        else:
            X = self.network.learner_.check_rows(X)
        learner, before = self.network.learner_, self.network.cumulative_activity_
        self.progress.n_unconverged += learner.learn(X, keep=False).n_unconverged
        if not self.head.steps:  # which may take the mean off
            learner.warn_uncentred(X)
        self._remember(before, len(X))
        self._report(len(X))

    def _round(self) -> None:
        """Learn the next rows of all shards that have not ended, and merge.

        A file whose last row was also the last that was asked for is found empty one round later.
        That round is dropped but for this end. The one that follows has the length, the leading
        shard and the clocks that it has on an array, whose end is known at once.
        """
        progress, learner = self.progress, self.network.learner_
        active = [shard for shard in range(progress.n_shards) if not progress.ended[shard]]
        n_rows = self._rows_of_a_shard(len(active))
        before, n_before = self.network.cumulative_activity_, self.network.n_samples_seen_
        packed = pickle.dumps((self.head, learner), protocol=pickle.HIGHEST_PROTOCOL)
        arguments = [
            (self.shards.part(shard, progress.cursors[shard], n_rows), position * n_rows)
            for position, shard in enumerate(active)
        ]
        outcomes = run(self.executor, learn_shard, packed, arguments)
        of_shards = list(zip(active, outcomes, strict=True))
        empty = [(shard, outcome) for shard, outcome in of_shards if outcome.n_read == 0]
        if not empty:
            progress.n_unconverged += merge(learner, outcomes)
            self._put(merge_steps(outcomes))
            self._remember(before, self.network.n_samples_seen_ - n_before)
        for shard, outcome in empty or of_shards:
            self._advance(shard, outcome.n_read, n_rows, outcome.cursor)

    def _rows_of_a_shard(self, n_active: int) -> int:
        """Return the length of the next round, in whole blocks."""
        longest = self.progress.round_rows or _LONGEST_ROUND
        if n_active == 1:  # a single shard learns as the serial engine does
            return longest
        n_all = self.network.n_samples_seen_ // _PACE
        if self.progress.round_rows is None:
            n_all = min(n_all, self.progress.n_remembered)
        return max(BLOCK, min(longest, n_all // n_active // BLOCK * BLOCK))

    def _remember(self, before: NDArray[np.float64], n_rows: int) -> None:
        """Note how many samples the weights remember, now that some have added to the activity."""
        after = self.network.cumulative_activity_[: len(before)]
        network = self.network.learner_.network
        fading, n_weighted = discount_over(network.n_samples - n_rows, n_rows, network.rules.memory)
        # A unit that was recycled may have less than before.
        added = np.maximum(after - fading * before, 0).sum() / getattr(network.rules, "gain", 1)
        if added > 0:
            self.progress.n_remembered = int(after.sum() * n_weighted / added)

    def _advance(self, shard: int, n_read: int, n_asked: int, cursor: Cursor) -> None:
        """Move the cursor of a shard over rows that were read; refuse files that are not alike."""
        cursors, shards = self.progress.cursors, self.shards
        cursors[shard] = cursors[shard] + n_read if cursor is None else cursor
        self.progress.ended[shard] = shards.has_ended(shard, cursors[shard], n_asked - n_read)
        shards.feature_names(cursors)

    def _complete(self) -> None:
        """Set n_iter_ and the names of features."""
        self.network.n_iter_ = self.progress.epoch + 1
        names = self.shards.feature_names(self.progress.cursors)
        first = self.head[0] if self.head.steps else self.network
        if names is not None and hasattr(first, "n_features_in_"):
            first.feature_names_in_ = np.array(names, dtype=object)

    def _put(self, head: StreamPipeline) -> None:
        """Put steps before the network, if it is the last one of a pipeline."""
        self.head = head
        if isinstance(self.model, StreamPipeline):
            self.model.steps = [*head.steps, self.model.steps[-1]]

    def _report(self, n_rows: int) -> None:
        if self.on_progress is not None:
            self.on_progress(n_rows)


def _check_model(model: object) -> None:
    """Refuse models whose shards cannot be added up."""
    head, network = divided(model)
    if not isinstance(network, Networks):
        raise TypeError(
            f"model={model!r} cannot learn in rounds: give an OnlineSNMF, OnlinePCA or "
            "OnlineDictionary, or a StreamPipeline that ends in one."
        )
    if getattr(network, "similarity_offset", 0) != 0:
        raise ValueError(
            f"similarity_offset={network.similarity_offset!r} cannot be used in rounds, which do "
            "not merge thresholds: set it to 0, or fit on one machine."
        )
    check_steps(head)


def _change(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return what differs between two fingerprints of data of one extent; empty if nothing."""
    if "files" in before:
        pairs = zip(before["files"], now["files"], strict=True)
        changed = [old[0] for old, new in pairs if None not in (old, new) and old != new]
        return f"in {', '.join(changed)}" if changed else ""
    if before["dtype"] != now["dtype"]:
        return f"from {before['dtype']} to {now['dtype']}"
    return "" if before == now else "in some rows"


def _read_progress(path: str | PathLike[str], stored: Any) -> _Progress:
    """Return how far a training has come; the file may hold anything there."""
    try:
        progress = _Progress(**stored)
        counts = [progress.epoch, progress.n_unconverged]
        lengths = {len(progress.cursors), len(progress.ended), int(progress.n_shards)}
        whole = (
            COUNT.holds(progress.n_shards)
            and optional(COUNT).holds(progress.round_rows)
            and all(map(is_count, counts))
            and isinstance(progress.n_remembered, int)
            and progress.n_remembered >= 0  # no longer a count where nothing is forgotten
            and len(lengths) == 1
            and all(isinstance(ended, bool) for ended in progress.ended)
            and all(
                cursor is None or isinstance(cursor, dict) or is_count(cursor)
                for cursor in progress.cursors
            )
            and (progress.source is None or _is_fingerprint(progress.source, progress.extent))
        )
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise ModelFileError(
            f"{path!s} is not a valid checkpoint: its account of the rounds is damaged; restore it "
            "from a copy."
        )
    return progress


def _is_fingerprint(source: dict[str, Any], extent: list[Any]) -> bool:
    if "files" not in source:
        return set(source) == {"dtype", "sha256"}
    return len(source["files"]) == len(extent) and all(
        file is None or isinstance(file, list) for file in source["files"]
    )


def _extent_of(extent: list[Any]) -> str:
    if all(isinstance(name, str) for name in extent):
        return f"the files {', '.join(extent)}"
    return f"the shape {tuple(extent)}"
