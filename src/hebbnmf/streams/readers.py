"""Readers: what every source of rows can do.

A reader reads rows in order from a cursor, which can be stored as JSON. Rows are checked here,
where file, row and column are still known.
"""

import re
import weakref
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import compress
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


# Names of columns that a message lists.
_NAMES = 20
# What to do about a bad row, unless its reader knows better.
_REMEDY = "correct the row, or pass on_bad_row='skip' to leave out and count such rows"
_REMEDY_MISSING = "fill it in, or pass missing='skip' to leave out and count such rows"


class BadRow(ValueError):
    """A row that cannot be used: what is wrong with it, and what to do about it."""

    def __init__(self, problem: str, *, missing: bool = False, remedy: str | None = None) -> None:
        super().__init__(problem)
        self.missing = missing
        self.remedy = remedy or (_REMEDY_MISSING if missing else _REMEDY)


@dataclass
class BadRows:
    """What to do with rows that cannot be used, raise or count, and the count."""

    skip: bool = False
    skip_missing: bool = False
    largest_norm2: float | None = None  # |x|^2 of a row at most; None if rows need only be finite
    count: int = 0
    last: str = ""

    def skips(self, bad: BadRow) -> bool:
        """Return whether a bad row is left out, rather than an error."""
        return self.skip or (self.skip_missing and bad.missing)

    def report(self, place: str, bad: BadRow) -> None:
        """Raise for one bad row, or count it."""
        if not self.skips(bad):
            raise StreamError(f"{place}: {bad}; {bad.remedy}.")
        self.count += 1
        self.last = f"{place}: {bad}"


