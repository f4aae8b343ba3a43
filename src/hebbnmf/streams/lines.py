"""Lines of files and pipes, with a cursor: of a source that is complete, or as they arrive."""

import codecs
import gzip
import io
import os
import sys
import time
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from hebbnmf.streams.readers import StreamError

# Bytes taken at a time from a source that is followed, and seconds between polls for new data.
_PIECE = 2**20
_PAUSE = 0.1
# Bytes of a line at most, some millions of numbers: a file without line ends takes no more memory.
_LONGEST = 2**26
# Bytes of text in another encoding that are decoded at a time.
_DECODED = 2**16


class Lines:
    """Lines of a file or of standard input, with a cursor: bytes and lines before the next one.

    They are UTF-8 and end with LF, whatever the file has. Followed, they come as they arrive: a
    growing file is waited for without end, a pipe until it is closed. A line counts once its end
    has arrived; `take` waits for at least one. A followed file that is moved away and created
    again, or truncated, as logs are, is read from its new beginning, as by ``tail -F``.
    """

    def __init__(self, path: str, *, follow: bool, encoding: str = "utf-8") -> None:
        self._path = path
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
        is_utf8 = codecs.lookup(encoding).name in ("ascii", "utf-8", "utf-8-sig")
        if follow and not is_utf8:
            raise StreamError(f"encoding={encoding!r} cannot be followed: only UTF-8 can.")
        if not is_utf8:
            self._recode(encoding, _LF)
        if not follow and _ends_with_cr(self._file):
            self._recode("utf-8", _CR)

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

    @property
    def inode(self) -> int | None:
        """What distinguishes a followed file from a new one at its path; else None."""
        return os.fstat(self._file.fileno()).st_ino if self._grows else None

    def close(self) -> None:
        """Close the file, but never standard input."""
        if self.seekable:
            self._file.close()

    def _recode(self, encoding: str, line_end: str) -> None:
        raw = _Recoded(self._file, self._path, encoding, line_end)
        self._file, self._size = io.BufferedReader(raw, _DECODED), 0

    def _wait(self) -> None:
        """Wait until at least one line is ready, or the end."""
        while not self._ready:
            is_replaced = self._grows and self._is_replaced()
            if data := self._file.read1(_PIECE):
                *whole, self._begun = (self._bounded(self._begun) + data).split(b"\n")
                self._ready = [line + b"\n" for line in whole]
            elif is_replaced:
                self._file.close()
                self._file = Path(self._path).open("rb")  # noqa: SIM115
                self._begun, self.byte, self.line = b"", 0, 0
            elif self._grows:
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

    def _is_replaced(self) -> bool:
        """Return whether another file, or a cut one, is now where the followed one was."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:  # moved away, and not created again yet
            return False
        here = os.fstat(self._file.fileno())
        return not os.path.samestat(here, there) or here.st_size < self._file.tell()


_LF, _CR = "\n", "\r"


def _ends_with_cr(file: Any) -> bool:
    """Return whether lines end with CR alone, as on old Macs; False where nobody can look ahead."""
    head: bytes = file.peek(_DECODED) if hasattr(file, "peek") else b""
    return b"\r" in head[:-1] and b"\n" not in head


class _Recoded(io.RawIOBase):
    """Text of any encoding and ends of lines, as UTF-8 with LF; it goes back by reading anew."""

    def __init__(self, file: BufferedIOBase, path: str, encoding: str, line_end: str) -> None:
        self._file, self._path = file, path
        self._encoding, self._line_end = encoding, line_end
        self._ready, self._at, self._at_end = b"", 0, False
        self._begin()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._at_end:
            data = self._file.read(_DECODED)
            self._at_end = not data
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise StreamError(
                    f"{self._path} is not text in {self._encoding} ({error.reason}): pass the "
                    "encoding that it has, such as encoding='latin-1'."
                ) from error
            self._ready = text.replace(self._line_end, "\n").encode()
        n_bytes = min(len(buffer), len(self._ready))
        buffer[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        self._at += n_bytes
        return n_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        if offset < self._at:
            self._file.seek(0)
            self._begin()
        while self._at < offset and self.readinto(bytearray(min(_DECODED, offset - self._at))):
            pass
        return self._at

    def close(self) -> None:
        if self._path != "-":
            self._file.close()
        super().close()

    def _begin(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)()
        self._ready, self._at, self._at_end = b"", 0, False
