"""Rounds: the driver grows a network, then sends it out, and merges what the shards learned."""

import pickle
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import cycle
from os import PathLike
from typing import Any

import numpy as np

from hebbnmf.distributed.executors import Executor, check_executor, compute, run
from hebbnmf.distributed.merging import learn_shard, merge
from hebbnmf.distributed.shards import Shards, open_shards, read_part
from hebbnmf.engine.state import BLOCK
from hebbnmf.estimators import OnlineSNMF, _is_count
from hebbnmf.persistence import read, save
from hebbnmf.persistence.archives import remove_leftovers

__all__ = ["fit", "resume"]

# Rows that the driver learns between two looks at whether the network still grows.
_GROWTH_ROWS = 8 * BLOCK
# Samples seen before a round for each one that it presents. Its answers come from weights that do
# not know the rest of it; docs/scaling.md shows what is lost at 40, 10, 4 and 1.
_PACE = 40
# Rows of a shard in a round of chosen length, at most: enough to hide what a round costs.
_LONGEST_ROUND = 280 * BLOCK


@dataclass
class _Course:
    """Where a training stands, as it is written to checkpoints."""

    n_shards: int
    round_rows: int | None
    extent: list[Any]
    reading: dict[str, Any]
    cursors: list[Any]
    ended: list[bool]
    epoch: int = 0
    n_unconverged: int = 0
    n_remembered: int = 0


