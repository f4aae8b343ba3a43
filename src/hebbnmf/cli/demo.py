"""The command `demo`: three figures of the paper, in about a minute."""

from pathlib import Path

import click

from hebbnmf.cli.reproduce import OUT, run_figure
from hebbnmf.experiments import FIGURES


@click.command()
@OUT
def demo(out: Path) -> None:
    """Show what the network does: three figures of the paper, in about a minute."""
    for figure, quick in (("fig3", True), ("fig5", True), ("fig4", False)):
        click.secho(f"{figure}: {FIGURES[figure]}", bold=True)
        run_figure(figure, out, quick=quick)
