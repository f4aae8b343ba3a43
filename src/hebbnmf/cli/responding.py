"""What `transform` and `predict` share: rows through a fitted model into a file."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.inputs import PATH, open_data, progress, report_bad_rows
from hebbnmf.cli.outputs import check_output, open_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hebbnmf.engine.network import Responses
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions

MODEL = click.argument("model", type=PATH)
OUTPUT = click.option(
    "-o",
    "--output",
    type=PATH,
    default="-",
    help="File to write, .csv, .tsv, .jsonl, .npy or .parquet; CSV on standard output by default.",
)


def write_responses(
    model: "OnlineEstimator",
    steps: "list[Step]",
    data: Sequence[str],
    reading: "ReadOptions",
    output: str,
    names: list[str],
    values: "Callable[[Responses], NDArray[Any]]",
) -> None:
    """Write values of the responses, chunk by chunk, in columns of these names."""
    from hebbnmf.preprocessing import transform_rows

    check_output(output)
    learner = model.learner_
    n_unconverged = n_rows = 0
    with open_data(data, reading, model) as stream, progress("rows", stream.total) as bar:
        named = stream.feature_names is not None or output.endswith(".parquet")
        with open_output(output, names if named else None) as writer:
            for chunk in stream:
                responses = model.respond(learner.check_rows(transform_rows(steps, chunk)))
                writer.write(values(responses))
                bar.update(len(chunk))
                n_rows += len(chunk)
                n_unconverged += responses.n_unconverged
        report_bad_rows(stream)
    learner.warn_unconverged(n_unconverged, n_rows)
