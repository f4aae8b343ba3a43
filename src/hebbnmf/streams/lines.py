"""Lines of files and pipes, with a cursor: of a source that is complete, or as they arrive."""

import gzip
import os
import sys
import time
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from hebbnmf.streams.readers import StreamError

# Bytes taken at a time from a source that is followed, and seconds between polls for new data.
_PIECE = 2**20
_PAUSE = 0.1
# Bytes of a line at most, some millions of numbers: a file without line ends takes no more memory.
_LONGEST = 2**26


class Lines:
    """Lines of a file or of standard input, with a cursor: bytes and lines before the next one.

    Followed, they come as they arrive: a growing file is waited for without end, a pipe until it
    is closed. A line counts once its end has arrived; `take` waits for at least one.
    """

    def __init__(self, path: str, *, follow: bool) -> None:
        self.byte = self.line = 0
        self._name = "standard input" if path == "-" else path
        self.seekable = path != "-"
        self._follow = follow
        self._grows = False
        self._size = 0  # of a file that must stay as long; 0 where unknown
        self._ready: list[bytes] = []  # read from the file, but not taken yet
        self._begun = b""  # a line whose end has not arrived yet
        self._file: BufferedIOBase
        if path == "-":
            self._file = cast(BufferedIOBase, sys.stdin.buffer)
        elif path.endswith(".gz"):
            self._file = gzip.open(path, "rb")  # noqa: SIM115
        else:
            self._file = Path(path).open("rb")  # noqa: SIM115
            self._grows = follow and Path(path).is_file()
            self._size = 0 if follow else os.fstat(self._file.fileno()).st_size

    def take(self, n_lines: int) -> list[bytes]:
        """Return the next lines; fewer only at the end, or if followed."""
        if self._follow:
            self._wait()
        else:
            while len(self._ready) < n_lines and (line := self._file.readline(_LONGEST + 1)):
                self._ready.append(self._bounded(line))
        lines, self._ready = self._ready[:n_lines], self._ready[n_lines:]
        self.byte += sum(map(len, lines))
        self.line += len(lines)
        if len(lines) < n_lines and self.byte < self._size:
            raise EOFError(f"it had {self._size} bytes when opened, and ends after {self.byte}")
        return lines

    def push_back(self, line: bytes) -> None:
        """Give back the line just taken: standard input cannot be read twice."""
        self._ready.insert(0, line)
        self.byte -= len(line)
        self.line -= 1

    def seek(self, byte: int, line: int) -> None:
        """Go to a cursor."""
        if byte == self.byte:
            return
        if self.seekable:
            self._ready, self._begun = [], b""
            found = (byte <= self._size or not self._size) and self._file.seek(byte) == byte
        else:
            while self.byte < byte and self.take(1):
                pass
            found = self.byte == byte
        if not found:
            raise EOFError(f"it has no byte {byte}, where the position is")
        self.byte, self.line = byte, line

    def close(self) -> None:
        """Close the file, but never standard input."""
        if self.seekable:
            self._file.close()

    def _wait(self) -> None:
        """Wait until at least one line is ready, or the end."""
        while not self._ready:
            if data := self._file.read1(_PIECE):
                *whole, self._begun = (self._bounded(self._begun) + data).split(b"\n")
                self._ready = [line + b"\n" for line in whole]
            elif self._grows:
                size = os.fstat(self._file.fileno()).st_size
                if size < self._file.tell():
                    raise EOFError(f"it had {self._file.tell()} bytes, and has {size} now")
                time.sleep(_PAUSE)
            elif self._begun:
                self._ready, self._begun = [self._begun], b""
            else:
                return

    def _bounded(self, line: bytes) -> bytes:
        if len(line) > _LONGEST:
            number = self.line + len(self._ready) + 1
            raise StreamError(
                f"{self._name}, line {number}: it is longer than {_LONGEST} bytes, which no row "
                "is; check that the file is text and that its lines end."
            )
        return line
