"""What the commands write: rows as text, `.npy` or Parquet, whole files or none."""

import csv
import errno
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[Any]


FORCE = click.option(
    "--force",
    is_flag=True,
    help="Replace files that this command would not have written, and earlier checkpoints; resume "
    "though the data have changed.",
)


class Writer(ABC):
    """Rows to an open file, chunk by chunk; text has names of columns where they are given."""

    needs_file = False  # goes back in what it wrote, so that a pipe will not do

    def __init__(self, file: IO[bytes], names: list[str] | None) -> None:
        self._file = file
        self._names = names

    @abstractmethod
    def write(self, rows: "Rows") -> None:
        """Write an array of rows; an array of one dimension is one column."""

    def finish(self) -> None:  # noqa: B027  Text needs no end.
        """Write what belongs after the last row."""

    def abandon(self) -> None:  # noqa: B027
        """Leave the file unfinished."""


class DelimitedWriter(Writer):
    """CSV; numbers are read back to the last bit."""

    delimiter = ","

    def __init__(self, file: IO[bytes], names: list[str] | None) -> None:
        super().__init__(file, names)
        if names is not None:
            line = io.StringIO()
            csv.writer(line, delimiter=self.delimiter, lineterminator="\n").writerow(names)
            file.write(line.getvalue().encode())

    def write(self, rows: "Rows") -> None:
        """Write one line for each row."""
        texts = (map(_shortest(rows), row) for row in rows.reshape(len(rows), -1).tolist())
        self._file.write("".join(self.delimiter.join(row) + "\n" for row in texts).encode())


class JsonWriter(Writer):
    """JSON lines: lists, or objects where columns have names."""

    def write(self, rows: "Rows") -> None:
        """Write one line for each row."""
        samples: list[Any] = rows.reshape(len(rows), -1).tolist()
        if self._names is not None:
            samples = [dict(zip(self._names, row, strict=True)) for row in samples]
        self._file.write("".join(json.dumps(row) + "\n" for row in samples).encode())


class NpyWriter(Writer):
    """A `.npy` file, whose header learns the number of rows at the end."""

    needs_file = True
    _n_rows = 0

    def write(self, rows: "Rows") -> None:
        """Write rows as they are in memory."""
        self._n_rows += len(rows)
        if self._n_rows == len(rows):
            self._write_header(rows)
        self._last = rows
        self._file.write(rows.tobytes())

    def finish(self) -> None:
        """Write the header again: numpy leaves room in it for the first dimension to grow."""
        self._file.seek(0)
        self._write_header(self._last)
        self._file.seek(0, os.SEEK_END)

    def _write_header(self, like: "Rows") -> None:
        from numpy.lib import format as npy

        shape = (self._n_rows, *like.shape[1:])
        header = {"descr": npy.dtype_to_descr(like.dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, header)


class ParquetWriter(Writer):
    """A Parquet file, one group of rows for each chunk."""

    needs_file = True
    _table: Any = None

    def write(self, rows: "Rows") -> None:
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


class TabbedWriter(DelimitedWriter):
    """TSV."""

    delimiter = "\t"


_WRITERS: dict[str, type[Writer]] = {
    "csv": DelimitedWriter,
    "tsv": TabbedWriter,
    "jsonl": JsonWriter,
    "npy": NpyWriter,
    "parquet": ParquetWriter,
}


@contextmanager
def open_output(path: str, names: list[str] | None) -> Iterator[Writer]:
    """Open a writer by the suffix of a path; "-" is CSV on standard output.

    A file appears at its path once it is whole; whatever was there stays until then.
    """
    if path == "-":
        with _standard_output() as file:
            yield DelimitedWriter(file, names)
        return
    from hebbnmf.persistence.atomic import replacing

    with replacing(path) as file:
        writer = _writer_of(path)(file, names)
        try:
            yield writer
            writer.finish()
        except BaseException:
            writer.abandon()
            raise


def check_output(
    path: str, inputs: Sequence[str], *, force: bool, is_own: Callable[[str], bool]
) -> None:
    """Refuse, before work begins, an output that cannot be written or would destroy something.

    That is one of the inputs in any case; without `force` a file, unless it is empty or `is_own`:
    what an earlier run of the same command may have written.
    """
    from hebbnmf.persistence.atomic import check_not_read, check_target, is_taken
    from hebbnmf.streams import source_files

    if path != "-":
        check_target(path)
    check_not_read(1 if path == "-" else path, source_files(list(inputs)))
    if path != "-" and not force and is_taken(path) and not is_own(path):
        problem = "exists and may be needed: name another file, or pass --force to replace it"
        raise FileExistsError(errno.EEXIST, problem, path)


def check_rows_output(
    path: str, inputs: Sequence[str], *, force: bool, is_own: Callable[[str], bool]
) -> None:
    """Refuse what `check_output` does, and a path that rows cannot be written to."""
    if path != "-":
        _writer_of(path)
    check_output(path, inputs, force=force, is_own=is_own)


def _writer_of(path: str) -> type[Writer]:
    """Find the writer of the format that a suffix names; a pipe without one gets CSV."""
    from hebbnmf.persistence.atomic import is_streamed
    from hebbnmf.streams import StreamError, format_of

    try:
        writer = None if path.endswith(".gz") else _WRITERS.get(format_of(path))
    except StreamError:
        writer = DelimitedWriter if is_streamed(path) else None
    if writer is None:
        raise click.UsageError(
            f"{path!r} has a suffix that names no format to write: use that of "
            f"{', '.join(_WRITERS)}."
        )
    if writer.needs_file and is_streamed(path):
        texts = ", ".join(name for name, writer in _WRITERS.items() if not writer.needs_file)
        raise click.UsageError(f"{path!r} is a pipe or a device, which takes only {texts}.")
    return writer


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


def _shortest(rows: "Rows") -> Callable[[float], str]:
    """Return the function that writes a number in as few digits as read back to the same bits."""
    return "{:.9g}".format if rows.dtype == "float32" else repr
