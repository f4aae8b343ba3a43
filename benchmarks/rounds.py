"""What do rounds cost: in cost (9), in filters and directions found, and in time on a cluster?"""

import pickle
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from unittest.mock import patch

import click
import numpy as np
from scipy.stats import ortho_group
from threadpoolctl import threadpool_limits

from benchmarks.timing import ratio, time_in_turn
from benchmarks.workloads import raw_patches
from hebbnmf import OnlineSNMF, StreamPipeline
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.distributed import fit, rounds
from hebbnmf.distributed.merging import merge
from hebbnmf.distributed.worker import learn_shard
from hebbnmf.engine.state import BLOCK
from hebbnmf.metrics import direction_alignment, fit_gabors
from hebbnmf.preprocessing import ZCAWhitener, image_filters

N_SAMPLES, N_HELD_OUT = 200_000, 5_000
SHARDS = (4, 16, 64)
PACES = (40, 10, 4, 1)
# As in docs/scaling.md, whose figures are those of the paper's schedules.
PAPER = {"rank_penalty": 1.0, "memory": None}
SLOW = {"initial_activity": 1000.0, "activity_gain": 0.01}  # section III.C


@cache
def patches(seed):
    raw = raw_patches(N_SAMPLES + N_HELD_OUT, seed=seed)
    whitener = ZCAWhitener().fit(raw)
    X = whitener.transform(raw)
    return X[:N_SAMPLES], X[N_SAMPLES:], whitener


def in_rounds(X, n_shards, pace=40, n_components=256, **settings):
    """Learn in rounds whose shards take turns on one machine.

    At 40 as `fit` chooses; else each round has one sample for so many seen, whatever is lost.
    """
    model = OnlineSNMF(n_components, **PAPER | settings)
    round_rows = None if pace == 40 else len(X)
    with ThreadPoolExecutor(1) as executor, patch.object(rounds, "_PACE", pace):
        return fit(model, X, executor, n_shards=n_shards, round_rows=round_rows)


def quality(seed, n_shards, pace=40, **settings):
    """Return explained similarity of held-out patches, share of Gabors, samples remembered."""
    X, held_out, whitener = patches(seed)
    model = in_rounds(X, n_shards, pace, **settings)
    gabors = fit_gabors(image_filters(model.components_, whitener)).explained > 0.5
    squares = np.square(model.transform(held_out)).sum(axis=1).mean()
    return model.score(held_out), gabors.mean(), model.cumulative_activity_.sum() / squares


def spread(values):
    return f"{np.mean(values):.3f} ({np.min(values):.3f} to {np.max(values):.3f})"


def round_length_and_shards(seeds, **schedule):
    """Compare with the serial run, for shards, and for rounds of a share of the samples seen."""
    click.echo(f"whitened patches, {schedule or 'plain schedule'}, data sets {list(seeds)}:")
    serial = np.array([quality(seed, 1, **schedule) for seed in seeds])
    click.echo(f"serial: explains {spread(serial[:, 0])}, Gabors {spread(serial[:, 1])}")
    for n_shards in SHARDS:
        for pace in PACES:
            found = np.array([quality(seed, n_shards, pace, **schedule) for seed in seeds])
            click.echo(
                f"{n_shards:4d} shards, rounds of 1/{pace:2d}: explain "
                f"{spread(found[:, 0] / serial[:, 0])} of serial, Gabors {spread(found[:, 1])}"
            )
    found = [
        (quality(seed, 64, n_epochs=5, **schedule), quality(seed, 1, n_epochs=5, **schedule))
        for seed in seeds[:2]
    ]
    for many, serial in found:
        click.echo(
            f"five passes, 64 shards: {many[0] / serial[0]:.3f} of serial, Gabors "
            f"{many[1]:.3f} instead of {serial[1]:.3f}; {serial[2]:.0f} samples remembered"
        )


