"""Streams: chunks of rows from arrays, files and pipes, in an order that can be resumed."""

import glob
import logging
import operator
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import DTypeLike

from hebbnmf.engine.state import BLOCK
from hebbnmf.streams.arrays import ArrayReader, IterableReader, NpyReader, NpzReader, RawReader
from hebbnmf.streams.lines import DelimitedReader, JsonReader
from hebbnmf.streams.ordering import Chain, IndexedChain, Permuted, Windowed
from hebbnmf.streams.readers import (
    BadRows,
    Columns,
    FloatArray,
    IndexedReader,
    Reader,
    StreamError,
    describe,
)
from hebbnmf.streams.tables import ArrowReader, Hdf5Reader, ParquetReader

__all__ = ["Stream", "StreamError", "open_stream"]

logger = logging.getLogger(__name__)

_FORMATS = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".nwb": "hdf5",
}
_KNOWN = (*dict.fromkeys(_FORMATS.values()), "float32", "float64")
_TEXT = ("csv", "tsv", "jsonl")
_INDEXED = {"npy", "hdf5"}
# Chunks in the window of rows that is shuffled at a time where rows cannot be indexed.
_WINDOW = 16


class Stream:
    """Chunks of rows, in an order that is known beforehand and can be taken up anywhere.

    Made by `open_stream`. Iterate it once for the chunks of all epochs. Every chunk but the last
    of an epoch has the same number of rows, a multiple of the network's block, so that learning
    from a resumed stream is the same to the last bit.

    Attributes
    ----------
    n_features : int
        Number of columns.
    feature_names : list of str or None
        Their names, where the source has them.
    chunk_rows : int
        Number of rows in a chunk.
    n_left : int or None
        Number of rows that it will still give at most; None, as at first, for all. Set it to end
        the stream early, at a position that can be resumed.
    may_be_empty : bool
        Whether a source without a row is welcome; False, as at first, to refuse it.
    """

    n_left: int | None = None
    may_be_empty = False

    def __init__(self, reader: Reader, *, chunk_rows: int, epochs: int, seed_drawn: bool) -> None:
        self._reader = reader
        self._seed_drawn = seed_drawn
        self._epochs = epochs
        self._epoch = 0
        self._logged = 0
        self._untouched = True
        self.chunk_rows = chunk_rows
        self.n_features = reader.n_features
        self.feature_names = reader.feature_names
        reader.begin(0)

    def __iter__(self) -> Iterator[FloatArray]:
        return self

    def __next__(self) -> FloatArray:
        n_rows = self.chunk_rows if self.n_left is None else min(self.chunk_rows, self.n_left)
        if n_rows < 1:
            raise StopIteration
        while not len(chunk := self._reader.read(n_rows)):
            self._check_epoch()
            # The last epoch stays the current one: a position told now can be resumed with more.
            if self._epoch + 1 >= self._epochs:
                raise StopIteration
            self._epoch += 1
            with self._reader.readable():
                self._reader.begin(self._epoch)
        self._untouched = False
        if self.n_left is not None:
            self.n_left -= len(chunk)
        return chunk

    @property
    def n_bad_rows(self) -> int:
        """Number of rows left out so far, in all epochs."""
        return self._reader.bad.count

    @property
    def last_bad_row(self) -> str:
        """Place of the last row left out, and what is wrong with it; empty where there is none."""
        return self._reader.bad.last

    @property
    def position(self) -> dict[str, Any]:
        """What `seek` needs to go on after the last chunk given; it can be stored as JSON."""
        return {
            "epoch": self._epoch,
            "cursor": self._reader.tell(),
            "n_bad_rows": self.n_bad_rows,
            "chunk_rows": self.chunk_rows,
            "n_features": self.n_features,
            "feature_names": self.feature_names,
            "seed": self._reader.seed,
        }

    def seek(self, position: dict[str, Any]) -> None:
        """Go to a position of this stream, or of another one opened in the same way.

        Parameters
        ----------
        position : dict
            A `position` told earlier. Standard input and generators, which cannot go back, must
            begin anew from their first row; what lies before the position is passed over.
        """
        if self._seed_drawn and isinstance(position.get("seed"), int):
            self._reader.seed = position["seed"]
        for key in ("chunk_rows", "n_features", "feature_names", "seed"):
            told, own = position.get(key), self.position[key]
            if told != own:
                raise StreamError(
                    f"the position is of a stream with {key}={told!r}, but this one has {own!r}; "
                    "open the same source with the same settings to resume."
                )
        try:
            with self._reader.readable():
                self._epoch = operator.index(position["epoch"])
                if self._epoch < 0:
                    raise IndexError(f"epoch {self._epoch}")
                self._reader.bad.count = self._logged = int(position["n_bad_rows"])
                self._reader.begin(self._epoch)
                self._reader.seek(position["cursor"])
        except StreamError:
            raise
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise StreamError(f"{position!r} is no position of a stream.") from error
        self._untouched = False

    def require(self, n_features: int, feature_names: Sequence[str] | None) -> None:
        """Refuse a source whose columns are not those that a model has learned.

        Parameters
        ----------
        n_features : int
            Number of columns that the model learned.
        feature_names : sequence of str or None
            Their names, where they had any; a source without names may have any.
        """
        own, learned = self.feature_names, None if feature_names is None else list(feature_names)
        if self.n_features != n_features or (own and learned and own != learned):
            raise StreamError(
                f"{self._reader.name} has {describe(self.n_features, own)}, but the model learned "
                f"{describe(n_features, learned)}; choose them, in this order, by columns "
                "(--columns)."
            )

    def close(self) -> None:
        """Close the files."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_epoch(self) -> None:
        bad = self._reader.bad
        if bad.count > self._logged:
            logger.warning("%d bad rows left out so far, the last at %s", bad.count, bad.last)
            self._logged = bad.count
        if self._untouched and not self.may_be_empty:
            raise StreamError(
                f"{self._reader.name} has no row to give ({bad.count} bad ones); check that it is "
                "the right source."
            )


def open_stream(
    source: Any,
    *,
    chunk_bytes: int = 2**22,
    columns: Columns = None,
    header: bool | str = "auto",
    dtype: DTypeLike = np.float64,
    shuffle: bool = False,
    random_state: int | None = None,
    epochs: int = 1,
    on_bad_row: str = "raise",
    width: int | None = None,
    format: str | None = None,  # noqa: A002
    follow: bool = False,
) -> Stream:
    """Open a source of samples as a stream of chunks, in memory that does not grow with it.

    Parameters
    ----------
    source : array, path, list of paths, "-" or iterable
        An array; a file, or files as one stream: a list of paths, or a pattern such as
        ``"day*.csv"``, in order of their names; ``"-"`` for standard input; or an iterable of
        rows or of chunks of rows. One dataset of an HDF5 file, or array of a ``.npz`` file, is
        named after two colons: ``"session.nwb::/acquisition/lfp/data"``.
    chunk_bytes : int, default=4194304
        Size of a chunk in memory, rounded to a multiple of the network's block of rows.
    columns : list of int or str, optional
        The columns to read, by number from 0 or by name; all by default.
    header : {"auto", True, False}, default="auto"
        Whether CSV and TSV files begin with a line of names. "auto" takes the first line for names
        if none of its fields is a number and no two are equal.
    dtype : dtype, default=numpy.float64
        Type of the chunks: float32 or float64.
    shuffle : bool, default=False
        Whether each epoch comes in an order of its own. Arrays, ``.npy`` and HDF5 are permuted
        exactly, for 8 bytes a row; other sources within windows of 16 chunks.
    random_state : int, optional
        Seed of the order; None draws one, or takes that of the position sought.
    epochs : int, default=1
        Number of passes over the source.
    on_bad_row : {"raise", "skip"}, default="raise"
        What becomes of a row that cannot be read or is not finite: a `StreamError` that names
        file, line and column, or a count in ``n_bad_rows``.
    width : int, optional
        Number of columns; needed for raw numbers.
    format : str, optional
        "csv", "tsv", "jsonl", "npy", "npz", "parquet", "arrow", "hdf5", or "float32" or "float64"
        for raw little-endian numbers. By default the file's suffix decides, ``.gz`` after text
        included; standard input is CSV.
    follow : bool, default=False
        Whether to give rows as they arrive, in chunks of any length, and to wait for more at the
        end of a growing file. For one file of text, or text from standard input, in order.

    Returns
    -------
    Stream
        An iterator of arrays of shape (n_rows, n_features).

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.streams import open_stream
    >>> stream = open_stream(np.eye(100), chunk_bytes=72 * 100 * 8, shuffle=True, random_state=0)
    >>> [chunk.shape for chunk in stream]
    [(72, 100), (28, 100)]
    """
    if on_bad_row not in ("raise", "skip"):
        raise ValueError(f"on_bad_row={on_bad_row!r} cannot be used: set it to 'raise' or 'skip'.")
    if not (header == "auto" or isinstance(header, bool)):
        raise ValueError(f"header={header!r} cannot be used: set it to 'auto', True or False.")
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} cannot be used: set it to float32 or float64.")
    if epochs < 1:
        raise ValueError(f"epochs={epochs!r} cannot be used: set it to an integer of at least 1.")
    if follow and (shuffle or epochs > 1):
        raise ValueError("follow=True cannot be used with shuffle or epochs: it has no end.")
    bad = BadRows(on_bad_row == "skip")
    options = _Options(columns, header, np.dtype(dtype), bad, width, format, follow)
    reader = _open_reader(source, options, indexed=shuffle)
    if width is not None and columns is None and reader.n_features != width:
        raise StreamError(f"{reader.name} has {reader.n_features} columns, but width={width}.")
    if epochs > 1 and not reader.repeatable:
        raise StreamError(
            f"{reader.name} can be read only once, but epochs={epochs}; write it to a file first."
        )
    row_bytes = reader.n_features * options.dtype.itemsize
    chunk_rows = max(chunk_bytes // row_bytes // BLOCK, 1) * BLOCK
    if shuffle:
        seed = secrets.randbits(32) if random_state is None else int(random_state)
        if isinstance(reader, IndexedReader):
            reader = Permuted(reader, seed)
        else:
            reader = Windowed(reader, seed, _WINDOW * chunk_rows)
    return Stream(
        reader, chunk_rows=chunk_rows, epochs=epochs, seed_drawn=shuffle and random_state is None
    )


@dataclass
class _Options:
    columns: Columns
    header: bool | str
    dtype: np.dtype[Any]
    bad: BadRows
    width: int | None
    format: str | None
    follow: bool


def _open_reader(source: Any, options: _Options, *, indexed: bool) -> Reader:
    """Find the reader of a source; several files become one."""
    if isinstance(source, str | PathLike):
        paths = _expand(fspath(source))
    elif isinstance(source, list | tuple) and all(isinstance(p, str | PathLike) for p in source):
        paths = [path for p in source for path in _expand(fspath(p))]
    elif hasattr(source, "__array__"):
        return ArrayReader(source, options.columns, options.bad, options.dtype)
    elif hasattr(source, "__iter__"):
        return IterableReader(source, options.columns, options.bad, options.dtype)
    else:
        raise StreamError(f"{source!r} cannot be streamed: give an array, paths or an iterable.")
    if len(paths) == 1:
        return _open_file(paths[0], options)
    if not paths:
        raise StreamError("the list of paths is empty: name at least one file.")
    if options.follow:
        raise StreamError(f"{len(paths)} files cannot be followed: {paths[0]} has no end.")
    if indexed and {options.format or _format_of(path) for path in paths} <= _INDEXED:
        return IndexedChain([cast(IndexedReader, _open_file(path, options)) for path in paths])
    return Chain([partial(_open_file, path, options) for path in paths])


def _expand(path: str) -> list[str]:
    """Give the files that a pattern stands for, in order of their names."""
    file, colons, member = path.partition("::")
    if not any(sign in file for sign in "*?[") or Path(file).exists():
        return [path]
    found = sorted(glob.glob(file, recursive=True))
    if not found:
        raise FileNotFoundError(f"no file matches {file!r}; check the pattern.")
    return [name + colons + member for name in found]


def _open_file(path: str, options: _Options) -> Reader:
    name, _, member = path.partition("::")
    file = Path(name)
    kind = options.format or _format_of(name)
    columns, bad, dtype = options.columns, options.bad, options.dtype
    if name == "-" and kind not in ("csv", "tsv", "jsonl", "float32", "float64"):
        raise StreamError(
            f"format={kind!r} cannot be read from standard input: pipe csv, tsv, jsonl, float32 "
            "or float64."
        )
    if options.follow and kind not in _TEXT:
        raise StreamError(
            f"{name} of format {kind} cannot be followed: only text can, {', '.join(_TEXT)}."
        )
    match kind:
        case "csv" | "tsv":
            delimiter = "," if kind == "csv" else "\t"
            return DelimitedReader(
                name, delimiter, columns, options.header, bad, dtype, options.follow
            )
        case "jsonl":
            return JsonReader(name, columns, bad, dtype, options.follow)
        case "npy":
            return NpyReader(file, columns, bad, dtype)
        case "npz":
            return NpzReader(file, member, columns, bad, dtype)
        case "parquet":
            return ParquetReader(file, columns, bad, dtype)
        case "arrow":
            return ArrowReader(file, columns, bad, dtype)
        case "hdf5":
            return Hdf5Reader(file, member, columns, bad, dtype)
        case "float32" | "float64":
            return RawReader(name, kind, options.width, columns, bad, dtype)
    raise ValueError(f"format={kind!r} is not known: choose one of {', '.join(_KNOWN)}.")


def _format_of(name: str) -> str:
    name = name.partition("::")[0]
    if name == "-":
        return "csv"
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    kind = _FORMATS.get(suffix)
    if kind is None or (name.endswith(".gz") and kind not in _TEXT):
        raise StreamError(
            f"{name!r} has a suffix that names no known format; pass format, one of "
            f"{', '.join(_KNOWN)}."
        )
    return kind
