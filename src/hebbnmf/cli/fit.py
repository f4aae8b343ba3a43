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
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.steps import Step
    from hebbnmf.streams import ReadOptions

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


# Classes of `hebbnmf.estimators`; their parameters are options, where they have those.
_MODELS = {
    "snmf": "OnlineSNMF",
    "pca": "OnlinePCA",
    "dictionary": "OnlineDictionary",
    "ica": "NonnegativeICA",
}


def _offset(ctx: click.Context, param: click.Parameter, text: str) -> float | str:
    return text if text.endswith("%") else click.FloatRange(min=0)(text, param, ctx)


_COUNT = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0, min_open=True)
_OPTIONS = (
    click.option(
        "--model",
        type=click.Choice(list(_MODELS)),
        default="snmf",
        help="Clusters and features, principal components, a sparse dictionary, or non-negative "
        "sources. Options that a model does not have are refused.",
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
        help="What is remembered: a number of samples, a share of the stream below 1, or all; by "
        "default 0.1; all for pca, 0.01 for ica.",
    ),
    click.option(
        "--alpha",
        type=click.FloatRange(min=0),
        default=0.5,
        help="For dictionary: threshold of a unit.",
    ),
    click.option("--positive-code", is_flag=True, help="For dictionary: non-negative codes."),
    click.option(
        "--center/--no-center", default=True, help="For pca: take the running mean from the rows."
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
        "--similarity-offset",
        callback=_offset,
        default="0",
        metavar="NUMBER|SHARE%",
        help="What is taken from every similarity, for units that tile a manifold: a number, or a "
        "share of the mean of |x|^2 such as 50%.",
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
    click.option("--scale", is_flag=True, help="Standardise each column first in a separate pass."),
    click.option("--whiten", is_flag=True, help="Whiten the rows first (ZCA), after any --scale."),
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
  $ hebbnmf fit rows.csv -o model.npz --n-components 3 --scale
  $ hebbnmf fit day1.csv day2.csv -o model.npz --columns a,b --epochs 2
  $ cat rows.csv | hebbnmf fit - -o model.npz --rank-penalty 0.1
  $ hebbnmf fit rows.csv -o model.npz --model pca --n-components 2 --memory 100
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
    _check_usage(data, output, o)
    from hebbnmf.streams import open_stream
    from hebbnmf.training import train

    _check_outputs(data, output, o)
    position = None
    if o["resume"]:
        model, steps, position = _read_checkpoint(ctx, o["checkpoint"])
    else:
        model, steps = _new_model(ctx), _fitted_steps(data, reading, o)
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


def _save(model: "OnlineEstimator", steps: "list[Step]", output: str) -> None:
    from hebbnmf.persistence import save

    save(model, output, preprocessing=steps)
    units, seen = model.n_components_, model.n_samples_seen_
    say(f"{output}: {units} units, {seen} samples seen", err=True)


def _check_usage(data: Sequence[str], output: str, o: Options) -> None:
    if o["checkpoint"] is None:
        for name in ("every", "every_seconds", "resume"):
            if o[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --checkpoint.")
    elif _are_one_file(o["checkpoint"], output):
        raise click.UsageError("--checkpoint and --output name one file: give each its own.")
    if o["watch"] and (o["shuffle"] or o["epochs"] > 1 or len(data) > 1):
        raise click.UsageError("--watch takes one file or -, without --shuffle and --epochs.")
    one_pass_source = next((p for p in data if p == "-" or Path(p).is_fifo()), None)
    if one_pass_source is not None and (o["whiten"] or o["scale"]) and not o["resume"]:
        raise click.UsageError(
            f"{'standard input' if one_pass_source == '-' else one_pass_source} can be read only "
            "once, but --whiten and --scale take separate passes: write the rows to a file first."
        )


def _are_one_file(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _new_model(ctx: click.Context) -> "OnlineEstimator":
    """Make the model that the options ask for; those not given have its own defaults."""
    from hebbnmf import estimators

    o = ctx.params
    kind = getattr(estimators, _MODELS[o["model"]])
    order = {"n_epochs": o["epochs"], "shuffle": o["shuffle"], "random_state": o["seed"]}
    given = {name: o[name] for name in _parameters_of_models() if _is_given(ctx, name)}
    for name in given.keys() - kind.setting_names():
        raise click.UsageError(
            f"--{name.replace('_', '-')} is no option of --model {o['model']}: leave it out."
        )
    model: OnlineEstimator = kind(**given, **order)
    return model


def _parameters_of_models() -> set[str]:
    """Return the names of the options that are parameters of some model's network."""
    from hebbnmf import estimators

    names = {
        name for kind in _MODELS.values() for name in getattr(estimators, kind).setting_names()
    }
    return names & {option.name for option in fit.params}


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


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


def _read_checkpoint(
    ctx: click.Context, path: str
) -> tuple["OnlineEstimator", "list[Step]", dict[str, Any]]:
    """Read a checkpoint; options that were given must be those that it was made with."""
    from hebbnmf.persistence import read_checkpoint

    model, steps, position = read_checkpoint(path)
    kinds = {type(step).__name__ for step in steps}
    stored = {**model.get_params(), "scale": "StandardScaler" in kinds}
    stored |= {"whiten": "ZCAWhitener" in kinds, "seed": stored["random_state"]}
    stored["model"] = next(kind for kind, name in _MODELS.items() if name == type(model).__name__)
    # A larger --epochs is allowed: training continues after the last one.
    for name in stored.keys() & ctx.params.keys():
        if _is_given(ctx, name) and ctx.params[name] != stored[name]:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is {ctx.params[name]!r}, but {path} was made with "
                f"{stored[name]!r}; resume it as it was begun."
            )
    return model, steps, position


def _n_seen(model: "OnlineEstimator") -> int:
    return model.n_samples_seen_ if model.__sklearn_is_fitted__() else 0


def _rows_left(model: "OnlineEstimator", limit: int | None) -> int | None:
    """Return how many rows a limited training may still learn."""
    return None if limit is None else max(limit - _n_seen(model), 0)


def _is_watched(model: "OnlineEstimator", o: Options) -> bool:
    """Return whether a model is to be saved at an interrupt, which is how watching ends."""
    return o["watch"] and model.__sklearn_is_fitted__()


def _kept(output: str, model: "OnlineEstimator", o: Options) -> str:
    if o["checkpoint"] is not None and os.path.exists(o["checkpoint"]):
        return f"run the same command with --resume to continue from {o['checkpoint']}"
    if _is_watched(model, o):
        return f"{output} is written"
    return "nothing is written" + ("" if o["checkpoint"] else ", for lack of a --checkpoint")
