"""Options of reading: which columns and rows of a source, in which format and type."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from operator import index
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hebbnmf.parameters import COUNT, Rule, check_fields, one_of, optional, parameter

__all__ = ["ReadOptions", "read_options"]

_COLUMNS = Rule("a list of at least one name or number", lambda v: isinstance(v, tuple) and v != ())
_HEADER = Rule("'auto', True or False", lambda v: v == "auto" or isinstance(v, bool))


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
        if columns are chosen by name, or if none of its fields is a number and no two are equal.
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

    def __post_init__(self) -> None:
        with suppress(TypeError):  # what cannot be made plain breaks its rule
            object.__setattr__(self, "dtype", np.dtype(self.dtype).name)
        with suppress(TypeError):
            if self.columns is not None and not isinstance(self.columns, str):
                columns = tuple(c if isinstance(c, str) else index(c) for c in self.columns)
                object.__setattr__(self, "columns", columns)
        check_fields(self)


def read_options(reading: dict[str, Any]) -> ReadOptions:
    """Make a record of keywords; refuse one that is none of its fields."""
    known = [field.name for field in fields(ReadOptions)]
    for name in reading.keys() - known:
        raise TypeError(
            f"{name}={reading[name]!r} cannot be used: options of reading are {', '.join(known)}."
        )
    return ReadOptions(**reading)
