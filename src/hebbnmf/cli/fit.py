"""The command `fit`: learn from files and pipes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.inputs import (
    PATH,
    data_argument,
    options,
    progress,
    read_options,
    report_bad_rows,
)
from hebbnmf.cli.messages import say
from hebbnmf.cli.outputs import FORCE, check_output
from hebbnmf.cli.signals import Interrupts

if TYPE_CHECKING:
    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.persistence.steps import Step
    from hebbnmf.pipeline import StreamPipeline
    from hebbnmf.streams import ReadOptions
    from hebbnmf.training.loop import Trainable

Options = dict[str, Any]  # values of the options, by name


def _penalty(ctx: click.Context, param: click.Parameter, text: str) -> float | str:
    return text if text == "auto" else click.FloatRange(min=0)(text, param, ctx)


def _memory(ctx: click.Context, param: click.Parameter, text: str) -> float | None:
    if text == "all":
        return None
    from hebbnmf.parameters import MEMORY

    memory = float(click.FLOAT(text, param, ctx))
    if not MEMORY.holds(memory):
        raise click.BadParameter(f"{text} is not {MEMORY.text}, or all.")
    return memory


_COUNT = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0, min_open=True)
_OPTIONS = (
    click.option(
        "--clusters",
        type=_COUNT,
        help="Cluster the rows into at most this many clusters, in one pass and without further "
        "choices: the same as --scale --kernel rbf and as many units.",
    ),
    click.option("--n-components", type=_COUNT, default=8, help="Units at most."),
    click.option(
        "--rank-penalty",
        callback=_penalty,
        default="auto",
        metavar="NUMBER|auto",
        help="Price of a further unit, on the scale of |x|^4; with auto the scale of the data "
        "plays no part.",
    ),
    click.option(
        "--memory",
        callback=_memory,
        default="0.1",
        metavar="NUMBER|all",
        help="What is remembered: a number of samples, a share of the stream below 1, or all.",
    ),
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
        type=_POSITIVE,
        default=1e-4,
        help="A response is final when no unit moves by more, relative to the strongest.",
    ),
    click.option("--max-sweeps", type=_COUNT, default=1000, help="Bound on the sweeps."),
    click.option("--track-cost", is_flag=True, help="Keep account of the cost (9); takes longer."),
    click.option("--epochs", type=_COUNT, default=1, help="Passes over DATA."),
    click.option("--shuffle", is_flag=True, help="Present the rows of each epoch in random order."),
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of that order."),
    click.option("--limit", type=_COUNT, help="Stop after this many rows, all epochs together."),
    click.option(
        "--watch",
        is_flag=True,
        help="Learn rows as they arrive, from a growing text file or a pipe, until interrupted; "
        "then save.",
    ),
    click.option(
        "--scale",
        is_flag=True,
        help="Standardise each column first: in a separate pass, or by running moments where DATA "
        "can be read only once or --kernel is given.",
    ),
    click.option(
        "--whiten",
        is_flag=True,
        help="Whiten the rows first (ZCA), after any --scale, in passes as --scale.",
    ),
    click.option(
        "--kernel",
        type=click.Choice(["rbf", "linear"]),
        help="Similarity of rows: a Gaussian of their distance, learned from the first of them, or "
        "their inner product, which is the default without --clusters.",
    ),
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
)


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf fit rows.csv -o model.npz --clusters 10
  $ hebbnmf fit rows.csv -o model.npz --n-components 3 --scale
  $ hebbnmf fit day1.csv day2.csv -o model.npz --columns a,b --epochs 2
  $ cat rows.csv | hebbnmf fit - -o model.npz --rank-penalty 0.1
  $ hebbnmf fit rows.npy -o model.npz --checkpoint part.npz --every 100
  $ hebbnmf fit rows.npy -o model.npz --checkpoint part.npz --resume
"""
)
@data_argument
@click.option("-o", "--output", type=PATH, required=True, help="Model file to write.")
@options(*_OPTIONS)
@FORCE
@read_options
@click.pass_context
def fit(
    ctx: click.Context, /, data: tuple[str, ...], output: str, reading: "ReadOptions", **o: Any
) -> None:
    """Learn from the rows of DATA, and write a model file.

    DATA are files (CSV, TSV, JSON lines, .npy, .npz, Parquet, Arrow, HDF5), patterns such as
    "day*.csv", or - for standard input. They are read in constant memory.
    """
    _check_usage(ctx, data, output, o)
    from hebbnmf.streams import open_stream
    from hebbnmf.training import train

    _check_outputs(data, output, o)
    position = None
    if o["resume"]:
        model, steps, position = _read_checkpoint(ctx, o["checkpoint"])
    elif _learns_in_one_pass(data, o):
        model, steps = _new_pipeline(o), []
    else:
        model, steps = _new_model(o), _fitted_steps(data, reading, o)
    n_before = _n_seen(model)
    interrupts = ctx.ensure_object(Interrupts)
    interrupts.saves, interrupted = True, False
    with open_stream(
        list(data),
        options=reading,
        shuffle=o["shuffle"],
        random_state=o["seed"],
        epochs=o["epochs"],
        limit=_rows_left(model, o["limit"]),
        follow=o["watch"],
    ) as stream:
        with progress("fit", stream.total) as bar:
            try:
                train(
                    model,
                    stream,
                    preprocessing=steps,
                    checkpoint=o["checkpoint"],
                    position=position,
                    force=o["force"],
                    every=o["every"],
                    every_seconds=o["every_seconds"],
                    on_progress=bar.update,
                    should_stop=interrupts.should_stop,
                )
            except KeyboardInterrupt:
                interrupted = True
            except Exception as error:
                if _n_seen(model) > n_before:
                    if o["watch"]:
                        _save(model, steps, output)
                    error.add_note(f"{_n_seen(model)} rows are learned: {_kept(output, model, o)}.")
                raise
        report_bad_rows(stream)
    interrupted = interrupted or interrupts.should_stop()
    if not interrupted or _is_watched(model, o):
        _save(model, steps, output)
    if interrupted:
        say(f"Interrupted: {_kept(output, model, o)}.", err=True)
        ctx.exit(interrupts.exit_code)


