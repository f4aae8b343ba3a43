"""The command `live`: learn, and show it on a page."""

import os
import sys
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.fit import (
    TRAINING_OPTIONS,
    Options,
    begin_training,
    check_outputs,
    check_usage,
)
from hebbnmf.cli.inputs import PATH, options, read_options, report_bad_rows
from hebbnmf.cli.messages import say
from hebbnmf.cli.outputs import FORCE
from hebbnmf.cli.signals import Interrupts

if TYPE_CHECKING:
    from hebbnmf.cli.fit import Begin
    from hebbnmf.live import LiveView
    from hebbnmf.streams import ReadOptions

_DEMO = "demo"
# What the demo learns with, unless the options say otherwise.
_DEMO_OPTIONS = {"n_components": 144, "epochs": 10**6, "shuffle": True, "seed": 0}
# Whole blocks of rows, and as few as make a lively page.
_CHUNK_BYTES = 1


def _shape(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) != 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise click.BadParameter(f"{text!r} is not a height and a width, such as 16x16.")
    return int(sides[0]), int(sides[1])


@click.command(
    epilog="""\b
Examples:
  hebbnmf live demo
  hebbnmf live rows.csv --n-components 20 --scale --epochs 5
  hebbnmf live patches.npy --shape 16x16 --whiten --checkpoint part.npz
  tail -f log.csv | hebbnmf live - --watch
  hebbnmf live lsl:type=EEG
"""
)
@click.argument("source", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, help="Model file to write at the end.")
@click.option(
    "--shape",
    metavar="HxW",
    callback=_shape,
    help="Show rows as pictures of this height and width.",
)
@click.option("--speed", type=click.FloatRange(min=0, min_open=True), help="Samples a second.")
@click.option("--host", default="127.0.0.1", help="Address to listen on; this machine alone.")
@click.option("--port", type=click.IntRange(0, 65535), default=8642, help="Port, or the next free.")
@click.option("--browser/--no-browser", default=True, help="Open the page.")
@options(*TRAINING_OPTIONS)
@FORCE
@read_options
@click.pass_context
def live(
    ctx: click.Context,
    /,
    source: tuple[str, ...],
    output: str | None,
    reading: "ReadOptions",
    fill: str | None,
    **o: Any,
) -> None:
    """Learn from SOURCE, and show on a page how the network learns.

    SOURCE is what `hebbnmf fit` takes: files, patterns, or - for standard input; or
    lsl:name=NAME, a stream of the Lab Streaming Layer; or demo, patches of natural images. The
    page is served on this machine alone, until Ctrl-C; a checkpoint is written if one is named.
    """
    check_usage(ctx, source, output, o)
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.live import LiveView
    from hebbnmf.live.demo import SHAPE, natural_patches
    from hebbnmf.persistence import save

    is_demo = source == (_DEMO,)
    if is_demo:
        _choose_for_demo(ctx, o)
        o["shape"] = SHAPE
    check_outputs(() if is_demo else source, output, o)
    begin = begin_training(ctx, source, reading, fill, o)
    if not isinstance(begin.model, OnlineSNMF):
        raise click.UsageError(
            "the page shows the network of --model snmf alone: leave out --model, --clusters and "
            "--kernel."
        )
    interrupts = ctx.ensure_object(Interrupts)
    interrupts.saves = True
    with LiveView(
        begin.model,
        shape=o["shape"],
        name="patches of natural images" if is_demo else ", ".join(map(_short_name, source)),
        checkpoint=o["checkpoint"] or "live.npz",
        speed=o["speed"],
        gentle=is_demo and o["speed"] is None,
        host=o["host"],
        port=o["port"],
    ) as view:
        _announce(view, o)
        data: Any = list(source)
        if is_demo:
            data, steps = natural_patches()
            begin = begin._replace(steps=steps)
        try:
            with suppress(KeyboardInterrupt):
                _train(view, data, begin, o, interrupts)
        finally:  # after a bad row too
            if output is not None and begin.model.__sklearn_is_fitted__():
                save(begin.model, output, preprocessing=begin.steps)
                say(f"{output}: {begin.model.n_components_} units", err=True)
        exit_code = interrupts.exit_code if interrupts.should_stop() else 0
        if not exit_code:
            say("The stream has ended; the page stays until Ctrl-C.", err=True)
            with suppress(KeyboardInterrupt):
                view.wait()
    if exit_code and o["checkpoint"] is not None and os.path.exists(o["checkpoint"]):
        say(f"{o['checkpoint']} is written; --resume continues from it.", err=True)
    ctx.exit(exit_code)


def _train(view: "LiveView", data: Any, begin: "Begin", o: Options, interrupts: Interrupts) -> None:
    """Learn the data under a view, to their end or until a signal."""
    from hebbnmf.streams import open_stream

    with open_stream(
        data,
        chunk_bytes=_CHUNK_BYTES,
        options=begin.reading,
        shuffle=o["shuffle"],
        random_state=o["seed"],
        epochs=o["epochs"],
        limit=begin.rows_left(o["limit"]),
        follow=o["watch"],
    ) as stream:
        try:
            view.train(
                stream,
                preprocessing=begin.steps,
                checkpoint=o["checkpoint"],
                position=begin.position,
                force=o["force"],
                every=o["every"],
                every_seconds=o["every_seconds"],
                should_stop=interrupts.should_stop,
            )
        finally:
            report_bad_rows(stream)


def _short_name(path: str) -> str:
    """Name a source for the title."""
    file, colons, member = path.partition("::")
    return {"-": "standard input"}.get(path, os.path.basename(file) + colons + member)


def _choose_for_demo(ctx: click.Context, o: Options) -> None:
    """Put the demo's settings in the place of defaults."""
    for name, value in _DEMO_OPTIONS.items():
        if ctx.get_parameter_source(name) != click.core.ParameterSource.COMMANDLINE:
            # As if given: a model keeps its own defaults for options that were not.
            o[name] = ctx.params[name] = value
            ctx.set_parameter_source(name, click.core.ParameterSource.COMMANDLINE)


def _announce(view: "LiveView", o: Options) -> None:
    """Say where the page is, and open it where there is a screen."""
    if o["port"] and view.port != o["port"]:
        say(f"Port {o['port']} is taken; using {view.port}.", err=True)
    say(f"The page: {view.url}", err=True)
    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if o["browser"] and has_screen:
        webbrowser.open(view.url)