def directions(seeds, n_samples=40_000, gain=0.1):
    """Share of the sparse directions that four shards find, beside the serial engine's."""
    click.echo(f"sparse directions, activity_gain={gain}, {n_samples} samples, {len(seeds)} seeds:")
    names = ("serial, order of shards", "rounds, chosen", "rounds of 1/4")
    in_turn = [
        np.arange(n_samples).reshape(4, -1)[:, t : t + BLOCK]
        for t in range(0, n_samples // 4, BLOCK)
    ]
    order = np.concatenate([rows.ravel() for rows in in_turn])
    for n in (2, 8, 16, 32):
        found = []
        for seed in seeds:
            A = ortho_group.rvs(n, random_state=seed)
            X = make_sparse_sources(n_samples, n, mixing=A, random_state=seed)
            settings = {"n_components": 2 * n, "activity_gain": gain}
            settings |= PAPER | {"rank_penalty": n**2}
            models = (
                OnlineSNMF(**settings).partial_fit(X),
                OnlineSNMF(**settings).partial_fit(X[order]),
                in_rounds(X, 4, **settings),
                in_rounds(X, 4, 4, **settings),
            )
            found.append([direction_alignment(net.components_, A.T).found for net in models])
        serial, *others = np.transpose(found)
        click.echo(f"{n:4d} dimensions, serial {serial.mean():.3f}")
        for name, one in zip(names, others, strict=True):
            error = np.std(one - serial, ddof=1) / np.sqrt(len(seeds))
            click.echo(f"     {name:24} {np.mean(one - serial):+.3f} +- {error:.3f}")


def speed():
    """Time of learning in two shards on two cores, against that in one process."""
    X = patches(0)[0]
    with (
        ThreadPoolExecutor(2) as threads,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes,
    ):
        contestants = {
            "serial": lambda: OnlineSNMF(256, **PAPER).partial_fit(X),
            "threads": lambda: fit(OnlineSNMF(256, **PAPER), X, threads, n_shards=2),
            "processes": lambda: fit(OnlineSNMF(256, **PAPER), X, processes, n_shards=2),
        }
        seconds = time_in_turn(contestants, rounds=3, clock=time.perf_counter)
    click.echo(
        f"{N_SAMPLES} samples, n = m = 256: {np.median(seconds['serial']):.2f} s in one process"
    )
    for name in ("threads", "processes"):
        click.echo(f"     two shards, {name}: {ratio(seconds, 'serial', name):.2f} times faster")


def learn_timed(packed, rows):
    network = pickle.loads(packed).network
    start = time.perf_counter()
    with threadpool_limits(1):
        network.learn(rows)
    return time.perf_counter() - start


def overhead(n_rows=20_000, n_rounds=15):
    """Time of a round on two worker processes beyond the learning of the slower one."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from hebbnmf.distributed.executors import run

    X = patches(0)[0][: 2 * n_rows]
    learner = OnlineSNMF(256, **PAPER).partial_fit(X).learner_
    packed = pickle.dumps(learner)
    with (
        LocalCluster(2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        halves = [client.scatter(X[:n_rows], workers=[0]), client.scatter(X[n_rows:], workers=[1])]
        lazy = [da.from_delayed(half, (n_rows, X.shape[1]), X.dtype) for half in halves]
        found = []
        for turn in range(n_rounds + 1):
            learning = max(client.gather(client.map(learn_timed, [packed] * 2, halves, pure=False)))
            start = time.perf_counter()
            packed_now = pickle.dumps((StreamPipeline([]), learner))
            arguments = [(lazy[0], 0), (lazy[1], n_rows)]
            merge(learner, run(client, learn_shard, packed_now, arguments))
            whole = time.perf_counter() - start
            if turn:
                found.append((learning, whole))
    learning, whole = np.median(found, axis=0)
    beyond = np.divide(*np.transpose(found)[::-1]) - 1
    click.echo(
        f"two shards of {n_rows} rows, n = m = 256: learning {learning:.3f} s, round {whole:.3f} s,"
        f" overhead {np.median(beyond):.1%} ({beyond.min():.1%} to {beyond.max():.1%});"
        f" {len(packed) / 1e6:.2f} MB sent to a worker"
    )
    outcome = learn_shard(packed_now, X[:720], n_rows)
    back = len(pickle.dumps(outcome))
    start = time.perf_counter()
    merge(learner, [outcome._replace(learned=learner.state)] + [outcome] * 100)
    each = (time.perf_counter() - start) / 100
    click.echo(f"{back / 1e6:.2f} MB sent back; merging takes {1e3 * each:.2f} ms a shard")


@click.command()
def main():
    """Measure the effect of rounds; about a quarter of an hour."""
    speed()
    overhead()  # not before: Dask changes the environment of the processes that follow
    # Held-out data: the pace of rounds was chosen on patches 0 to 6.
    directions(range(500, 560))
    sets = range(7, 10)
    round_length_and_shards(sets)
    round_length_and_shards(sets, **SLOW)
    round_length_and_shards(sets, memory=0.1)


if __name__ == "__main__":
    main()
