"""Atomic writes: a file appears at its path whole, and until then what was there stays."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO

__all__ = ["check_target", "remove_leftovers", "replacing"]


@contextlib.contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file beside `path`, and move it there once it is whole and safely on disk.

    Whatever happens meanwhile, `path` holds what it held before, or the whole new file. A link
    stays a link: what it points to is replaced.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is where the file should go", path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.filename not in (None, str(temporary)):
            raise  # the error is about a file that the caller reads
        problem = (
            f"was not written, and what was there before is unchanged: {error.strerror or error}"
        )
        raise OSError(error.errno, problem, os.fspath(path)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _sync_folder(target.parent)


def check_target(path: str | PathLike[str]) -> None:
    """Refuse a path that cannot be written, before hours of work and not after."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is where the file should go", path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", path)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "its folder cannot be written", path)


def remove_leftovers(path: str | PathLike[str]) -> None:
    """Remove the unfinished files that killed writers of `path` have left."""
    target = Path(os.path.realpath(path))
    for name in os.listdir(target.parent):
        if name.startswith(f".{target.name}.") and name.endswith(".tmp"):
            with contextlib.suppress(OSError):
                (target.parent / name).unlink()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
