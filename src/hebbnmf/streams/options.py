"""Options of reading: which columns and rows of a source, in which format and type."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from operator import index
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from hebbnmf.parameters import COUNT, FLAG, Rule, check_fields, one_of, optional, parameter

__all__ = ["ReadOptions", "read_options"]

_COLUMNS = Rule("a list of at least one name or number", lambda v: isinstance(v, tuple) and v != ())
_COLUMN = Rule("the name or number of a column", lambda v: isinstance(v, str | int))
_HEADER = Rule("'auto', True or False", lambda v: v == "auto" or isinstance(v, bool))
_DELIMITER = Rule(
    "one character other than a quote and the ends of lines",
    lambda v: isinstance(v, str) and len(v) == 1 and v not in '"\r\n',
)


def _is_encoding(value: object) -> bool:
    try:
        "".encode(cast(str, value))
    except (LookupError, TypeError, ValueError):
        return False
    return True


_ENCODING = Rule("an encoding of text that Python knows, such as 'latin-1'", _is_encoding)


@dataclass(frozen=True)
class ReadOptions:
    """How rows are read from a source, checked when made.

    All fields are plain values, so that ``dataclasses.asdict`` of a record can be stored as JSON.

    Parameters
    ----------
    columns : list of int or str, optional
        The columns to read, by number from 0 or by name, in this order; all by default.
    header : {"auto", True, False}, default="auto"
        Whether CSV and TSV files begin with a line of names. "auto" takes the first line for names
        if columns are chosen by name, or if none of its fields is a number. A line of the numbers
        0, 1, 2 and so on is refused: it may be either.
    dtype : {"float64", "float32"}, default="float64"
        Type of the rows; numpy's types are stored by their names.
    on_bad_row : {"raise", "skip"}, default="raise"
        For a row that cannot be read or is not finite: raise a `StreamError` that names file, line
        and column, or leave the row out and count it.
    width : int, optional
        Number of columns of the source; needed for raw numbers.
    format : str, optional
        One of `known_formats`; "float32" and "float64" are raw little-endian numbers. By default
        each file's suffix decides, before a ``.gz`` after text; standard input is CSV.
    drop : list of int or str, optional
        The columns to leave out.
    learned : list of str, optional
        The names that a model has learned: a source whose columns have names gives those, in this
        order, whatever else it has. ``columns`` goes first.
    delimiter : str, optional
        What separates the fields of a line: by default a comma in CSV and a tab in TSV. A blank
        stands for any number of them.
    decimal : {".", ","}, default="."
        The sign before the decimals of a number in CSV and TSV.
    encoding : str, default="utf-8"
        How text is encoded, by Python's names.
    missing : {"raise", "skip", "keep"}, default="raise"
        For a row in which values are missing (an empty field, NaN, NA, null): as for any row that
        cannot be read, leave it out, or give NaN for the values that are missing.
    keep_places : bool, default=False
        Whether a row that is left out is given as a row of NaN, so that later rows keep their
        numbers.
    ids : int or str, optional
        A column that is not read as numbers, but passed along as `Stream.ids`.

    Examples
    --------
    >>> import dataclasses, json
    >>> import numpy as np
    >>> from hebbnmf.streams import ReadOptions
    >>> options = ReadOptions(columns=["a", 2], dtype=np.float32)
    >>> stored = json.dumps(dataclasses.asdict(options))
    >>> ReadOptions(**json.loads(stored)) == options
    True
    """

    columns: Sequence[int | str] | None = parameter(None, optional(_COLUMNS))
    header: bool | str = parameter("auto", _HEADER)
    dtype: DTypeLike = parameter("float64", one_of("float32", "float64"))
    on_bad_row: str = parameter("raise", one_of("raise", "skip"))
    width: int | None = parameter(None, optional(COUNT))
    format: str | None = None  # checked where files are opened, by the formats there are
    drop: Sequence[int | str] | None = parameter(None, optional(_COLUMNS))
    learned: Sequence[str] | None = parameter(None, optional(_COLUMNS))
    delimiter: str | None = parameter(None, optional(_DELIMITER))
    decimal: str = parameter(".", one_of(".", ","))
    encoding: str = parameter("utf-8", _ENCODING)
    missing: str = parameter("raise", one_of("raise", "skip", "keep"))
    keep_places: bool = parameter(False, FLAG)
    ids: int | str | None = parameter(None, optional(_COLUMN))

    def __post_init__(self) -> None:
        with suppress(TypeError):  # what cannot be made plain breaks its rule
            object.__setattr__(self, "dtype", np.dtype(self.dtype).name)
        for name in ("columns", "drop", "learned"):
            chosen = getattr(self, name)
            with suppress(TypeError):
                if chosen is not None and not isinstance(chosen, str):
                    columns = tuple(c if isinstance(c, str) else index(c) for c in chosen)
                    object.__setattr__(self, name, columns)
        check_fields(self)


def read_options(reading: dict[str, Any]) -> ReadOptions:
    """Make a record of keywords; refuse one that is none of its fields."""
    known = [field.name for field in fields(ReadOptions)]
    for name in reading.keys() - known:
        raise TypeError(
            f"{name}={reading[name]!r} cannot be used: options of reading are {', '.join(known)}."
        )
    return ReadOptions(**reading)
