"""Shards: the data of a training in parts, each read in order by one worker at a time."""

from dataclasses import dataclass
from itertools import islice, pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from hebbnmf.engine.state import BLOCK
from hebbnmf.streams import open_stream
from hebbnmf.streams.readers import describe


class Rows(NamedTuple):
    """Rows of a shard as a worker holds them, and the cursor after them where it is not a count."""

    X: NDArray[Any]
    cursor: Any


@dataclass(frozen=True)
class FilePart:
    """So many rows of some files from a cursor on; the worker that gets it reads them."""

    paths: tuple[str, ...]
    cursor: dict[str, Any] | None
    n_rows: int
    reading: dict[str, Any]

    def read(self) -> Rows:
        """Read the rows; fewer than asked for mean that the files have ended."""
        with open_stream(list(self.paths), chunk_bytes=1, **self.reading) as stream:
            stream.may_be_empty = True
            if self.cursor is not None:
                stream.seek(self.cursor)
            nothing = np.empty((0, stream.n_features), self.reading.get("dtype"))
            chunks = islice(stream, self.n_rows // stream.chunk_rows)
            return Rows(np.vstack([nothing, *chunks]), stream.position)


def read_part(part: Any) -> Rows:
    """Rows of a part of either kind of shards, where they are needed."""
    return part.read() if isinstance(part, FilePart) else Rows(np.asarray(part), None)


class ArrayShards:
    """A numpy or Dask array, divided into contiguous shards of whole blocks; cursors count rows."""

    def __init__(self, X: Any, n_shards: int) -> None:
        n_blocks = -(-len(X) // BLOCK)
        self.reading: dict[str, Any] = {}
        self.extent = [int(size) for size in X.shape]
        self._X = X
        self._edges = [min(n_blocks * w // n_shards * BLOCK, len(X)) for w in range(n_shards + 1)]

    def begin(self, shard: int) -> int:
        """Cursor before the first row."""
        return self._edges[shard]

    def part(self, shard: int, cursor: int, n_rows: int) -> Any:
        """Rows from the cursor on, lazy if the array is."""
        return self._X[cursor : min(cursor + n_rows, self._edges[shard + 1])]

    def after(self, cursor: int, n_read: int, found: Any) -> int:  # noqa: ARG002
        """Cursor after rows that were read."""
        return cursor + n_read

    def has_ended(self, shard: int, cursor: int, n_read: int, n_asked: int) -> bool:  # noqa: ARG002
        """Whether nothing follows them."""
        return cursor >= self._edges[shard + 1]

    def feature_names(self, cursors: list[int]) -> None:  # noqa: ARG002
        """Names of the columns: an array has none."""
        return


class FileShards:
    """Files dealt to shards in contiguous groups; cursors are positions of streams."""

    def __init__(self, paths: list[str], n_shards: int, reading: dict[str, Any]) -> None:
        edges = [len(paths) * w // n_shards for w in range(n_shards + 1)]
        self.reading = reading
        self.extent = [Path(path).name for path in paths]  # folders may differ between machines
        self._groups = [tuple(paths[a:b]) for a, b in pairwise(edges)]

    def begin(self, shard: int) -> None:  # noqa: ARG002
        """Cursor before the first row."""
        return

    def part(self, shard: int, cursor: Any, n_rows: int) -> FilePart:
        """Rows from the cursor on, not yet read."""
        return FilePart(self._groups[shard], cursor, n_rows, self.reading)

    def after(self, cursor: Any, n_read: int, found: Any) -> Any:  # noqa: ARG002
        """Cursor after rows that were read."""
        return found

    def has_ended(self, shard: int, cursor: Any, n_read: int, n_asked: int) -> bool:  # noqa: ARG002
        """Whether nothing follows them."""
        return n_read < n_asked

    def feature_names(self, cursors: list[Any]) -> list[str] | None:
        """Names of the columns as far as cursors tell; those of all shards must be the same."""
        told = [(c["n_features"], c["feature_names"]) for c in cursors if c is not None]
        for other in told:
            if other != told[0]:
                raise ValueError(
                    f"some files have {describe(*told[0])}, but others {describe(*other)}: "
                    "write all with the same columns, in one order."
                )
        return told[0][1] if told else None


Shards = ArrayShards | FileShards

_READING = ("columns", "header", "dtype", "on_bad_row", "width", "format")


def are_paths(data: Any) -> bool:
    """Whether data are a list of files, at least one."""
    return bool(
        isinstance(data, list | tuple)
        and data
        and all(isinstance(path, str | PathLike) for path in data)
    )


def checked_reading(data: Any, reading: dict[str, Any]) -> dict[str, Any]:
    """Take options of `open_stream` that say how files are read, as JSON can store them."""
    for name, value in reading.items():
        if name not in _READING or not are_paths(data):
            raise TypeError(
                f"{name}={value!r} cannot be used: there are {', '.join(_READING)} for lists of "
                "files; prepare other data beforehand."
            )
    if "dtype" in reading:
        reading = reading | {"dtype": np.dtype(reading["dtype"]).name}
    return reading


def open_shards(data: Any, n_shards: int, reading: dict[str, Any]) -> Shards:
    """Divide an array or a list of files into shards, in their order."""
    reading = checked_reading(data, reading)
    if are_paths(data):
        if len(data) < n_shards:
            raise ValueError(
                f"n_shards={n_shards} cannot be used on {len(data)} files: give at least one "
                "file for each shard."
            )
        return FileShards([fspath(path) for path in data], n_shards, reading)
    shape = getattr(data, "shape", None)
    is_other = hasattr(data, "columns") or issparse(data)
    if is_other or not (isinstance(shape, tuple) and len(shape) == 2):
        raise TypeError(
            f"data of type {type(data).__name__} cannot be divided into shards: give a "
            "two-dimensional array, of Dask too, or a list of paths; a frame by its to_numpy(), "
            "or to_dask_array(lengths=True), a sparse array by its toarray()."
        )
    if np.isnan(shape[0]):
        raise ValueError(
            "the Dask array does not know its number of rows: call its compute_chunk_sizes() first."
        )
    if -(-shape[0] // BLOCK) < n_shards:
        raise ValueError(
            f"n_shards={n_shards} cannot be used on a {type(data).__name__} of {shape[0]} rows: "
            f"give an array with {BLOCK} rows or more for each shard."
        )
    return ArrayShards(data, n_shards)
