"""Pictures that the commands draw: whole files or none, and in place of earlier ones alone."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hebbnmf.cli.outputs import check_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Bytes at either end of a picture in which its maker is named.
_SIGNED = 4096


def check_picture(path: str, inputs: Sequence[str], *, force: bool) -> None:
    """Refuse what `check_output` does; an earlier picture may be replaced."""
    check_output(path, inputs, force=force, is_own=_is_drawn)


def save_picture(figure: "Figure", path: str) -> None:
    """Write a figure in the format that the suffix names; PNG without one."""
    from hebbnmf.persistence.atomic import replacing

    with replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:] or "png", dpi=150)


def _is_drawn(path: str) -> bool:
    """Return whether a file is a picture drawn by matplotlib, which signs at either end."""
    with Path(path).open("rb") as file:
        head = file.read(_SIGNED)
        file.seek(-min(_SIGNED, os.path.getsize(path)), os.SEEK_END)
        tail = file.read()
    return head.startswith((b"\x89PNG", b"<?xml", b"%PDF")) and b"Matplotlib" in head + tail
