"""The command `transform`: the responses of a trained network."""

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
  $ hebbnmf transform model.npz rows.csv -o responses.npy
  $ hebbnmf transform model.npz rows.csv | head -1
"""
)
@MODEL
@data_argument
@OUTPUT
@FORCE
@read_options
def transform(
    model: str, data: tuple[str, ...], output: str, force: bool, reading: "ReadOptions"
) -> None:
    """Write the activities of all units for each row.

    DATA are files, patterns, or - for standard input. Text has a line of names if DATA have one.
    """
    net, steps = read_fitted(model)
    if not net.n_components_:
        raise ValueError(
            f"{model} has no unit, and so no response; fit with a lower --rank-penalty."
        )
    names = [f"unit{i}" for i in range(net.n_components_)]
    check_responses_output(output, model, data, names, force=force)
    write_responses(net, steps, data, reading, output, names, lambda found: found.Y)
