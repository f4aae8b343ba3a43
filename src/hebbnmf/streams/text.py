"""Readers of text, one sample a line: CSV, TSV and JSON lines, plain or compressed by gzip."""

import csv
import json
import math
import re
from abc import abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.lines import Lines
from hebbnmf.streams.readers import Array, BadRow, FileReader, StreamError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Lines parsed at a time: as text they take several times the memory of their numbers.
_LINES = 2048
# What stands for a missing value, in lower case.
_MISSING = {"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"}


class _TextReader(FileReader):
    """A reader of samples that are lines; blank lines are ignored.

    The cursor is the numbers of bytes and lines before the next line, and of a followed file its
    inode.
    """

    is_text = True
    from_stdin = True
    _numeric: tuple[type, ...]  # types of the values that may stand for a number
    _header: bytes | None = None  # the line of names
    _had_good_row = False

    def _open(self) -> None:
        self._lines = Lines(self._path, follow=self.live, encoding=self.options.encoding)
        self._files.callback(self._lines.close)
        self._find_columns()

    @abstractmethod
    def _find_columns(self) -> None:
        """Set the features by the first lines, and go to the first sample."""

    def tell(self) -> list[int]:
        """Return the numbers of bytes and lines before the next line."""
        inode = self._lines.inode
        return [self._lines.byte, self._lines.line, *([] if inode is None else [inode])]

    def seek(self, cursor: list[int]) -> None:
        """Go to a line; to the first one of a followed file that was created again meanwhile."""
        byte, line = cursor[:2]
        (inode,) = cursor[2:] or (self._lines.inode,)
        if self._lines.inode is not None and inode != self._lines.inode:
            byte = line = 0
        self._lines.seek(int(byte), int(line))

    @abstractmethod
    def _parse(self, lines: list[bytes]) -> Array:
        """Parse lines at once; raise ValueError for any that is not as expected."""

    @abstractmethod
    def _values(self, line: bytes) -> list[Any]:
        """Return the chosen values of one line; raise ValueError with the reason if it is bad."""

    @abstractmethod
    def _id(self, line: bytes) -> Any:
        """Return the value of the column of ids; raise ValueError if the line is bad."""

    @abstractmethod
    def _number(self, value: Any) -> float | None:
        """Return the number that a value stands for, if it stands for one."""

    def _pull(self, n_rows: int) -> FloatArray | None:
        lines = self._lines.take(min(n_rows, _LINES))
        if not lines:
            return None
        first = self._lines.line - len(lines)
        if first == 0:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
            if lines[0] == self._header:  # again, in a file that was created again
                lines[0] = b"\n"
        filled = [line for line in lines if not line.isspace()]
        if not filled:
            return self._no_rows()
        with suppress(ValueError):
            parsed = self._parse(filled)
            if parsed.shape == (len(filled), self.n_features) and parsed.dtype.kind in "biuf":
                rows: FloatArray = parsed.astype(self.dtype, copy=False)
                if self._are_good(rows).all():
                    if self._id_column is not None:
                        self.ids = [*self.ids, *map(self._id, filled)]
                    self._had_good_row = True
                    return rows
        return self._parse_each(lines, first)

    def _parse_each(self, lines: list[bytes], first: int) -> FloatArray:
        """Parse line by line and report the bad ones: slow, but overrules `_parse`."""
        rows: list[FloatArray] = []
        ids: list[Any] = []
        for number, line in enumerate(lines, first + 1):
            if line.isspace():
                continue
            try:
                rows.append(self._row(self._values(line)))
                self._had_good_row = True
            except ValueError as error:
                bad = error if isinstance(error, BadRow) else BadRow(str(error))
                if self.live and rows and not self.bad.skips(bad):
                    # What has arrived before the bad row is not lost; the next call reports it.
                    for rest in reversed(lines[number - first - 1 :]):
                        self._lines.push_back(rest)
                    break
                self.bad.report(f"{self.name}, line {number}", bad)
                if not self.options.keep_places:
                    continue
                rows.append(np.full(self.n_features, np.nan, self.dtype))
            if self._id_column is not None:
                ids.append(None)
                with suppress(ValueError):
                    ids[-1] = self._id(line)
        self.ids = [*self.ids, *ids]
        return np.array(rows, self.dtype).reshape(len(rows), self.n_features)

    def _row(self, values: list[Any]) -> FloatArray:
        """Convert the values of one line; raise BadRow with column and reason if one is bad."""
        numbers = [self._number(v) if isinstance(v, self._numeric) else None for v in values]
        for i, (value, number) in enumerate(zip(values, numbers, strict=True)):
            if number is not None and math.isfinite(number):
                continue
            missing = _is_missing(value)
            if missing and self.options.missing == "keep":
                numbers[i] = math.nan
                continue
            text = repr(str(value).strip()[:40])
            problem = f"{text} is not a number" if number is None else f"{number} is not finite"
            remedy = None if missing else self._remedy(values, i)
            raise BadRow(f"{self._column(i)}: {problem}", missing=missing, remedy=remedy)
        row = np.array(numbers, self.dtype)
        if not self._are_good(row[None])[0]:
            i, problem = self._fault(row)
            raise BadRow(f"{self._column(i)}: {numbers[i]} {problem}")
        return row

    def _remedy(self, values: list[Any], i: int) -> str | None:
        """Return what to do about value i, not a number; None if the row seems to blame."""
        return self._remedy_of_text(values, i)

    def _remedy_of_text(self, values: list[Any], i: int) -> str | None:
        """Return how to leave columns of text out; None after the first row, which is to blame."""
        if self._had_good_row:
            return None
        words = [
            j
            for j, value in enumerate(values)
            if isinstance(value, str) and not _is_missing(value) and self._number(value) is None
        ]
        if i not in words:
            return None
        names, chosen = self.feature_names, self._chosen
        columns = [names[j] if names else chosen[j] if chosen else j for j in words]
        columns = [*(self.options.drop or ()), *columns]
        return (
            f"leave columns of text out with drop={columns}, or choose those of numbers with "
            "columns=[...]"
        )

    def _first_line(self) -> bytes:
        """Take the next line that is not blank, where epochs begin; empty at the end."""
        line = b"\n"
        while line.isspace():
            self._first = self.tell()
            line = b"".join(self._lines.take(1))
        if line.startswith((b"\xff\xfe", b"\xfe\xff")) or line.startswith(b"\0", 1):
            code = "utf-16" if line[0] > 0xF0 else "utf-16-le"
            raise StreamError(f"{self.name} is not UTF-8 but UTF-16: pass encoding={code!r}.")
        return line


