"""What the commands read: the options that say how, the streams they open, and models."""

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.messages import say

if TYPE_CHECKING:
    from tqdm import tqdm

    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions, Stream

Command = Callable[..., None]
# An unreadable file exits 1 (data), not 2 (usage), so click must not test readability.
PATH = click.Path(allow_dash=True, readable=False)


# Which formats there are is looked up when one is named: `--help` waits for no numpy.
def _known_format(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    if name is not None and name not in (known := _formats()):
        raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


def _complete_format(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _formats() if name.startswith(incomplete)]


def _formats() -> tuple[str, ...]:
    from hebbnmf.streams import known_formats

    return known_formats()


def _columns(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> list[int | str] | None:
    if text is None:
        return None
    fields = [field.strip() for field in text.split(",")]
    return [int(field) if field.isdecimal() else field for field in fields]


_READ_OPTIONS = (
    click.option(
        "--columns",
        metavar="LIST",
        callback=_columns,
        help="Columns to read, by name or by number from 0, with commas between them.",
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether CSV and TSV begin with a line of names; detected by default.",
    ),
    click.option(
        "--format",
        metavar="NAME",
        callback=_known_format,
        shell_complete=_complete_format,
        help="Format of the data, such as csv or float32; by default the suffix says it, and "
        "standard input is CSV.",
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
        help="Precision of the numbers in memory.",
    ),
    click.option(
        "--on-bad-row",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        help="Stop at a row that cannot be read, or leave it out and count it.",
    ),
)


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Give a command several options at once, in this order."""
    return lambda command: reduce(lambda c, option: option(c), reversed(decorators), command)


def read_options(command: Command) -> Command:
    """Give a command the options that say how data are read, as one argument `reading`."""

    @wraps(command)
    def wrapped(*args: object, header: bool | None, **others: object) -> None:
        from dataclasses import fields

        from hebbnmf.streams import ReadOptions

        others["header"] = "auto" if header is None else header
        chosen: dict[str, Any] = {f.name: others.pop(f.name) for f in fields(ReadOptions)}
        command(*args, reading=ReadOptions(**chosen), **others)

    return options(*_READ_OPTIONS)(wrapped)


def data_argument(command: Command) -> Command:
    """Give a command the argument DATA: files, patterns, or - for standard input."""
    return click.argument("data", nargs=-1, required=True, type=PATH)(command)


def open_data(
    data: Sequence[str],
    reading: "ReadOptions",
    model: "OnlineSNMF",
    steps: "Sequence[Step]" = (),
    limit: int | None = None,
) -> "Stream":
    """Open rows for a fitted model and the steps before it; refuse columns that they did not learn.

    Names are those of the first step, or of the model where steps have none but keep the features.
    """
    from hebbnmf.streams import open_stream

    stream = open_stream(list(data), options=reading, limit=limit)
    n_features = steps[0].n_features_in_ if steps else model.n_features_in_
    named = (step for step in [*steps, model] if hasattr(step, "feature_names_in_"))
    names = next((step.feature_names_in_ for step in named), None)
    stream.require(n_features, names if names is None or len(names) == n_features else None)
    return stream


def read_fitted(path: str) -> tuple["OnlineSNMF", "list[Step]"]:
    """Read a model that can respond, and its preprocessing."""
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence import read

    file = read(path)
    model = file.model
    if not isinstance(model, OnlineSNMF):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which cannot respond to new samples; "
            "fit an OnlineSNMF."
        )
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"{path} holds a model that has learned nothing yet.")
    return model, file.preprocessing


def report_bad_rows(stream: "Stream") -> None:
    """Say on standard error how many rows were left out."""
    if stream.n_bad_rows:
        last = f", the last at {stream.last_bad_row}" if stream.last_bad_row else ""
        say(f"bad rows left out: {stream.n_bad_rows}{last}", err=True)


def progress(description: str, total: int | None = None) -> "tqdm[Any]":
    """Make a progress bar of rows on standard error, silent where that is no terminal."""
    from tqdm import tqdm

    return tqdm(desc=description, total=total, unit=" rows", unit_scale=True, disable=None)
