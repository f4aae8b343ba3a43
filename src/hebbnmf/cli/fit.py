"""The command `fit`: learn from files and pipes."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hebbnmf.cli.compiling import compile_notice
from hebbnmf.cli.inputs import (
    PATH,
    data_argument,
    options,
    progress,
    read_fitted,
    read_options,
    report_bad_rows,
)
from hebbnmf.cli.messages import say
from hebbnmf.cli.outputs import FORCE, check_output
from hebbnmf.cli.preparing import SCALE, WHITEN, filling, fitted_steps
from hebbnmf.cli.signals import Interrupts
from hebbnmf.cli.summary import Watcher

if TYPE_CHECKING:
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions, Stream

Options = dict[str, Any]  # values of the options, by name


def parse_penalty(ctx: click.Context, param: click.Parameter, text: str) -> float | str:
    """Return a penalty, a number or "auto"."""
    return text if text == "auto" else click.FloatRange(min=0)(text, param, ctx)


def _memory(ctx: click.Context, param: click.Parameter, text: str) -> float | None:
    if text == "all":
        return None
    from hebbnmf.parameters import MEMORY

    memory = float(click.FLOAT(text, param, ctx))
    if not MEMORY.holds(memory):
        raise click.BadParameter(f"{text} is not {MEMORY.text}, or all.")
    return memory


MEMORY = click.option(
    "--memory",
    callback=_memory,
    default="0.1",
    metavar="NUMBER|all",
    help="What is remembered: a number of samples, a share of the stream below 1, or all.",
)
_COUNT = click.IntRange(min=1, max=10**15)
_POSITIVE = click.FloatRange(min=0, min_open=True)
TRAINING_OPTIONS = (
    click.option("--n-components", type=_COUNT, default=8, help="Units at most."),
    click.option(
        "--rank-penalty",
        callback=parse_penalty,
        default="auto",
        metavar="NUMBER|auto",
        help="Price of a further unit, on the scale of |x|^4; with auto the scale of the data "
        "plays no part.",
    ),
    MEMORY,
    click.option("--recycle", is_flag=True, help="Let new units replace weak ones."),
    click.option(
        "--initial-activity",
        type=_POSITIVE,
        help="Cumulative activity of a new unit; the square of its first activity by default.",
    ),
    click.option(
        "--activity-gain",
        type=_POSITIVE,
        default=1.0,
        help="Share of a squared activity that is added to cumulative activity.",
    ),
    click.option(
        "--dynamics",
        type=click.Choice(["rectified", "quartic"]),
        default="rectified",
        help="How units respond: Eq. (7) of the paper, or the exact Eq. (6).",
    ),
    click.option(
        "--tol",
        type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
        default=1e-4,
        help="A response is final when no unit moves by more, relative to the strongest.",
    ),
    click.option("--max-sweeps", type=_COUNT, default=1000, help="Bound on the sweeps."),
    click.option("--track-cost", is_flag=True, help="Keep account of the cost (9); takes longer."),
    click.option("--epochs", type=_COUNT, default=1, help="Passes over DATA."),
    click.option(
        "--shuffle",
        is_flag=True,
        help="Present the rows of each epoch in random order: those of .npy and HDF5 in any; those "
        "of text, Parquet and Arrow within windows of about 64 MB, since they are read in order.",
    ),
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of that order."),
    click.option("--limit", type=_COUNT, help="Stop after this many rows, all epochs together."),
    click.option(
        "--watch",
        is_flag=True,
        help="Learn rows as they arrive, from a growing text file or a pipe, until interrupted; "
        "then save.",
    ),
    SCALE,
    WHITEN,
    click.option(
        "--checkpoint",
        type=PATH,
        help="File that keeps model and position: on the way, when interrupted, on errors.",
    ),
    click.option("--every", type=_COUNT, help="Rows between checkpoints."),
    click.option(
        "--every-seconds",
        type=click.FloatRange(min=0),
        help="Seconds between checkpoints; 60 unless --every is given.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Continue from the checkpoint: the same command again, with this flag.",
    ),
    click.option(
        "--continue",
        "continued",
        type=PATH,
        metavar="MODEL",
        help="Begin with a model file instead of a new model: its units, preprocessing and "
        "parameters, but those given here.",
    ),
)


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf fit rows.csv -o model.npz --n-components 3 --scale
  $ hebbnmf fit day1.csv day2.csv -o model.npz --columns a,b --epochs 2
  $ hebbnmf fit day2.csv -o model.npz --continue model.npz
  $ cat rows.csv | hebbnmf fit - -o model.npz --rank-penalty 0.1
  $ hebbnmf fit rows.npy -o model.npz --checkpoint part.npz --every 100
  $ hebbnmf fit rows.npy -o model.npz --checkpoint part.npz --resume
"""
)
@data_argument
@click.option("-o", "--output", type=PATH, required=True, help="Model file to write.")
@options(*TRAINING_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Write the summary as JSON to stdout.")
@FORCE
@read_options
@click.pass_context
def fit(
    ctx: click.Context,
    /,
    data: tuple[str, ...],
    output: str,
    reading: "ReadOptions",
    fill: str | None,
    **o: Any,
) -> None:
    """Learn from the rows of DATA, and write a model file.

    DATA are files (CSV, TSV, JSON lines, .npy, .npz, Parquet, Arrow, HDF5), patterns such as
    "day*.csv", or - for standard input. They are read in constant memory.
    """
    check_usage(data, output, o)
    from hebbnmf.streams import open_stream
    from hebbnmf.training import train

    check_outputs(data, output, o)
    if o["as_json"]:
        check_output("-", data)
    begin = begin_training(ctx, data, reading, fill, o)
    model, n_before = begin.model, begin.n_learned()
    interrupts = ctx.ensure_object(Interrupts)
    interrupts.saves, interrupted = True, False
    with (
        compile_notice(),
        open_stream(
            list(data),
            options=begin.reading,
            shuffle=o["shuffle"],
            random_state=o["seed"],
            epochs=o["epochs"],
            limit=begin.rows_left(o["limit"]),
            follow=o["watch"],
        ) as stream,
    ):
        with progress("fit", begin.total(stream, o["epochs"])) as bar:
            watcher = Watcher(stream, bar, suggest_scale=not begin.is_scaled)
            try:
                train(
                    model,
                    stream,
                    preprocessing=begin.steps,
                    checkpoint=o["checkpoint"],
                    position=begin.position,
                    force=o["force"],
                    every=o["every"],
                    every_seconds=o["every_seconds"],
                    on_progress=watcher.on_progress,
                    on_rows=watcher.on_rows,
                    should_stop=interrupts.should_stop,
                )
            except KeyboardInterrupt:
                interrupted = True
            except Exception as error:
                n_learned = begin.n_learned()
                if n_learned > n_before:
                    if o["watch"]:
                        _save(begin, watcher, output, o)
                    error.add_note(f"{n_learned} rows are learned: {_kept(output, model, o)}.")
                raise
        report_bad_rows(stream)
    interrupted = interrupted or interrupts.should_stop()
    if not interrupted or _is_watched(model, o):
        _save(begin, watcher, output, o)
    if interrupted:
        say(f"Interrupted: {_kept(output, model, o)}.", err=True)
        ctx.exit(interrupts.exit_code)


def check_outputs(data: Sequence[str], output: str | None, o: Options) -> None:
    """Refuse outputs that cannot be written or that replace something, before work begins."""
    from hebbnmf.persistence.archives import is_archive
    from hebbnmf.streams import source_files
    from hebbnmf.training import check_checkpoint

    if output is not None:
        check_output(output, data, force=o["force"], is_own=is_archive)
    if o["checkpoint"] is not None:
        files = source_files([*data, *filter(None, [o["continued"]])])
        check_checkpoint(o["checkpoint"], files, is_new=not o["resume"], force=o["force"])


def _save(begin: "Begin", watcher: Watcher, output: str, o: Options) -> None:
    from hebbnmf.persistence import save

    save(begin.model, output, preprocessing=begin.steps)
    watcher.summarise(begin.model, output, as_json=o["as_json"])


def check_usage(data: Sequence[str], output: str | None, o: Options) -> None:
    """Refuse options that do not go together, before work begins."""
    if o["checkpoint"] is None:
        for name in ("every", "every_seconds", "resume"):
            if o[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --checkpoint.")
    elif output is not None and _are_one_file(o["checkpoint"], output):
        raise click.UsageError("--checkpoint and --output name one file: give each its own.")
    if o["watch"] and (o["shuffle"] or o["epochs"] > 1 or len(data) > 1):
        raise click.UsageError("--watch takes one file or -, without --shuffle and --epochs.")
    if o["continued"] is not None and (o["scale"] or o["whiten"]):
        raise click.UsageError(
            f"--continue keeps the preprocessing of {o['continued']}: leave out --scale and "
            "--whiten, or fit a new model."
        )


def _are_one_file(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


class Begin(NamedTuple):
    """What a training begins with."""

    model: "OnlineSNMF"
    steps: "list[Step]"
    reading: "ReadOptions"
    position: dict[str, Any] | None = None
    n_rows: int | None = None  # rows of an epoch, if a pass has counted them
    n_before: int = 0  # samples that the model had seen before this training began

    def n_learned(self) -> int:
        """Return how many rows this training has learned, before it was resumed too."""
        n_seen = self.model.n_samples_seen_ if self.model.__sklearn_is_fitted__() else 0
        return n_seen - self.n_before

    def rows_left(self, limit: int | None) -> int | None:
        """Return how many rows a limited training may still learn."""
        return None if limit is None else max(limit - self.n_learned(), 0)

    def total(self, stream: "Stream", epochs: int) -> int | None:
        """Return the number of rows to come; None where it is known only as they come."""
        if self.position is not None:  # which the training will seek
            return None
        counted = None if self.n_rows is None else self.n_rows * epochs
        return min((n for n in (stream.total, counted) if n is not None), default=None)

    @property
    def is_scaled(self) -> bool:
        """Return whether columns come standardised or whitened."""
        return any(type(step).__name__ in ("StandardScaler", "ZCAWhitener") for step in self.steps)


def begin_training(
    ctx: click.Context,
    data: Sequence[str],
    reading: "ReadOptions",
    fill: str | None,
    o: Options,
) -> Begin:
    """Begin anew, with a model file, or where a checkpoint stands."""
    from dataclasses import replace

    if o["continued"] is None and not o["resume"]:
        steps, n_rows = fitted_steps(
            data, reading, fill=fill, scale=o["scale"], whiten=o["whiten"], limit=o["limit"]
        )
        return Begin(_new_model(o), steps, reading, n_rows=n_rows)
    n_before = 0
    if o["continued"] is not None:
        model, steps, reading = read_fitted(o["continued"], reading, fill)
        model.set_params(**_given(ctx, model.get_params()), **_order(o))
        n_before = model.n_samples_seen_
    position = None
    if o["resume"]:
        model, steps, position = _read_checkpoint(ctx, o["checkpoint"])
        if reading.missing == "raise" and filling(steps) is not None:
            reading = replace(reading, missing="keep")
    return Begin(model, steps, reading, position, n_before=n_before)


def _given(ctx: click.Context, names: Iterable[str]) -> Options:
    """Return the options of these names that were given on the command line."""
    line = click.core.ParameterSource.COMMANDLINE
    known = set(names) & ctx.params.keys()
    return {name: ctx.params[name] for name in known if ctx.get_parameter_source(name) == line}


def _order(o: Options) -> Options:
    """Return the parameters of the order in which rows are presented."""
    return {"n_epochs": o["epochs"], "shuffle": o["shuffle"], "random_state": o["seed"]}


def _new_model(o: Options) -> "OnlineSNMF":
    from dataclasses import fields

    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.learner import Settings

    return OnlineSNMF(**{field.name: o[field.name] for field in fields(Settings)}, **_order(o))


def _read_checkpoint(
    ctx: click.Context, path: str
) -> tuple["OnlineSNMF", "list[Step]", dict[str, Any]]:
    """Read a checkpoint; options that were given must be those that it was made with."""
    from hebbnmf.persistence import read_checkpoint

    model, steps, position = read_checkpoint(path)
    kinds = {type(step).__name__ for step in steps}
    stored = {**model.get_params(), "scale": "StandardScaler" in kinds}
    stored |= {"whiten": "ZCAWhitener" in kinds, "seed": stored["random_state"]}
    stored["missing"] = filling(steps)
    # A larger --epochs is allowed: training continues after the last one. So are further skips.
    for name, value in _given(ctx, stored).items():
        if value not in (stored[name], "skip"):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is {value!r}, but {path} was made with "
                f"{stored[name]!r}; resume it as it was begun."
            )
    return model, steps, position


def _is_watched(model: "OnlineSNMF", o: Options) -> bool:
    """Return whether a model is to be saved at an interrupt, which is how watching ends."""
    return o["watch"] and model.__sklearn_is_fitted__()


def _kept(output: str, model: "OnlineSNMF", o: Options) -> str:
    if o["checkpoint"] is not None and os.path.exists(o["checkpoint"]):
        return f"run the same command with --resume to continue from {o['checkpoint']}"
    if _is_watched(model, o):
        return f"{output} is written"
    return "nothing is written" + ("" if o["checkpoint"] else ", for lack of a --checkpoint")
