"""What the commands read: the options that say how, the streams they open, and models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.streams import Stream

FORMATS = ("csv", "tsv", "jsonl", "npy", "npz", "parquet", "arrow", "hdf5", "float32", "float64")
# Whether a file can be read is found out by reading it: that is no error of usage.
PATH = click.Path(allow_dash=True, readable=False)


@dataclass(frozen=True)
class Inputs:
    """How to read the data: what the shared options of the commands say."""

    columns: list[int | str] | None
    header: bool | None
    format: str | None
    width: int | None
    dtype: str
    on_bad_row: str

    def open(self, data: Sequence[str], **options: Any) -> "Stream":
        """Open files, patterns or "-" as one stream."""
        from hebbnmf.streams import open_stream

        return open_stream(
            list(data),
            columns=self.columns,
            header="auto" if self.header is None else self.header,
            format=self.format,
            width=self.width,
            dtype=self.dtype,
            on_bad_row=self.on_bad_row,
            **options,
        )


def _columns(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    fields = [field.strip() for field in text.split(",")]
    return [int(field) if field.isdecimal() else field for field in fields]


_INPUT_OPTIONS = (
    click.option(
        "--columns",
        metavar="LIST",
        callback=_columns,
        help="Columns to read, by name or by number from 0, with commas between them.",
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether CSV and TSV begin with a line of names; found out by default.",
    ),
    click.option(
        "--format",
        type=click.Choice(FORMATS),
        help="Format of the data; by default the suffix says it, and standard input is CSV.",
    ),
    click.option(
        "--width",
        type=click.IntRange(min=1),
        help="Number of columns; raw float32 and float64 need it.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float64", "float32"]),
        default="float64",
        show_default=True,
        help="Precision of the numbers in memory.",
    ),
    click.option(
        "--on-bad-row",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="Stop at a row that cannot be read, or leave it out and count it.",
    ),
)


def input_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how data are read, as one argument `inputs`."""

    @wraps(command)
    def wrapped(
        *args: Any,
        columns: list[int | str] | None,
        header: bool | None,
        format: str | None,  # noqa: A002
        width: int | None,
        dtype: str,
        on_bad_row: str,
        **options: Any,
    ) -> None:
        inputs = Inputs(columns, header, format, width, dtype, on_bad_row)
        command(*args, inputs=inputs, **options)

    result: Callable[..., None] = wrapped
    for option in reversed(_INPUT_OPTIONS):
        result = option(result)
    return result


def data_argument(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument DATA: files, patterns, or - for standard input."""
    return click.argument("data", nargs=-1, required=True, type=PATH)(command)


def read_answering(path: str) -> tuple["OnlineSNMF", list[Any], list[str] | None]:
    """Read a model that can answer: the model, its preprocessing, and the names of its features."""
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence import read

    file = read(path)
    model = file.model
    if not isinstance(model, OnlineSNMF):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which has no answer to new samples; "
            "fit an OnlineSNMF."
        )
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"{path} holds a model that has learned nothing yet.")
    # Streams give bare arrays: their names are compared once, and not again for each chunk.
    names = model.__dict__.pop("feature_names_in_", None)
    return model, file.preprocessing, None if names is None else list(names)


def report_bad_rows(stream: "Stream") -> None:
    """Say on standard error how many rows were left out."""
    if stream.n_bad_rows:
        last = f", the last at {stream.last_bad_row}" if stream.last_bad_row else ""
        click.echo(f"bad rows left out: {stream.n_bad_rows}{last}", err=True)


def progress(description: str) -> Any:
    """Make a progress bar of rows on standard error, silent where that is no terminal."""
    from tqdm import tqdm

    return tqdm(desc=description, unit=" rows", unit_scale=True, disable=None)
