"""How fast is learning, against the floor, the plain loops and the peers?"""

import warnings
from copy import deepcopy

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


def engine_contestants(net, X):
    """Ours, the plain loop and the floor, on the same grown network."""
    plain, V = PlainLoop(net), net.state.V
    return {
        "ours": lambda: net.learn(X, keep=False),
        "ours with responses": lambda: net.learn(X),
        "plain loop": lambda: plain.learn(X),  # with responses, too
        "floor": lambda: product_floor(V, X),
    }


def in_both_precisions(X, m, rank_penalty, n_timed, **settings):
    """Grow a network on all samples; return it and the contestants, for the last of them."""
    contestants = {}
    for dtype, suffix in ((np.float32, ", float32"), (np.float64, "")):
        net = grown_network(X, m, rank_penalty, dtype=dtype, **settings)
        for name, call in engine_contestants(net, X[-n_timed:].astype(dtype)).items():
            contestants[name + suffix] = call
    return net, contestants


def peer_contestants(net, X):
    """What a user could take instead; the first round fits them."""
    m = net.n_units
    numpy_loop, river = NumpyLoop(net), RiverKMeans(n_clusters=m, seed=0)
    few = {name: X[: int(len(X) * share)] for name, share in SHARE.items()}
    rows = [dict(enumerate(x)) for x in few["river KMeans"]]
    settings = {"rank_penalty": 200.0, "memory": None, **SECTION_III_C}
    dictionary = {"fit_algorithm": "cd", "positive_code": True, "random_state": 0}
    peers = {
        "ours, partial_fit": (OnlineSNMF(m, **settings), X, 1024),
        "MiniBatchKMeans, 256": (MiniBatchKMeans(m, random_state=0), X, 256),
        "MiniBatchKMeans, 1024": (MiniBatchKMeans(m, random_state=0), X, 1024),
        "MiniBatchDictionaryLearning": (MiniBatchDictionaryLearning(m, **dictionary), X, 256),
        "MiniBatchNMF, |X|": (
            MiniBatchNMF(m, batch_size=256, random_state=0),
            np.abs(few["MiniBatchNMF, |X|"]),
            256,
        ),
        "IncrementalPCA": (IncrementalPCA(min(m, X.shape[1])), X, 256),
    }

    def partial_fit(model, data, size):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for start in range(0, len(data) - size + 1, size):
                model.partial_fit(data[start : start + size])

    return {
        "numpy loop": lambda: numpy_loop.learn(few["numpy loop"]),
        "river KMeans": lambda: [river.learn_one(row) for row in rows],
        **{name: (lambda parts=parts: partial_fit(*parts)) for name, parts in peers.items()},
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


def main_case(n_timed=2048):
    """Whitened natural patches, n = m = 256: the case of the paper, with every peer."""
    X = whitened_patches(4096)
    net, contestants = in_both_precisions(X, 256, 200.0, n_timed, **SECTION_III_C)
    contestants |= peer_contestants(net, X[-n_timed:])
    return row("patches n=m=256, III.C", time_in_turn(contestants, rounds=15), n_timed)


def other_cases():
    """The other sizes, without the peers. Samples are fewer where each takes long."""
    for name, X, m, rank_penalty, n_timed, rounds in (
        ("three Gaussians n=2 m=3", three_gaussians(10_000), 3, 0.6, 10_000, 61),
        *(
            (f"Laplace n=m={n}", laplace(8192, n), n, float(n), 8192 * 8 // n, 31)
            for n in (8, 16, 32, 64, 128)
        ),
        ("patches n=256 m=64", whitened_patches(4096), 64, 200.0, 2048, 15),
        ("patches n=256 m=1024", whitened_patches(4096), 1024, 0.0, 1024, 7),
        ("patches n=m=1024", whitened_patches(2048, 32), 1024, 0.0, 1024, 7),
    ):
        _, contestants = in_both_precisions(X, m, rank_penalty, n_timed)
        yield row(name, time_in_turn(contestants, rounds=rounds), n_timed)


def large_case(n_timed=288):
    """n = m = 4096 on few samples."""
    X = laplace(4800, 4096)
    _, contestants = in_both_precisions(X, 4096, 0.0, n_timed, n_passes=1)
    return row("Laplace n=m=4096", time_in_turn(contestants, rounds=3), n_timed)


def raw_cases(n_timed=1024):
    """Raw patches against whitened ones, and how many of 4,096 samples never settle."""
    for tol in (1e-4, 1e-6):
        unconverged, contestants = {}, {}
        for schedule, settings in SCHEDULES.items():
            for kind, patches in (("whitened", whitened_patches), ("raw", raw_patches)):
                X, name = patches(4096), f"{kind}, {schedule}"
                net = grown_network(X, 256, 200.0, tol=tol, **settings)
                unconverged[name] = net.learn(X, keep=False).n_unconverged
                contestants[name] = lambda net=net, X=X[-n_timed:]: net.learn(X, keep=False)
        seconds = time_in_turn(contestants, rounds=15)
        yield {
            "workload": f"raw and whitened patches n=m=256, tol={tol:g}",
            "microseconds": per_sample(seconds, n_timed),
            "ratios": {
                f"raw / whitened, {schedule}": ratio(
                    seconds, f"raw, {schedule}", f"whitened, {schedule}"
                )
                for schedule in SCHEDULES
            },
            "unconverged": unconverged,
        }


def forgetting(n_samples=2048):
    """Learning with memory against learning without, from the same network."""
    X = whitened_patches(n_samples)
    net = grown_network(X, 256, 200.0, **SECTION_III_C)
    forgetful = deepcopy(net)
    forgetful.rules = net.rules._replace(memory=20_000.0)
    seconds = time_in_turn(
        {
            "memory=20000": lambda: forgetful.learn(X, keep=False),
            "memory=None": lambda: net.learn(X, keep=False),
        },
        rounds=31,
    )
    return {
        "workload": "memory, patches n=m=256, III.C",
        "microseconds": per_sample(seconds, n_samples),
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
