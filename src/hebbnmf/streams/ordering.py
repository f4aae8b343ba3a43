"""Readers made of readers: files one after the other, and rows in shuffled order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.streams.readers import FloatArray, IndexedReader, Reader, StreamError, describe


def permutation(n: int, *key: int) -> NDArray[np.intp]:
    """Give the permutation of n items that belongs to a key of integers.

    RandomState, unlike Generator, promises the same numbers in every version of numpy.
    """
    bits = np.random.MT19937(np.random.SeedSequence(key))
    return np.random.RandomState(bits).permutation(n)


class Permuted(Reader):
    """Rows of an indexed reader in an exact permutation, another one each epoch.

    The cursor is the number of rows taken, and the number of all rows.
    """

    def __init__(self, reader: IndexedReader, seed: int) -> None:
        super().__init__(reader.name, reader.bad, reader.dtype)
        self.n_features, self.feature_names = reader.n_features, reader.feature_names
        self._reader = reader
        self.seed: int = seed
        self._at = 0

    def pull(self, n_rows: int) -> FloatArray | None:
        """Give the next rows of the permutation."""
        rows = self._order[self._at : self._at + n_rows]
        self._at += len(rows)
        return self._reader.take(rows) if len(rows) else None

    def tell(self) -> list[int]:
        """Give the number of rows taken, and of all."""
        return [self._at, self._reader.n_rows]

    def seek(self, cursor: list[int]) -> None:
        """Go to a place in the permutation."""
        at, n_rows = cursor
        if n_rows != self._reader.n_rows:
            raise StreamError(
                f"{self.name} has {self._reader.n_rows} rows, but had {n_rows} when the position "
                "was told: another number of rows has another order; restore the source."
            )
        if not 0 <= at <= n_rows:
            raise IndexError(f"row {at} of {n_rows}")
        self._at = int(at)

    def begin(self, epoch: int) -> None:
        """Draw the permutation of an epoch."""
        self._at = 0
        self._order = permutation(self._reader.n_rows, self.seed, epoch)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()


class Windowed(Reader):
    """Rows of any reader, shuffled within windows of fixed length.

    A window is read, permuted and given out before the next one is read. A rolling buffer would
    mix further, but could be resumed only with its rows stored; a window is simply read again.
    The cursor is the number of the window, the reader's cursor and count of bad rows at its start,
    and the number of rows taken from it.
    """

    def __init__(self, reader: Reader, seed: int, n_rows: int) -> None:
        super().__init__(reader.name, reader.bad, reader.dtype)
        self.n_features, self.feature_names = reader.n_features, reader.feature_names
        self.repeatable = reader.repeatable
        self._reader = reader
        self.seed: int = seed
        self._n_rows = n_rows

    def pull(self, n_rows: int) -> FloatArray | None:
        """Give the next rows of the window, or of the next window."""
        if self._taken == len(self._rows):
            if self._rows.size:
                self._number += 1
            self._load()
            if not len(self._rows):
                return None
        rows = self._rows[self._taken : self._taken + n_rows]
        self._taken += len(rows)
        return rows

    def tell(self) -> list[Any]:
        """Give window, cursor and bad rows at its start, and rows taken."""
        return [self._number, self._start, self._n_bad, self._taken]

    def seek(self, cursor: list[Any]) -> None:
        """Go to a place in a window."""
        number, start, self.bad.count, taken = cursor
        self._reader.seek(start)
        self._number = int(number)
        self._load()
        if not 0 <= taken <= len(self._rows):
            raise EOFError(f"row {taken} of window {number} is not in it")
        self._taken = int(taken)

    def begin(self, epoch: int) -> None:
        """Go to the first window of an epoch."""
        self._reader.begin(epoch)
        self._epoch = epoch
        self._number = self._taken = 0
        self._rows: FloatArray = np.empty((0, self.n_features), self.dtype)
        self._start, self._n_bad = self._reader.tell(), self.bad.count

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _load(self) -> None:
        self._start, self._n_bad = self._reader.tell(), self.bad.count
        rows = self._reader.read(self._n_rows)
        self._rows = rows[permutation(len(rows), self.seed, self._epoch, self._number)]
        self._taken = 0


class Chain(Reader):
    """Files one after the other, each opened when its turn comes.

    The cursor is the number of the file, and the cursor in it.
    """

    def __init__(self, openers: Sequence[Callable[[], Reader]]) -> None:
        self._openers = openers
        self._number = 0
        self._reader = openers[0]()
        super().__init__(self._reader.name, self._reader.bad, self._reader.dtype)
        self.n_features, self.feature_names = self._reader.n_features, self._reader.feature_names
        self.repeatable = self._reader.repeatable

    def pull(self, n_rows: int) -> FloatArray | None:
        """Give rows of the current file, or of the next."""
        rows = self._reader.pull(n_rows)
        while rows is None and self._number + 1 < len(self._openers):
            self._open(self._number + 1)
            rows = self._reader.pull(n_rows)
        return rows

    def tell(self) -> list[Any]:
        """Give the file's number, and the cursor in it."""
        return [self._number, self._reader.tell()]

    def seek(self, cursor: list[Any]) -> None:
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

    def close(self) -> None:
        """Close the current file."""
        self._reader.close()

    def _open(self, number: int) -> None:
        if number != self._number:
            self._reader.close()
            self._reader = self._openers[number]()
            self._number = number
            self.name = self._reader.name
            check_alike(self._reader, self)


class IndexedChain(IndexedReader):
    """Files that can be indexed, as one."""

    def __init__(self, readers: Sequence[IndexedReader]) -> None:
        first = readers[0]
        super().__init__(first.name, first.bad, first.dtype)
        self.n_features, self.feature_names = first.n_features, first.feature_names
        for reader in readers:
            check_alike(reader, self)
        self._readers = readers
        self._ends = np.cumsum([reader.n_rows for reader in readers])
        self.n_rows = int(self._ends[-1])

    def fetch(self, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Give rows, each from its file; columns are chosen there."""
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        files = np.searchsorted(self._ends, numbers, side="right")
        block = np.empty((len(numbers), self.n_features))
        for i in np.unique(files):
            here = files == i
            block[here] = self._readers[i].fetch_chosen(numbers[here] - self._first(int(i)))
        return block

    def place(self, row: int) -> str:
        """Name a row in its file."""
        i = int(np.searchsorted(self._ends, row, side="right"))
        return self._readers[i].place(row - self._first(i))

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers:
            reader.close()

    def _first(self, i: int) -> int:
        return int(self._ends[i]) - self._readers[i].n_rows


def check_alike(reader: Reader, first: Reader) -> None:
    """Refuse a file whose columns are not those of the first."""
    own, others = ((r.n_features, r.feature_names) for r in (reader, first))
    if own != others:
        raise StreamError(
            f"{reader.name} has {describe(*own)}, but the files before it have "
            f"{describe(*others)}; choose columns that all files have."
        )
