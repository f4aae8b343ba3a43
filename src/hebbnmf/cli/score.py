"""The command `score`: how much of the similarities of rows a trained network explains."""

from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import (
    data_argument,
    open_data,
    progress,
    read_fitted,
    read_options,
    report_bad_rows,
)
from hebbnmf.cli.outputs import check_output
from hebbnmf.cli.responding import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hebbnmf.engine.state import FloatArray
    from hebbnmf.streams import ReadOptions


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf score model.npz rows.csv
  $ cat rows.csv | hebbnmf score model.npz -
"""
)
@MODEL
@data_argument
@read_options
def score(model: str, data: tuple[str, ...], reading: "ReadOptions", fill: str | None) -> None:
    """Print the explained similarity: the share of |X X'|^2 that the responses to DATA explain.

    1 if the responses have the inner products of the rows, 0 if all units are silent.
    """
    from hebbnmf.preprocessing import transform_rows

    check_output("-", [model, *data])
    net, steps, reading = read_fitted(model, reading, fill)
    if not hasattr(net, "score"):
        raise ValueError(f"{model} holds a {type(net).__name__}, which explains no similarity.")
    learner = net.learner_
    with open_data(data, reading, net, steps) as stream, progress("score", stream.total) as bar:
        n_rows = 0

        def prepared() -> "Iterator[FloatArray]":
            nonlocal n_rows
            for chunk in stream:
                yield learner.check_rows(transform_rows(steps, chunk))
                bar.update(len(chunk))
                n_rows += len(chunk)

        explained, n_unconverged = learner.score_chunks(prepared())
        report_bad_rows(stream)
    learner.warn_unconverged(n_unconverged, n_rows)
    click.echo(f"{explained:.6g}")
