"""The command `tune`: how many units, at which penalty, by explained similarity."""

from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

import click

from hebbnmf.cli.compiling import compile_notice
from hebbnmf.cli.fit import MEMORY, parse_penalty
from hebbnmf.cli.inputs import PATH, data_argument, progress, read_options, report_bad_rows
from hebbnmf.cli.outputs import FORCE, check_output
from hebbnmf.cli.pictures import check_picture, save_picture
from hebbnmf.cli.preparing import SCALE, WHITEN, fitted_steps
from hebbnmf.cli.summary import Sample

if TYPE_CHECKING:
    from hebbnmf.engine.state import FloatArray
    from hebbnmf.streams import ReadOptions

# Fewer units are named as enough if they explain as much, but for this.
_NEARLY = 0.01


class _Trial(NamedTuple):
    """One network of the sweep."""

    n_components: int
    rank_penalty: float | str
    n_units: int
    explained: float


def _counts(_ctx: click.Context, _param: click.Parameter, text: str) -> list[int]:
    try:
        counts = [int(field) for field in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of numbers of units.") from error
    if min(counts) < 1:
        raise click.BadParameter("a network needs at least one unit.")
    return sorted(set(counts))


def _penalties(ctx: click.Context, param: click.Parameter, text: str) -> list[float | str]:
    return [parse_penalty(ctx, param, field.strip()) for field in text.split(",")]


@click.command(
    epilog="""\b
Examples:
  $ hebbnmf tune rows.csv --scale
  $ hebbnmf tune rows.csv -o tune.png --n-components 2,4,8 --rank-penalty auto,0.1,1
"""
)
@data_argument
@click.option("-o", "--output", type=PATH, help="Picture of the table: .png, .svg or .pdf.")
@click.option(
    "--n-components",
    metavar="LIST",
    callback=_counts,
    default="1,2,4,8,16,32",
    help="Numbers of units to try, with commas between them.",
)
@click.option(
    "--rank-penalty",
    metavar="LIST",
    callback=_penalties,
    default="auto,0",
    help="Penalties to try: numbers, on the scale of |x|^4, or auto.",
)
@MEMORY
@SCALE
@WHITEN
@FORCE
@read_options
def tune(
    data: tuple[str, ...],
    output: str | None,
    n_components: list[int],
    rank_penalty: list[float | str],
    memory: float | None,
    scale: bool,
    whiten: bool,
    force: bool,
    reading: "ReadOptions",
    fill: str | None,
) -> None:
    """Try numbers of units and penalties, and print what share of similarity each explains.

    Networks learn one half of at most 10000 rows, drawn at random from DATA, and respond to the
    other half. More units always explain more of what they learn: take as many as still add
    something on the other half.
    """
    check_output("-", data)
    if output is not None:
        check_picture(output, data, force=force)
    rows = _drawn_rows(data, reading, fill, scale=scale, whiten=whiten)
    if len(rows) < 4:
        raise ValueError(f"{len(rows)} rows are too few to learn one half and score the other.")
    trials = []
    with compile_notice(), progress("tune", len(n_components) * len(rank_penalty)) as bar:
        bar.unit = " networks"
        for penalty in rank_penalty:
            for count in n_components:
                trials.append(_try(rows, count, penalty, memory))
                bar.update()
    _print(trials)
    if output is not None:
        _draw(trials, output)


def _drawn_rows(
    data: tuple[str, ...], reading: "ReadOptions", fill: str | None, *, scale: bool, whiten: bool
) -> "FloatArray":
    from hebbnmf.learner import check_rows
    from hebbnmf.preprocessing import transform_rows
    from hebbnmf.streams import open_stream

    steps, n_rows = fitted_steps(data, reading, fill=fill, scale=scale, whiten=whiten)
    sample = Sample()
    with (
        open_stream(list(data), options=reading) as stream,
        progress("rows", stream.total or n_rows) as bar,
    ):
        for chunk in stream:
            sample.add(chunk)
            bar.update(len(chunk))
        report_bad_rows(stream)
    return check_rows(transform_rows(steps, sample.rows), reading.dtype)


def _try(rows: "FloatArray", count: int, penalty: float | str, memory: float | None) -> _Trial:
    import numpy as np

    from hebbnmf.learner import Learner, Settings

    order = np.random.default_rng(0).permutation(len(rows))  # files are often sorted
    learned, held_out = rows[order[::2]], rows[order[1::2]]
    settings = Settings(n_components=count, rank_penalty=penalty, memory=memory)
    learner = Learner(settings, rows.shape[1], rows.dtype)
    learner.learn(learned, keep=False)
    return _Trial(count, penalty, learner.network.n_units, learner.score(held_out)[0])


def _print(trials: list[_Trial]) -> None:
    click.echo("n_components  rank_penalty  units  explained similarity")
    for trial in trials:
        click.echo(
            f"{trial.n_components:>12}  {trial.rank_penalty!s:>12}  {trial.n_units:>5}  "
            f"{trial.explained:>20.4f}"
        )
    best = max(trial.explained for trial in trials)
    enough = min(
        (trial for trial in trials if trial.explained >= best - _NEARLY),
        key=lambda trial: (trial.n_units, trial.n_components),
    )
    click.echo(
        f"fewest units within {_NEARLY} of the best: --n-components {enough.n_components} "
        f"--rank-penalty {enough.rank_penalty}"
    )


def _draw(trials: list[_Trial], output: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    styles = zip(("-", "--", ":", "-."), "osD^", strict=True)
    for penalty, (line, marker) in zip(
        dict.fromkeys(trial.rank_penalty for trial in trials), cycle(styles), strict=False
    ):
        own = [trial for trial in trials if trial.rank_penalty == penalty]
        ax.plot(
            [trial.n_units for trial in own],
            [trial.explained for trial in own],
            line,
            marker=marker,
            label=f"rank penalty {penalty}",
        )
    ax.set(xlabel="units recruited", ylabel="explained similarity, rows not learned")
    ax.legend(loc="best")
    save_picture(figure, output)
