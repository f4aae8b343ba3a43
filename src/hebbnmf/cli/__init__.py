"""The command `hebbnmf`. Imports that take seconds wait inside the commands."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import click

from hebbnmf.cli.convert import convert
from hebbnmf.cli.demo import demo
from hebbnmf.cli.fit import fit
from hebbnmf.cli.info import info
from hebbnmf.cli.messages import printable, say
from hebbnmf.cli.plot import plot
from hebbnmf.cli.predict import predict
from hebbnmf.cli.reproduce import reproduce
from hebbnmf.cli.signals import Interrupts
from hebbnmf.cli.transform import transform

__all__ = ["main"]

# Messages of the library name its parameters; here they are options.
_OPTIONS = {
    "on_bad_row='skip'": "--on-bad-row skip",
    "pass format,": "pass --format,",
    "pass width,": "pass --width,",
    "in this order, by columns": "in this order, by --columns",
    "with resume,": "with --resume,",
    "force=True": "--force",
}


class _Command(click.Group):
    """A group whose errors are one line each, and whose interrupts have the codes of a shell."""

    def invoke(self, ctx: click.Context) -> Any:
        with Interrupts() as ctx.obj, _short_warnings():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                click.echo("Interrupted.", err=True)
                return ctx.exit(ctx.obj.exit_code)
            except click.ClickException as error:
                vars(error)["message"] = printable(error.message)
                raise
            except (click.Abort, click.exceptions.Exit, BrokenPipeError):
                raise
            except Exception as error:
                if ctx.params["debug"]:
                    raise
                raise click.ClickException(_one_line(error)) from error


@click.group(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="""\b
Completion of commands and options, for bash (or zsh, fish):
  eval "$(_HEBBNMF_COMPLETE=bash_source hebbnmf)"
""",
)
@click.option("--debug", is_flag=True, help="Show where in the code an error arose.")
def main(debug: bool) -> None:  # noqa: ARG001  Read by the group itself.
    """Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""
    # Streams log bad rows at the end of an epoch; the commands report them in any case.
    logging.getLogger("hebbnmf").addHandler(logging.NullHandler())


for _command in (fit, transform, predict, info, plot, convert, reproduce, demo):
    main.add_command(_command)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError | ValueError | ImportError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    for phrase, option in _OPTIONS.items():
        text = text.replace(phrase, option)
    return printable(" ".join(" ".join([text, *getattr(error, "__notes__", [])]).split()))


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show each warning as one line, once."""
    shown = set()

    def show(message: Warning | str, *_: object) -> None:
        if (text := " ".join(str(message).split())) not in shown:
            shown.add(text)
            say(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = cast(Any, show)
        yield
