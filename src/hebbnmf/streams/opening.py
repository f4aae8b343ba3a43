"""Opening: find the readers of a source, and make a stream of them."""

import glob
import secrets
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np

from hebbnmf.engine.state import BLOCK, LARGEST_NORM2
from hebbnmf.parameters import COUNT, Rule, check_parameter, optional
from hebbnmf.streams.arrays import ArrayReader, IterableReader
from hebbnmf.streams.formats import format_of, known_formats, reader_of
from hebbnmf.streams.lsl import SCHEME, LslReader
from hebbnmf.streams.options import ReadOptions, read_options
from hebbnmf.streams.ordering import Chain, IndexedChain, Permuted, Windowed
from hebbnmf.streams.readers import BadRows, IndexedReader, Reader, StreamError
from hebbnmf.streams.stream import Stream

__all__ = ["open_stream", "source_files"]

# Chunks in the window of rows that is shuffled at a time where rows cannot be indexed.
_WINDOW = 16
_LIMIT = optional(Rule("an integer of at least 0", lambda v: v == 0 or COUNT.holds(v)))


def open_stream(
    source: object,
    *,
    dataset: str | None = None,
    chunk_bytes: int = 2**22,
    shuffle: bool = False,
    random_state: int | None = None,
    epochs: int = 1,
    limit: int | None = None,
    allow_empty: bool = False,
    follow: bool = False,
    learnable: bool = True,
    options: ReadOptions | None = None,
    **reading: Any,
) -> Stream:
    """Open a source of samples as a stream of chunks, in memory that does not grow with it.

    Parameters
    ----------
    source : array, path, list of paths, "-" or iterable
        An array; a file, or files as one stream: a list of paths, or a pattern such as
        ``"day*.csv"``, in order of their names; ``"-"`` for standard input; or an iterable of
        rows or of chunks of rows. One dataset of an HDF5 file, or array of a ``.npz`` file, is
        named after two colons: ``"session.nwb::/acquisition/lfp/data"``. ``"lsl:name=EEG"`` is a
        stream of the Lab Streaming Layer, ``"lsl:name=EEG,window=50"`` windows of 50 samples of
        it, one a row; `Stream.times` tells when they were measured.
    dataset : str, optional
        Name of the dataset in an HDF5 or `.npz` file, or of a series in an NWB file, whose times
        `Stream.times` then tells: the same as after two colons.
    chunk_bytes : int, default=4194304
        Size of a chunk in memory, rounded to a multiple of the network's block of rows.
    shuffle : bool, default=False
        Whether to shuffle, in another order each epoch. Arrays, ``.npy`` and HDF5 are permuted
        exactly, for 8 bytes a row; other sources within windows of 16 chunks.
    random_state : int, optional
        Seed of the order; None draws one, or takes that of the position resumed from.
    epochs : int, default=1
        Number of passes over the source.
    limit : int, optional
        Number of rows, all epochs together, after which the stream ends; it can be resumed there.
    allow_empty : bool, default=False
        Whether a source without a row gives no chunk instead of a `StreamError`.
    follow : bool, default=False
        Whether to return rows as they arrive, in chunks of any length, and to wait for more at the
        end of a growing file. For one file of text, or text from standard input, in order.
    learnable : bool, default=True
        Whether rows too large to learn from, whose ``|x|^4`` overflows, are bad rows too.
    options : ReadOptions, optional
        How to read the source.
    **reading
        The fields of `ReadOptions`, instead of a record.

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
    >>> stream = open_stream(np.eye(100), columns=[3, 5], limit=10)
    >>> next(stream).shape, stream.n_rows, stream.total
    ((10, 2), 100, 10)
    """
    if options is None:
        options = read_options(reading)
    elif reading:
        raise TypeError(
            f"options and {', '.join(reading)} cannot be used together: set them in the record."
        )
    if dataset is not None:
        source = _with_dataset(source, dataset)
    check_parameter("epochs", epochs, COUNT)
    check_parameter("limit", limit, _LIMIT)
    if follow and (shuffle or epochs > 1):
        raise ValueError("follow=True cannot be used with shuffle or epochs: it has no end.")
    if shuffle and options.ids is not None:
        raise ValueError("ids cannot be used with shuffle: they are for rows in order.")
    largest_norm2 = LARGEST_NORM2[np.dtype(options.dtype)] if learnable else None
    bad = BadRows(options.on_bad_row == "skip", options.missing == "skip", largest_norm2)
    paths = _paths(source)
    reader = _open_source(source, paths, options, bad, follow=follow, indexed=shuffle)
    n_features = reader.n_features
    if options.columns is None and options.width not in (None, n_features):
        raise StreamError(f"{reader.name} has {n_features} columns, but width={options.width}.")
    if epochs > 1 and not reader.repeatable:
        raise StreamError(
            f"{reader.name} can be read only once, but epochs={epochs}; write it to a file first."
        )
    row_bytes = n_features * np.dtype(options.dtype).itemsize
    chunk_rows = max(chunk_bytes // row_bytes // BLOCK, 1) * BLOCK
    window = None
    if shuffle:
        seed = secrets.randbits(32) if random_state is None else int(random_state)
        if isinstance(reader, IndexedReader):
            reader = Permuted(reader, seed)
        else:
            window = _WINDOW * chunk_rows
            reader = Windowed(reader, seed, window)
    return Stream(
        reader,
        _files(paths),
        chunk_rows=chunk_rows,
        epochs=epochs,
        limit=limit,
        allow_empty=allow_empty,
        seed_drawn=shuffle and random_state is None,
        window_rows=window,
    )


def source_files(source: object) -> list[str | int]:
    """Return the files that a source reads, patterns expanded; 0 for standard input.

    Examples
    --------
    >>> from hebbnmf.streams import source_files
    >>> source_files(["session.nwb::/acquisition/lfp/data", "-"]), source_files([[1.0, 2.0]])
    (['session.nwb', 0], [])
    """
    return _files(_paths(source))


def _with_dataset(source: object, dataset: str) -> str:
    if not isinstance(source, str | PathLike):
        raise TypeError(f"dataset={dataset!r} needs one file as source; give its path.")
    return f"{fspath(source)}::{dataset}"


def _files(paths: list[str]) -> list[str | int]:
    files = (path for path in paths if not path.startswith(SCHEME))
    return [0 if path == "-" else path.partition("::")[0] for path in files]


def _paths(source: object) -> list[str]:
    items: Any = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(item, str | PathLike) for item in items):
        return []
    return [path for item in items for path in _expand(fspath(item))]


