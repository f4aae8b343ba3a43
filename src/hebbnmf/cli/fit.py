"""The command `fit`: learn from files and pipes."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hebbnmf.cli.compiling import compile_notice
from hebbnmf.cli.ending import Ending
from hebbnmf.cli.inputs import (
    PATH,
    data_argument,
    options,
    progress,
    read_fitted_file,
    read_options,
    report_bad_rows,
)
from hebbnmf.cli.messages import say
from hebbnmf.cli.outputs import FORCE, check_output
from hebbnmf.cli.preparing import WHITEN, filling, fitted_steps, parts
from hebbnmf.cli.signals import Interrupts
from hebbnmf.cli.summary import Watcher

if TYPE_CHECKING:
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.steps import Step
    from hebbnmf.pipeline import StreamPipeline
    from hebbnmf.streams import ReadOptions, Stream
    from hebbnmf.training.loop import Trainable

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


# Classes of `hebbnmf.estimators`; their parameters are options, where they have those.
_MODELS = {
    "snmf": "OnlineSNMF",
    "pca": "OnlinePCA",
    "dictionary": "OnlineDictionary",
    "ica": "NonnegativeICA",
}


def _offset(ctx: click.Context, param: click.Parameter, text: str) -> float | str:
    return text if text.endswith("%") else click.FloatRange(min=0)(text, param, ctx)


MEMORY = click.option(
    "--memory",
    callback=_memory,
    default="0.1",
    metavar="NUMBER|all",
    help="What is remembered: a number of samples, a share of the stream below 1, or all; by "
    "default 0.1; all for pca, 0.01 for ica.",
)
_COUNT = click.IntRange(min=1, max=10**15)
_POSITIVE = click.FloatRange(min=0, min_open=True)
TRAINING_OPTIONS = (
    click.option(
        "--model",
        type=click.Choice(list(_MODELS)),
        default="snmf",
        help="Clusters and features, principal components, a sparse dictionary, or non-negative "
        "sources. Options that a model does not have are refused.",
    ),
    click.option(
        "--clusters",
        type=_COUNT,
        help="Cluster the rows into at most this many clusters, in one pass and without further "
        "choices: the same as --scale --kernel rbf and as many units.",
    ),
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
    click.option(
        "--scale",
        is_flag=True,
        help="Standardise each column first: in a separate pass, or by running moments where DATA "
        "can be read only once or --kernel rbf is given.",
    ),
    WHITEN,
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
  $ hebbnmf fit rows.csv -o model.npz --clusters 10
  $ hebbnmf fit rows.csv -o model.npz --n-components 3 --scale
  $ hebbnmf fit day1.csv day2.csv -o model.npz --columns a,b --epochs 2
  $ hebbnmf fit day2.csv -o model.npz --continue model.npz
  $ cat rows.csv | hebbnmf fit - -o model.npz --rank-penalty 0.1
  $ hebbnmf fit rows.csv -o model.npz --model pca --n-components 2 --memory 100
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
    check_usage(ctx, data, output, o)
    check_outputs(data, output, o)
    if o["as_json"]:
        check_output("-", data)
    begin = begin_training(ctx, data, reading, fill, o)
    watcher = Watcher(suggest_scale=not begin.is_scaled)
    interrupts = ctx.ensure_object(Interrupts)
    interrupts.saves = True
    ending = Ending(begin, watcher, interrupts, output, o)
    try:
        _learn(begin, watcher, interrupts, data, o)
        if o["resume"] and not ending.has_learned():
            say(f"{', '.join(data)}: nothing is left to learn.", err=True)
        ending.ended()
    except KeyboardInterrupt:
        ending.interrupted()
        ctx.exit(interrupts.exit_code)
    except Exception as error:
        ending.failed(error)
        raise


def _learn(
    begin: "Begin", watcher: Watcher, interrupts: Interrupts, data: Sequence[str], o: Options
) -> None:
    """Learn the data to their end; raise KeyboardInterrupt at a signal."""
    from hebbnmf.streams import open_stream
    from hebbnmf.training import train

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
        try:
            with progress("fit", begin.total(stream, o["epochs"])) as bar:
                watcher.follow(stream, bar)
                train(
                    begin.model,
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
        finally:
            report_bad_rows(stream)
    if interrupts.should_stop():
        raise KeyboardInterrupt


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


def check_usage(ctx: click.Context, data: Sequence[str], output: str | None, o: Options) -> None:
    """Refuse options that do not go together, before work begins."""
    if o["checkpoint"] is None:
        for name in ("every", "every_seconds", "resume"):
            if o[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --checkpoint.")
    elif output is not None and _are_one_file(o["checkpoint"], output):
        raise click.UsageError("--checkpoint and --output name one file: give each its own.")
    if o["watch"] and (o["shuffle"] or o["epochs"] > 1 or len(data) > 1):
        raise click.UsageError("--watch takes one file or -, without --shuffle and --epochs.")
    prepares = o["clusters"] or o["scale"] or o["whiten"] or o["kernel"]
    if o["continued"] is not None and prepares:
        raise click.UsageError(
            f"--continue keeps the preprocessing of {o['continued']}: leave out --clusters, "
            "--scale, --whiten and --kernel, or fit a new model."
        )
    if o["clusters"] and _given(ctx, ["n_components"]):
        raise click.UsageError("--clusters and --n-components both bound the units: give one.")
    if o["clusters"] and o["model"] != "snmf":
        raise click.UsageError(
            f"--clusters is no option of --model {o['model']}: give one of them."
        )


def _are_one_file(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


# Classes of the step that --scale stands for.
_SCALERS = ("StandardScaler", "RunningScaler")


class Begin(NamedTuple):
    """What a training begins with."""

    model: "Trainable"
    steps: "list[Step]"  # before a model that is no pipeline
    reading: "ReadOptions"
    position: dict[str, Any] | None = None
    n_rows: int | None = None  # rows of an epoch, if a pass has counted them
    n_before: int = 0  # samples that the model had seen before this training began

    @property
    def network(self) -> "OnlineEstimator":
        """The model, or the last step of a pipeline."""
        return parts(self.model)[0]

    @property
    def all_steps(self) -> "list[Step]":
        """The steps before the network."""
        return [*self.steps, *parts(self.model)[1]]

    def n_learned(self) -> int:
        """Return how many rows this training has learned, before it was resumed too."""
        network = self.network
        n_seen = network.n_samples_seen_ if network.__sklearn_is_fitted__() else 0
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
        return any(type(step).__name__ in (*_SCALERS, "ZCAWhitener") for step in self.all_steps)


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
        if _learns_in_one_pass(data, fill, o):
            return Begin(_new_pipeline(ctx, fill), [], reading)
        steps, n_rows = fitted_steps(
            data, reading, fill=fill, scale=o["scale"], whiten=o["whiten"], limit=o["limit"]
        )
        return Begin(_new_model(ctx), steps, reading, n_rows=n_rows)
    if o["continued"] is not None:
        file, reading = read_fitted_file(o["continued"], reading, fill)
        network: OnlineEstimator = file.model
        network.set_params(**_given(ctx, network.get_params()), **_order(o))
        n_before = network.n_samples_seen_
        begin = (
            Begin(network, file.preprocessing, reading, n_before=n_before)
            if file.pipeline is None
            else Begin(file.pipeline, [], reading, n_before=n_before)
        )
    if o["resume"]:
        begin = _resumed(ctx, o["checkpoint"], reading)
        if reading.missing == "raise" and filling(begin.all_steps) is not None:
            begin = begin._replace(reading=replace(reading, missing="keep"))
    return begin


def _given(ctx: click.Context, names: Iterable[str]) -> Options:
    """Return the options of these names that were given on the command line."""
    line = click.core.ParameterSource.COMMANDLINE
    known = set(names) & ctx.params.keys()
    return {name: ctx.params[name] for name in known if ctx.get_parameter_source(name) == line}


def _order(o: Options) -> Options:
    """Return the parameters of the order in which rows are presented."""
    return {"n_epochs": o["epochs"], "shuffle": o["shuffle"], "random_state": o["seed"]}


def _new_model(ctx: click.Context) -> "OnlineEstimator":
    """Make the model that the options ask for; those not given have its own defaults."""
    from hebbnmf import estimators

    kind = getattr(estimators, _MODELS[ctx.params["model"]])
    given = _given(ctx, _parameters_of_models())
    if ctx.params["clusters"]:
        given["n_components"] = ctx.params["clusters"]
    for name in given.keys() - kind.setting_names():
        raise click.UsageError(
            f"--{name.replace('_', '-')} is no option of --model {ctx.params['model']}: "
            "leave it out."
        )
    model: OnlineEstimator = kind(**given, **_order(ctx.params))
    return model


def _learns_in_one_pass(data: Sequence[str], fill: str | None, o: Options) -> bool:
    """Return whether preprocessing learns as the network does, instead of in passes before it."""
    only_once = any(path == "-" or Path(path).is_fifo() for path in data)
    prepares = o["scale"] or o["whiten"] or fill
    return bool(o["clusters"] or o["kernel"] == "rbf" or (only_once and prepares))


def _new_pipeline(ctx: click.Context, fill: str | None) -> "StreamPipeline":
    """Make the steps that are asked for; for --clusters those of `make_online_clusterer`."""
    from hebbnmf.feature_map import RBFMap
    from hebbnmf.pipeline import StreamPipeline
    from hebbnmf.preprocessing import MissingFiller, RunningScaler, ZCAWhitener

    network: Any = _new_model(ctx)
    o = ctx.params
    kernel = o["kernel"] or ("rbf" if o["clusters"] else "linear")
    steps: list[tuple[str, Step]] = []
    if fill:
        steps.append(("filler", MissingFiller(with_mean=fill == "mean")))
    if o["scale"] or o["clusters"]:
        steps.append(("scaler", RunningScaler(network.memory)))
    if o["whiten"]:
        steps.append(("whitener", ZCAWhitener()))
    if kernel == "rbf":
        steps.append(("kernel", RBFMap(random_state=o["seed"])))
    return StreamPipeline([*steps, ("network", network)])


def _parameters_of_models() -> set[str]:
    """Return the names of the options that are parameters of some model's network."""
    from hebbnmf import estimators

    names = {
        name for kind in _MODELS.values() for name in getattr(estimators, kind).setting_names()
    }
    return names & {option.name for option in fit.params}


def _resumed(ctx: click.Context, path: str, reading: "ReadOptions") -> Begin:
    """Begin where a checkpoint stands; options that were given must be those it was made with."""
    from hebbnmf.persistence import read_checkpoint

    model, steps, position = read_checkpoint(path)
    begin = Begin(model, steps, reading, position, n_before=position.get("n_before", 0))
    network, kinds = begin.network, {type(step).__name__ for step in begin.all_steps}
    stored = {**network.get_params(), "scale": not kinds.isdisjoint(_SCALERS)}
    stored |= {"whiten": "ZCAWhitener" in kinds, "seed": stored["random_state"]}
    stored |= {"kernel": "rbf" if "RBFMap" in kinds else "linear"}
    stored |= {"clusters": stored["n_components"], "missing": filling(begin.all_steps)}
    stored["model"] = next(kind for kind, name in _MODELS.items() if name == type(network).__name__)
    # A larger --epochs is allowed: training continues after the last one. So are further skips.
    for name, value in _given(ctx, stored).items():
        if value not in (stored[name], "skip"):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is {value!r}, but {path} was made with "
                f"{stored[name]!r}; resume it as it was begun."
            )
    return begin
