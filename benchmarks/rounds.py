"""What do rounds cost: in explained similarity, for many shards, and in time, on a cluster?"""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.workloads import whitened_patches
from hebbnmf import OnlineSNMF
from hebbnmf.distributed import fit
from hebbnmf.distributed.merging import learn_shard, merge

N_SAMPLES, N_HELD_OUT = 200_000, 5_000
SHARDS = (4, 16, 64)
ROUNDS = (1_000, 5_000, 20_000)
SLOW = {"initial_activity": 1000.0, "activity_gain": 0.01}  # section III.C


@cache
def patches():
    X = whitened_patches(N_SAMPLES + N_HELD_OUT)
    return X[:N_SAMPLES], X[N_SAMPLES:]


def explained(n_shards, round_rows, n_samples=N_SAMPLES, **schedule):
    """Explained similarity of held-out patches, m = 256; the shards take turns on one machine."""
    X, held_out = patches()
    with ThreadPoolExecutor(1) as executor:
        model = OnlineSNMF(256, rank_penalty=1.0, **schedule)
        fit(model, X[:n_samples], executor, n_shards=n_shards, round_rows=round_rows)
    return model.score(held_out)


def round_length_and_shards(**schedule):
    """Share of the serial run's explained similarity, for shards and rounds of several sizes."""
    serial = explained(1, 10**9, **schedule)
    click.echo(f"serial: {serial:.4f}")
    for n_shards in SHARDS:
        for round_rows in ROUNDS:
            # A shard of fewer rows than this has one round, the same for all longer ones.
            if round_rows <= 2 * N_SAMPLES // n_shards:
                share = explained(n_shards, round_rows, **schedule) / serial
                click.echo(f"{n_shards:4d} shards, rounds of {round_rows:6d}: {share:.3f}")


def learn_timed(packed, rows):
    network = pickle.loads(packed)._network
    start = time.perf_counter()
    with threadpool_limits(1):
        network.learn(rows)
    return time.perf_counter() - start


def overhead(n_rows=20_000, n_rounds=3):
    """Time of a round on two worker processes beyond the learning of the slower one."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from hebbnmf.distributed.executors import run

    X = patches()[0][: 2 * n_rows]
    model = OnlineSNMF(256, rank_penalty=1.0).partial_fit(X)
    packed = pickle.dumps(model)
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
            packed_now = pickle.dumps(model)
            arguments = [(lazy[0], True), (lazy[1], False)]
            merge(model, run(client, learn_shard, packed_now, arguments))
            whole = time.perf_counter() - start
            if turn:
                found.append((learning, whole))
    learning, whole = np.median(found, axis=0)
    click.echo(
        f"two shards of {n_rows} rows, n = m = 256: learning {learning:.3f} s, round {whole:.3f} s,"
        f" overhead {whole / learning - 1:.1%}; {len(packed) / 1e6:.2f} MB sent to a worker"
    )
    outcome = learn_shard(packed, X[:720], False)
    back = len(pickle.dumps(outcome))
    start = time.perf_counter()
    merge(model, [outcome._replace(learned=model._network.state)] + [outcome] * 100)
    each = (time.perf_counter() - start) / 100
    click.echo(f"{back / 1e6:.2f} MB sent back; merging takes {1e3 * each:.2f} ms a shard")


@click.command()
@click.option("--schedules", is_flag=True, help="Also the schedule of section III.C.")
def main(schedules):
    """Measure the effect of rounds; about four minutes, seven with both schedules."""
    overhead()
    round_length_and_shards()
    if schedules:
        round_length_and_shards(**SLOW)


if __name__ == "__main__":
    main()