class DelimitedReader(_TextReader):
    """Rows of a CSV or TSV file; fields may be quoted, but not broken over lines."""

    formats = (("csv", ".csv"), ("tsv", ".tsv"))
    _numeric = (str,)

    def _find_columns(self) -> None:
        self._delimiter = self.options.delimiter or ("\t" if self.options.format == "tsv" else ",")
        line = self._first_line()
        if not line:
            raise StreamError(f"{self.name} is empty: it needs at least one row.")
        try:
            plain = line.removeprefix(_BYTE_ORDER_MARK)
            fields = self._fields(plain)
        except ValueError as error:
            raise StreamError(f"{self.name}, line {self._lines.line}: {error}.") from error
        if self.options.delimiter is None:
            self._check_delimiter(plain.decode(errors="replace").strip())
        names = [field.strip() for field in fields]
        if has_names := self._are_names(names):
            self._first, self._header = self.tell(), plain
        else:
            self._lines.push_back(line)
        self._set_features(len(fields), names if has_names else None)

    def _check_delimiter(self, line: str) -> None:
        """Refuse a line that another delimiter divides, as the default one does not."""
        for other in {",", ";", "\t", "|", " "} - {self._delimiter}:
            parts = line.split() if other == " " else line.split(other)
            with_commas = [_to_float(part.replace(",", ".")) is not None for part in parts]
            decimal = other != "," and "," in line and all(with_commas)
            is_other = self._delimiter not in line and (other != " " or all(with_commas))
            if len(parts) > 1 and (is_other or decimal):
                raise StreamError(
                    f"{self.name} has one column, if {self._delimiter!r} is the delimiter, but its "
                    f"first line has {len(parts)}, if it is {other!r}: pass delimiter={other!r}"
                    f"{' and decimal=' + repr(',') if decimal else ''}, or "
                    f"delimiter={self._delimiter!r} if that is right."
                )

    def _are_names(self, fields: list[str]) -> bool:
        """Return whether the fields of the first line are names of columns."""
        options = self.options
        chosen = (*(options.columns or ()), *(options.drop or ()), options.ids)
        if isinstance(options.header, bool):
            return options.header
        if any(isinstance(c, str) for c in chosen) or set(options.learned or [""]) <= set(fields):
            return True
        filled = [field for field in fields if field]
        numeric = [field for field in filled if self._number(field) is not None]
        if not numeric:
            return bool(filled)
        if len(numeric) < 2 or numeric != [str(j) for j in range(len(numeric))]:
            return False
        if len(numeric) < len(fields):  # beside names, or the index that pandas writes
            return True
        start = ",".join(fields[:4]) + ",..." * (len(fields) > 4)
        raise StreamError(
            f"{self.name} begins with {start}, which may number the columns or be a row: pass "
            "header=True or header=False."
        )

    def _parse(self, lines: list[bytes]) -> Array:
        """Parse by numpy's compiled reader, which is twice as fast as csv and float."""
        delimiter = self._delimiter.encode()
        # With chosen columns numpy does not mind rows that are too short or too long.
        if self._chosen is not None and any(
            line.count(delimiter) != self._width - 1 for line in lines
        ):
            raise ValueError("rows of other lengths")
        if self.options.decimal == ",":
            if self._delimiter == ",":
                raise ValueError("only quotes tell decimals from delimiters")
            if any(b"." in line for line in lines):
                raise ValueError("points are not decimals")
            lines = [line.replace(b",", b".") for line in lines]
        return np.loadtxt(
            lines,
            delimiter=None if self._delimiter == " " else self._delimiter,
            comments=None,
            quotechar='"',
            usecols=self._chosen,
            ndmin=2,
            encoding="utf-8",
        )

    def _values(self, line: bytes) -> list[str]:
        fields = self._whole_fields(line)
        return fields if self._chosen is None else [fields[j] for j in self._chosen]

    def _id(self, line: bytes) -> str:
        return self._whole_fields(line)[self._id_column or 0]

    def _whole_fields(self, line: bytes) -> list[str]:
        fields = self._fields(line)
        if len(fields) != self._width:
            raise ValueError(f"it has {len(fields)} fields where the first had {self._width}")
        return fields

    def _fields(self, line: bytes) -> list[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            remedy = "pass the encoding that the text has, such as encoding='latin-1'"
            raise BadRow(f"it is not UTF-8 text; {remedy}", remedy=remedy) from error
        text = text.replace("\0", "\ufffd").strip("\r\n")
        is_blank = self._delimiter == " "
        if is_blank:
            text = text.strip(" ")
        try:
            return next(
                csv.reader(
                    [text], delimiter=self._delimiter, strict=True, skipinitialspace=is_blank
                )
            )
        except csv.Error as error:
            raise ValueError(f"its quotes cannot be read ({error})") from error

    def _number(self, value: str) -> float | None:
        if self.options.decimal == ",":
            value = value.replace(".", "?").replace(",", ".")
        return _to_float(value)

    def _remedy(self, values: list[str], i: int) -> str | None:
        other = "," if self.options.decimal == "." else "."
        if re.fullmatch(rf"\s*[-+]?\d*{re.escape(other)}\d+(e[-+]?\d+)?\s*", values[i], re.I):
            return f"pass decimal={other!r}"
        remedy = self._remedy_of_text(values, i)
        if remedy is None or self.feature_names is not None or self.options.header is False:
            return remedy
        return f"{remedy}, or pass header=True if the first line holds names"


class JsonReader(_TextReader):
    """Rows of a JSON lines file: one list, or one object, a line."""

    formats = (("jsonl", ".jsonl", ".ndjson"),)
    _numeric = (int, float)

    def _find_columns(self) -> None:
        bad_lines: list[bytes] = []
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
            if self.options.keep_places:
                bad_lines.append(line)
            else:
                self.bad.report(f"{self.name}, line {self._lines.line}", BadRow(problem))
        self._lines.push_back(line)
        for bad_line in reversed(bad_lines):  # reported as they are read
            self._lines.push_back(bad_line)
        self._first = self.tell() if bad_lines else self._first
        self._all_names = list(sample) if isinstance(sample, dict) else []
        self._set_features(len(sample), self._all_names or None)

    def _parse(self, lines: list[bytes]) -> Array:
        """Parse line by line, converting all numbers at once."""
        return np.array([self._values(line) for line in lines])

    def _values(self, line: bytes) -> list[Any]:
        sample = self._sample(line)
        if isinstance(sample, list):
            return sample if self._chosen is None else [sample[j] for j in self._chosen]
        names = self.feature_names or []
        missing = [name for name in names if name not in sample]
        if missing and self.options.missing != "keep":
            raise BadRow(f"column {missing[0]!r} is missing", missing=True)
        return [sample.get(name) for name in names]

    def _id(self, line: bytes) -> Any:
        sample = self._sample(line)
        if isinstance(sample, list):
            return sample[self._id_column or 0]
        return sample.get(self._all_names[self._id_column or 0])

    def _sample(self, line: bytes) -> dict[str, Any] | list[Any]:
        """Read the object or list of a line, which must be what the first line was."""
        try:
            sample = json.loads(line)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if self.feature_names is not None:
            if not isinstance(sample, dict):
                raise ValueError("it is not an object, as the first line was")
        elif not isinstance(sample, list) or len(sample) != self._width:
            raise ValueError(f"it is not a list of {self._width} numbers, as the first line was")
        return sample

    def _number(self, value: Any) -> float | None:
        return _to_float(value)


def _is_missing(value: Any) -> bool:
    """Return whether a value of a line stands for none."""
    if isinstance(value, str):
        return value.strip().lower() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def _to_float(value: Any) -> float | None:
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
