"""The command `predict`: the clusters that a trained network finds."""

from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import read_fitted
from hebbnmf.cli.responding import respond_options, write_responses

if TYPE_CHECKING:
    from hebbnmf.streams import ReadOptions


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf predict model.npz rows.csv -o labels.csv
  $ hebbnmf predict model.npz rows.csv --on-bad-row skip --row-numbers
  $ cat rows.csv | hebbnmf predict model.npz - | sort | uniq -c
"""
)
@respond_options
def predict(
    model: str,
    data: tuple[str, ...],
    output: str,
    force: bool,
    row_numbers: bool,
    reading: "ReadOptions",
    fill: str | None,
) -> None:
    """Write the unit that responds to each row most strongly.

    Rows to which no unit responds get -1, and rows that are left out nothing. DATA are files,
    patterns, or - for standard input; columns are found by their names, if DATA and model have
    some. Text has a line of names if DATA have one.
    """
    fitted = read_fitted(model, reading, fill)
    if not hasattr(fitted[0], "predict"):
        raise ValueError(
            f"{model} holds a {type(fitted[0]).__name__}, which names no clusters: use transform."
        )
    write_responses(
        model,
        fitted,
        data,
        output,
        ["label"],
        lambda found: found.labels,
        row_numbers=row_numbers,
        force=force,
    )
