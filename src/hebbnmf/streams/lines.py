"""Readers of text, one sample a line: CSV, TSV and JSON lines, plain or compressed by gzip."""

import csv
import gzip
import json
import os
import stat
import sys
import time
import weakref
from abc import abstractmethod
from collections import deque
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from hebbnmf.streams.readers import BadRows, Columns, FloatArray, Reader, StreamError, choose

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Bytes taken at a time from a source that is followed, and seconds between two looks at its end.
_PIECE = 2**20
_PAUSE = 0.1
# Lines parsed at a time: as text they take several times the memory of their numbers.
_LINES = 2048


class Lines:
    """Lines of a file or of standard input, with a cursor: bytes and lines before the next one."""

    def __init__(self, path: str) -> None:
        self.byte = self.line = 0
        self.seekable = path != "-"
        self._size = 0
        self._pushed: bytes | None = None
        self._file: IO[bytes]
        if path == "-":
            self._file = sys.stdin.buffer
        elif path.endswith(".gz"):
            self._file = cast(IO[bytes], gzip.open(path, "rb"))  # noqa: SIM115
        else:
            self._file = Path(path).open("rb")  # noqa: SIM115
            self._size = os.fstat(self._file.fileno()).st_size
        if self.seekable:
            # A stream may be dropped half read.
            weakref.finalize(self, self._file.close)

    def take(self, n_lines: int) -> list[bytes]:
        """Give the next lines; fewer only at the end."""
        lines = [] if self._pushed is None else [self._pushed]
        self._pushed = None
        lines += islice(self._file, n_lines - len(lines))
        self.byte += sum(map(len, lines))
        self.line += len(lines)
        if len(lines) < n_lines and self.byte < self._size:
            raise EOFError(f"it had {self._size} bytes when opened, and ends after {self.byte}")
        return lines

    def push_back(self, line: bytes) -> None:
        """Give back the line just taken: standard input cannot be read twice."""
        self._pushed = line
        self.byte -= len(line)
        self.line -= 1

    def seek(self, byte: int, line: int) -> None:
        """Go to a cursor."""
        if byte == self.byte:
            return
        if self.seekable:
            found = byte <= self._size or not self._size
            found = found and self._file.seek(byte) == byte
            self._pushed = None
        else:
            while self.byte < byte and self.take(1):
                pass
            found = self.byte == byte
        if not found:
            raise EOFError(f"the position to go to, byte {byte}, cannot be reached in it")
        self.byte, self.line = byte, line

    def close(self) -> None:
        """Close the file, but never standard input."""
        if self.seekable:
            self._file.close()


