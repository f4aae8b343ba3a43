"""What `transform` and `predict` share: rows through a fitted model into a file."""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.inputs import (
    PATH,
    Command,
    data_argument,
    open_data,
    options,
    parse_column,
    progress,
    read_options,
    report_bad_rows,
)
from hebbnmf.cli.outputs import FORCE, check_rows_output, open_output

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hebbnmf.engine.network import Responses
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions

# Rows of an earlier output by whose values it is recognised.
_LOOK = 1000

MODEL = click.argument("model", type=PATH)
OUTPUT = click.option(
    "-o",
    "--output",
    type=PATH,
    default="-",
    help="File to write, .csv, .tsv, .jsonl, .npy or .parquet; CSV on standard output by default.",
)
IDS = click.option(
    "--ids",
    metavar="COLUMN",
    callback=parse_column,
    help="Column of DATA, by name or number, that goes to the output as it is.",
)
ROW_NUMBERS = click.option(
    "--row-numbers",
    is_flag=True,
    help="Begin with a column of row numbers, from 0, and leave bad rows out of the output too.",
)


def respond_options(command: Command) -> Command:
    """Give a command what those that write a response to each row have in common."""
    return options(MODEL, data_argument, OUTPUT, FORCE, IDS, ROW_NUMBERS, read_options)(command)


def write_responses(
    model_path: str,
    fitted: tuple["OnlineEstimator", "list[Step]", "ReadOptions"],
    data: Sequence[str],
    output: str,
    names: list[str],
    values: "Callable[[Responses], NDArray[Any]]",
    *,
    row_numbers: bool,
    force: bool,
) -> None:
    """Write values of the responses, chunk by chunk, in columns of these names.

    Rows that are left out stay empty, so that every line stands for the row of its number.
    Responses of before may be replaced.
    """
    from dataclasses import replace

    import numpy as np

    from hebbnmf.preprocessing import transform_rows

    model, steps, reading = fitted
    has_ids = reading.ids is not None
    leading = ["row"] * row_numbers + [str(reading.ids)] * has_ids
    ids_at = len(leading) - 1 if has_ids else None
    numbers = ["row"] * row_numbers + names
    check_rows_output(
        output,
        [model_path, *data],
        numbers_only=not leading,
        force=force,
        is_own=lambda path: any(_holds(path, numbers, ids_at, header) for header in (True, "auto")),
    )
    learner = model.learner_
    n_unconverged = n_rows = 0
    may_have_gaps = "skip" in (reading.on_bad_row, reading.missing) or reading.missing == "keep"
    reading = replace(reading, keep_places=True)
    with open_data(data, reading, model, steps) as stream, progress("rows", stream.total) as bar:
        named = stream.feature_names is not None or output.endswith(".parquet")
        with open_output(output, [*leading, *names] if named else None) as writer:
            for chunk in stream:
                good: NDArray[np.bool_] = np.asarray(~np.isnan(chunk).all(axis=1))
                rows = chunk[good]
                prepared = transform_rows(steps, rows) if len(rows) else rows
                responses = model.respond(learner.check_rows(prepared))
                found = values(responses)
                shown = good if row_numbers else np.ones_like(good)
                if may_have_gaps and not row_numbers:
                    found = _in_place(found, good)
                lead: list[Sequence[Any]] = [list(compress(stream.ids, shown))] * has_ids
                if row_numbers:
                    lead.insert(0, (n_rows + np.flatnonzero(shown)).tolist())
                writer.write(found, lead)
                bar.update(len(chunk))
                n_rows += len(chunk)
                n_unconverged += responses.n_unconverged
        report_bad_rows(stream)
    learner.warn_unconverged(n_unconverged, n_rows)


def _in_place(found: "NDArray[Any]", good: "NDArray[np.bool_]") -> "NDArray[Any]":
    """Put what was found for good rows in their places, with nothing in those of the others."""
    import numpy as np

    rows = np.zeros((len(good), *found.shape[1:]), found.dtype)
    rows[good] = found
    mask = np.zeros(rows.shape, bool)
    mask[~good] = True
    return np.ma.MaskedArray(rows, mask)


def _holds(path: str, names: list[str], ids_at: int | None, header: bool | str) -> bool:
    """Return whether a file holds columns of these names, or of such values if they have none.

    The column at `ids_at` may have any name and hold anything.
    """
    import numpy as np

    from hebbnmf.streams import open_stream

    source: Any = path
    try:
        if path.endswith(".npy"):  # labels have one dimension, which no stream reads
            array = np.load(path, mmap_mode="r")
            source = array.reshape(len(array), -1)
        with open_stream(
            source, limit=_LOOK, learnable=False, missing="keep", ids=ids_at, header=header
        ) as stream:
            if stream.feature_names is not None:
                return stream.feature_names == names
            rows = next(stream)
    except (ImportError, OSError, ValueError):
        return False
    if rows.shape[1] != len(names):
        return False
    filled = rows[~np.isnan(rows).all(axis=1)]
    counts = filled[:, [name in ("row", "label") for name in names]]
    least = [-1 if name == "label" else 0 for name in names]
    return bool((filled >= least).all() and (counts == np.floor(counts)).all())
