"""Readers of files that need an optional package: Parquet, Arrow (Feather) and HDF5 (NWB)."""

import os
import re
from abc import abstractmethod
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.streams.readers import (
    Array,
    BlockReader,
    FileReader,
    IndexedReader,
    RowNumbers,
    StreamError,
    check_matrix,
    skip_rows,
)

# Numbers in a batch of rows: bounds memory where tables are wide.
_BATCH = 2**18
_Untyped = Any  # pyarrow and h5py carry no types


class _TableReader(FileReader, BlockReader):
    """What Parquet and Arrow files share: named columns, of which the numeric ones are read."""

    def _open(self) -> None:
        self._arrow = _import_for(self._path, "pyarrow", "arrow")
        self._damage += (self._arrow.ArrowInvalid,)
        with self.readable():
            schema = self._open_table()
        types = self._arrow.types
        # pandas stores the index of a frame in such columns; it is not a feature.
        names = [n for n in schema.names if not re.fullmatch(r"__index_level_\d+__", n)]
        self._set_features(len(names), names)
        self._names = list(self.feature_names or [])
        words = [name for name in self._names if not _is_numeric(schema.field(name).type, types)]
        if words:
            raise StreamError(
                f"{self.name}, column {words[0]!r} holds {schema.field(words[0]).type}, not "
                f"numbers; leave such columns out with drop={words}, or choose the numeric ones "
                "with columns=[...]."
            )
        self._chosen = None  # batches hold only the chosen columns, and then that of the ids
        if self._id_column is not None:
            self._names.append(names[self._id_column])
            self._id_column, self._chosen = self.n_features, list(range(self.n_features))
        self._batch_rows = max(_BATCH // self.n_features, 1)

    @abstractmethod
    def _open_table(self) -> _Untyped:
        """Open the file and return its schema."""

    def _matrix(self, batch: _Untyped) -> Array:
        """Turn a batch into rows; missing values become NaN."""
        has_ids = self._id_column is not None
        rows = np.empty((batch.num_rows, len(self._names)), object if has_ids else np.float64)
        for j, name in enumerate(self._names):
            rows[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
        return rows


class ParquetReader(_TableReader):
    """Rows of a Parquet file, a batch at a time."""

    formats = (("parquet", ".parquet"),)

    def _open_table(self) -> _Untyped:
        parquet = import_module("pyarrow.parquet")
        self._file = self._files.enter_context(parquet.ParquetFile(Path(self._path)))
        self.n_rows = self._file.metadata.num_rows
        return self._file.schema_arrow

    def _blocks(self, start: int) -> Iterator[Array]:
        """Read batches, beginning with the row group that holds row `start`."""
        n_groups, group = self._file.num_row_groups, 0
        while group < n_groups and start >= (n := self._file.metadata.row_group(group).num_rows):
            start -= n
            group += 1
        batches = self._file.iter_batches(
            batch_size=self._batch_rows,
            row_groups=range(group, n_groups),
            columns=list(dict.fromkeys(self._names)),
            use_threads=False,
        )
        return skip_rows(map(self._matrix, batches), start)


class ArrowReader(_TableReader):
    """Rows of an Arrow file, which Feather's second version is too, a record batch at a time."""

    formats = (("arrow", ".arrow", ".feather"),)

    def _open_table(self) -> _Untyped:
        # Not memory-mapped: a mapped file that shrinks kills the process.
        file = self._files.enter_context(self._arrow.OSFile(self._path))
        self._file = self._arrow.ipc.open_file(file)
        return self._file.schema

    def _blocks(self, start: int) -> Iterator[Array]:
        batches = map(self._file.get_batch, range(self._file.num_record_batches))
        pieces = (
            self._matrix(batch.slice(row, self._batch_rows))
            for batch in batches
            for row in range(0, batch.num_rows, self._batch_rows)
        )
        return skip_rows(pieces, start)


class Hdf5Reader(FileReader, IndexedReader):
    """Rows of a dataset in an HDF5 file, such as a series in an NWB file."""

    formats = (("hdf5", ".h5", ".hdf5", ".nwb"),)

    def _open(self) -> None:
        h5py, dataset = _import_for(self._path, "h5py", "hdf5"), self._member
        with self.readable():
            file = self._files.enter_context(h5py.File(self._path, "r"))
        if dataset and isinstance(file.get(f"{dataset}/data"), h5py.Dataset):
            dataset += "/data"  # a series of an NWB file, named as a whole
        if not dataset or not isinstance(file.get(dataset), h5py.Dataset):
            found = _find_matrices(file, h5py)
            if dataset or len(found) != 1:
                example = f"{self._path}::{found[0] if found else '/data'}"
                raise StreamError(
                    f"{self.name} is not one dataset: name one of the matrices in the file, as in "
                    f"{example!r} (it has: {', '.join(found)})."
                )
            dataset = found[0]
        self._data = file[dataset]
        self._handle = file.id.get_vfd_handle()
        self._size = os.fstat(self._handle).st_size
        check_matrix(self._data.shape, self._data.dtype, self.name)
        self.n_rows = self._data.shape[0]
        self._set_features(self._data.shape[1])
        series = self._data.parent
        with self.readable():
            stamps, self._start = series.get("timestamps"), series.get("starting_time")
        self._stamps = stamps if stamps is not None and stamps.shape == (self.n_rows,) else None

    def _times_of(self, rows: slice) -> NDArray[np.float64] | None:
        """Return the times that an NWB series tells: stamps, or a start and a rate in hertz."""
        if self._stamps is not None:
            return np.asarray(self._stamps[rows], np.float64)
        if self._start is None or "rate" not in self._start.attrs:
            return None
        numbers = np.arange(rows.start, rows.stop)
        return np.asarray(self._start[()] + numbers / self._start.attrs["rate"], np.float64)

    def _fetch(self, rows: RowNumbers) -> Array:
        if isinstance(rows, slice):
            block = np.asarray(self._data[rows])
        else:
            # h5py wants row numbers in increasing order.
            order = np.argsort(rows)
            block = np.empty((len(rows), self._data.shape[1]), self._data.dtype)
            block[order] = self._data[rows[order]]
        # HDF5 reads zeros where a file ends too early.
        if (size := os.fstat(self._handle).st_size) < self._size:
            raise EOFError(f"it had {self._size} bytes when opened, and has {size} now")
        return block


def _is_numeric(kind: _Untyped, types: _Untyped) -> bool:
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _find_matrices(file: _Untyped, h5py: _Untyped) -> list[str]:
    """Return the names of all matrices of numbers in a file."""
    found: list[str] = []

    def visit(name: str, item: _Untyped) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 2 and item.dtype.kind in "biuf":
            found.append("/" + name)

    file.visititems(visit)
    return found


def _import_for(path: str, package: str, extra: str) -> _Untyped:
    """Import the package that a file needs, and raise if there is no such file."""
    try:
        module = import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{path} needs {package}: install it with pip install 'hebbnmf[{extra}]'."
        ) from error
    Path(path).open("rb").close()  # the packages raise errors of many kinds instead
    return module
