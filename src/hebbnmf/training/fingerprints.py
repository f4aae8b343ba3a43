"""Fingerprints: whether a training that is resumed finds the rows that it has learned.

What must stay are the rows that were read: all of the source after its first epoch, before only
those up to the checkpoint, so that a bad row which ended a training may be corrected. Their digests
are taken as they are learned, the first chunk by itself. If name, size and time of the files are
those of before, only that first digest is compared, which notices other options of reading; else
all rows are read again.
"""

import hashlib
import operator
from typing import Any

import numpy as np

from hebbnmf.engine.state import FloatArray
from hebbnmf.learner import warn_user
from hebbnmf.streams import Stream, StreamError
from hebbnmf.streams.stream import Position

__all__ = ["Fingerprint", "find_position"]

_Digests = list[list[Any]]  # numbers of rows that follow each other, and their SHA-256


class Fingerprint:
    """Facts about the source of a stream, and digests of the rows of its first epoch.

    `earlier` are the digests of the runs that this one continues; None if rows that they read are
    not known, as those of checkpoints of earlier versions. `row` of an epoch is the one it starts
    with.
    """

    def __init__(self, stream: Stream, earlier: _Digests | None, row: int = 0) -> None:
        self._source = stream.source
        self._earlier = earlier
        self._epoch, self._row = stream.position["epoch"], row
        self._n_rows, self._digest = 0, hashlib.sha256()

    def add(self, rows: FloatArray, epoch: int) -> None:
        """Add rows that were read from the stream and learned."""
        self._row = len(rows) + (self._row if epoch == self._epoch else 0)
        self._epoch = epoch
        if self._earlier is None or epoch > 0:
            return
        self._digest.update(np.ascontiguousarray(rows).data)
        self._n_rows += len(rows)
        if not self._earlier:
            self._earlier = self._digests(self._earlier)
            self._n_rows, self._digest = 0, hashlib.sha256()

    def stored(self) -> dict[str, Any]:
        """Return the fingerprint as JSON."""
        earlier = self._earlier
        digests = None if earlier is None else self._digests(earlier)
        return {**self._source, "row": self._row, "read": digests}

    def _digests(self, earlier: _Digests) -> _Digests:
        return [*earlier, [self._n_rows, self._digest.hexdigest()]] if self._n_rows else earlier


def find_position(stream: Stream, position: Position, *, force: bool) -> Fingerprint:
    """Go to the position of a checkpoint; raise StreamError if what was read before has changed.

    With `force`, go to the row of that number in the source as it is now.
    """
    stored = position.get("source")
    if stored is None:
        stream.seek(position)
        return Fingerprint(stream, None)
    try:
        problem = _difference(stream, position, stored)
        digests, row = stored["read"], operator.index(stored["row"])
    except (KeyError, TypeError, AttributeError) as error:
        raise StreamError(f"{stored!r} is not a fingerprint of a source.") from error
    if problem and not force:
        raise StreamError(
            f"{stream.name} is not as it was when the checkpoint was written: {problem}; restore "
            "it, start again with another checkpoint, or pass force=True to take it as it is now."
        )
    if problem and digests is not None:
        # Bytes that were the start of a line may lie within one now.
        stream.rewind(position, position["epoch"])
        for _ in stream.reread(row):
            pass
        position, digests = stream.position, None
    stream.seek(position)
    return Fingerprint(stream, digests, row)


def _difference(stream: Stream, position: Position, stored: dict[str, Any]) -> str:
    """Return what differs between a source and its fingerprint; an empty text if nothing does."""
    now = stream.source
    if now["dtype"] != stored["dtype"]:
        return f"its rows are read as {now['dtype']}, and were as {stored['dtype']}"
    if stream.feature_names is None and now["columns"] != stored["columns"]:
        return f"the columns {now['columns']} are read, and were {stored['columns']}"
    if None not in (now["n_rows"], stored["n_rows"]) and now["n_rows"] < stored["n_rows"]:
        return f"it has {now['n_rows']} rows, and had {stored['n_rows']}"
    digests = stored["read"]
    if not digests:
        return ""
    stream.rewind(position, 0)
    if None not in now["files"] and now["files"] == stored["files"] != []:
        return _other_rows(stream, digests[:1])
    problem = _other_rows(stream, digests)
    if not problem and position["epoch"] > 0 and next(stream.reread(1), None) is not None:
        return "rows were added to those of the first epoch"
    if not problem and _n_bytes(now) < _n_bytes(stored):
        warn_user(
            f"{stream.name} is shorter than when the checkpoint was written: the rows learned "
            "until then are the same, those that follow are taken as they are now.",
            UserWarning,
        )
    return problem


def _other_rows(stream: Stream, digests: _Digests) -> str:
    """Return which of the next rows are not those of the digests."""
    start = 0
    for n_rows, digest in digests:
        found, n_found = hashlib.sha256(), 0
        for chunk in stream.reread(n_rows):
            found.update(chunk.data)
            n_found += len(chunk)
        if n_found < n_rows:
            return f"it ends after {start + n_found} rows, and more were learned"
        if found.hexdigest() != digest:
            return f"rows {start} to {start + n_rows - 1}, as they were learned, are not the same"
        start += n_rows
    return ""


def _n_bytes(source: dict[str, Any]) -> int:
    return sum(file[1] for file in source["files"] if file is not None)