def _open_source(
    source: object,
    paths: list[str],
    options: ReadOptions,
    bad: BadRows,
    *,
    follow: bool,
    indexed: bool,
) -> Reader:
    """Open the reader of a source; several files become one."""
    if not paths:
        if isinstance(source, list | tuple) and not source:
            raise StreamError("the list of paths is empty: name at least one file.")
        if hasattr(source, "__array__"):
            return ArrayReader(source, options, bad)
        if isinstance(source, Iterable):
            return IterableReader(source, options, bad)
        raise StreamError(f"{source!r} cannot be streamed: give an array, paths or an iterable.")
    opener = partial(_open_file, options=options, bad=bad, follow=follow)
    if len(paths) == 1:
        return opener(paths[0])
    if follow:
        raise StreamError(f"{len(paths)} files cannot be followed: {paths[0]} has no end.")
    if indexed and all(
        issubclass(reader_of(options.format or format_of(path)), IndexedReader) for path in paths
    ):
        return IndexedChain([cast(IndexedReader, opener(path)) for path in paths])
    return Chain([partial(opener, path) for path in paths])


def _expand(path: str) -> list[str]:
    """Return the files that a pattern stands for, in order of their names."""
    if path.startswith(SCHEME):
        return [path]
    file, colons, member = path.partition("::")
    if not any(sign in file for sign in "*?[") or Path(file).exists():
        return [path]
    found = sorted(glob.glob(file, recursive=True))
    if not found:
        raise FileNotFoundError(f"no file matches {file!r}; check the pattern.")
    return [name + colons + member for name in found]


def _open_file(path: str, options: ReadOptions, bad: BadRows, *, follow: bool) -> Reader:
    if path.startswith(SCHEME):
        return LslReader(path, options, bad)
    kind = options.format or format_of(path)
    reader = reader_of(kind)
    if path == "-" and not reader.from_stdin:
        piped = ", ".join(known for known in known_formats() if reader_of(known).from_stdin)
        raise StreamError(
            f"format={kind!r} cannot be read from standard input: pipe one of {piped}."
        )
    if follow and not reader.is_text:
        texts = ", ".join(known for known in known_formats() if reader_of(known).is_text)
        raise StreamError(f"{path} of format {kind} cannot be followed: only text can, {texts}.")
    return reader(path, replace(options, format=kind), bad, follow=follow)
