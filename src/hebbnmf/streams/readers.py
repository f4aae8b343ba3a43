"""Readers: what every source of rows can do, pulled a number of rows at a time.

A reader gives rows in order and can tell and seek its cursor, which is JSON. Rows are checked
here, where file, row and column are still known. The readers themselves are in `arrays` (numbers
in memory and in numpy's files), `lines` (text) and `tables` (Parquet, Arrow, HDF5).
"""

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
Columns = Sequence[int | str] | None


class StreamError(ValueError):
    """A source that cannot be read as rows of finite numbers; the message says where and why."""


@dataclass
class BadRows:
    """What becomes of rows that cannot be used: an error, or a count."""

    skip: bool = False
    count: int = 0
    last: str = ""

    def report(self, place: str, problem: str) -> None:
        """Raise for one bad row, or count it."""
        if not self.skip:
            raise StreamError(
                f"{place}: {problem}; correct the row, or pass on_bad_row='skip' to leave out "
                "and count such rows."
            )
        self.count += 1
        self.last = f"{place}: {problem}"


class Reader(ABC):
    """Rows in order, from a cursor that can be told and sought.

    Parameters
    ----------
    name : str
        Name of the source, for messages.
    bad : BadRows
        What becomes of bad rows.
    dtype : dtype
        Type of the rows given, float32 or float64.
    """

    n_features: int
    feature_names: list[str] | None = None
    repeatable = True
    live = False  # rows are given as they arrive, however few
    seed: int | None = None
    _chosen: list[int] | None = None

    def __init__(self, name: str, bad: BadRows, dtype: np.dtype[Any]) -> None:
        self.name = name
        self.bad = bad
        self.dtype = dtype

    @abstractmethod
    def pull(self, n_rows: int) -> FloatArray | None:
        """Give at most `n_rows` good rows, perhaps none; None at the end."""

    @abstractmethod
    def tell(self) -> Any:
        """Give the cursor: what `seek` needs to go on from here."""

    @abstractmethod
    def seek(self, cursor: Any) -> None:
        """Go to a cursor that `tell` gave."""

    @abstractmethod
    def begin(self, epoch: int) -> None:
        """Go to the first row of an epoch."""

    def close(self) -> None:  # noqa: B027  Not every reader has a file.
        """Close files."""

    def read(self, n_rows: int) -> FloatArray:
        """Give exactly `n_rows` good rows; fewer only at the end, or as they arrive."""
        parts: list[FloatArray] = []
        missing = n_rows
        with self.readable():
            while missing and (part := self.pull(missing)) is not None:
                parts.append(part)
                missing -= len(part)
                if self.live and len(part):
                    break
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.empty((0, self.n_features), self.dtype), *parts])

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Turn the many errors of a file that is damaged, cut or gone into one."""
        try:
            yield
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
            raise StreamError(f"{self.name} cannot be read: {error}; restore it.") from error

    def _choose(self, columns: Columns, width: int, names: list[str] | None) -> None:
        """Set the features from the columns asked for."""
        self._chosen = None if columns is None else choose(columns, width, names, self.name)
        chosen = range(width) if self._chosen is None else self._chosen
        self.n_features = len(chosen)
        self.feature_names = None if names is None else [names[j] for j in chosen]

    def _select(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows if self._chosen is None else rows[:, self._chosen]

    def _clean(self, rows: NDArray[Any], place: Callable[[int], str]) -> FloatArray:
        """Convert rows, and leave out those that are not finite."""
        with np.errstate(over="ignore"):
            converted: FloatArray = np.ascontiguousarray(rows, dtype=self.dtype)
        good = np.isfinite(converted).all(axis=1)
        if good.all():
            return converted
        for i in np.flatnonzero(~good):
            j = int(np.flatnonzero(~np.isfinite(converted[i]))[0])
            self.bad.report(f"{place(int(i))}, {self._column(j)}", f"{rows[i, j]} is not finite")
        return converted[good]

    def _column(self, j: int) -> str:
        if self.feature_names is not None:
            return f"column {self.feature_names[j]!r}"
        return f"column {j if self._chosen is None else self._chosen[j]} (counted from 0)"


class IndexedReader(Reader):
    """A reader that can also give any rows by their numbers; the cursor is a row number."""

    n_rows: int
    _at = 0

    @abstractmethod
    def fetch(self, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Give rows as they are stored."""

    def fetch_chosen(self, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Give the chosen columns of rows."""
        return self._select(self.fetch(rows))

    def take(self, rows: slice | NDArray[np.intp]) -> FloatArray:
        """Give rows, checked and converted."""
        return self._clean(self.fetch_chosen(rows), lambda i: self.place(_number(rows, i)))

    def place(self, row: int) -> str:
        """Name a row in a message."""
        return f"{self.name}, row {row} (counted from 0)"

    def pull(self, n_rows: int) -> FloatArray | None:
        """Give the next rows."""
        if self._at >= self.n_rows:
            return None
        start = self._at
        self._at = min(start + n_rows, self.n_rows)
        return self.take(slice(start, self._at))

    def tell(self) -> int:
        """Give the number of the next row."""
        return self._at

    def seek(self, cursor: int) -> None:
        """Go to a row."""
        if not 0 <= cursor <= self.n_rows:
            raise StreamError(
                f"{self.name} has {self.n_rows} rows, but the position is at row {cursor}: open "
                "the source that the position was taken from."
            )
        self._at = cursor

    def begin(self, epoch: int) -> None:  # noqa: ARG002
        """Go to the first row."""
        self._at = 0


class BlockReader(Reader):
    """A reader of sources that come in blocks of their own; the cursor is a row number."""

    _at = 0
    _rest: NDArray[Any] | None = None
    _source: Iterator[NDArray[Any]] | None = None

    @abstractmethod
    def blocks(self, start: int) -> Iterator[NDArray[Any]]:
        """Give all rows from number `start` on, as they are stored, in blocks of any length."""

    def pull(self, n_rows: int) -> FloatArray | None:
        """Give the next rows."""
        if self._source is None:
            self._source = self.blocks(self._at)
        while self._rest is None or not len(self._rest):
            self._rest = next(self._source, None)
            if self._rest is None:
                return None
        rows, self._rest = self._rest[:n_rows], self._rest[n_rows:]
        start = self._at
        self._at += len(rows)
        return self._clean(
            self._select(rows), lambda i: f"{self.name}, row {start + i} (counted from 0)"
        )

    def tell(self) -> int:
        """Give the number of the next row, bad ones counted."""
        return self._at

    def seek(self, cursor: int) -> None:
        """Go to a row."""
        if cursor < 0:
            raise IndexError(f"row {cursor}")
        self._at, self._rest, self._source = cursor, None, None

    def begin(self, epoch: int) -> None:  # noqa: ARG002
        """Go to the first row."""
        self.seek(0)


def choose(columns: Sequence[int | str], width: int, names: list[str] | None, name: str) -> Any:
    """Turn names or numbers of columns into numbers."""
    chosen = []
    for column in columns:
        if isinstance(column, str) and names is not None and column in names:
            chosen.append(names.index(column))
        elif not isinstance(column, str) and 0 <= column < width:
            chosen.append(int(column))
        else:
            known = f"numbered 0 to {width - 1}" if names is None else ", ".join(names)
            raise StreamError(f"{name} has no column {column!r}; its columns are {known}.")
    return chosen


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
    """Refuse what is not a matrix of real numbers."""
    if len(shape) != 2 or not shape[1] or dtype.kind not in "biuf":
        raise StreamError(
            f"{name} has shape {tuple(shape)} and type {dtype}, but a stream needs two dimensions "
            "(samples, features) of real numbers; reshape or convert it."
        )


def _number(rows: slice | NDArray[np.intp], i: int) -> int:
    return int(rows.start + i if isinstance(rows, slice) else rows[i])


def describe(n_features: int, names: list[str] | None) -> str:
    """Say in words which columns there are."""
    if names is None:
        return f"{n_features} columns without names"
    return f"the columns {', '.join(names)}"
