"""Formats of files: the one registry, made of what the reader classes declare.

To add a format, write a subclass of `FileReader` with its `formats`, and list it here.
"""

from os import PathLike, fspath
from pathlib import Path

from hebbnmf.streams.arrays import NpyReader, NpzReader, RawReader
from hebbnmf.streams.readers import FileReader, StreamError
from hebbnmf.streams.tables import ArrowReader, Hdf5Reader, ParquetReader
from hebbnmf.streams.text import DelimitedReader, JsonReader

__all__ = ["format_of", "known_formats", "reader_of"]

_READERS: list[type[FileReader]] = [DelimitedReader, JsonReader, NpyReader, NpzReader]
_READERS += [ParquetReader, ArrowReader, Hdf5Reader, RawReader]
_BY_NAME = {name: reader for reader in _READERS for name, *_ in reader.formats}
_BY_SUFFIX = {
    suffix: name for reader in _READERS for name, *suffixes in reader.formats for suffix in suffixes
}


def known_formats() -> tuple[str, ...]:
    """Return the names of all formats that can be read."""
    return tuple(_BY_NAME)


def format_of(path: str | PathLike[str]) -> str:
    """Return the format of a path, which need not exist, by its suffix; "-" is CSV.

    Examples
    --------
    >>> from hebbnmf.streams import format_of
    >>> format_of("samples.tsv.gz"), format_of("session.nwb::/acquisition/lfp/data")
    ('tsv', 'hdf5')
    """
    name = fspath(path).partition("::")[0]
    if name == "-":
        return "csv"
    found = _BY_SUFFIX.get(Path(name.removesuffix(".gz")).suffix.lower())
    if found is None or (name.endswith(".gz") and not _BY_NAME[found].is_text):
        raise StreamError(
            f"{name!r} has a suffix that names no known format; pass format, one of "
            f"{', '.join(_BY_NAME)}."
        )
    return found


def reader_of(format: str) -> type[FileReader]:  # noqa: A002
    """Return the reader of a format."""
    if format not in _BY_NAME:
        raise ValueError(f"format={format!r} is not known: choose one of {', '.join(_BY_NAME)}.")
    return _BY_NAME[format]
