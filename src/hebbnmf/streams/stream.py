"""Stream: chunks of the rows of a reader, epoch after epoch."""

import logging
import operator
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.readers import Reader, StreamError, describe

__all__ = ["Position", "Stream", "file_facts"]

logger = logging.getLogger(__name__)

Position = dict[str, Any]  # JSON


class Stream(Iterator[FloatArray], AbstractContextManager["Stream"]):
    """Chunks of rows, in a fixed order that can be resumed anywhere.

    Made by `open_stream`. Iterate it once for the chunks of all epochs. All but the last of an
    epoch have `chunk_rows` rows, so that learning from a resumed stream is the same to the bit.

    Attributes
    ----------
    n_features : int
        Number of columns.
    feature_names : list of str or None
        Their names, where the source has them.
    files : list of str or int
        The files read, 0 for standard input; empty for rows in memory.
    chunk_rows : int
        Number of rows in a chunk.
    last_chunk : ndarray
        The chunk that came last; without rows before the first.
    n_rows : int or None
        Number of rows that the source stores, bad ones counted. None where only reading would
        tell: in text, Arrow files, iterables, and several files unless shuffled by permutation.
    live : bool
        Whether rows are given as they arrive, in chunks of any length.
    total : int or None
        Number of rows that the stream gives at most, all epochs together, from its beginning or
        the last `seek` on; the limit if only that is known, else None, until a whole epoch was
        read.
    window_rows : int or None
        Number of rows that are shuffled at a time; None without ``shuffle``, and where all are.
    """

    def __init__(
        self,
        reader: Reader,
        files: list[str | int],
        *,
        chunk_rows: int,
        epochs: int,
        limit: int | None,
        allow_empty: bool,
        seed_drawn: bool,
        window_rows: int | None = None,
    ) -> None:
        self.chunk_rows = chunk_rows
        self.n_features, self.feature_names = reader.n_features, reader.feature_names
        self.n_rows, self.live = reader.n_rows, reader.live
        self.window_rows = window_rows
        self.files = files
        self._facts = [file_facts(file) for file in files]
        self._reader = reader
        self._epoch, self._epochs = 0, epochs
        self._n_left = limit
        self.last_chunk: FloatArray = np.empty((0, reader.n_features))
        self._may_be_empty = allow_empty  # true from the first chunk on
        self._seed_drawn = seed_drawn
        self._n_logged = 0
        self._n_given = 0  # rows since the beginning or the last seek
        self._epoch_start: int | None = 0  # of these rows; None if it lies before them
        reader.begin(0)
        self._start = reader.tell()
        self.total = self._n_to_come()

    def __next__(self) -> FloatArray:
        n_rows = self.chunk_rows if self._n_left is None else min(self.chunk_rows, self._n_left)
        if n_rows < 1:
            raise StopIteration
        while not len(chunk := self._reader.read(n_rows)):
            self._check_epoch()
            # The last epoch stays the current one: a position taken now can be resumed with more.
            if self._epoch + 1 >= self._epochs:
                raise StopIteration
            if self.total is None and self._epoch_start is not None:
                n_in_epoch = self._n_given - self._epoch_start
                self.total = self._n_given + n_in_epoch * (self._epochs - self._epoch - 1)
            self._epoch += 1
            self._epoch_start = self._n_given
            with self._reader.readable():
                self._reader.begin(self._epoch)
        self._may_be_empty = True
        self.last_chunk = chunk
        self._n_given += len(chunk)
        if self._n_left is not None:
            self._n_left -= len(chunk)
        return chunk

    @property
    def name(self) -> str:
        """Name of the source, for messages; of several files, the current one."""
        return self._reader.name

    @property
    def times(self) -> NDArray[np.float64] | None:
        """Times of the rows of the last chunk, in seconds by the clock of the source.

        None where the source has no clock, and for rows that are shuffled.
        """
        return self._reader.times

    @property
    def ids(self) -> Sequence[Any]:
        """Values of the column ``ids`` in the rows of the last chunk."""
        return self._reader.ids

    @property
    def n_bad_rows(self) -> int:
        """Number of rows left out so far, in all epochs."""
        return self._reader.bad.count

    @property
    def last_bad_row(self) -> str:
        """Place of the last row left out, and what is wrong with it; empty if there is none."""
        return self._reader.bad.last

    @property
    def position(self) -> Position:
        """What `seek` needs to go on after the last chunk; it can be stored as JSON."""
        return {
            "epoch": self._epoch,
            "cursor": self._reader.tell(),
            "n_bad_rows": self.n_bad_rows,
            "chunk_rows": self.chunk_rows,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "seed": self._reader.seed,
        }

    @property
    def follows_file(self) -> bool:
        """Whether rows come from a file that grows, and may be moved away and created again."""
        return self._reader.live and self._reader.repeatable

    @property
    def is_at_start(self) -> bool:
        """Whether nothing was read yet, and no position was sought; not of a passing source."""
        return not self._reader.passing and self._epoch == 0 and self._reader.tell() == self._start

    @property
    def source(self) -> dict[str, Any]:
        """Facts about the source that change when it is another one; they can be stored as JSON.

        Of each file name, size and time of change when it was opened, None for a pipe.
        """
        return {
            "files": self._facts,
            "n_rows": self.n_rows,
            "dtype": self._reader.dtype.name,
            "columns": self._reader.columns,
        }

    def seek(self, position: Position) -> None:
        """Go to a position of this stream, or of another one opened in the same way.

        Standard input and generators cannot go back: open them anew, from their first row. Rows
        before the position do not count towards the limit.
        """
        self._adopt(position)
        cursor = position.get("cursor")
        try:
            with self._reader.readable():
                self._epoch = operator.index(position["epoch"])
                if self._epoch < 0:
                    raise IndexError(f"epoch {self._epoch}")
                self._reader.bad.count = self._n_logged = int(position["n_bad_rows"])
                if self._reader.repeatable:
                    self._reader.begin(self._epoch)
                if self._reader.repeatable or self._reader.tell() != cursor:
                    self._reader.seek(cursor)
        except StreamError:
            raise
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise StreamError(f"{position!r} is not a position of a stream.") from error
        self._may_be_empty = True
        self._n_given, self._epoch_start = 0, None
        self.total = self._n_to_come()

    def rewind(self, position: Position, epoch: int) -> None:
        """Go to the first row of an epoch, in the order of the stream that a position is of.

        For `reread`; call `seek` before the stream is used again.
        """
        self._adopt(position)
        self._epoch = epoch
        if self._reader.repeatable:
            with self._reader.readable():
                self._reader.begin(epoch)

    def reread(self, n_rows: int) -> Iterator[FloatArray]:
        """Read the next rows of this epoch, which count towards no limit; fewer at its end."""
        while n_rows > 0 and len(chunk := self._reader.read(min(self.chunk_rows, n_rows))):
            yield chunk
            n_rows -= len(chunk)

    def _adopt(self, position: Position) -> None:
        """Take over the seed of a position; refuse that of another stream.

        Columns are compared first: rows a chunk follow from their number.
        """
        takes_seed = self._seed_drawn and isinstance(position.get("seed"), int)
        keys = ("n_features", "feature_names", "chunk_rows", *(() if takes_seed else ("seed",)))
        for key in keys:
            taken, own = position.get(key), self.position[key]
            if taken != own:
                raise StreamError(
                    f"the position is of a stream with {key}={taken!r}, but this one has {own!r}; "
                    "open the same source with the same settings to resume."
                )
        if takes_seed:
            self._reader.seed = position["seed"]

    def require(self, n_features: int, feature_names: Sequence[str] | None) -> None:
        """Raise unless the columns, by number and by name, are those that a model has learned.

        Names are compared only where both the source and the model have them.
        """
        own, learned = self.feature_names, None if feature_names is None else list(feature_names)
        if self.n_features != n_features or (own and learned and own != learned):
            raise StreamError(
                f"{self.name} has {describe(self.n_features, own)}, but the model learned "
                f"{describe(n_features, learned)}; choose them, in this order, by columns."
            )

    def close(self) -> None:
        """Close the files."""
        self._reader.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _n_to_come(self) -> int | None:
        if self.n_rows is None:
            return self._n_left
        # A position of a later epoch than the last is read to the end of that epoch.
        n_rows = max(self._epochs - self._epoch, 1) * self.n_rows - self._reader.row
        return n_rows if self._n_left is None else min(n_rows, self._n_left)

    def _check_epoch(self) -> None:
        bad = self._reader.bad
        if bad.count > self._n_logged:
            logger.warning("%d bad rows left out so far, the last at %s", bad.count, bad.last)
            self._n_logged = bad.count
        if not self._may_be_empty:
            raise StreamError(
                f"{self.name} has no row to give ({bad.count} bad ones"
                f"{f', the last at {bad.last}' if bad.last else ''}); check that it is the right "
                "source."
            )


def file_facts(file: str | int) -> list[str | int] | None:
    """Return name, size and time of change of a file; None for a pipe, or where there is none."""
    if isinstance(file, int) or not Path(file).is_file():
        return None
    status = os.stat(file)
    return [Path(file).name, status.st_size, status.st_mtime_ns]
