"""Readers of text, one sample a line: CSV, TSV and JSON lines, plain or compressed by gzip."""

import csv
import json
from abc import abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.lines import Lines
from hebbnmf.streams.readers import Array, FileReader, StreamError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Lines parsed at a time: as text they take several times the memory of their numbers.
_LINES = 2048


class _TextReader(FileReader):
    """A reader of samples that are lines; blank lines are ignored.

    The cursor is the numbers of bytes and lines before the next line.
    """

    is_text = True
    from_stdin = True
    _numeric: tuple[type, ...]  # types of the values that may stand for a number

    def _open(self) -> None:
        self._lines = Lines(self._path, follow=self.live)
        self._files.callback(self._lines.close)

    def tell(self) -> list[int]:
        """Return the numbers of bytes and lines before the next line."""
        return [self._lines.byte, self._lines.line]

    def seek(self, cursor: list[int]) -> None:
        """Go to a line."""
        byte, line = cursor
        self._lines.seek(int(byte), int(line))

    @abstractmethod
    def _parse(self, lines: list[bytes]) -> Array:
        """Parse lines at once; raise ValueError for any that is not as expected."""

    @abstractmethod
    def _values(self, line: bytes) -> list[Any]:
        """Return the chosen values of one line; raise ValueError with the reason if it is bad."""

    def _pull(self, n_rows: int) -> FloatArray | None:
        first = self._lines.line
        lines = self._lines.take(min(n_rows, _LINES))
        if not lines:
            return None
        if first == 0:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        filled = [line for line in lines if not line.isspace()]
        if not filled:
            return self._no_rows()
        with suppress(ValueError):
            parsed = self._parse(filled)
            if parsed.shape == (len(filled), self.n_features) and parsed.dtype.kind in "biuf":
                rows: FloatArray = parsed.astype(self.dtype, copy=False)
                if self._are_good(rows).all():
                    return rows
        return self._parse_each(lines, first)

    def _parse_each(self, lines: list[bytes], first: int) -> FloatArray:
        """Parse line by line and report the bad ones: slow, but overrules `_parse`."""
        good = []
        for number, line in enumerate(lines, first + 1):
            if line.isspace():
                continue
            try:
                good.append(self._row(self._values(line)))
            except ValueError as error:
                self.bad.report(f"{self.name}, line {number}", str(error))
        return np.array(good, self.dtype).reshape(len(good), self.n_features)

    def _row(self, values: list[Any]) -> FloatArray:
        """Convert the values of one line; raise ValueError with column and reason if one is bad."""
        numbers = [_number(v) if isinstance(v, self._numeric) else None for v in values]
        if None in numbers:
            i = numbers.index(None)
            text = str(values[i]).strip()[:40]
            raise ValueError(f"{self._column(i)}: {text!r} is not a number")
        row = np.array(numbers, self.dtype)
        if not self._are_good(row[None])[0]:
            i, problem = self._fault(row)
            raise ValueError(f"{self._column(i)}: {numbers[i]} {problem}")
        return row

    def _first_line(self) -> bytes:
        """Take the next line that is not blank, where epochs begin; empty at the end."""
        line = b"\n"
        while line.isspace():
            self._first = self.tell()
            line = b"".join(self._lines.take(1))
        return line


class DelimitedReader(_TextReader):
    """Rows of a CSV or TSV file; fields may be quoted, but not broken over lines."""

    formats = (("csv", ".csv"), ("tsv", ".tsv"))
    _numeric = (str,)

    def _open(self) -> None:
        super()._open()
        self._delimiter = "\t" if self.options.format == "tsv" else ","
        line = self._first_line()
        if not line:
            raise StreamError(f"{self.name} is empty: it needs at least one row.")
        try:
            fields = self._fields(line.removeprefix(_BYTE_ORDER_MARK))
        except ValueError as error:
            raise StreamError(f"{self.name}, line {self._lines.line}: {error}.") from error
        by_name = any(isinstance(column, str) for column in self.options.columns or ())
        names = None
        header = self.options.header
        if header is True or (header == "auto" and (by_name or _looks_like_header(fields))):
            names = [field.strip() for field in fields]
            self._first = self.tell()
        else:
            self._lines.push_back(line)
        self._set_features(len(fields), names)

    def _parse(self, lines: list[bytes]) -> Array:
        """Parse by numpy's compiled reader, which is twice as fast as csv and float."""
        if self._chosen is not None:
            # With chosen columns numpy does not mind rows that are too short or too long.
            delimiter = self._delimiter.encode()
            if any(line.count(delimiter) != self._width - 1 for line in lines):
                raise ValueError("rows of other lengths")
        return np.loadtxt(
            lines,
            delimiter=self._delimiter,
            comments=None,
            quotechar='"',
            usecols=self._chosen,
            ndmin=2,
            encoding="utf-8",
        )

    def _values(self, line: bytes) -> list[str]:
        fields = self._fields(line)
        if len(fields) != self._width:
            raise ValueError(f"it has {len(fields)} fields where the first had {self._width}")
        return fields if self._chosen is None else [fields[j] for j in self._chosen]

    def _fields(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", errors="replace").replace("\0", "\ufffd").strip("\r\n")
        try:
            return next(csv.reader([text], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            raise ValueError(f"its quotes cannot be read ({error})") from error


class JsonReader(_TextReader):
    """Rows of a JSON lines file: one list, or one object, a line."""

    formats = (("jsonl", ".jsonl", ".ndjson"),)
    _numeric = (int, float)

    def _open(self) -> None:
        super()._open()
        while True:
            line = self._first_line()
            if not line:
                raise StreamError(f"{self.name} has no list or object of numbers on any line.")
            try:
                sample = json.loads(line)
                problem = "it is not a list or an object of numbers"
            except (ValueError, RecursionError) as error:
                sample, problem = None, f"it is not JSON ({error})"
            if sample and isinstance(sample, list | dict):
                break
            self.bad.report(f"{self.name}, line {self._lines.line}", problem)
        self._lines.push_back(line)
        self._set_features(len(sample), list(sample) if isinstance(sample, dict) else None)

    def _parse(self, lines: list[bytes]) -> Array:
        """Parse line by line, converting all numbers at once."""
        return np.array([self._values(line) for line in lines])

    def _values(self, line: bytes) -> list[Any]:
        try:
            sample = json.loads(line)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if self.feature_names is not None:
            if not isinstance(sample, dict):
                raise ValueError("it is not an object, as the first line was")
            missing = [name for name in self.feature_names if name not in sample]
            if missing:
                raise ValueError(f"column {missing[0]!r} is missing")
            return [sample[name] for name in self.feature_names]
        if not isinstance(sample, list) or len(sample) != self._width:
            raise ValueError(f"it is not a list of {self._width} numbers, as the first line was")
        return sample if self._chosen is None else [sample[j] for j in self._chosen]


def _number(value: Any) -> float | None:
    """Return the number that a value stands for, if it stands for one."""
    # float also takes underscores between digits, which no CSV writer means.
    if isinstance(value, str) and "_" in value:
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError as error:
        raise ValueError("it holds a number beyond float64") from error


def _looks_like_header(fields: list[str]) -> bool:
    """Return whether a line holds names: no field is a number, and no two are equal."""
    filled = [field for field in fields if field.strip()]
    return 0 < len({field for field in filled if _number(field) is None}) == len(filled)