class Reader(ABC):
    """Rows in order, from a cursor: the number of the next row, unless a reader says otherwise."""

    n_features: int
    feature_names: list[str] | None = None
    n_rows: int | None = None  # rows of an epoch, bad ones counted, if known without reading
    row = 0  # rows of the epoch before the cursor, bad ones counted, if n_rows is known
    repeatable = True
    live = False  # rows are returned as they arrive, however few
    passing = False  # rows that were read are gone, and cannot be compared later
    seed: int | None = None
    times: NDArray[np.float64] | None = None  # of the rows last read, in seconds, if known
    ids: Sequence[Any] = ()  # of the rows last read, where options ask for them
    columns: list[int] | None = None  # numbers of the features in the source, if chosen
    _id_column: int | None = None
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
        self.ids = []
        self._times: list[NDArray[np.float64]] = []
        # A number too large for the type becomes infinite, and so a bad row.
        with self.readable(), np.errstate(over="ignore"):
            while missing and (part := self._pull(missing)) is not None:
                parts.append(part)
                missing -= len(part)
                if self.live and len(part):
                    break
        self.times = np.concatenate(self._times) if self._times else None
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
        self._places: dict[str, list[int]] = defaultdict(list)
        for j, name in enumerate(names or []):
            self._places[name].append(j)
        options = self.options
        if options.ids is not None:
            self._id_column = self._find(options.ids, names)
        left_out = {self._find(column, names) for column in options.drop or ()}
        if options.columns is not None:
            wanted: Sequence[int | str] = options.columns
        elif options.learned is not None and names is not None:
            wanted = options.learned
            if lacking := [name for name in wanted if name not in self._places]:
                raise StreamError(
                    f"{self.name} lacks {describe(len(lacking), lacking)}, which the model "
                    f"learned; it has {describe(width, names)}: rename them, or give other data."
                )
        else:
            wanted = [j for j in range(width) if j != self._id_column]
        chosen = [j for c in wanted if (j := self._find(c, names)) not in left_out]
        if not chosen:
            raise StreamError(f"{self.name} has no column left to read; drop fewer of them.")
        if names is not None:
            if options.columns is None:
                self._check_names([names[j] for j in chosen], chosen)
            self.feature_names = [names[j] for j in chosen]
        self.n_features = len(chosen)
        self._chosen = self.columns = None if chosen == list(range(width)) else chosen

    def _find(self, column: int | str, names: list[str] | None) -> int:
        """Return the number of a column."""
        if isinstance(column, str):
            places = self._places.get(column, [])
        else:
            places = [column] if 0 <= column < self._width else []
        if not places:
            listed = describe(self._width, names)
            if names is None:
                listed = f"columns numbered 0 to {self._width - 1}"
            raise StreamError(f"{self.name} has no column {column!r}; it has {listed}.")
        if len(places) > 1:
            raise self._ambiguous(str(column))
        return places[0]

    def _check_names(self, names: list[str], chosen: list[int]) -> None:
        """Refuse features that nobody chose by number, and that names do not distinguish."""
        n_of = Counter(names)
        for name, j in zip(names, chosen, strict=True):
            if re.fullmatch(r"(Unnamed: \d+)?", name):
                raise StreamError(
                    f"{self.name} has a column without a name, number {j} (counted from 0), as is "
                    f"the index that pandas writes: leave it out with drop=[{j}], or choose the "
                    "columns to read with columns=[...]."
                )
            if n_of[name] > 1:
                raise self._ambiguous(name)

    def _ambiguous(self, name: str) -> StreamError:
        numbers = self._places[name]
        return StreamError(
            f"{self.name} has {len(numbers)} columns of the name {name!r}, numbers "
            f"{', '.join(map(str, numbers))} (counted from 0): leave one out by its number, as "
            f"with drop=[{numbers[-1]}], or rename it."
        )

    def _select(self, rows: Array) -> Array:
        return rows if self._chosen is None else rows[:, self._chosen]

    def _advance(self, stored: Array, times: NDArray[np.float64] | None = None) -> FloatArray:
        """Move the cursor past the next rows, as they are stored; convert them and check them."""
        start, self.row = self.row, self.row + len(stored)
        if self._id_column is not None:
            ids = stored[:, self._id_column].tolist()
        rows = self._select(stored)
        converted: FloatArray = np.ascontiguousarray(rows, dtype=self.dtype)
        good = self._are_good(converted)
        for i in np.flatnonzero(~good).tolist():
            j, problem = self._fault(converted[i])
            bad = BadRow(f"{rows[i, j]} {problem}", missing=bool(np.isnan(converted[i, j])))
            self.bad.report(self.place(start + i, j), bad)
        if self.options.keep_places and not good.all():
            converted = np.where(good[:, None], converted, self.dtype.type(np.nan))
            good[:] = True
        if self._id_column is not None:
            self.ids = [*self.ids, *compress(ids, good)]
        if times is not None:
            self._times.append(times[good])
        return converted if good.all() else converted[good]

    def _are_good(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Return which rows can be used."""
        rows = self._without_gaps(rows)
        if self.bad.largest_norm2 is None:
            return np.logical_and.reduce(np.isfinite(rows), axis=1)
        # One fast pass: sums of squares that are not finite are not below the bound either.
        norms2 = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return np.less_equal(norms2, self.bad.largest_norm2)

    def _fault(self, row: FloatArray) -> tuple[int, str]:
        """Return the worst feature of a bad row, and what is wrong with it."""
        row = self._without_gaps(row)
        if not (finite := np.isfinite(row)).all():
            return int(finite.argmin()), "is not finite"
        return int(np.abs(row).argmax()), (
            f"is too large to learn from (a row may have the squared norm "
            f"{self.bad.largest_norm2:.3g}: divide the data by a factor)"
        )

    def _without_gaps(self, rows: FloatArray) -> FloatArray:
        """Return the rows with zeros for missing values, where these may be kept."""
        if self.options.missing != "keep":
            return rows
        return np.where(np.isnan(rows), rows.dtype.type(0), rows)

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
        rows = slice(self.row, min(self.row + n_rows, self.n_rows))
        if rows.start == rows.stop:
            return None
        return self._advance(self._fetch(rows), self._times_of(rows))

    def _times_of(self, rows: slice) -> NDArray[np.float64] | None:  # noqa: ARG002
        """Return the times of rows, in seconds, where the source tells them."""
        return None


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
        return self._advance(rows)


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
            "(samples, features) of real numbers; "
            + (
                "reshape one sample by X.reshape(1, -1), one feature by X.reshape(-1, 1)."
                if len(shape) == 1
                else "reshape or convert it."
            )
        )


def describe(n_features: int, names: Sequence[str] | None) -> str:
    """Return in words which columns there are, for messages."""
    if not names:
        return f"{n_features} columns without names"
    shown = ", ".join(name or "''" for name in names[:_NAMES])
    return f"the columns {shown}" + f", and {len(names) - _NAMES} more" * (len(names) > _NAMES)
