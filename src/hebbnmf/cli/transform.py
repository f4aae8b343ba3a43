"""The command `transform`: the responses of a trained network."""

from typing import TYPE_CHECKING

import click

from hebbnmf.cli.inputs import read_fitted
from hebbnmf.cli.responding import respond_options, write_responses

if TYPE_CHECKING:
    from hebbnmf.streams import ReadOptions


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf transform model.npz rows.csv -o responses.npy
  $ hebbnmf transform model.npz rows.csv | head -1
"""
)
@respond_options
def transform(
    model: str,
    data: tuple[str, ...],
    output: str,
    force: bool,
    row_numbers: bool,
    reading: "ReadOptions",
    fill: str | None,
) -> None:
    """Write the activities of all units for each row.

    DATA are files, patterns, or - for standard input; columns are found by their names, if DATA
    and model have some. Text has a line of names if DATA have one.
    """
    net, steps, reading = read_fitted(model, reading, fill)
    if not net.n_components_:
        raise ValueError(
            f"{model} has no unit, and so no response; fit with a lower --rank-penalty."
        )
    write_responses(
        model,
        (net, steps, reading),
        data,
        output,
        [f"unit{i}" for i in range(net.n_components_)],
        lambda found: found.Y,
        row_numbers=row_numbers,
        force=force,
    )
