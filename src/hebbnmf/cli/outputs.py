"""What the commands write: rows as text, `.npy` or Parquet, whole files or none."""

import contextlib
import csv
import errno
import io
import json
import os
import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npy": "npy",
    ".parquet": "parquet",
}


class Writer(ABC):
    """Rows to an open file, chunk by chunk.

    Parameters
    ----------
    file : binary file
        Where to write.
    names : list of str, optional
        Names of the columns; text has a line of names, or objects, only where they are given.
    """

    def __init__(self, file: IO[bytes], names: list[str] | None) -> None:
        self._file = file
        self._names = names

    @abstractmethod
    def write(self, rows: Any) -> None:
        """Write an array of rows; an array of one dimension is one column."""

    def finish(self) -> None:  # noqa: B027  Text needs no end.
        """Write what belongs after the last row."""

    def abandon(self) -> None:  # noqa: B027
        """Leave the file unfinished."""


class DelimitedWriter(Writer):
    """CSV, or with tabs TSV; numbers are read back to the last bit."""

    def __init__(self, file: IO[bytes], names: list[str] | None, delimiter: str = ",") -> None:
        super().__init__(file, names)
        self._delimiter = delimiter
        if names is not None:
            line = io.StringIO()
            csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
            file.write(line.getvalue().encode())

    def write(self, rows: Any) -> None:
        """Write one line for each row."""
        texts = (map(_shortest(rows.dtype), row) for row in rows.reshape(len(rows), -1).tolist())
        self._file.write("".join(self._delimiter.join(row) + "\n" for row in texts).encode())


class JsonWriter(Writer):
    """JSON lines: lists, or objects where columns have names."""

    def write(self, rows: Any) -> None:
        """Write one line for each row."""
        samples = rows.reshape(len(rows), -1).tolist()
        if self._names is not None:
            samples = [dict(zip(self._names, row, strict=True)) for row in samples]
        self._file.write("".join(json.dumps(row) + "\n" for row in samples).encode())


class NpyWriter(Writer):
    """A `.npy` file, whose header learns the number of rows at the end."""

    _n_rows = 0
    _like: Any = None

    def write(self, rows: Any) -> None:
        """Write rows as they are in memory."""
        import numpy as np

        if self._like is None:
            self._like = rows[:0]
            self._header()
        self._n_rows += len(rows)
        self._file.write(np.ascontiguousarray(rows).data)

    def finish(self) -> None:
        """Write the header again: numpy leaves room in it for the first dimension to grow."""
        end = self._file.tell()
        self._file.seek(0)
        self._header()
        self._file.seek(end)

    def _header(self) -> None:
        from numpy.lib import format as npy

        shape = (self._n_rows, *self._like.shape[1:])
        described = npy.dtype_to_descr(self._like.dtype)
        header = {"descr": described, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)


class ParquetWriter(Writer):
    """A Parquet file, one group of rows for each chunk."""

    _table: Any = None

    def write(self, rows: Any) -> None:
        """Write a group of rows."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError(
                "Parquet needs pyarrow: install it with pip install 'hebbnmf[arrow]'."
            ) from error
        columns = rows.reshape(len(rows), -1).T
        names = self._names or [f"column{j}" for j in range(len(columns))]
        batch = pyarrow.table([pyarrow.array(column) for column in columns], names=names)
        if self._table is None:
            self._table = parquet.ParquetWriter(self._file, batch.schema)
        self._table.write_table(batch)

    def finish(self) -> None:
        """Write the footer."""
        self._table.close()

    def abandon(self) -> None:
        """Keep pyarrow from writing a footer when it is collected, to a file that is gone."""
        if self._table is not None:
            self._table.is_open = False


@contextmanager
def open_output(path: str, names: list[str] | None) -> Iterator[Writer]:
    """Open a writer by the suffix of a path; "-" is CSV on standard output.

    A file appears at its path once it is whole; whatever was there stays until then.
    """
    if path == "-":
        with _standard_output() as file:
            yield DelimitedWriter(file, names)
        return
    kind = output_format(path)
    with replacing(path) as file:
        match kind:
            case "csv" | "tsv":
                writer: Writer = DelimitedWriter(file, names, "," if kind == "csv" else "\t")
            case "jsonl":
                writer = JsonWriter(file, names)
            case "npy":
                writer = NpyWriter(file, names)
            case _:
                writer = ParquetWriter(file, names or [])
        try:
            yield writer
            writer.finish()
        except BaseException:
            writer.abandon()
            raise


def output_format(path: str) -> str:
    """Find the format that a suffix names."""
    kind = _FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise click.UsageError(
            f"{path!r} has a suffix that names no format to write: use {', '.join(_FORMATS)}."
        )
    return kind


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Open a file beside `path`, and move it there once all is written."""
    check_target(path)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.filename not in (None, str(temporary)):
            raise
        raise OSError(
            error.errno,
            f"was not written, and what was there before is unchanged: {error.strerror or error}",
            path,
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_target(path: str) -> None:
    """Refuse a path that cannot be written, before hours of work and not after."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is where the file should go", path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", path)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "its folder cannot be written", path)


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    file = sys.stdout.buffer
    try:
        yield file
        file.flush()
    except OSError as error:
        if error.filename is None:
            # What is still buffered has nowhere to go: without this, the interpreter would try
            # again on its way out, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                raise OSError(error.errno, error.strerror, "standard output") from error
        raise


def _shortest(dtype: Any) -> Any:
    """Give the function that writes a number in as few digits as read back to the same bits."""
    return "{:.9g}".format if dtype == "float32" else repr
