"""Readers of files that need an optional package: Parquet, Arrow (Feather) and HDF5 (NWB)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.streams.readers import (
    BadRows,
    BlockReader,
    Columns,
    IndexedReader,
    StreamError,
    check_matrix,
    choose,
)

# Numbers in a batch of rows: bounds memory where tables are wide.
_BATCH = 2**18


class _ArrowReader(BlockReader):
    """What Parquet and Arrow files share: named columns, of which the numeric ones are read."""

    def _choose_fields(self, columns: Columns, schema: Any) -> None:
        types = import_module("pyarrow").types
        # pandas stores the index of a frame as a column of its own; it is no feature.
        names = [n for n in schema.names if not re.fullmatch(r"__index_level_\d+__", n)]
        if columns is not None:
            names = [names[j] for j in choose(columns, len(names), names, self.name)]
        for name in names:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise StreamError(
                    f"{self.name}, column {name!r} holds {kind}, not numbers; name the numeric "
                    "ones in columns."
                )
        self._choose(None, len(names), names)
        self._names = names

    def _matrix(self, batch: Any) -> NDArray[Any]:
        """Turn a batch into rows; missing values become NaN."""
        rows = np.empty((batch.num_rows, self.n_features))
        for j, name in enumerate(self._names):
            rows[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
        return rows


class ParquetReader(_ArrowReader):
    """Rows of a Parquet file, a batch at a time."""

    def __init__(self, path: Path, columns: Columns, bad: BadRows, dtype: np.dtype[Any]) -> None:
        super().__init__(str(path), bad, dtype)
        parquet = _package("pyarrow.parquet", "arrow", self.name)
        with _arrow_errors(self.name):
            self._file = parquet.ParquetFile(path)
        self._choose_fields(columns, self._file.schema_arrow)

    def blocks(self, start: int) -> Iterator[NDArray[Any]]:
        """Read batches from the row group on that holds row `start`."""
        groups = [self._file.metadata.row_group(g).num_rows for g in range(self._n_groups())]
        group = 0
        while group < len(groups) and start >= groups[group]:
            start -= groups[group]
            group += 1
        if start and group == len(groups):
            raise EOFError(f"the stream should go on {start} rows after its end")
        batches = self._file.iter_batches(
            batch_size=max(_BATCH // self.n_features, 1),
            row_groups=range(group, len(groups)),
            columns=self._names,
            use_threads=False,
        )
        with _arrow_errors(self.name):
            for batch in batches:
                yield self._matrix(batch)[start:]
                start = max(start - batch.num_rows, 0)

    def _n_groups(self) -> int:
        return int(self._file.num_row_groups)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ArrowReader(_ArrowReader):
    """Rows of an Arrow file, which Feather's second version is too, a record batch at a time."""

    def __init__(self, path: Path, columns: Columns, bad: BadRows, dtype: np.dtype[Any]) -> None:
        super().__init__(str(path), bad, dtype)
        arrow = _package("pyarrow", "arrow", self.name)
        # Not memory-mapped: a mapped file that shrinks kills the process.
        self._handle = arrow.OSFile(str(path))
        with _arrow_errors(self.name):
            self._file = import_module("pyarrow.ipc").open_file(self._handle)
        self._choose_fields(columns, self._file.schema)

    def blocks(self, start: int) -> Iterator[NDArray[Any]]:
        """Read record batches."""
        with _arrow_errors(self.name):
            for number in range(self._file.num_record_batches):
                batch = self._file.get_batch(number)
                if start < batch.num_rows:
                    step = max(_BATCH // self.n_features, 1)
                    for row in range(start, batch.num_rows, step):
                        yield self._matrix(batch.slice(row, step))
                start = max(start - batch.num_rows, 0)
        if start:
            raise EOFError(f"the stream should go on {start} rows after its end")

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


class Hdf5Reader(IndexedReader):
    """Rows of a dataset in an HDF5 file, such as a series in an NWB file."""

    def __init__(
        self, path: Path, dataset: str, columns: Columns, bad: BadRows, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(f"{path}::{dataset}" if dataset else str(path), bad, dtype)
        h5py = _package("h5py", "hdf5", self.name)
        path.open("rb").close()  # a missing file is reported as everywhere, not as h5py does
        with self.readable():
            self._file = h5py.File(path, "r")
        if not dataset or not isinstance(self._file.get(dataset), h5py.Dataset):
            found = _matrices(self._file, h5py)
            if dataset or len(found) != 1:
                raise StreamError(
                    f"{self.name} is not one dataset: name one of the matrices in the file, as in "
                    f"'{path}::{found[0] if found else '/data'}' (it has: {', '.join(found)})."
                )
            dataset = found[0]
        self._data = self._file[dataset]
        check_matrix(self._data.shape, self._data.dtype, self.name)
        self.n_rows = self._data.shape[0]
        self._choose(columns, self._data.shape[1], None)

    def fetch(self, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Read rows."""
        if isinstance(rows, slice):
            return np.asarray(self._data[rows])
        # h5py wants row numbers in increasing order.
        order = np.argsort(rows)
        block = np.empty((len(rows), self._data.shape[1]), self._data.dtype)
        block[order] = self._data[rows[order]]
        return block

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _matrices(file: Any, h5py: Any) -> list[str]:
    found: list[str] = []

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 2 and item.dtype.kind in "biuf":
            found.append("/" + name)

    file.visititems(visit)
    return found


def _package(module: str, extra: str, name: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{name} needs {module.split('.')[0]}: install it with pip install 'hebbnmf[{extra}]'."
        ) from error


@contextmanager
def _arrow_errors(name: str) -> Iterator[None]:
    try:
        yield
    except import_module("pyarrow").ArrowInvalid as error:
        raise StreamError(f"{name} cannot be read: {error}; restore the file.") from error