def fit(
    model: OnlineSNMF,
    data: Any,
    executor: Executor,
    *,
    n_shards: int,
    round_rows: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    on_progress: Callable[[int], object] | None = None,
    **reading: Any,
) -> OnlineSNMF:
    """Learn from data in shards, in rounds: send the network out, learn, add up.

    The driver grows the network on the first samples of the shards. Then, round by round, every
    worker runs the online engine on the next rows of its shard, starting from the same network,
    and the driver merges what they learned. The result depends on the data, ``n_shards`` and
    ``round_rows`` alone, not on the workers, their number or speed, nor on the death of some of a
    cluster. A process pool breaks with a process of it: `resume` with a new one.

    Parameters
    ----------
    model : OnlineSNMF
        The model; it is fitted from the beginning, in ``n_epochs`` passes.
    data : array, Dask array, or list of paths
        The samples. Arrays are divided into contiguous shards, files are dealt in contiguous
        groups and read by the workers, and the first rows of each group by the driver; see
        `hebbnmf.streams.open_stream` for their formats.
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
        File that the model is written to when it has grown and after every round; `resume` goes
        on from it.
    on_progress : callable, optional
        Called with the number of rows of each round, as a progress bar's ``update``.
    **reading
        For files: ``columns``, ``header``, ``dtype``, ``on_bad_row``, ``width`` and ``format`` of
        `hebbnmf.streams.open_stream`. Files are read as float64 unless ``dtype`` says otherwise.

    Returns
    -------
    OnlineSNMF
        The model, without ``labels_``: ask `predict` for them.

    Notes
    -----
    With ``activity_gain=1`` the weights after every round are exactly the paper's ratios of sums
    over all samples seen; only the answers within a round were given without knowledge of the
    other shards. With another gain the rounds follow one another as in
    `hebbnmf.distributed.merging`. The leading shard of a round recruits units as it goes. The
    others set aside the samples that would recruit one, and the driver presents these after the
    merge, in order.

    By Eq. (8) a sample replaces the share ``y_i^2 / Yhat_i`` of row i of the weights. So they
    remember ``Yhat`` over the mean square of an answer, in samples: with ``activity_gain=1`` all
    that were seen, with a gain of 0.1 a tenth of them, under the schedule of section III.C a
    number that hardly grows. Workers that learn for long beyond that go ways of their own.

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
    if not isinstance(model, OnlineSNMF):
        raise TypeError(f"model={model!r} cannot learn in rounds: give an OnlineSNMF.")
    check_executor(executor)
    for name, value in (("n_shards", n_shards), ("round_rows", round_rows)):
        if not (_is_count(value) or (name == "round_rows" and value is None)):
            raise ValueError(
                f"{name}={value!r} cannot be used: set it to an integer of at least 1."
            )
    if model.shuffle:
        raise ValueError(
            "shuffle=True cannot be used on shards, which are read in order: shuffle the data "
            "beforehand, and set it to False."
        )
    shards = open_shards(data, int(n_shards), reading)
    cursors = [shards.begin(shard) for shard in range(n_shards)]
    whole_blocks = None if round_rows is None else -(-int(round_rows) // BLOCK) * BLOCK
    course = _Course(
        int(n_shards), whole_blocks, shards.extent, shards.reading, cursors, [False] * n_shards
    )
    _grow(model, shards, executor, course, on_progress)
    _save(model, checkpoint, course, shards)
    return _finish(model, shards, executor, course, checkpoint, on_progress)


def resume(
    path: str | PathLike[str],
    data: Any,
    executor: Executor,
    *,
    on_progress: Callable[[int], object] | None = None,
) -> OnlineSNMF:
    """Go on from the last checkpoint of `fit`, to the same end as if it had never stopped.

    Parameters
    ----------
    path : path
        The checkpoint; it goes on being written.
    data : array, Dask array, or list of paths
        The data that were given to `fit`; files are read as they were.
    executor : concurrent.futures.Executor or distributed.Client
        The workers; they need not be those of the first run.
    on_progress : callable, optional
        As in `fit`.

    Returns
    -------
    OnlineSNMF
        The model.
    """
    check_executor(executor)
    model, _, position, _ = read(path)
    if not isinstance(model, OnlineSNMF) or position is None or "rounds" not in position:
        raise ValueError(
            f"{path!s} is no checkpoint of a training in rounds: use fit to begin one."
        )
    course = _Course(**position["rounds"])
    remove_leftovers(path)
    _bare(model)
    shards = open_shards(data, course.n_shards, course.reading)
    if shards.extent != course.extent:
        raise ValueError(
            f"{path!s} is of data with {_extent_of(course.extent)}, but these have "
            f"{_extent_of(shards.extent)}: give those that were given to fit."
        )
    return _finish(model, shards, executor, course, path, on_progress)


def _grow(
    model: OnlineSNMF,
    shards: Shards,
    executor: Executor,
    course: _Course,
    on_progress: Callable[[int], object] | None,
) -> None:
    """Learn the first samples here, until some recruit no further unit and a round is due."""
    n_units = None
    # In turn from all shards, so that none is left behind when rounds begin.
    for shard in cycle(range(course.n_shards)):
        if all(course.ended):
            break
        if course.ended[shard]:
            continue
        part = compute(executor, shards.part(shard, course.cursors[shard], _GROWTH_ROWS))
        rows, cursor = read_part(part)
        _advance(course, shards, shard, len(rows), _GROWTH_ROWS, cursor)
        shards.feature_names(course.cursors)  # refuses files that are not alike
        if not len(rows):
            continue
        X = model._validate(rows, reset=n_units is None)
        _bare(model)
        before = model.cumulative_activity_
        course.n_unconverged += model._learn(X)[1]
        _remember(course, model, before, len(X))
        if on_progress is not None:
            on_progress(len(X))
        grown = model.n_components_
        settled = grown > 0 and grown in (n_units, model.n_components)
        n_units = grown
        if settled and model.n_samples_seen_ >= _PACE * BLOCK * course.n_shards:
            break
    if n_units is None:
        raise ValueError("the data have no row to learn from; check that they are the right ones.")


def _finish(
    model: OnlineSNMF,
    shards: Shards,
    executor: Executor,
    course: _Course,
    checkpoint: str | PathLike[str] | None,
    on_progress: Callable[[int], object] | None,
) -> OnlineSNMF:
    """Learn what is left, round by round and epoch by epoch."""
    while True:
        while not all(course.ended):
            before = model.n_samples_seen_
            _round(model, shards, executor, course)
            _save(model, checkpoint, course, shards)
            if on_progress is not None:
                on_progress(model.n_samples_seen_ - before)
        if course.epoch + 1 >= model.n_epochs:
            break
        course.epoch += 1
        course.cursors = [shards.begin(shard) for shard in range(course.n_shards)]
        course.ended = [False] * course.n_shards
    _complete(model, course, shards)
    model._warn(course.n_unconverged, model.n_samples_seen_)
    if model.n_components_ == 0:
        warnings.warn(
            f"No unit was recruited: rank_penalty={model.rank_penalty!r} is not below |x|^4 of any "
            "sample; lower it, or scale the data up.",
            stacklevel=3,
        )
    return model


def _round(model: OnlineSNMF, shards: Shards, executor: Executor, course: _Course) -> None:
    """One synchronous round over the shards that have not ended."""
    active = [shard for shard in range(course.n_shards) if not course.ended[shard]]
    n_rows = _rows_of_a_shard(course, model, len(active))
    before, n_before = model.cumulative_activity_, model.n_samples_seen_
    packed = pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL)
    arguments = [
        (shards.part(shard, course.cursors[shard], n_rows), shard == active[0]) for shard in active
    ]
    outcomes = run(executor, learn_shard, packed, arguments)
    course.n_unconverged += merge(model, outcomes)
    _remember(course, model, before, model.n_samples_seen_ - n_before)
    for shard, outcome in zip(active, outcomes, strict=True):
        _advance(course, shards, shard, outcome.n_read, n_rows, outcome.cursor)
    shards.feature_names(course.cursors)


def _rows_of_a_shard(course: _Course, model: OnlineSNMF, n_active: int) -> int:
    """Length of the next round, in whole blocks."""
    longest = course.round_rows or _LONGEST_ROUND
    if n_active == 1:  # it learns as the serial engine does, for as long as it may
        return longest
    n_all = model.n_samples_seen_ // _PACE
    if course.round_rows is None:
        n_all = min(n_all, course.n_remembered)
    return max(BLOCK, min(longest, n_all // n_active // BLOCK * BLOCK))


def _remember(course: _Course, model: OnlineSNMF, before: Any, n_rows: int) -> None:
    """Note how many samples the weights remember, now that some have added to the activity."""
    after = model.cumulative_activity_[: len(before)]
    added = (after - before).sum() / model.activity_gain
    if added > 0:
        course.n_remembered = int(after.sum() * n_rows / added)


def _save(
    model: OnlineSNMF, checkpoint: str | PathLike[str] | None, course: _Course, shards: Shards
) -> None:
    if checkpoint is not None:
        _complete(model, course, shards)
        save(model, checkpoint, position={"rounds": asdict(course)})
        _bare(model)


def _complete(model: OnlineSNMF, course: _Course, shards: Shards) -> None:
    """Note what a fitted model tells of its training."""
    model.n_iter_ = course.epoch + 1
    names = shards.feature_names(course.cursors)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def _bare(model: OnlineSNMF) -> None:
    """Drop what rounds have no use for: labels, and names, since rows come as bare arrays."""
    for name in ("labels_", "feature_names_in_"):
        model.__dict__.pop(name, None)


def _extent_of(extent: list[Any]) -> str:
    if all(isinstance(name, str) for name in extent):
        return f"the files {', '.join(extent)}"
    return f"the shape {tuple(extent)}"


def _advance(
    course: _Course, shards: Shards, shard: int, n_read: int, n_asked: int, found: Any
) -> None:
    cursor = shards.after(course.cursors[shard], n_read, found)
    course.cursors[shard] = cursor
    course.ended[shard] = shards.has_ended(shard, cursor, n_read, n_asked)
