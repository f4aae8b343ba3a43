"""Options of reading: which columns and rows of a source, in which format and type."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hebbnmf.parameters import COUNT, Rule, check_parameter, one_of, optional

__all__ = ["ReadOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """How rows are read from a source: the one record of these options, checked when made.

    All fields are plain values, so that ``dataclasses.asdict`` of a record can be stored as JSON.

    Parameters
    ----------
    columns : list of int or str, optional
        The columns to read, by number from 0 or by name, in this order; all by default.
    header : {"auto", True, False}, default="auto"
        Whether CSV and TSV files begin with a line of names. "auto" takes the first line for names
        if columns are chosen by name, or if none of its fields is a number and no two are equal.
    dtype : {"float64", "float32"}, default="float64"
        Type of the rows; numpy's types are accepted and stored by their names.
    on_bad_row : {"raise", "skip"}, default="raise"
        What to do with a row that cannot be read or is not finite: raise a `StreamError` that
        names file, line and column, or leave the row out and count it.
    width : int, optional
        Number of columns of the source; needed for raw numbers.
    format : str, optional
        Format of the files, one of `known_formats`; "float32" and "float64" are raw little-endian
        numbers. By default each file's suffix decides, ``.gz`` after text included; standard input
        is CSV.

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

    columns: Sequence[int | str] | None = None
    header: bool | str = "auto"
    dtype: DTypeLike = "float64"
    on_bad_row: str = "raise"
    width: int | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        for name, rule in _RULES.items():
            check_parameter(name, getattr(self, name), rule)
        plain: dict[str, object] = {"dtype": np.dtype(self.dtype).name}
        if self.columns is not None:
            plain["columns"] = tuple(c if isinstance(c, str) else int(c) for c in self.columns)
        if self.width is not None:
            plain["width"] = int(self.width)
        for name, value in plain.items():
            object.__setattr__(self, name, value)


def _are_columns(value: Any) -> bool:
    is_list = isinstance(value, Collection) and not isinstance(value, str)
    return (
        is_list and len(value) > 0 and all(isinstance(column, str | Integral) for column in value)
    )


def _is_float_type(value: Any) -> bool:
    return np.dtype(value) in (np.float32, np.float64)


_RULES = {
    "columns": optional(Rule("a list of at least one name or number", _are_columns)),
    "header": Rule("'auto', True or False", lambda v: v == "auto" or isinstance(v, bool)),
    "dtype": Rule("float32 or float64", _is_float_type),
    "on_bad_row": one_of("raise", "skip"),
    "width": optional(COUNT),
}
