"""Readers of arrays in memory, numpy's files, raw numbers and iterables."""

import sys
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.streams.readers import (
    BadRows,
    BlockReader,
    Columns,
    IndexedReader,
    StreamError,
    check_matrix,
    describe,
)

# Bytes read at a time where a format leaves the choice to us.
_PIECE = 2**20


class ArrayReader(IndexedReader):
    """Rows of an array or a frame in memory."""

    def __init__(self, X: Any, columns: Columns, bad: BadRows, dtype: np.dtype[Any]) -> None:
        super().__init__("the array" if column_names(X) is None else "the frame", bad, dtype)
        self._X = np.asarray(X)
        check_matrix(self._X.shape, self._X.dtype, self.name)
        self.n_rows = len(self._X)
        self._choose(columns, self._X.shape[1], column_names(X))

    def fetch(self, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Give rows of the array."""
        return self._X[rows]


class NpyReader(IndexedReader):
    """Rows of a `.npy` file, by positioned reads.

    A memory map would be as fast, but a mapped file that shrinks kills the process.
    """

    def __init__(self, path: Path, columns: Columns, bad: BadRows, dtype: np.dtype[Any]) -> None:
        super().__init__(str(path), bad, dtype)
        self._path = path
        with path.open("rb") as file:
            self._shape, self._by_column, self._stored = npy_header(file, self.name)
            self._start = file.tell()
        self.n_rows = self._shape[0]
        self._choose(columns, self._shape[1], None)

    def fetch(self, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Read rows from the file."""
        n, width = self._shape
        with self._path.open("rb", buffering=0) as file:
            if isinstance(rows, slice) and not self._by_column:
                block = np.empty((rows.stop - rows.start, width), self._stored)
                self._fill(file, rows.start * width, block)
            elif isinstance(rows, slice):
                by_column = np.empty((width, rows.stop - rows.start), self._stored)
                for j in range(width):
                    self._fill(file, j * n + rows.start, by_column[j])
                block = by_column.T
            elif self._by_column:
                raise StreamError(
                    f"{self.name} is stored column by column and cannot be shuffled; save it "
                    "by rows with np.save(path, np.ascontiguousarray(X))."
                )
            else:
                block = np.empty((len(rows), width), self._stored)
                for i, row in enumerate(rows):
                    self._fill(file, int(row) * width, block[i])
        return block

    def _fill(self, file: Any, item: int, out: NDArray[Any]) -> None:
        file.seek(self._start + item * self._stored.itemsize)
        view = memoryview(out.view(np.uint8).reshape(-1).data)
        while len(view):
            n_read = file.readinto(view)
            if not n_read:
                raise StreamError(
                    f"{self.name} ends before the {self._shape[0]} rows that its header "
                    "promises: it was cut short; restore the file."
                )
            view = view[n_read:]


class NpzReader(BlockReader):
    """Rows of one array of a `.npz` file, read as they are unpacked."""

    def __init__(
        self, path: Path, member: str, columns: Columns, bad: BadRows, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(f"{path}::{member}" if member else str(path), bad, dtype)
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise StreamError(f"{path} is no .npz file: {error}.") from error
        names = [name.removesuffix(".npy") for name in self._zip.namelist()]
        if not member and len(names) == 1:
            member = names[0]
        if member not in names:
            raise StreamError(
                f"{path} holds the arrays {', '.join(names)}: name one of them, as in "
                f"'{path}::{names[0] if names else 'X'}'."
            )
        self._member = member + ".npy"
        with self._zip.open(self._member) as file:
            self._shape, by_column, self._stored = npy_header(file, self.name)
        if by_column:
            raise StreamError(
                f"{self.name} is stored column by column; save np.ascontiguousarray(X) instead."
            )
        self._choose(columns, self._shape[1], None)

    def blocks(self, start: int) -> Iterator[NDArray[Any]]:
        """Unpack rows."""
        with self._zip.open(self._member) as file:
            npy_header(file, self.name)
            skip_bytes(file, start * self._shape[1] * self._stored.itemsize)
            yield from raw_rows(file, self._shape[1], self._stored, self._torn)

    def _torn(self) -> None:
        raise StreamError(f"{self.name} ends in the middle of a row; restore the file.")

    def close(self) -> None:
        """Close the file."""
        self._zip.close()


class RawReader(BlockReader):
    """Rows of bare float32 or float64 numbers of a given width, from a file or standard input."""

    def __init__(
        self,
        path: str,
        stored: str,
        width: int | None,
        columns: Columns,
        bad: BadRows,
        dtype: np.dtype[Any],
    ) -> None:
        super().__init__("standard input" if path == "-" else path, bad, dtype)
        if width is None or width < 1:
            raise StreamError(
                f"width={width!r} cannot be used for {self.name}: raw numbers do not say how many "
                "make a row; pass width, the number of columns."
            )
        self._width = width
        self._stored = np.dtype(stored).newbyteorder("<")
        self.repeatable = path != "-"
        self._file = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115
        self._size = 0
        if self.repeatable:
            self._size = Path(path).stat().st_size
            # A stream may be dropped half read.
            weakref.finalize(self, self._file.close)
        self._begun = False
        self._choose(columns, width, None)

    def blocks(self, start: int) -> Iterator[NDArray[Any]]:
        """Read rows."""
        offset = start * self._width * self._stored.itemsize
        if self.repeatable:
            if offset > self._size:
                raise EOFError(f"row {start}, where the stream should go on, is not in it")
            self._file.seek(offset)
        elif self._begun:
            raise StreamError("standard input cannot go back: begin a new stream.")
        else:
            skip_bytes(self._file, offset)
        self._begun = True
        yield from raw_rows(self._file, self._width, self._stored, self._torn)
        self._check_size()

    def _check_size(self) -> None:
        if self.repeatable and self._file.tell() < self._size:
            raise EOFError(f"it had {self._size} bytes when opened, and has fewer now")

    def _torn(self) -> None:
        self._check_size()
        self.bad.report(
            f"{self.name}, row {self._at} (counted from 0)",
            f"ends before its {self._width} numbers of {self._stored.name}",
        )

    def close(self) -> None:
        """Close the file, but never standard input."""
        if self.repeatable:
            self._file.close()


class IterableReader(BlockReader):
    """Rows, or chunks of rows, from any iterable."""

    def __init__(
        self, source: Iterable[Any], columns: Columns, bad: BadRows, dtype: np.dtype[Any]
    ) -> None:
        super().__init__("the iterable", bad, dtype)
        self._iterable = source
        self.repeatable = iter(source) is not source
        self._stock = self._matrices()
        first = next(self._stock, None)
        if first is None:
            raise StreamError("the iterable is empty: give one that yields rows or chunks.")
        self._peeked: NDArray[Any] | None = first
        self._passed = 0
        self._choose(columns, first.shape[1], self._names)

    def blocks(self, start: int) -> Iterator[NDArray[Any]]:
        """Iterate, passing over the rows before `start`."""
        if start < self._passed:
            if not self.repeatable:
                raise StreamError("the iterable cannot go back: pass a new one to start again.")
            self._stock, self._peeked, self._passed = self._matrices(), None, 0
        while (block := self._next()) is not None:
            before, self._passed = self._passed, self._passed + len(block)
            if self._passed > start:
                yield block[max(start - before, 0) :]
        if self._passed < start:
            raise EOFError(f"row {start}, where the stream should go on, is not in it")

    def _next(self) -> NDArray[Any] | None:
        block, self._peeked = self._peeked, None
        return next(self._stock, None) if block is None else block

    def _matrices(self) -> Iterator[NDArray[Any]]:
        for number, item in enumerate(self._iterable):
            rows = np.asarray(item)
            rows = rows[None] if rows.ndim == 1 else rows
            check_matrix(rows.shape, rows.dtype, f"item {number} of the iterable")
            own = (rows.shape[1], column_names(item))
            if number == 0:
                first = own
                self._names = own[1]
            if own != first:
                raise StreamError(
                    f"item {number} of the iterable has {describe(*own)}, but the first has "
                    f"{describe(*first)}; give rows of the same columns, in one order."
                )
            yield rows


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a frame; None for an array, and for columns that are numbered."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, int], bool, np.dtype[Any]]:
    """Read the header of a `.npy` file: shape, whether stored by column, type."""
    try:
        version = np.lib.format.read_magic(file)
        parse = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, by_column, stored = parse(file)
    except (ValueError, EOFError) as error:
        raise StreamError(f"{name} is no .npy file: {error}.") from error
    check_matrix(shape, stored, name)
    return (shape[0], shape[1]), by_column and 1 not in shape, stored


def raw_rows(
    file: IO[bytes], width: int, stored: np.dtype[Any], torn: Callable[[], None]
) -> Iterator[NDArray[Any]]:
    """Read rows of bare numbers; call `torn` where the last one is incomplete."""
    row_bytes = width * stored.itemsize
    while data := file.read(max(_PIECE // row_bytes, 1) * row_bytes):
        whole = len(data) // row_bytes
        yield np.frombuffer(data, stored, whole * width).reshape(whole, width)
        if whole * row_bytes < len(data):
            torn()
            return


def skip_bytes(file: IO[bytes], n_bytes: int) -> None:
    """Pass over bytes of a file that may not be able to seek."""
    while n_bytes > 0 and (data := file.read(min(n_bytes, _PIECE))):
        n_bytes -= len(data)
    if n_bytes > 0:
        raise EOFError(f"it ends {n_bytes} bytes before the position to resume from")
