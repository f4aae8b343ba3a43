"""How fast is learning, against the floor, the plain loops and the peers?"""

import warnings
from copy import deepcopy
from functools import partial
from itertools import cycle

import numpy as np
from river.cluster import KMeans as RiverKMeans
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, MiniBatchDictionaryLearning, MiniBatchNMF
from sklearn.exceptions import ConvergenceWarning

from benchmarks.baselines import NumpyLoop, PlainLoop, product_floor
from benchmarks.timing import ratio, time_in_turn
from benchmarks.workloads import (
    SCHEDULES,
    SECTION_III_C,
    grown_network,
    laplace,
    raw_patches,
    three_gaussians,
    whitened_patches,
)
from hebbnmf import OnlineSNMF

# Contestants so slow that they get only some of the samples; seconds are scaled up.
SHARE = {"numpy loop": 1 / 64, "river KMeans": 1 / 256, "MiniBatchNMF, |X|": 1 / 4}


def on_next_rows(call, X, size):
    """Return a function that goes on with the next rows of X each time.

    Always the same few would be learned by heart: ever more units respond to them.
    """
    chunks = cycle(np.split(X, len(X) // size))
    return lambda: call(next(chunks))


def engine_contestants(net, X, size):
    """Ours, the plain loop and the floor, from the same grown network."""
    calls = {
        "ours": partial(deepcopy(net).learn, keep=False),
        "ours with responses": deepcopy(net).learn,
        "plain loop": PlainLoop(net).learn,  # with responses, too
        "floor": partial(product_floor, net.state.V),
    }
    return {name: on_next_rows(call, X, size) for name, call in calls.items()}


def in_both_precisions(X, m, rank_penalty, size, **settings):
    """Grow a network in each precision; return the one in float64, and the contestants."""
    contestants = {}
    for dtype, suffix in ((np.float32, ", float32"), (np.float64, "")):
        net = grown_network(X, m, rank_penalty, dtype=dtype, **settings)
        for name, call in engine_contestants(net, X.astype(dtype), size).items():
            contestants[name + suffix] = call
    return net, contestants


def peer_contestants(net, X, size):
    """What a user could take instead; the first round, which is not counted, fits them."""
    m = net.n_units
    river = RiverKMeans(n_clusters=m, seed=0)
    settings = {"rank_penalty": 200.0, "memory": None, **SECTION_III_C}
    dictionary = {"fit_algorithm": "cd", "positive_code": True, "random_state": 0}

    def fit_batches(model, batch, rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for start in range(0, len(rows), batch):
                model.partial_fit(rows[start : start + batch])

    calls = {
        "numpy loop": NumpyLoop(net).learn,
        "river KMeans": lambda rows: [river.learn_one(dict(enumerate(x))) for x in rows],
    }
    for name, model, batch in (
        ("ours, partial_fit", OnlineSNMF(m, **settings).partial_fit(X), 1024),
        ("MiniBatchKMeans, 256", MiniBatchKMeans(m, random_state=0), 256),
        ("MiniBatchKMeans, 1024", MiniBatchKMeans(m, random_state=0), 1024),
        ("MiniBatchDictionaryLearning", MiniBatchDictionaryLearning(m, **dictionary), 256),
        ("MiniBatchNMF, |X|", MiniBatchNMF(m, batch_size=256, random_state=0), 256),
        ("IncrementalPCA", IncrementalPCA(min(m, X.shape[1])), 256),
    ):
        calls[name] = partial(fit_batches, model, batch)
    data = {"MiniBatchNMF, |X|": np.abs(X)}
    return {
        name: on_next_rows(call, data.get(name, X), int(size * SHARE.get(name, 1)))
        for name, call in calls.items()
    }


def per_sample(seconds, n_samples):
    return {
        name: 1e6 * float(np.median(values)) / (n_samples * SHARE.get(name, 1))
        for name, values in seconds.items()
    }


def row(workload, seconds, n_samples):
    """One row of the table: microseconds a sample, and the ratios that matter."""
    pairs = [
        (slow + suffix, fast + suffix)
        for suffix in ("", ", float32")
        for slow, fast in (
            ("ours", "floor"),
            ("plain loop", "ours with responses"),
            ("plain loop", "ours"),
        )
    ]
    pairs.append(("ours", "ours, float32"))
    known = {name for pair in pairs for name in pair}
    pairs += [(name, "ours") for name in seconds if name not in known]
    return {
        "workload": workload,
        "microseconds": per_sample(seconds, n_samples),
        "ratios": {
            f"{slow} / {fast}": ratio(seconds, slow, fast) / SHARE.get(slow, 1)
            for slow, fast in pairs
        },
    }


def main_case(size=2048):
    """Whitened natural patches, n = m = 256: the case of the paper, with every peer."""
    X = whitened_patches(16_384)
    net, contestants = in_both_precisions(X, 256, 200.0, size, **SECTION_III_C)
    contestants |= peer_contestants(net, X, size)
    return row("patches n=m=256, III.C", time_in_turn(contestants, rounds=15), size)


def other_cases():
    """The other sizes, without the peers. Samples are fewer where each takes long."""
    for name, X, m, rank_penalty, size, rounds in (
        ("three Gaussians n=2 m=3", three_gaussians(10_000), 3, 0.6, 10_000, 61),
        *(
            (f"Laplace n=m={n}", laplace(8192, n), n, float(n), 8192 * 8 // n, 31)
            for n in (8, 16, 32, 64, 128)
        ),
        ("patches n=256 m=64", whitened_patches(4096), 64, 200.0, 2048, 15),
        ("patches n=256 m=1024", whitened_patches(4096), 1024, 0.0, 1024, 7),
        ("patches n=m=1024", whitened_patches(2048, 32), 1024, 0.0, 1024, 7),
    ):
        _, contestants = in_both_precisions(X, m, rank_penalty, size)
        yield row(name, time_in_turn(contestants, rounds=rounds), size)


def large_case(size=288):
    """n = m = 4096 on few samples."""
    X = laplace(16 * size, 4096)
    _, contestants = in_both_precisions(X, 4096, 0.0, size, n_passes=1)
    return row("Laplace n=m=4096", time_in_turn(contestants, rounds=3), size)


def raw_cases(size=1024):
    """Raw patches against whitened ones, and how many of 16,384 samples never settle."""
    for tol in (1e-4, 1e-6):
        unconverged, contestants = {}, {}
        for schedule, settings in SCHEDULES.items():
            for kind, patches in (("whitened", whitened_patches), ("raw", raw_patches)):
                X, name = patches(16_384), f"{kind}, {schedule}"
                net = grown_network(X, 256, 200.0, tol=tol, **settings)
                unconverged[name] = net.learn(X, keep=False).n_unconverged
                contestants[name] = on_next_rows(partial(net.learn, keep=False), X, size)
        seconds = time_in_turn(contestants, rounds=15)
        yield {
            "workload": f"raw and whitened patches n=m=256, tol={tol:g}",
            "microseconds": per_sample(seconds, size),
            "ratios": {
                f"raw / whitened, {schedule}": ratio(
                    seconds, f"raw, {schedule}", f"whitened, {schedule}"
                )
                for schedule in SCHEDULES
            },
            "unconverged": unconverged,
        }


def forgetting(size=2048):
    """Learning with memory against learning without, each time from the same network.

    Later on they would differ: one that forgets goes on learning fast, and has more active units.
    """
    X = whitened_patches(16_384)
    net = grown_network(X, 256, 200.0, **SECTION_III_C)

    def learn(memory, rows):
        copy = deepcopy(net)
        copy.rules = net.rules._replace(memory=memory)
        copy.learn(rows, keep=False)

    seconds = time_in_turn(
        {
            name: on_next_rows(partial(learn, memory), X, size)
            for name, memory in (("memory=20000", 20_000.0), ("memory=None", 0.0))
        },
        rounds=31,
    )
    return {
        "workload": "memory, patches n=m=256, III.C",
        "microseconds": per_sample(seconds, size),
        "ratios": {"memory=20000 / memory=None": ratio(seconds, "memory=20000", "memory=None")},
    }


def single_rows(n_samples=1000):
    """One row at a time on a small network, through Network and through partial_fit."""
    X = three_gaussians(n_samples)
    rows = [x[None].copy() for x in X]
    net = grown_network(X, 3, 0.6)
    estimator = OnlineSNMF(3, rank_penalty=0.6, memory=None).fit(X)
    seconds = time_in_turn(
        {
            "chunk": lambda: net.learn(X, keep=False),
            "Network.learn, a row": lambda: [net.learn(x, keep=False) for x in rows],
            "partial_fit, a row": lambda: [estimator.partial_fit(x) for x in rows],
        },
        rounds=15,
    )
    return {
        "workload": "single rows n=2 m=3",
        "microseconds": per_sample(seconds, n_samples),
        "ratios": {
            f"{name} / chunk": ratio(seconds, name, "chunk")
            for name in ("Network.learn, a row", "partial_fit, a row")
        },
    }
