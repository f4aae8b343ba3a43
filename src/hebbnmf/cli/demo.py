"""The command `demo`: three figures of the paper, in about a minute."""

from pathlib import Path

import click

from hebbnmf.cli.reproduce import OUT, run_figure
from hebbnmf.experiments import FIGURES


@click.command()
@click.option("--quick", is_flag=True, help="A shorter run of the longest figure, fig4.")
@OUT
def demo(quick: bool, out: Path) -> None:
    """Show what the network does: three figures of the paper, in about a minute.

    With fig4 comes an animation of its filters as they grow, fig4.gif.
    """
    for figure, short in (("fig3", True), ("fig5", True), ("fig4", quick)):
        click.secho(f"{figure}: {FIGURES[figure]}", bold=True)
        run_figure(figure, out, quick=short)
