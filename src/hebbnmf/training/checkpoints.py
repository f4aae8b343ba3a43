"""Checkpoints: where a training may write one, that only one training does, and how."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

from hebbnmf.learner import warn_user
from hebbnmf.persistence import save
from hebbnmf.persistence.atomic import check_not_read, check_target, is_streamed, is_taken
from hebbnmf.persistence.locks import locked
from hebbnmf.persistence.steps import Step, name_of_step

__all__ = ["check_checkpoint", "hold_checkpoint", "store_checkpoint"]


def check_checkpoint(
    path: str | PathLike[str], inputs: Iterable[str | int], *, is_new: bool, force: bool
) -> None:
    """Refuse a checkpoint that cannot be written or read back, or that replaces what it should not.

    That is one of the inputs in any case, and without `force` any file by a new checkpoint.
    """
    check_target(path)
    check_not_read(path, inputs)
    if is_streamed(path):
        problem = "is a pipe or a device, from which no training can be resumed: name a file"
        raise OSError(errno.EINVAL, problem, fspath(path))
    if is_new and not force and is_taken(path):
        problem = (
            "exists: continue that training with resume, name another checkpoint, or pass "
            "force=True to replace it"
        )
        raise FileExistsError(errno.EEXIST, problem, fspath(path))


@contextmanager
def hold_checkpoint(
    path: str | PathLike[str] | None,
    inputs: Iterable[str | int],
    steps: Iterable[Step],
    *,
    is_new: bool,
    force: bool,
) -> Iterator[None]:
    """Check a checkpoint, if there is one, and what goes into it; keep other trainings from it."""
    if path is None:
        yield
        return
    for step in steps:
        name_of_step(step)
    inputs = list(inputs)
    check_checkpoint(path, inputs, is_new=is_new, force=force)
    with locked(path):
        # Another training may have written it since, and ended.
        check_checkpoint(path, inputs, is_new=is_new, force=force)
        yield


def store_checkpoint(model: Any, path: str | PathLike[str], **parts: Any) -> None:
    """Save a model, or warn: a full disk may have room again, and the model is in memory."""
    try:
        save(model, path, **parts)
    except OSError as error:
        warn_user(f"{error.filename}: {error.strerror}; training goes on.", UserWarning)