class ArrivingLines(Lines):
    """Lines as they arrive: a growing file is waited for without end, a pipe to its end.

    A line counts once its end has arrived.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._size = 0
        self._ready: deque[bytes] = deque()
        self._begun = b""
        self._grows = False
        if self.seekable and not path.endswith(".gz"):
            self._grows = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def take(self, n_lines: int) -> list[bytes]:
        """Give the lines that have arrived, at least one; none at the end."""
        while not self._ready and self._receive():
            pass
        lines = [self._ready.popleft() for _ in range(min(n_lines, len(self._ready)))]
        self.byte += sum(map(len, lines))
        self.line += len(lines)
        return lines

    def push_back(self, line: bytes) -> None:
        """Give back the line just taken."""
        self._ready.appendleft(line)
        self.byte -= len(line)
        self.line -= 1

    def seek(self, byte: int, line: int) -> None:
        """Go to a cursor."""
        if self.seekable and byte != self.byte:
            self._ready.clear()
            self._begun = b""
        super().seek(byte, line)

    def _receive(self) -> bool:
        """Wait for what comes next; tell whether there may be more."""
        data = cast(Any, self._file).read1(_PIECE)
        if data:
            *whole, self._begun = (self._begun + data).split(b"\n")
            self._ready.extend(line + b"\n" for line in whole)
        elif self._grows:
            size = os.fstat(self._file.fileno()).st_size
            if size < self._file.tell():
                raise EOFError(f"it had {self._file.tell()} bytes, and has {size} now")
            time.sleep(_PAUSE)
        elif self._begun:
            self._ready.append(self._begun)
            self._begun = b""
        else:
            return False
        return True


class LineReader(Reader):
    """A reader whose samples are lines; blank lines are passed over."""

    def __init__(self, path: str, bad: BadRows, dtype: np.dtype[Any], follow: bool = False) -> None:
        super().__init__("standard input" if path == "-" else path, bad, dtype)
        self._lines = ArrivingLines(path) if follow else Lines(path)
        self.live = follow
        self.repeatable = self._lines.seekable
        self._start = (0, 0)

    @abstractmethod
    def parse(self, lines: list[bytes]) -> NDArray[Any] | None:
        """Parse lines in one go; None where any of them is not as expected."""

    @abstractmethod
    def parse_one(self, line: bytes) -> list[float]:
        """Parse one line; raise ValueError with the reason, column included."""

    def pull(self, n_rows: int) -> FloatArray | None:
        """Parse the next lines."""
        first = self._lines.line
        lines = self._lines.take(min(n_rows, _LINES))
        if not lines:
            return None
        if first == 0:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        filled = [line for line in lines if not line.isspace()]
        if not filled:
            return np.empty((0, self.n_features), self.dtype)
        rows = self.parse(filled)
        if rows is not None:
            with np.errstate(over="ignore"):
                rows = rows.astype(self.dtype, copy=False)
            if np.isfinite(rows).all():
                return rows
        return self._one_by_one(lines, first)

    def tell(self) -> list[int]:
        """Give the numbers of bytes and lines before the next line."""
        return [self._lines.byte, self._lines.line]

    def seek(self, cursor: list[int]) -> None:
        """Go to a line."""
        byte, line = cursor
        self._lines.seek(int(byte), int(line))

    def begin(self, epoch: int) -> None:  # noqa: ARG002
        """Go to the first sample."""
        self._lines.seek(*self._start)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _one_by_one(self, lines: list[bytes], first: int) -> FloatArray:
        """Find the bad rows among lines: slow, and the judge of what a good line is."""
        good = []
        for number, line in enumerate(lines, first + 1):
            if line.isspace():
                continue
            try:
                values = self.parse_one(line)
                with np.errstate(over="ignore"):
                    row = np.array(values, self.dtype)
                wrong = np.flatnonzero(~np.isfinite(row))
                if len(wrong):
                    raise ValueError(
                        f"{self._column(int(wrong[0]))}: {values[wrong[0]]} is not finite"
                    )
                good.append(row)
            except ValueError as error:
                self.bad.report(f"{self.name}, line {number}", str(error))
        return np.array(good, self.dtype).reshape(len(good), self.n_features)


class DelimitedReader(LineReader):
    """Rows of a CSV or TSV file; fields may be quoted, but not broken over lines."""

    def __init__(
        self,
        path: str,
        delimiter: str,
        columns: Columns,
        header: bool | str,
        bad: BadRows,
        dtype: np.dtype[Any],
        follow: bool = False,
    ) -> None:
        super().__init__(path, bad, dtype, follow)
        self._delimiter = delimiter
        line = b"\n"
        while line.isspace():
            taken = self._lines.take(1)
            if not taken:
                raise StreamError(f"{self.name} is empty: it needs at least one row.")
            line = taken[0]
        try:
            fields = self._fields(line.removeprefix(_BYTE_ORDER_MARK))
        except ValueError as error:
            raise StreamError(f"{self.name}, line {self._lines.line}: {error}.") from error
        named = columns is not None and any(isinstance(column, str) for column in columns)
        if header is True or (header == "auto" and (named or _looks_like_header(fields))):
            self._start = (self._lines.byte, self._lines.line)
            self._choose(columns, len(fields), [field.strip() for field in fields])
        else:
            self._lines.push_back(line)
            self._choose(columns, len(fields), None)
        self._width = len(fields)

    def parse(self, lines: list[bytes]) -> NDArray[Any] | None:
        """Parse by numpy's compiled reader, which is twice as fast as csv and float."""
        if self._chosen is not None:
            # With chosen columns numpy does not mind rows that are too short or too long.
            delimiter = self._delimiter.encode()
            if any(line.count(delimiter) != self._width - 1 for line in lines):
                return None
        try:
            rows = np.loadtxt(
                lines,
                delimiter=self._delimiter,
                comments=None,
                quotechar='"',
                usecols=self._chosen,
                ndmin=2,
                encoding="utf-8",
            )
        except ValueError:
            return None
        return rows if rows.shape == (len(lines), self.n_features) else None

    def parse_one(self, line: bytes) -> list[float]:
        """Parse by csv and float."""
        fields = self._fields(line)
        if len(fields) != self._width:
            raise ValueError(f"it has {len(fields)} fields where the first had {self._width}")
        chosen = range(self._width) if self._chosen is None else self._chosen
        return [self._value(fields[j], i) for i, j in enumerate(chosen)]

    def _value(self, field: str, i: int) -> float:
        value = _number(field)
        if value is None:
            raise ValueError(f"{self._column(i)}: {field.strip()[:40]!r} is not a number")
        return value

    def _fields(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", errors="replace").replace("\0", "\ufffd").strip("\r\n")
        try:
            return next(csv.reader([text], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            raise ValueError(f"its quotes cannot be read ({error})") from error


class JsonReader(LineReader):
    """Rows of a JSON lines file: one list, or one object, a line."""

    def __init__(
        self,
        path: str,
        columns: Columns,
        bad: BadRows,
        dtype: np.dtype[Any],
        follow: bool = False,
    ) -> None:
        super().__init__(path, bad, dtype, follow)
        start, first = (0, 0), None
        while first is None:
            start = (self._lines.byte, self._lines.line)
            taken = self._lines.take(1)
            if not taken:
                raise StreamError(f"{self.name} has no list or object of numbers on any line.")
            if not taken[0].isspace():
                first = self._first(taken[0], start[1] + 1)
        self._start = start
        self._lines.push_back(taken[0])
        self._keys: list[str] | None = None
        self._width = len(first)
        if isinstance(first, dict):
            names = list(first)
            chosen = None if columns is None else choose(columns, len(names), names, self.name)
            self._keys = names if chosen is None else [names[j] for j in chosen]
            self._choose(None, len(self._keys), self._keys)
        else:
            self._choose(columns, self._width, None)

    def parse(self, lines: list[bytes]) -> NDArray[Any] | None:
        """Parse line by line, converting all numbers at once."""
        try:
            rows = np.array([self._values(json.loads(line)) for line in lines])
        except (ValueError, RecursionError):
            return None
        as_expected = rows.shape == (len(lines), self.n_features) and rows.dtype.kind in "biuf"
        return rows if as_expected else None

    def parse_one(self, line: bytes) -> list[float]:
        """Parse with a look at each value."""
        try:
            values = self._values(json.loads(line))
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        for i, value in enumerate(values):
            if not isinstance(value, int | float):
                raise ValueError(f"{self._column(i)}: {str(value)[:40]!r} is not a number")
        try:
            return [float(value) for value in values]
        except OverflowError as error:
            raise ValueError("it holds a number beyond float64") from error

    def _values(self, sample: Any) -> list[Any]:
        if self._keys is not None:
            if not isinstance(sample, dict):
                raise ValueError("it is not an object, as the first line was")
            missing = [key for key in self._keys if key not in sample]
            if missing:
                raise ValueError(f"column {missing[0]!r} is missing")
            return [sample[key] for key in self._keys]
        if not isinstance(sample, list) or len(sample) != self._width:
            raise ValueError(f"it is not a list of {self._width} numbers, as the first line was")
        return sample if self._chosen is None else [sample[j] for j in self._chosen]

    def _first(self, line: bytes, number: int) -> Any:
        """Give the sample that settles the columns; None for a bad line that is skipped."""
        try:
            sample = json.loads(line)
            if isinstance(sample, list | dict) and sample:
                return sample
            problem = "it is not a list or an object of numbers"
        except (ValueError, RecursionError) as error:
            problem = f"it is not JSON ({error})"
        self.bad.report(f"{self.name}, line {number}", problem)
        return None


def _number(field: str) -> float | None:
    # float also takes underscores between digits, which no CSV writer means.
    if "_" in field:
        return None
    try:
        return float(field)
    except ValueError:
        return None


def _looks_like_header(fields: list[str]) -> bool:
    """Tell whether the first line holds names: no field is a number, and no two are equal."""
    filled = [field for field in fields if field.strip()]
    return (
        bool(filled)
        and all(_number(field) is None for field in filled)
        and len(set(filled)) == len(filled)
    )
