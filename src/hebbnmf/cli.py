"""The command `hebbnmf`. Imports that take seconds wait inside the commands."""

from importlib import import_module
from pathlib import Path

import click

from hebbnmf.experiments import FIGURES


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""


@main.command(epilog="\b\n" + "\n".join(f"{name}  {title}" for name, title in FIGURES.items()))
@click.argument("figure", type=click.Choice(list(FIGURES)))
@click.option("--quick", is_flag=True, help="Few data sets: seconds instead of a minute.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="out",
    show_default=True,
    help="Folder for the picture (PNG, SVG) and its numbers (JSON).",
)
def reproduce(figure: str, quick: bool, out: Path) -> None:
    """Compute a figure of the paper anew."""
    try:
        # Before the computation: a folder that cannot be written is reported at once.
        out.mkdir(parents=True, exist_ok=True)
        report = import_module(f"hebbnmf.experiments.{figure}").run(quick=quick)
        paths = report.save(out)
    except (OSError, ValueError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error
    for line in (*report.summary, *(f"wrote {path}" for path in paths)):
        click.echo(line)


if __name__ == "__main__":
    main()
