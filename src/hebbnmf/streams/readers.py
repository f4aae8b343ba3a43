"""Readers: what every source of rows can do.

A reader reads rows in order from a cursor, which can be stored as JSON. Rows are checked here,
where file, row and column are still known.
"""

import weakref
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.options import ReadOptions

Array = NDArray[Any]  # rows of numbers of any type, as they are stored
DType = np.dtype[Any]
Cursor = Any  # JSON, of another form for each kind of reader
RowNumbers = slice | NDArray[np.intp]


class StreamError(ValueError):
    """A source that cannot be read as rows of finite numbers; the message says where and why."""


@dataclass
class BadRows:
    """What to do with rows that cannot be used, raise or count, and the count."""

    skip: bool = False
    largest_norm2: float | None = None  # |x|^2 of a row at most; None if rows need only be finite
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
    """Rows in order, from a cursor: the number of the next row, unless a reader says otherwise."""

    n_features: int
    feature_names: list[str] | None = None
    n_rows: int | None = None  # rows of an epoch, bad ones counted, if known without reading
    row = 0  # rows of the epoch before the cursor, bad ones counted, if n_rows is known
    repeatable = True
    live = False  # rows are returned as they arrive, however few
    seed: int | None = None
    columns: list[int] | None = None  # numbers of the features in the source, if chosen
    _chosen: list[int] | None = None
    _first: Cursor = 0
    _damage: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, zipfile.BadZipFile)

    def __init__(self, name: str, options: ReadOptions, bad: BadRows) -> None:
        self.name = name  # of the source, for messages
        self.options, self.bad = options, bad
        self.dtype: DType = np.dtype(options.dtype)
        self._files = ExitStack()
        weakref.finalize(self, self._files.close)  # a stream may be dropped half read

    def tell(self) -> Cursor:
        """Return the cursor: what `seek` needs to go on from here."""
        return self.row

    @abstractmethod
    def seek(self, cursor: Cursor) -> None:
        """Go to a cursor that `tell` returned."""

    def begin(self, epoch: int) -> None:  # noqa: ARG002
        """Go to the first row of an epoch."""
        self.seek(self._first)

    def close(self) -> None:
        """Close files."""
        self._files.close()

    def read(self, n_rows: int) -> FloatArray:
        """Read exactly `n_rows` good rows; fewer only at the end or if live, none at the end."""
        parts: list[FloatArray] = []
        missing = n_rows
        # A number too large for the type becomes infinite, and so a bad row.
        with self.readable(), np.errstate(over="ignore"):
            while missing and (part := self._pull(missing)) is not None:
                parts.append(part)
                missing -= len(part)
                if self.live and len(part):
                    break
        return parts[0] if len(parts) == 1 else np.concatenate([self._no_rows(), *parts])

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Turn the many errors of a file that is damaged, cut or gone into one."""
        try:
            yield
        except self._damage as error:
            raise StreamError(f"{self.name} cannot be read: {error}; restore it.") from error

    def place(self, row: int, feature: int) -> str:
        """Name a value in a message."""
        return f"{self.name}, row {row} (counted from 0), {self._column(feature)}"

    @abstractmethod
    def _pull(self, n_rows: int) -> FloatArray | None:
        """Return at most `n_rows` good rows, perhaps none; None at the end."""

    def _set_features(self, width: int, names: list[str] | None = None) -> None:
        """Set the features: those columns of the source that the options choose."""
        self._width, self.n_features, self.feature_names = width, width, names
        if self.options.columns is not None:
            self._chosen = []
            for column in self.options.columns:
                known: Sequence[Any] = (names or []) if isinstance(column, str) else range(width)
                if column not in known:
                    listed = f"numbered 0 to {width - 1}" if names is None else ", ".join(names)
                    raise StreamError(
                        f"{self.name} has no column {column!r}; its columns are {listed}."
                    )
                self._chosen.append(known.index(column))
            self.columns, self.n_features = self._chosen, len(self._chosen)
            self.feature_names = names and [names[j] for j in self._chosen]

    def _select(self, rows: Array) -> Array:
        return rows if self._chosen is None else rows[:, self._chosen]

    def _advance(self, rows: Array) -> FloatArray:
        """Convert the next rows, leave out those that are not finite, and move the cursor."""
        start, self.row = self.row, self.row + len(rows)
        converted: FloatArray = np.ascontiguousarray(rows, dtype=self.dtype)
        good = self._are_good(converted)
        if good.all():
            return converted
        for i in np.flatnonzero(~good).tolist():
            j, problem = self._fault(converted[i])
            self.bad.report(self.place(start + i, j), f"{rows[i, j]} {problem}")
        return converted[good]

    def _are_good(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Return which rows can be used."""
        if self.bad.largest_norm2 is None:
            return np.logical_and.reduce(np.isfinite(rows), axis=1)
        # One fast pass: sums of squares that are not finite are not below the bound either.
        norms2 = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return np.less_equal(norms2, self.bad.largest_norm2)

    def _fault(self, row: FloatArray) -> tuple[int, str]:
        """Return the worst feature of a bad row, and what is wrong with it."""
        if not (finite := np.isfinite(row)).all():
            return int(finite.argmin()), "is not finite"
        return int(np.abs(row).argmax()), (
            f"is too large to learn from (a row may have the squared norm "
            f"{self.bad.largest_norm2:.3g}: divide the data by a factor)"
        )

    def _no_rows(self) -> FloatArray:
        return np.empty((0, self.n_features), self.dtype)

    def _column(self, feature: int) -> str:
        if self.feature_names is not None:
            return f"column {self.feature_names[feature]!r}"
        number = feature if self._chosen is None else self._chosen[feature]
        return f"column {number} (counted from 0)"


