"""Atomic writes: a file appears at its path whole, and until then what was there stays."""

import contextlib
import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO

from hebbnmf.persistence.locks import is_abandoned, is_at, lock

__all__ = ["check_not_read", "check_target", "is_streamed", "is_taken", "replacing"]


@contextlib.contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file beside `path`, and move it there once it is whole and safely on disk.

    Whatever happens meanwhile, `path` holds what it held before, or the whole new file, which takes
    over mode and owner. A link stays a link: what it points to is replaced. A pipe or a terminal is
    written to as it is. Unfinished files that killed writers of `path` have left are removed.
    """
    _check_kind(path)
    if is_streamed(path):
        with (
            _one_error(path, "was not written to its end"),
            io.BufferedWriter(_Sequential(path, "wb")) as stream,
        ):
            yield stream
        return
    target = Path(os.path.realpath(path))
    before = _status(target)
    with (
        _one_error(path, "was not written, and what was there before is unchanged"),
        _open_beside(target, is_private=before is not None) as file,
    ):
        yield file
        file.flush()
        os.fsync(file.fileno())
        if before is not None:
            _take_over(before, file.name)
        if os.name != "posix":  # where no open file can be moved
            file.close()
        os.replace(file.name, target)
    _sync_folder(target.parent)


def check_target(path: str | PathLike[str]) -> None:
    """Refuse a path that cannot be written, before hours of work and not after."""
    _check_kind(path)
    status = _status(path)
    if status is None or stat.S_ISREG(status.st_mode):
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist", path)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "its folder cannot be written", path)


def check_not_read(target: str | PathLike[str] | int, inputs: Iterable[str | int]) -> None:
    """Refuse a file that is one of the inputs, by whatever name; numbers are open descriptors."""
    status = _status(target)
    if status is None or not stat.S_ISREG(status.st_mode):
        return
    if any(os.path.samestat(found, status) for found in map(_status, inputs) if found is not None):
        name = "standard output" if isinstance(target, int) else os.fspath(target)
        problem = "is read by the same command, and would be lost: write to another file"
        raise shutil.SameFileError(errno.EINVAL, problem, name)


def is_streamed(path: str | PathLike[str]) -> bool:
    """Return whether a path is a pipe or a device, which takes bytes one after the other."""
    status = _status(path)
    return status is not None and (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode))


def is_taken(path: str | PathLike[str]) -> bool:
    """Return whether a file with content would be replaced."""
    status = _status(path)
    return status is not None and stat.S_ISREG(status.st_mode) and status.st_size > 0


class _Sequential(io.FileIO):
    """A device or pipe: some claim that they can seek, and stay where they are."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation("seek")

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")


def _check_kind(path: str | PathLike[str]) -> None:
    status = _status(path)
    if status is None or stat.S_ISREG(status.st_mode) or is_streamed(path):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder is where the file should go", path)
    kind = "disk" if stat.S_ISBLK(status.st_mode) else "socket"
    raise OSError(errno.EINVAL, f"is a {kind}, to which no file can be written", path)


def _status(path: str | PathLike[str] | int) -> os.stat_result | None:
    """Return the status of what a path or a descriptor leads to; None if there is nothing."""
    # Not of the real path: a pipe behind /dev/stdout has none.
    try:
        return os.stat(path)
    except OSError:  # reported where it is read or written
        return None


@contextlib.contextmanager
def _one_error(path: str | PathLike[str], problem: str) -> Iterator[None]:
    """Name the path in errors of writing it; those about a file that the caller reads stay."""
    target = Path(os.path.realpath(path))
    try:
        yield
    except OSError as error:
        about = error.filename
        if about in (None, os.fspath(path)) or _is_unfinished(os.path.basename(about), target):
            text = f"{problem}: {error.strerror or error}"
            raise OSError(error.errno, text, os.fspath(path)) from error
        raise


@contextlib.contextmanager
def _open_beside(target: Path, *, is_private: bool) -> Iterator[IO[bytes]]:
    """Open a new file beside the target, locked while it is written, and gone afterwards."""
    _remove_leftovers(target)
    opener = partial(os.open, mode=0o600 if is_private else 0o666)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary, "xb", opener=opener) as file:
                try:
                    lock(file)
                except BlockingIOError:
                    continue  # another writer is about to remove it as a leftover
                except OSError:
                    pass  # a file system without locks
                if is_at(temporary, file):  # else it is removed already
                    yield file
                    return
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _remove_leftovers(target: Path) -> None:
    """Remove the unfinished files of killed writers; those of living ones are locked."""
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):
            if _is_unfinished(name, target) and is_abandoned(target.parent / name):
                (target.parent / name).unlink()


def _is_unfinished(name: str, target: Path) -> bool:
    return name.startswith(f".{target.name}.") and name.endswith(".tmp")


def _take_over(before: os.stat_result, path: str) -> None:
    """Give a file the owner and the mode of the one that it replaces."""
    if os.name == "posix":
        with contextlib.suppress(PermissionError):  # only root gives files away
            os.chown(path, before.st_uid, before.st_gid)
    os.chmod(path, stat.S_IMODE(before.st_mode))


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
