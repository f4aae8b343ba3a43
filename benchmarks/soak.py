"""A million samples: does the engine still give the responses of the plain loop, and float32?

Run with ``python -m benchmarks.soak``; it ends with a table of the largest differences.
"""

import click
import numpy as np
from tqdm import tqdm

from benchmarks.baselines import PlainLoop
from benchmarks.workloads import grown_network
from hebbnmf.datasets import make_sparse_sources

CHUNK = 7200


def chunks(n_samples, n):
    for seed in tqdm(range(n_samples // CHUNK), unit="chunk"):
        yield make_sparse_sources(CHUNK, n, random_state=1 + seed)


def grown(n, m, *, memory=None, dtype=np.float64, **settings):
    """Return a network that begins to forget only once it is grown.

    While a share of the stream is fewer samples than there are units, learning amplifies any
    difference: data changed by 1e-10 end in other weights, in whatever type.
    """
    X = make_sparse_sources(CHUNK, n, random_state=0)
    net = grown_network(X, m, 0.0, dtype=dtype, n_passes=1, **settings)
    net.rules = net.rules._replace(memory=float(memory or 0))
    return net


def against_the_plain_loop(n_samples, n, m, **schedule):
    net = grown(n, m, tol=1e-12, **schedule)
    plain = PlainLoop(net)
    worst = 0.0
    for X in chunks(n_samples, n):
        worst = max(worst, np.abs(net.learn(X).Y - plain.learn(X)).max())
    W, M = np.abs(net.components - plain.W).max(), np.abs(net.lateral_weights - plain.M_T.T).max()
    return "plain loop, largest", n, m, schedule, net.n_samples, worst, W, M


def float32_against_float64(n_samples, n, m, **schedule):
    double, single = (grown(n, m, dtype=t, tol=1e-6, **schedule) for t in (np.float64, np.float32))
    for X in chunks(n_samples, n):
        Y = double.learn(X).Y
        Y_32 = single.learn(X.astype(np.float32)).Y
    pairs = (
        (Y_32, Y),
        (single.components, double.components),
        (single.lateral_weights, double.lateral_weights),
    )
    gaps = (np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs)
    return "float32, relative", n, m, schedule, double.n_samples, *gaps


def print_table(rows):
    click.echo(f"{'difference':20}{'n':>4}{'m':>4}{'samples':>9}  {'y':8} {'W':8} {'M':8} schedule")
    for name, n, m, schedule, n_samples, *gaps in rows:
        numbers = " ".join(f"{gap:<8.1e}" for gap in gaps)
        settings = ", ".join(f"{key}={value}" for key, value in schedule.items())
        click.echo(f"{name:20}{n:>4}{m:>4}{n_samples:>9}  {numbers} {settings or 'plain'}")


@click.command()
@click.option("--samples", default=1_000_000, show_default=True)
def main(samples):
    """Compare the engine with the plain loop, and float32 with float64, over a long stream."""
    section_iii_c = {"initial_activity": 4000.0, "activity_gain": 0.01}
    rows = []
    for schedule in ({}, section_iii_c, {"memory": 1000}, {"memory": 0.1}):
        rows.append(against_the_plain_loop(samples, 16, 16, **schedule))
        rows.append(against_the_plain_loop(samples, 40, 80, **schedule))
        rows.append(float32_against_float64(samples, 40, 80, **schedule))
    print_table(rows)


if __name__ == "__main__":
    main()
