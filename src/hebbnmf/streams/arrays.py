"""Readers of arrays in memory, numpy's files, raw numbers and iterables."""

import sys
import zipfile
from collections.abc import Generator, Iterable, Iterator
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.options import ReadOptions
from hebbnmf.streams.readers import (
    Array,
    BadRow,
    BadRows,
    BlockReader,
    DType,
    FileReader,
    IndexedReader,
    RowNumbers,
    StreamError,
    check_matrix,
    describe,
    skip_rows,
)

# Bytes read at a time where a format leaves the choice to us.
_PIECE = 2**20


class ArrayReader(IndexedReader):
    """Rows of an array or a frame in memory."""

    def __init__(self, X: object, options: ReadOptions, bad: BadRows) -> None:
        names = _column_names(X)
        super().__init__("the array" if names is None else "the frame", options, bad)
        self._X = np.asarray(X)
        check_matrix(self._X.shape, self._X.dtype, self.name)
        self.n_rows = len(self._X)
        self._set_features(self._X.shape[1], names)

    def _fetch(self, rows: RowNumbers) -> Array:
        return self._X[rows]


class NpyReader(FileReader, IndexedReader):
    """Rows of a `.npy` file, by positioned reads.

    A memory map would be as fast, but a mapped file that shrinks kills the process.
    """

    formats = (("npy", ".npy"),)

    def _open(self) -> None:
        with Path(self._path).open("rb") as file:
            self.n_rows, width, self._by_column, self._stored = _npy_header(file, self.name)
            self._start = file.tell()
        self._set_features(width)

    def _fetch(self, rows: RowNumbers) -> Array:
        with Path(self._path).open("rb", buffering=0) as file:
            if isinstance(rows, slice):
                return self._slice(file, rows.start, rows.stop)
            return self._columns(file, rows) if self._by_column else self._rows(file, rows)

    def _slice(self, file: FileIO, start: int, stop: int) -> Array:
        """Read rows that follow each other."""
        block = np.empty((stop - start, self._width), self._stored)
        if not self._by_column:
            self._read_into(file, start * self._width, block)
            return block
        block = np.asfortranarray(block)
        for j, column in enumerate(block.T):
            self._read_into(file, j * self.n_rows + start, column)
        return block

    def _rows(self, file: FileIO, rows: NDArray[np.intp]) -> Array:
        """Read rows in any order."""
        block = np.empty((len(rows), self._width), self._stored)
        for i, row in enumerate(rows.tolist()):
            self._read_into(file, row * self._width, block[i])
        return block

    def _columns(self, file: FileIO, rows: NDArray[np.intp]) -> Array:
        """Read rows in any order, of a file that holds column after column.

        The whole file is read for it, piece by piece: for a single number of each column the
        system would be asked as many times as the block has numbers.
        """
        block = np.empty((len(rows), self._width), self._stored)
        piece = np.empty(min(self.n_rows, _PIECE // self._stored.itemsize), self._stored)
        order = np.argsort(rows)
        for start in range(0, self.n_rows, len(piece)):
            stop = min(start + len(piece), self.n_rows)
            here = order[slice(*np.searchsorted(rows[order], [start, stop]))]
            for j in range(self._width if len(here) else 0):
                part = piece[: stop - start]
                self._read_into(file, j * self.n_rows + start, part)
                block[here, j] = part[rows[here] - start]
        return block

    def _read_into(self, file: FileIO, item: int, out: Array) -> None:
        """Fill an array with the numbers of the file from number `item` on."""
        file.seek(self._start + item * self._stored.itemsize)
        view = memoryview(out.view(np.uint8).reshape(-1).data)
        while len(view):
            n_read = file.readinto(view)
            if not n_read:
                raise StreamError(
                    f"{self.name} ends before the {self.n_rows} rows that its header "
                    "promises: it was cut short; restore the file."
                )
            view = view[n_read:]


class NpzReader(FileReader, BlockReader):
    """Rows of one array of a `.npz` file, read as they are unpacked."""

    formats = (("npz", ".npz"),)

    def _open(self) -> None:
        try:
            self._zip = self._files.enter_context(zipfile.ZipFile(self._path))
        except zipfile.BadZipFile as error:
            raise StreamError(f"{self._path} is no .npz file: {error}.") from error
        names = [name.removesuffix(".npy") for name in self._zip.namelist()]
        if not self._member and len(names) == 1:
            self._member = names[0]
        if self._member not in names:
            raise StreamError(
                f"{self._path} holds the arrays {', '.join(names)}: name one of them, as in "
                f"'{self._path}::{names[0] if names else 'X'}'."
            )
        with self._zip.open(self._member + ".npy") as file:
            self.n_rows, width, by_column, self._stored = _npy_header(file, self.name)
        if by_column:
            raise StreamError(
                f"{self.name} is stored column by column; save np.ascontiguousarray(X) instead."
            )
        self._set_features(width)

    def _blocks(self, start: int) -> Iterator[Array]:
        with self._zip.open(self._member + ".npy") as file:
            _npy_header(file, self.name)
            _skip_bytes(file, start * self._width * self._stored.itemsize)
            if (yield from _raw_rows(file, self._width, self._stored)):
                raise StreamError(f"{self.name} ends in the middle of a row; restore the file.")


class RawReader(FileReader, BlockReader):
    """Rows of bare float32 or float64 numbers of a given width, from a file or standard input."""

    formats = (("float32",), ("float64",))
    from_stdin = True

    def _open(self) -> None:
        if self.options.width is None:
            raise StreamError(
                f"width=None cannot be used for {self.name}: raw numbers do not say how many "
                "make a row; pass width, the number of columns."
            )
        self._set_features(self.options.width)
        self._stored = np.dtype(self.options.format).newbyteorder("<")
        self._row_bytes = self._width * self._stored.itemsize
        self._file: IO[bytes]
        if self.repeatable:
            self._file = self._files.enter_context(Path(self._path).open("rb"))  # noqa: SIM115
            self._size = Path(self._path).stat().st_size
            self.n_rows = self._size // self._row_bytes
        else:
            self._file = sys.stdin.buffer

    def _blocks(self, start: int) -> Iterator[Array]:
        offset = start * self._row_bytes
        if self.repeatable:
            offset -= self._file.seek(min(offset, self._size))
        _skip_bytes(self._file, offset)
        is_torn = yield from _raw_rows(self._file, self._width, self._stored)
        if self.repeatable and self._file.tell() < self._size:
            raise EOFError(f"it had {self._size} bytes when opened, and has fewer now")
        if is_torn:
            self.bad.report(
                f"{self.name}, row {self.row} (counted from 0)",
                BadRow(f"ends before its {self._width} numbers of {self._stored.name}"),
            )


class IterableReader(BlockReader):
    """Rows, or chunks of rows, from any iterable."""

    def __init__(self, source: Iterable[object], options: ReadOptions, bad: BadRows) -> None:
        super().__init__("the iterable", options, bad)
        self._iterable = source
        self.repeatable = iter(source) is not source
        items = self._matrices()
        first = next(items, None)
        if first is None:
            raise StreamError("the iterable is empty: give one that yields rows or chunks.")
        self._items: Iterator[Array] | None = chain([first], items)
        self._set_features(*self._columns)

    def _blocks(self, start: int) -> Iterator[Array]:
        items, self._items = self._items or self._matrices(), None
        return skip_rows(items, start)

    def _pull(self, n_rows: int) -> FloatArray | None:
        # Copied: the source may fill the same array again for its next item.
        rows = super()._pull(n_rows)
        return None if rows is None else rows.copy()

    def _matrices(self) -> Iterator[Array]:
        for number, item in enumerate(self._iterable):
            rows = np.asarray(item)
            rows = rows[None] if rows.ndim == 1 else rows
            check_matrix(rows.shape, rows.dtype, f"item {number} of the iterable")
            columns = (rows.shape[1], _column_names(item))
            if number == 0:
                self._columns = columns
            elif columns != self._columns:
                raise StreamError(
                    f"item {number} of the iterable has {describe(*columns)}, but the first has "
                    f"{describe(*self._columns)}; give rows of the same columns, in one order."
                )
            yield rows


def _column_names(X: object) -> list[str] | None:
    """Return the names of a frame's columns; None for an array, and for numbered columns."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _npy_header(file: IO[bytes], name: str) -> tuple[int, int, bool, DType]:
    """Read the header of a `.npy` file: rows, columns, whether stored by column, type."""
    try:
        is_first = npy.read_magic(file) == (1, 0)
        read_header = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, by_column, stored = read_header(file)
    except (ValueError, EOFError) as error:
        raise StreamError(f"{name} is no .npy file: {error}.") from error
    check_matrix(shape, stored, name)
    return shape[0], shape[1], by_column and 1 not in shape, stored


def _raw_rows(file: IO[bytes], width: int, stored: DType) -> Generator[Array, None, bool]:
    """Read rows of bare numbers; return whether the last one is incomplete."""
    row_bytes = width * stored.itemsize
    while data := file.read(max(_PIECE // row_bytes, 1) * row_bytes):
        n_rows = len(data) // row_bytes
        yield np.frombuffer(data, stored, n_rows * width).reshape(n_rows, width)
        if n_rows * row_bytes < len(data):
            return True
    return False


def _skip_bytes(file: IO[bytes], n_bytes: int) -> None:
    """Skip bytes of a file that may not support seek()."""
    while n_bytes > 0 and (data := file.read(min(n_bytes, _PIECE))):
        n_bytes -= len(data)
    if n_bytes > 0:
        raise EOFError(f"it ends {n_bytes} bytes before the position to resume from")