def _check_outputs(data: Sequence[str], output: str, o: Options) -> None:
    from hebbnmf.persistence.archives import is_archive
    from hebbnmf.streams import source_files
    from hebbnmf.training import check_checkpoint

    check_output(output, data, force=o["force"], is_own=is_archive)
    if o["checkpoint"] is not None:
        files, is_new = source_files(list(data)), not o["resume"]
        check_checkpoint(o["checkpoint"], files, is_new=is_new, force=o["force"])


def _save(model: "Trainable", steps: "list[Step]", output: str) -> None:
    from hebbnmf.persistence import save

    save(model, output, preprocessing=steps)
    network = _network(model)
    units, seen = network.n_components_, network.n_samples_seen_
    say(f"{output}: {units} units, {seen} samples seen", err=True)


def _check_usage(ctx: click.Context, data: Sequence[str], output: str, o: Options) -> None:
    if o["checkpoint"] is None:
        for name in ("every", "every_seconds", "resume"):
            if o[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --checkpoint.")
    elif _are_one_file(o["checkpoint"], output):
        raise click.UsageError("--checkpoint and --output name one file: give each its own.")
    if o["watch"] and (o["shuffle"] or o["epochs"] > 1 or len(data) > 1):
        raise click.UsageError("--watch takes one file or -, without --shuffle and --epochs.")
    if o["clusters"] and _is_given(ctx, "n_components"):
        raise click.UsageError("--clusters and --n-components both bound the units: give one.")


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def _learns_in_one_pass(data: Sequence[str], o: Options) -> bool:
    """Return whether preprocessing learns as the network does, instead of in passes before it."""
    only_once = any(p == "-" or Path(p).is_fifo() for p in data)
    return bool(
        o["clusters"] or o["kernel"] == "rbf" or (only_once and (o["scale"] or o["whiten"]))
    )


def _new_pipeline(o: Options) -> "StreamPipeline":
    """Make the steps that are asked for; for --clusters those of `make_online_clusterer`."""
    from hebbnmf.feature_map import RBFMap
    from hebbnmf.pipeline import StreamPipeline
    from hebbnmf.preprocessing import RunningScaler, ZCAWhitener

    network = _new_model(o)
    kernel = o["kernel"] or ("rbf" if o["clusters"] else "linear")
    steps: list[tuple[str, Step]] = []
    if o["scale"] or o["clusters"]:
        steps.append(("scaler", RunningScaler(network.memory)))
    if o["whiten"]:
        steps.append(("whitener", ZCAWhitener()))
    if kernel == "rbf":
        steps.append(("kernel", RBFMap(random_state=o["seed"])))
    return StreamPipeline([*steps, ("network", network)])


def _are_one_file(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _new_model(o: Options) -> "OnlineSNMF":
    from dataclasses import fields

    from hebbnmf.estimators import OnlineSNMF
    from hebbnmf.learner import Settings

    settings = {field.name: o[field.name] for field in fields(Settings)}
    settings["n_components"] = o["clusters"] or o["n_components"]
    order = {"n_epochs": o["epochs"], "shuffle": o["shuffle"], "random_state": o["seed"]}
    return OnlineSNMF(**settings, **order)


def _fitted_steps(data: Sequence[str], reading: "ReadOptions", o: Options) -> "list[Step]":
    """Fit the preprocessing, by one pass over the data for each step."""
    if not (o["scale"] or o["whiten"]):
        return []
    from sklearn.preprocessing import StandardScaler

    from hebbnmf.preprocessing import ZCAWhitener, transform_rows
    from hebbnmf.streams import open_stream

    steps: list[Step] = []
    for wanted, step in ((o["scale"], StandardScaler()), (o["whiten"], ZCAWhitener())):
        if not wanted:
            continue
        with (
            open_stream(list(data), options=reading, limit=o["limit"]) as stream,
            progress(type(step).__name__, stream.total) as bar,
        ):
            for chunk in stream:
                step.partial_fit(transform_rows(steps, chunk))
                bar.update(len(chunk))
        steps.append(step)
    return steps


def _network(model: "Trainable") -> "OnlineSNMF":
    """Return the network of a model: the last step of a pipeline."""
    from hebbnmf.estimators import OnlineSNMF

    return model if isinstance(model, OnlineSNMF) else model[-1]


def _read_checkpoint(
    ctx: click.Context, path: str
) -> tuple["Trainable", "list[Step]", dict[str, Any]]:
    """Read a checkpoint; options that were given must be those that it was made with."""
    from hebbnmf.persistence import read_checkpoint

    model, steps, position = read_checkpoint(path)
    network = _network(model)
    all_steps = steps if model is network else [step for _, step in model.steps]
    kinds = {type(step).__name__ for step in all_steps}
    stored = {**network.get_params(), "scale": bool(kinds & {"StandardScaler", "RunningScaler"})}
    stored |= {"whiten": "ZCAWhitener" in kinds, "seed": stored["random_state"]}
    stored |= {"kernel": "rbf" if "RBFMap" in kinds else "linear"}
    stored |= {"clusters": network.n_components}
    # A larger --epochs is allowed: training continues after the last one.
    for name in stored.keys() & ctx.params.keys():
        if _is_given(ctx, name) and ctx.params[name] != stored[name]:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is {ctx.params[name]!r}, but {path} was made with "
                f"{stored[name]!r}; resume it as it was begun."
            )
    return model, steps, position


def _n_seen(model: "Trainable") -> int:
    network = _network(model)
    return network.n_samples_seen_ if network.__sklearn_is_fitted__() else 0


def _rows_left(model: "Trainable", limit: int | None) -> int | None:
    """Return how many rows a limited training may still learn."""
    return None if limit is None else max(limit - _n_seen(model), 0)


def _is_watched(model: "Trainable", o: Options) -> bool:
    """Return whether a model is to be saved at an interrupt, which is how watching ends."""
    return o["watch"] and _network(model).__sklearn_is_fitted__()


def _kept(output: str, model: "Trainable", o: Options) -> str:
    if o["checkpoint"] is not None and os.path.exists(o["checkpoint"]):
        return f"run the same command with --resume to continue from {o['checkpoint']}"
    if _is_watched(model, o):
        return f"{output} is written"
    return "nothing is written" + ("" if o["checkpoint"] else ", for lack of a --checkpoint")
