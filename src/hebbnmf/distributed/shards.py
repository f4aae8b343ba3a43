"""Shards: the data of a training in parts, each read in order by one worker at a time."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from hebbnmf.engine.state import BLOCK
from hebbnmf.streams import ReadOptions, open_stream, source_files
from hebbnmf.streams.options import read_options
from hebbnmf.streams.readers import describe
from hebbnmf.streams.stream import file_facts

Data = Any  # an array of numpy or Dask, a Dask frame, or a list of paths
Cursor = Any  # where a shard stands: JSON, a number of rows or the position of a stream

# Rows of an array in memory that are digested at a time.
_PIECE = 2**16


class Rows(NamedTuple):
    """Rows of a shard as a worker holds them, and the cursor after them where it is not a count."""

    X: NDArray[Any]
    cursor: Cursor


@dataclass(frozen=True)
class FilePart:
    """The next `n_rows` rows of some files from a cursor on, read by the worker."""

    paths: tuple[str, ...]
    cursor: Cursor
    n_rows: int
    options: ReadOptions

    def read(self) -> Rows:
        """Read the rows; fewer than asked for mean that the files have ended."""
        with open_stream(
            list(self.paths),
            chunk_bytes=1,
            limit=self.n_rows,
            allow_empty=True,
            options=self.options,
        ) as stream:
            if self.cursor is not None:
                stream.seek(self.cursor)
            nothing = np.empty((0, stream.n_features), self.options.dtype)
            return Rows(np.vstack([nothing, *stream]), stream.position)


Part = NDArray[Any] | FilePart


def read_part(part: Part) -> Rows:
    """Return the rows of a part of either kind of shards, where they are needed."""
    return part.read() if isinstance(part, FilePart) else Rows(np.asarray(part), None)


class ArrayShards:
    """A numpy or Dask array, divided into contiguous shards of whole blocks; cursors count rows."""

    def __init__(self, X: Data, n_shards: int) -> None:
        n_blocks = -(-len(X) // BLOCK)
        self.reading: dict[str, Cursor] = {}
        self.files: list[str | int] = []
        self.extent = [int(size) for size in X.shape]
        self._X = X
        self._edges = [min(n_blocks * w // n_shards * BLOCK, len(X)) for w in range(n_shards + 1)]

    def begin(self, shard: int) -> int:
        """Return the cursor before the first row."""
        return self._edges[shard]

    def part(self, shard: int, cursor: int, n_rows: int) -> Part:
        """Return rows from the cursor on, lazy if the array is."""
        return self._X[cursor : min(cursor + n_rows, self._edges[shard + 1])]

    def fingerprint(self, fetch: Callable[[Any], NDArray[Any]]) -> dict[str, Any]:
        """Return type and digest of the rows; of lazy ones, which `fetch` computes, the first."""
        step = BLOCK if hasattr(self._X, "compute") else _PIECE
        starts = self._edges[:-1] if hasattr(self._X, "compute") else range(0, len(self._X), step)
        digest = hashlib.sha256()
        for start in starts:
            digest.update(np.ascontiguousarray(fetch(self._X[start : start + step])).data)
        return {"dtype": str(self._X.dtype), "sha256": digest.hexdigest()}

    def has_ended(self, shard: int, cursor: int, n_missing: int) -> bool:  # noqa: ARG002
        """Return whether the shard has ended, given how many fewer rows came than asked for."""
        return cursor >= self._edges[shard + 1]

    def feature_names(self, cursors: list[int]) -> None:  # noqa: ARG002
        """Return no names: the columns of an array have none."""
        return


class FileShards:
    """Files divided among shards in contiguous groups; cursors are positions of streams."""

    def __init__(self, paths: list[str], n_shards: int, options: ReadOptions) -> None:
        edges = [len(paths) * w // n_shards for w in range(n_shards + 1)]
        self.reading = asdict(options)
        self.files = source_files(paths)
        self._options = options
        self.extent = [Path(path).name for path in paths]  # folders may differ between machines
        self._groups = [tuple(paths[a:b]) for a, b in pairwise(edges)]

    def begin(self, shard: int) -> None:  # noqa: ARG002
        """Return the cursor before the first row."""
        return

    def part(self, shard: int, cursor: Cursor, n_rows: int) -> FilePart:
        """Return rows from the cursor on, not yet read."""
        return FilePart(self._groups[shard], cursor, n_rows, self._options)

    def fingerprint(self, fetch: Callable[[Any], NDArray[Any]]) -> dict[str, Any]:  # noqa: ARG002
        """Return name, size and time of change of the files; None where only workers see one."""
        return {"files": [file_facts(file) for file in self.files]}

    def has_ended(self, shard: int, cursor: Cursor, n_missing: int) -> bool:  # noqa: ARG002
        """Return whether the shard has ended, given how many fewer rows came than asked for."""
        return n_missing > 0

    def feature_names(self, cursors: list[Cursor]) -> list[str] | None:
        """Return the names of the columns, which the shards read so far must have in common."""
        known = [(c["n_features"], c["feature_names"]) for c in cursors if c is not None]
        for other in known:
            if other != known[0]:
                raise ValueError(
                    f"some files have {describe(*known[0])}, but others {describe(*other)}: "
                    "write all with the same columns, in one order."
                )
        return known[0][1] if known else None


Shards = ArrayShards | FileShards


def are_paths(data: Data) -> bool:
    """Return whether data are a list of files, at least one."""
    return bool(
        isinstance(data, list | tuple)
        and data
        and all(isinstance(path, str | PathLike) for path in data)
    )


def file_options(data: Data, reading: dict[str, Any]) -> ReadOptions:
    """Return options of reading, given as keywords; they are for files alone."""
    if reading and not are_paths(data):
        name, value = next(iter(reading.items()))
        raise TypeError(f"{name}={value!r} cannot be used: options of reading are for files.")
    return read_options(reading)


def open_shards(data: Data, n_shards: int, options: ReadOptions) -> Shards:
    """Divide an array or a list of files into shards, in their order."""
    if are_paths(data):
        if len(data) < n_shards:
            raise ValueError(
                f"n_shards={n_shards} cannot be used on {len(data)} files: give at least one "
                "file for each shard."
            )
        return FileShards([fspath(path) for path in data], n_shards, options)
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
