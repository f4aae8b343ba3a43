"""The commands `reproduce` and `demo`: the figures of the paper."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from hebbnmf.experiments import FIGURES

_OUT = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="out",
    show_default=True,
    help="Folder for the pictures (PNG, SVG) and their numbers (JSON).",
)


@click.command(epilog="\b\n" + "\n".join(f"{name}  {title}" for name, title in FIGURES.items()))
@click.argument("figure", type=click.Choice(list(FIGURES)))
@click.option("--quick", is_flag=True, help="A smaller run: seconds instead of a minute.")
@_OUT
@click.option(
    "--images",
    type=click.Path(exists=True, path_type=Path),
    help="For fig4: a folder of pictures, a picture, a .npy or a .mat file.",
)
def reproduce(figure: str, quick: bool, out: Path, images: Path | None) -> None:
    """Compute a figure of the paper anew."""
    if images is not None and figure != "fig4":
        raise click.UsageError(f"--images is for fig4, which shows pictures; {figure} does not.")
    _reproduce(figure, out, quick=quick, **({} if images is None else {"images": images}))


@click.command()
@_OUT
def demo(out: Path) -> None:
    """Show what the network does: three figures of the paper, in about a minute."""
    for figure, quick in (("fig3", True), ("fig5", True), ("fig4", False)):
        click.secho(f"{figure}: {FIGURES[figure]}", bold=True)
        _reproduce(figure, out, quick=quick)


def _reproduce(figure: str, out: Path, **options: Any) -> None:
    # Before the computation: a folder that cannot be written is reported at once.
    out.mkdir(parents=True, exist_ok=True)
    report = import_module(f"hebbnmf.experiments.{figure}").run(**options)
    paths = report.save(out)
    for line in (*report.summary, *(f"wrote {path}" for path in paths)):
        click.echo(line)
