"""Archives: one JSON text and named arrays in a file, written whole or not at all, never trusted.

An archive is a `.npz` file, which is a zip of `.npy` files, whose members are not compressed. So
no member can be larger than the file, and no size in it is believed before it is checked.
"""

import contextlib
import errno
import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hebbnmf.parameters import LARGEST_COUNT
from hebbnmf.persistence.atomic import replacing

__all__ = [
    "Archive",
    "Arrays",
    "Json",
    "ModelFileError",
    "is_archive",
    "is_count",
    "write_archive",
]

_HEADER = "model.json"
Json = Any  # what JSON can hold; a file may hold anything there
Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """A file that is not a valid model file; the message says what is wrong with it."""


def write_archive(path: str | PathLike[str], header: Mapping[str, Json], arrays: Arrays) -> None:
    """Write an archive to its path, whole or not at all."""
    portable = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    table = {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": _digest(array)}
        for name, array in portable.items()
    }
    text = json.dumps({**header, "arrays": table}, indent=1, allow_nan=False)
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member(_HEADER), text.encode())
        for name, array in portable.items():
            with archive.open(_member(name + ".npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def is_archive(path: str | PathLike[str]) -> bool:
    """Return whether a file begins as archives do; it may be damaged, or of a newer version."""
    with Path(path).open("rb") as file:
        head = file.read(30 + len(_HEADER))  # of the first member: 30 bytes, then its name
    return head.startswith(b"PK\3\4") and head.endswith(_HEADER.encode())


def _member(name: str) -> zipfile.ZipInfo:
    # A fixed date: the same model makes the same bytes.
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.data if array.size else b"").hexdigest()


class Archive:
    """An archive open for reading, as a context; its arrays are read one by one, when expected.

    ``header`` is its JSON text, without the table of arrays.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115
        except FileNotFoundError as error:
            error.strerror = "there is no such model file"
            raise
        try:
            with self.one_error():
                self._zip = zipfile.ZipFile(self._file)
                self._check_members()
                self.header = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array, as the JSON text says."""
        self.require(name in self._table, f"the array {name!r} is missing")
        shape: Json = self._table[name].get("shape")
        self.require(
            isinstance(shape, list) and all(is_count(size) for size in shape),
            f"the array {name!r} has no shape",
        )
        return tuple(shape)

    def array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DTypeLike,
        least: float = -np.inf,
        most: float = np.inf,
    ) -> NDArray[Any]:
        """Read an array of this shape and type, with finite entries between two bounds."""
        stored = np.dtype(dtype).newbyteorder("<")
        self.require(
            self.shape(name) == shape and self._table[name].get("dtype") == stored.str,
            f"the array {name!r} is not {stored.name} of shape {shape}",
        )
        with self.one_error(), self._zip.open(name + ".npy") as member:
            version = np.lib.format.read_magic(member)
            self.require(version == (1, 0), f"the array {name!r} has a header of another version")
            found = np.lib.format.read_array_header_1_0(member)
            self.require(found == (shape, False, stored), f"the array {name!r} is of another kind")
            size = self._zip.getinfo(name + ".npy").file_size - member.tell()
            n_bytes = prod(shape, start=stored.itemsize)
            self.require(size == n_bytes, f"the array {name!r} has {size} bytes, not {n_bytes}")
            data = member.read()
        array = np.frombuffer(data, stored).reshape(shape).astype(np.dtype(dtype))
        self.require(
            _digest(array.astype(stored, copy=False)) == self._table[name].get("sha256"),
            f"the array {name!r} does not match its checksum",
        )
        self._unread.discard(name)
        if array.dtype.kind == "f":
            self.require(bool(np.isfinite(array).all()), f"the array {name!r} is not finite")
        if array.size:
            lowest, highest = array.min(), array.max()
            self.require(
                bool(least <= lowest and highest <= most),
                f"the array {name!r} has entries from {lowest} to {highest}, but they lie between "
                f"{least:.6g} and {most:.6g}",
            )
        return array

    def counts(self, state: dict[str, Json], *names: str) -> tuple[int, ...]:
        """Return entries of a JSON object that must be counts."""
        for name in names:
            self.require(is_count(state.get(name)), f"{name} is not a count")
        return tuple(state[name] for name in names)

    def finish(self) -> None:
        """Raise if an array was not read."""
        self.require(not self._unread, f"it holds unknown arrays: {sorted(self._unread)}")

    def require(self, holds: bool, problem: str) -> None:
        """Raise unless a rule holds."""
        if not holds:
            raise ModelFileError(
                f"{self.path!r} is not a valid model file: {problem}; restore it from a copy."
            )

    @contextlib.contextmanager
    def one_error(self) -> Iterator[None]:
        """Turn the many errors that damaged bytes cause in zipfile, numpy and json into one."""
        try:
            yield
        except (ModelFileError, MemoryError):
            raise
        except Exception as error:
            # A damaged offset makes zipfile seek to an invalid one: EINVAL.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            self.require(False, str(error) or type(error).__name__)

    def _check_members(self) -> None:
        members = self._zip.infolist()
        names = [member.filename for member in members]
        self.require(len(set(names)) == len(names), "members have the same name")
        for member in members:
            self.require(
                member.compress_type == zipfile.ZIP_STORED
                and member.compress_size == member.file_size,
                f"its member {member.filename!r} is compressed",
            )
        size = os.fstat(self._file.fileno()).st_size
        self.require(sum(member.file_size for member in members) <= size, "members exceed the file")

    def _read_header(self) -> dict[str, Json]:
        self.require(_HEADER in self._zip.namelist(), f"{_HEADER} is missing")
        text = self._zip.read(_HEADER).decode("utf-8")
        header = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
        self.require(isinstance(header, dict), f"{_HEADER} is not an object")
        table = header.pop("arrays", None)
        self.require(
            isinstance(table, dict) and all(isinstance(entry, dict) for entry in table.values()),
            f"{_HEADER} has no table of arrays",
        )
        self._table: dict[str, dict[str, Json]] = table
        self._unread = set(table)
        expected = {_HEADER, *(name + ".npy" for name in table)}
        self.require(set(self._zip.namelist()) == expected, "members and table of arrays differ")
        return dict(header)


def is_count(value: object) -> bool:
    """Return whether a value from JSON is an integer that counts something."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT


def _refuse(constant: str) -> None:
    raise ValueError(f"{_HEADER} holds {constant}, which is not JSON")


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError(f"{_HEADER} has a key twice")
    return dict(pairs)
