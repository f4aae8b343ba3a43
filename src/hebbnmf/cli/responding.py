"""What `transform` and `predict` share: rows through a fitted model into a file."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.inputs import PATH, open_data, progress, report_bad_rows
from hebbnmf.cli.outputs import check_rows_output, open_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hebbnmf.engine.network import Responses
    from hebbnmf.estimators import OnlineSNMF
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


def check_responses_output(
    output: str, model: str, data: Sequence[str], names: list[str], *, force: bool
) -> None:
    """Refuse, before work begins, an output that cannot be written or would destroy something.

    Responses of before, by the names of the columns, or by number and values, may be replaced.
    """
    inputs = [model, *data]
    check_rows_output(output, inputs, force=force, is_own=lambda path: _holds(path, names))


def _holds(path: str, names: list[str]) -> bool:
    """Return whether a file holds columns of these names, or of such values if they have none."""
    import numpy as np

    from hebbnmf.streams import open_stream

    source: Any = path
    try:
        if path.endswith(".npy"):  # labels have one dimension, which no stream reads
            array = np.load(path, mmap_mode="r")
            source = array.reshape(len(array), -1)
        with open_stream(source, limit=_LOOK) as stream:
            rows = next(stream)
    except (ImportError, OSError, ValueError):
        return False
    if stream.feature_names is not None:
        return stream.feature_names == names
    if names == ["label"]:
        return np.array_equal(rows, np.maximum(np.floor(rows[:, :1]), -1))
    return rows.shape[1] == len(names) and bool((rows >= 0).all())


def write_responses(
    model: "OnlineSNMF",
    steps: "list[Step]",
    data: Sequence[str],
    reading: "ReadOptions",
    output: str,
    names: list[str],
    values: "Callable[[Responses], NDArray[Any]]",
) -> None:
    """Write values of the responses, chunk by chunk, in columns of these names."""
    from hebbnmf.preprocessing import transform_rows

    learner = model.learner_
    n_unconverged = n_rows = 0
    with open_data(data, reading, model, steps) as stream, progress("rows", stream.total) as bar:
        named = stream.feature_names is not None or output.endswith(".parquet")
        with open_output(output, names if named else None) as writer:
            for chunk in stream:
                responses = learner.respond(learner.check_rows(transform_rows(steps, chunk)))
                writer.write(values(responses))
                bar.update(len(chunk))
                n_rows += len(chunk)
                n_unconverged += responses.n_unconverged
        report_bad_rows(stream)
    learner.warn_unconverged(n_unconverged, n_rows)
