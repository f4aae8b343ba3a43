"""The command `hebbnmf`. Imports that take seconds wait inside the commands."""

import ast
import csv
import io
import logging
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import click

from hebbnmf import __version__
from hebbnmf.cli.convert import convert
from hebbnmf.cli.demo import demo
from hebbnmf.cli.fit import fit
from hebbnmf.cli.info import info
from hebbnmf.cli.live import live
from hebbnmf.cli.messages import printable, say
from hebbnmf.cli.plot import plot
from hebbnmf.cli.predict import predict
from hebbnmf.cli.reproduce import reproduce
from hebbnmf.cli.score import score
from hebbnmf.cli.signals import Interrupts
from hebbnmf.cli.transform import transform
from hebbnmf.cli.tune import tune

__all__ = ["main"]

# A column in the messages of the library: its number, or its name as Python writes it.
_COLUMN = r"""(?:\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# Messages of the library name its parameters; here they are options.
_OPTIONS: list[tuple[str, Callable[[re.Match[str]], str]]] = [
    (
        rf"\b(columns|drop)=\[({_COLUMN}(?:, {_COLUMN})*|\.\.\.)\]",
        lambda m: f"--{m[1]} {_listed(m[2])}",
    ),
    (r"\bon_bad_row='skip'", lambda _: "--on-bad-row skip"),
    (
        r"\bmissing='skip' to leave out and count such rows",
        lambda _: "--missing skip, mean or zero",
    ),
    (
        r"\b(delimiter|decimal|encoding)=('[^']*')",
        lambda m: f"--{m[1]} {_quoted(ast.literal_eval(m[2]))}",
    ),
    (r"\bheader=(True|False)", lambda m: "--header" if m[1] == "True" else "--no-header"),
    (
        r"\b([a-z_]+)=(\S+) cannot be used",
        lambda m: f"--{m[1].replace('_', '-')} {m[2]} cannot be used",
    ),
    (r"pass (format|width),", lambda m: f"pass --{m[1]},"),
    (r"in this order, by columns", lambda _: "in this order, by --columns"),
    (r"with resume,", lambda _: "with --resume,"),
    (r"\bforce=True", lambda _: "--force"),
    (
        r"\bcentre X, by RunningScaler in a StreamPipeline, or use make_online_clusterer,",
        lambda _: "centre it by --scale, or use --clusters,",
    ),
    (r"\bThe mean of X explains", lambda _: "The mean of DATA explains"),
]


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
@click.version_option(__version__, prog_name="hebbnmf")
@click.option("--debug", is_flag=True, help="Show where in the code an error arose.")
def main(debug: bool) -> None:  # noqa: ARG001  Read by the group itself.
    """Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""
    # Streams log bad rows at the end of an epoch; the commands report them in any case.
    logging.getLogger("hebbnmf").addHandler(logging.NullHandler())


for _command in (fit, tune, transform, predict, score, info, plot, convert, reproduce, demo, live):
    main.add_command(_command)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError | ValueError | ImportError):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    if notes := getattr(error, "__notes__", []):
        text = " ".join([text if text.endswith(".") else f"{text}.", *notes])
    return printable(_in_options(text))


def _in_options(text: str) -> str:
    """Write a message of the library in one line, with options for parameters."""
    for pattern, option in _OPTIONS:
        text = re.sub(pattern, option, text)
    return " ".join(text.split())


def _listed(text: str) -> str:
    """Write the items of a list of columns as an option takes them."""
    if text == "...":
        return "LIST"
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(ast.literal_eval(f"[{text}]"))
    return _quoted(line.getvalue())


def _quoted(text: str) -> str:
    return {"\t": "tab", " ": "space"}.get(text) or shlex.quote(text)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show each warning as one line, once."""
    shown = set()

    def show(message: Warning | str, *_: object) -> None:
        if (text := _in_options(str(message))) not in shown:
            shown.add(text)
            say(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = cast(Any, show)
        yield
