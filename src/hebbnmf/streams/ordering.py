"""Readers made of readers: files one after the other, and rows in shuffled order."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.readers import (
    Array,
    Cursor,
    IndexedReader,
    Reader,
    RowNumbers,
    StreamError,
    describe,
)


class _WrappingReader(Reader):
    """A reader of another reader's rows."""

    def __init__(self, reader: Reader, seed: int | None = None) -> None:
        super().__init__(reader.name, reader.options, reader.bad)
        self.n_features, self.feature_names = reader.n_features, reader.feature_names
        self.columns = reader.columns
        self.repeatable, self.n_rows = reader.repeatable, reader.n_rows
        self.seed = seed
        self._reader = reader
        self._files.callback(reader.close)


class Permuted(_WrappingReader, IndexedReader):
    """Rows of an indexed reader in an exact permutation, another one each epoch.

    The cursor is the number of rows taken, and the number of all rows.
    """

    seed: int
    _reader: IndexedReader

    def tell(self) -> list[int]:
        """Return the number of rows taken, and of all."""
        return [self.row, self.n_rows]

    def seek(self, cursor: Cursor) -> None:
        """Go to a place in the permutation."""
        row, n_rows = cursor
        if n_rows != self.n_rows:
            raise StreamError(
                f"{self.name} has {self.n_rows} rows, but had {n_rows} when the position was "
                "taken: another number of rows has another order; restore the source."
            )
        super().seek(int(row))

    def begin(self, epoch: int) -> None:
        """Draw the permutation of an epoch."""
        self.row = 0
        self._order = _permutation(self.n_rows, self.seed, epoch)

    def place(self, row: int, feature: int) -> str:
        """Name a value in the source."""
        return self._reader.place(int(self._order[row]), feature)

    def _fetch(self, rows: RowNumbers) -> Array:
        return self._reader.fetch(self._order[rows])


class Windowed(_WrappingReader):
    """Rows of any reader, shuffled within windows of fixed length.

    A window is read, permuted and returned before the next one is read. A rolling buffer would
    mix further, but could be resumed only with its rows stored; a window is simply read again.
    The cursor is the number of the window, the reader's cursor and count of bad rows at its start,
    and the number of rows taken from it.
    """

    seed: int
    _rows: FloatArray

    def __init__(self, reader: Reader, seed: int, window_rows: int) -> None:
        super().__init__(reader, seed)
        self._window_rows = window_rows

    def tell(self) -> list[Cursor]:
        """Return window, cursor and bad rows at its start, and rows taken."""
        return [self._number, self._start, self._n_bad, self._taken]

    def seek(self, cursor: list[Cursor]) -> None:
        """Go to a place in a window."""
        number, start, self.bad.count, taken = cursor
        self._reader.seek(start)
        self._load(int(number), self._window_rows)
        if not 0 <= taken <= len(self._rows):
            raise EOFError(f"row {taken} of window {number} is not in it")
        self._taken = int(taken)
        self.row = self._number * self._window_rows + self._taken

    def begin(self, epoch: int) -> None:
        """Go to the first window of an epoch."""
        self._reader.begin(epoch)
        self._epoch, self.row = epoch, 0
        self._load(0, 0)

    def _pull(self, n_rows: int) -> FloatArray | None:
        if self._taken == len(self._rows):
            number = self._number + 1 if len(self._rows) else self._number
            self._load(number, self._window_rows)
        rows = self._rows[self._taken : self._taken + n_rows]
        self._taken += len(rows)
        self.row += len(rows)
        return rows if len(rows) else None

    def _load(self, number: int, n_rows: int) -> None:
        """Begin a window: read and permute that many rows, 0 until rows are asked for."""
        self._number, self._taken = number, 0
        self._start, self._n_bad = self._reader.tell(), self.bad.count
        rows = self._reader.read(n_rows)
        self._rows = rows[_permutation(len(rows), self.seed, self._epoch, number)]


class Chain(_WrappingReader):
    """Files one after the other, each opened when its turn comes.

    The cursor is the number of the file, and the cursor in it.
    """

    def __init__(self, openers: Sequence[Callable[[], Reader]]) -> None:
        super().__init__(openers[0]())
        self.n_rows = None  # files that are not open yet are not counted
        self._openers, self._number = openers, 0

    def tell(self) -> list[Cursor]:
        """Return the file's number, and the cursor in it."""
        return [self._number, self._reader.tell()]

    def seek(self, cursor: list[Cursor]) -> None:
        """Go to a file and a cursor in it."""
        number, inner = cursor
        if not 0 <= number < len(self._openers):
            raise IndexError(f"file {number} of {len(self._openers)}")
        self._open(int(number))
        self._reader.seek(inner)

    def begin(self, epoch: int) -> None:
        """Go to the first file."""
        self._open(0)
        self._reader.begin(epoch)

    def _pull(self, n_rows: int) -> FloatArray | None:
        while not len(rows := self._reader.read(n_rows)):
            if self._number + 1 == len(self._openers):
                return None
            self._open(self._number + 1)
        return rows

    def _open(self, number: int) -> None:
        if number != self._number:
            self._files.close()
            self._reader = self._openers[number]()
            self._files.callback(self._reader.close)
            self._number, self.name = number, self._reader.name
            _check_alike(self._reader, self)


class IndexedChain(_WrappingReader, IndexedReader):
    """Files that can be indexed, as one."""

    def __init__(self, readers: Sequence[IndexedReader]) -> None:
        super().__init__(readers[0])
        for reader in readers[1:]:
            self._files.callback(reader.close)
            _check_alike(reader, self)
        self._readers = readers
        self._ends = np.cumsum([reader.n_rows for reader in readers])
        self._starts = [0, *self._ends.tolist()]
        self.n_rows = self._starts[-1]

    def place(self, row: int, feature: int) -> str:
        """Name a value in its file."""
        i = int(np.searchsorted(self._ends, row, side="right"))
        return self._readers[i].place(row - self._starts[i], feature)

    def _fetch(self, rows: RowNumbers) -> Array:
        """Fetch each row from its file; columns are chosen there."""
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        files = np.searchsorted(self._ends, numbers, side="right")
        block = np.empty((len(numbers), self.n_features))
        for i in np.unique(files).tolist():
            here = files == i
            block[here] = self._readers[i].fetch(numbers[here] - self._starts[i])
        return block


def _permutation(n: int, *key: int) -> NDArray[np.intp]:
    """Return the permutation of n items that belongs to a key of integers."""
    # RandomState, unlike Generator, promises the same numbers in every version of numpy.
    bits = np.random.MT19937(np.random.SeedSequence(key))
    return np.random.RandomState(bits).permutation(n)


def _check_alike(reader: Reader, first: Reader) -> None:
    """Raise for a file whose columns are not those of the first."""
    own, others = ((r.n_features, r.feature_names) for r in (reader, first))
    if own != others:
        raise StreamError(
            f"{reader.name} has {describe(*own)}, but the files before it have "
            f"{describe(*others)}; choose columns that all files have."
        )
