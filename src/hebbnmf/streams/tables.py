"""Readers of files that need an optional package: Parquet, Arrow (Feather) and HDF5 (NWB)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hebbnmf.streams.options import ReadOptions
from hebbnmf.streams.readers import (
    Array,
    BadRows,
    BlockReader,
    FileReader,
    FileSource,
    Formats,
    IndexedReader,
    RowNumbers,
    StreamError,
    check_matrix,
)

# Numbers in a batch of rows: bounds memory where tables are wide.
_BATCH = 2**18

# pyarrow and h5py carry no types.
_Untyped = Any


class _TableReader(FileReader, BlockReader):
    """What Parquet and Arrow files share: named columns, of which the numeric ones are read."""

    def _set_fields(self, schema: _Untyped) -> None:
        types = import_module("pyarrow").types
        # pandas stores the index of a frame in such columns; it is no feature.
        names = [n for n in schema.names if not re.fullmatch(r"__index_level_\d+__", n)]
        self._set_features(len(names), names)
        self._chosen = None  # batches hold only the chosen columns
        self._names = self.feature_names or []
        for name in self._names:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise StreamError(
                    f"{self.name}, column {name!r} holds {kind}, not numbers; name the numeric "
                    "ones in columns."
                )
        self._batch_rows = max(_BATCH // self.n_features, 1)

    def _matrix(self, batch: _Untyped) -> Array:
        """Turn a batch into rows; missing values become NaN."""
        rows = np.empty((batch.num_rows, self.n_features))
        for j, name in enumerate(self._names):
            rows[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
        return rows

    @contextmanager
    def _arrow_errors(self) -> Iterator[None]:
        try:
            yield
        except import_module("pyarrow").ArrowInvalid as error:
            raise StreamError(f"{self.name} cannot be read: {error}; restore the file.") from error


class ParquetReader(_TableReader):
    """Rows of a Parquet file, a batch at a time."""

    formats: ClassVar[Formats] = {"parquet": (".parquet",)}

    def __init__(self, file: FileSource, options: ReadOptions, bad: BadRows) -> None:
        super().__init__(file, options, bad)
        parquet = _import_optional("pyarrow.parquet", "arrow", self.name)
        with self._arrow_errors():
            self._file = self._files.enter_context(parquet.ParquetFile(Path(file.path)))
        self.n_rows = self._file.metadata.num_rows
        self._set_fields(self._file.schema_arrow)

    def _blocks(self, start: int) -> Iterator[Array]:
        """Read batches, beginning with the row group that holds row `start`."""
        n_groups, group = self._file.num_row_groups, 0
        while group < n_groups and start >= (n := self._file.metadata.row_group(group).num_rows):
            start -= n
            group += 1
        if start and group == n_groups:
            raise EOFError(f"the stream should go on {start} rows after its end")
        batches = self._file.iter_batches(
            batch_size=self._batch_rows,
            row_groups=range(group, n_groups),
            columns=self._names,
            use_threads=False,
        )
        with self._arrow_errors():
            for batch in batches:
                yield self._matrix(batch)[start:]
                start = max(start - batch.num_rows, 0)


class ArrowReader(_TableReader):
    """Rows of an Arrow file, which Feather's second version is too, a record batch at a time."""

    formats: ClassVar[Formats] = {"arrow": (".arrow", ".feather")}

    def __init__(self, file: FileSource, options: ReadOptions, bad: BadRows) -> None:
        super().__init__(file, options, bad)
        arrow = _import_optional("pyarrow", "arrow", self.name)
        # Not memory-mapped: a mapped file that shrinks kills the process.
        opened = self._files.enter_context(arrow.OSFile(file.path))
        with self._arrow_errors():
            self._file = import_module("pyarrow.ipc").open_file(opened)
        self._set_fields(self._file.schema)

    def _blocks(self, start: int) -> Iterator[Array]:
        with self._arrow_errors():
            for number in range(self._file.num_record_batches):
                batch = self._file.get_batch(number)
                for row in range(start, batch.num_rows, self._batch_rows):
                    yield self._matrix(batch.slice(row, self._batch_rows))
                start = max(start - batch.num_rows, 0)
        if start:
            raise EOFError(f"the stream should go on {start} rows after its end")


class Hdf5Reader(FileReader, IndexedReader):
    """Rows of a dataset in an HDF5 file, such as a series in an NWB file."""

    formats: ClassVar[Formats] = {"hdf5": (".h5", ".hdf5", ".nwb")}

    def __init__(self, file: FileSource, options: ReadOptions, bad: BadRows) -> None:
        super().__init__(file, options, bad)
        path, dataset = file.path, file.member
        h5py = _import_optional("h5py", "hdf5", self.name)
        Path(path).open("rb").close()  # report a missing file as for other formats
        with self.readable():
            opened = self._files.enter_context(h5py.File(path, "r"))
        if not dataset or not isinstance(opened.get(dataset), h5py.Dataset):
            found = _find_matrices(opened, h5py)
            if dataset or len(found) != 1:
                raise StreamError(
                    f"{self.name} is not one dataset: name one of the matrices in the file, as in "
                    f"'{path}::{found[0] if found else '/data'}' (it has: {', '.join(found)})."
                )
            dataset = found[0]
        self._data = opened[dataset]
        check_matrix(self._data.shape, self._data.dtype, self.name)
        self.n_rows = self._data.shape[0]
        self._set_features(self._data.shape[1])

    def _fetch(self, rows: RowNumbers) -> Array:
        if isinstance(rows, slice):
            return np.asarray(self._data[rows])
        # h5py wants row numbers in increasing order.
        order = np.argsort(rows)
        block = np.empty((len(rows), self._data.shape[1]), self._data.dtype)
        block[order] = self._data[rows[order]]
        return block


def _find_matrices(file: _Untyped, h5py: _Untyped) -> list[str]:
    """Return the names of all matrices of numbers in a file."""
    found: list[str] = []

    def visit(name: str, item: _Untyped) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 2 and item.dtype.kind in "biuf":
            found.append("/" + name)

    file.visititems(visit)
    return found


def _import_optional(module: str, extra: str, name: str) -> _Untyped:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{name} needs {module.split('.')[0]}: install it with pip install 'hebbnmf[{extra}]'."
        ) from error
