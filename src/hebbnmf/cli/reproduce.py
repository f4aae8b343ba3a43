"""The command `reproduce`: the figures of the paper."""

from importlib import import_module
from pathlib import Path

import click

from hebbnmf.cli.messages import say
from hebbnmf.experiments import FIGURES

OUT = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="out",
    help="Folder for the pictures (PNG, SVG) and their numbers (JSON).",
)


@click.command(epilog="\b\n" + "\n".join(f"{name}  {title}" for name, title in FIGURES.items()))
@click.argument("figure", type=click.Choice(list(FIGURES)))
@click.option("--quick", is_flag=True, help="A smaller run: seconds instead of a minute.")
@OUT
@click.option(
    "--images",
    type=click.Path(exists=True, path_type=Path),
    help="For fig4: a folder of pictures, a picture, a .npy or a .mat file.",
)
def reproduce(figure: str, quick: bool, out: Path, images: Path | None) -> None:
    """Reproduce a figure of the paper."""
    if images is not None and figure != "fig4":
        raise click.UsageError(f"--images is for fig4, which shows pictures; {figure} does not.")
    run_figure(figure, out, quick=quick, **({} if images is None else {"images": images}))


def run_figure(figure: str, out: Path, **options: bool | Path) -> None:
    """Compute a figure, write its files, and print its main numbers."""
    # Before the computation: a folder that cannot be written is reported at once.
    out.mkdir(parents=True, exist_ok=True)
    report = import_module(f"hebbnmf.experiments.{figure}").run(**options)
    paths = report.save(out)
    for line in (*report.summary, *(f"wrote {path}" for path in paths)):
        say(line)
