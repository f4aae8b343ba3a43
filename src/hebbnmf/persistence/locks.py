"""Locks on files: the kernel drops them with the process that holds them, however it ends.

They need `fcntl`. Windows has none: there two trainings on one checkpoint are not noticed, and an
open file cannot be deleted, so that no unfinished file of a living process is lost. The same holds
for file systems that know no locks, but that unfinished files stay there.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_abandoned", "is_at", "lock", "locked"]


def lock(file: IO[Any]) -> None:
    """Lock an open file until it is closed; BlockingIOError if another one has the lock."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_abandoned(path: Path) -> bool:
    """Return whether nobody holds the lock of a file."""
    try:
        with path.open("rb") as file:
            lock(file)
    except OSError:  # locked, or not known to be free
        return False
    return True


def is_at(path: Path, file: IO[Any]) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def locked(path: str | PathLike[str]) -> Iterator[None]:
    """Keep other trainings, of any process, from writing a checkpoint.

    The lock is that of a file beside the checkpoint, which itself is another file after each write.
    What a killed process leaves of it stands in nobody's way.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.lock")
    while True:
        with beside.open("wb") as file:
            try:
                lock(file)
            except BlockingIOError as error:
                problem = "another training writes this checkpoint: let it end, or name another"
                raise BlockingIOError(errno.EWOULDBLOCK, problem, os.fspath(path)) from error
            except OSError:
                pass  # a file system without locks
            if not is_at(beside, file):
                continue  # removed by its last holder, after it was opened here
            try:
                yield
            finally:
                with suppress(OSError):
                    beside.unlink()
            return
