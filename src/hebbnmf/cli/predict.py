"""The command `predict`: the clusters that a trained network finds."""

from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import data_argument, read_fitted, read_options
from hebbnmf.cli.outputs import FORCE
from hebbnmf.cli.responding import MODEL, OUTPUT, check_responses_output, write_responses

if TYPE_CHECKING:
    from hebbnmf.streams import ReadOptions


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf predict model.npz rows.csv -o labels.csv
  $ cat rows.csv | hebbnmf predict model.npz - | sort | uniq -c
"""
)
@MODEL
@data_argument
@OUTPUT
@FORCE
@read_options
def predict(
    model: str, data: tuple[str, ...], output: str, force: bool, reading: "ReadOptions"
) -> None:
    """Write the unit that responds to each row most strongly.

    Rows to which no unit responds get -1. DATA are files, patterns, or - for standard input. Text
    has a line of names if DATA have one.
    """
    net, steps = read_fitted(model)
    if not hasattr(net, "predict"):
        raise ValueError(
            f"{model} holds a {type(net).__name__}, which names no clusters: use transform."
        )
    names = ["label"]
    check_responses_output(output, model, data, names, force=force)
    write_responses(net, steps, data, reading, output, names, lambda found: found.labels)
