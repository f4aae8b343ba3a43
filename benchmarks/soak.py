"""A million samples: does the engine still give the responses of the plain loop, and float32?

Run with ``python -m benchmarks.soak``; it prints the largest difference of any weight.
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
    gap = np.abs(net.components - plain.W).max(), np.abs(net.lateral_weights - plain.M_T.T).max()
    click.echo(
        f"n={n} m={m} {schedule or 'plain'}: {net.n_samples} samples; largest difference of an "
        f"activity {worst:.1e}, of W {gap[0]:.1e}, of M {gap[1]:.1e}"
    )


def float32_against_float64(n_samples, n, m, **schedule):
    double, single = (grown(n, m, dtype=t, tol=1e-6, **schedule) for t in (np.float64, np.float32))
    for X in chunks(n_samples, n):
        Y = double.learn(X).Y
        Y_32 = single.learn(X.astype(np.float32)).Y
    error = np.linalg.norm(Y_32 - Y) / np.linalg.norm(Y)
    gap = np.linalg.norm(single.components - double.components) / np.linalg.norm(double.components)
    click.echo(
        f"float32, n={n} m={m} {schedule or 'plain'}: {double.n_samples} samples; relative "
        f"difference of the last responses {error:.1e}, of W {gap:.1e}"
    )


@click.command()
@click.option("--samples", default=1_000_000, show_default=True)
def main(samples):
    """Compare the engine with the plain loop, and float32 with float64, over a long stream."""
    section_iii_c = {"initial_activity": 4000.0, "activity_gain": 0.01}
    for schedule in ({}, section_iii_c, {"memory": 1000}, {"memory": 0.1}):
        against_the_plain_loop(samples, 16, 16, **schedule)
        against_the_plain_loop(samples, 40, 80, **schedule)
        float32_against_float64(samples, 40, 80, **schedule)


if __name__ == "__main__":
    main()