class FileReader(Reader):
    """A reader of a file, or of an array in it ("path::name"), or of standard input ("-")."""

    formats: tuple[tuple[str, ...], ...]  # what it reads: each a name, then its suffixes
    is_text = False  # files may be compressed by gzip, or followed as they grow
    from_stdin = False  # standard input can be read too

    def __init__(
        self, path: str, options: ReadOptions, bad: BadRows, *, follow: bool = False
    ) -> None:
        self._path, _, self._member = path.partition("::")
        super().__init__("standard input" if self._path == "-" else path, options, bad)
        self.repeatable = self._path != "-"
        self.live = follow
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Open the file and set the features."""


class IndexedReader(Reader):
    """A reader that can also fetch any rows by their numbers."""

    n_rows: int

    def fetch(self, rows: RowNumbers) -> Array:
        """Return the chosen columns of rows, as they are stored: not checked, not converted."""
        return self._select(self._fetch(rows))

    def seek(self, cursor: Cursor) -> None:
        """Go to a row."""
        if not 0 <= cursor <= self.n_rows:
            raise StreamError(
                f"{self.name} has {self.n_rows} rows, but the position is at row {cursor}: open "
                "the source that the position was taken from."
            )
        self.row = cursor

    @abstractmethod
    def _fetch(self, rows: RowNumbers) -> Array:
        """Return all columns of rows, as they are stored."""

    def _pull(self, n_rows: int) -> FloatArray | None:
        end = min(self.row + n_rows, self.n_rows)
        return self._advance(self.fetch(slice(self.row, end))) if self.row < end else None


class BlockReader(Reader):
    """A reader of sources that come in blocks, of lengths that they choose."""

    _rest: Array | None = None
    _source: Iterator[Array] | None = None

    def seek(self, cursor: int) -> None:
        """Go to a row; `_blocks` is called by the first read after it."""
        if cursor < 0:
            raise IndexError(f"row {cursor}")
        if self._source is not None and not self.repeatable:
            raise StreamError(f"{self.name} cannot go back: open it anew to start again.")
        self.row, self._rest, self._source = cursor, None, None

    @abstractmethod
    def _blocks(self, start: int) -> Iterator[Array]:
        """Return all rows from number `start` on, as they are stored, in blocks of any length."""

    def _pull(self, n_rows: int) -> FloatArray | None:
        if self._source is None:
            self._source = self._blocks(self.row)
        while self._rest is None or not len(self._rest):
            self._rest = next(self._source, None)
            if self._rest is None:
                return None
        rows, self._rest = self._rest[:n_rows], self._rest[n_rows:]
        return self._advance(self._select(rows))


def skip_rows(blocks: Iterable[Array], n_rows: int) -> Iterator[Array]:
    """Leave out the first rows of some blocks."""
    for block in blocks:
        yield block[n_rows:]
        n_rows = max(n_rows - len(block), 0)
    if n_rows:
        raise EOFError(f"it ends {n_rows} rows before the position to resume from")


def check_matrix(shape: tuple[int, ...], dtype: DType, name: str) -> None:
    """Raise for what is not a matrix of real numbers."""
    if len(shape) != 2 or not shape[1] or dtype.kind not in "biuf":
        raise StreamError(
            f"{name} has shape {tuple(shape)} and type {dtype}, but a stream needs two dimensions "
            "(samples, features) of real numbers; reshape or convert it."
        )


def describe(n_features: int, names: list[str] | None) -> str:
    """Return in words which columns there are, for messages."""
    return f"the columns {', '.join(names)}" if names else f"{n_features} columns without names"
