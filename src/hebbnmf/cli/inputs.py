"""What the commands read: the options that say how, the streams they open, and models."""

import csv
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.compiling import compile_notice
from hebbnmf.cli.messages import say

if TYPE_CHECKING:
    from tqdm import tqdm

    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence import ModelFile
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


def parse_column(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> int | str | None:
    """Return a column by number, if the text is one, or by name."""
    return int(text) if text is not None and text.isdecimal() else text


def _columns(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> list[int | str | None] | None:
    if text is None:
        return None
    fields = next(csv.reader([text], skipinitialspace=True))
    return [parse_column(ctx, param, field.strip()) for field in fields]


def _delimiter(_ctx: click.Context, _param: click.Parameter, text: str | None) -> str | None:
    text = {"tab": "\t", "\\t": "\t", "space": " "}.get(text or "", text)
    if text is not None and (len(text) != 1 or text in '"\r\n'):
        raise click.BadParameter(f"{text!r} is not one character, tab or space.")
    return text


def _encoding(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    try:
        "".encode(text)
    except (LookupError, ValueError) as error:
        raise click.BadParameter(f"{text!r} is not an encoding that Python knows.") from error
    return text


_READ_OPTIONS = (
    click.option(
        "--columns",
        metavar="LIST",
        callback=_columns,
        help="Columns to read, by name or by number from 0, with commas between them.",
    ),
    click.option(
        "--drop",
        metavar="LIST",
        callback=_columns,
        help="Columns to leave out, as for --columns: an index, or text.",
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether CSV and TSV begin with a line of names; detected by default.",
    ),
    click.option(
        "--delimiter",
        metavar="SIGN",
        callback=_delimiter,
        help="What separates fields, also tab or space; by default a comma in CSV, a tab in TSV.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        default=".",
        help="The sign before the decimals of a number in CSV and TSV.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        callback=_encoding,
        default="utf-8",
        help="Encoding of text, such as latin-1 or utf-16.",
    ),
    click.option(
        "--missing",
        type=click.Choice(["skip", "mean", "zero"]),
        help="Leave out rows with missing values (empty, NaN, NA, null), or fill these in; a model "
        "remembers how it was trained. By default they are bad rows.",
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
    """Give a command the options that say how data are read, as one argument `reading`.

    A further one, `fill`, says how missing values are filled in: "mean", "zero" or not at all.
    """

    @wraps(command)
    def wrapped(*args: object, header: bool | None, missing: str | None, **others: object) -> None:
        from dataclasses import fields

        from hebbnmf.streams import ReadOptions

        fill = missing if missing in ("mean", "zero") else None
        others["header"] = "auto" if header is None else header
        others["missing"] = "keep" if fill else (missing or "raise")
        names = [field.name for field in fields(ReadOptions) if field.name in others]
        chosen: dict[str, Any] = {name: others.pop(name) for name in names}
        command(*args, reading=ReadOptions(**chosen), fill=fill, **others)

    return options(*_READ_OPTIONS)(wrapped)


def data_argument(command: Command) -> Command:
    """Give a command the argument DATA: files, patterns, or - for standard input."""
    return click.argument("data", nargs=-1, required=True, type=PATH)(command)


def open_data(
    data: Sequence[str],
    reading: "ReadOptions",
    model: "OnlineEstimator",
    steps: "Sequence[Step]" = (),
    limit: int | None = None,
) -> "Stream":
    """Open rows for a fitted model and the steps before it; refuse columns they did not learn."""
    from hebbnmf.streams import open_stream

    click.get_current_context().with_resource(compile_notice())
    stream = open_stream(list(data), options=reading, limit=limit)
    stream.require(*_columns_taken(model, steps))
    return stream


def _columns_taken(
    model: "OnlineEstimator", steps: "Sequence[Step]"
) -> tuple[int, "Sequence[str] | None"]:
    """Return the number of columns that a fitted model and the steps before it take, and the names.

    Names are those of the first step, or of the model where steps have none but keep the features.
    """
    n_columns = steps[0].n_features_in_ if steps else model.n_features_in_
    named = (step for step in [*steps, model] if hasattr(step, "feature_names_in_"))
    names = next((step.feature_names_in_ for step in named), None)
    return n_columns, names if names is None or len(names) == n_columns else None


def read_fitted(
    path: str, reading: "ReadOptions", fill: str | None
) -> tuple["OnlineEstimator", "list[Step]", "ReadOptions"]:
    """Read a model that can respond, the steps before it, and how its data are to be read.

    The model of a pipeline is its network, and the others are the steps.
    """
    file, reading = read_fitted_file(path, reading, fill)
    return file.model, file.preprocessing, reading


def read_fitted_file(
    path: str, reading: "ReadOptions", fill: str | None
) -> tuple["ModelFile", "ReadOptions"]:
    """Read the file of a model that can respond, and how its data are to be read."""
    from dataclasses import replace

    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence import read

    file = read(path)
    model = file.model
    if not isinstance(model, OnlineEstimator):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which cannot respond to new samples; "
            "fit another model."
        )
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"{path} holds a model that has learned nothing yet.")
    n_columns, names = _columns_taken(model, file.preprocessing)
    file, fills = _fill_in(path, file, fill, n_columns)
    if fills and reading.missing == "raise":
        reading = replace(reading, missing="keep")
    return file, replace(reading, learned=None if names is None else tuple(names))


def _fill_in(
    path: str, file: "ModelFile", fill: str | None, n_columns: int
) -> tuple["ModelFile", bool]:
    """Fill in missing values as asked for, or as the model was trained; say whether any are."""
    import numpy as np

    from hebbnmf.preprocessing import MissingFiller

    steps, names = file.preprocessing, file.step_names
    filler = next((step for step in steps if isinstance(step, MissingFiller)), None)
    if filler is None and fill == "mean":
        raise click.UsageError(
            f"--missing mean: {path} has learned no means to fill in; fit it with --missing mean, "
            "or take --missing zero or skip."
        )
    if filler is None and fill == "zero":
        filler = MissingFiller().fit(np.zeros((1, n_columns)))
        names = names and ["filler", *names]
        file = file._replace(preprocessing=[filler, *steps], step_names=names)
    if filler is not None and fill is not None:
        filler.with_mean = fill == "mean"
    return file, filler is not None


def report_bad_rows(stream: "Stream") -> None:
    """Say on standard error how many rows were left out."""
    if stream.n_bad_rows:
        last = f", the last at {stream.last_bad_row}" if stream.last_bad_row else ""
        say(f"bad rows left out: {stream.n_bad_rows}{last}", err=True)


def progress(description: str, total: int | None = None) -> "tqdm[Any]":
    """Make a progress bar of rows on standard error, silent where that is no terminal."""
    from tqdm import tqdm

    return tqdm(desc=description, total=total, unit=" rows", unit_scale=True, disable=None)
