"""How fast is learning, against the floor, the plain loops and the peers?"""

import warnings

import numpy as np
from river.cluster import KMeans as RiverKMeans
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import IncrementalPCA, MiniBatchDictionaryLearning, MiniBatchNMF
from sklearn.exceptions import ConvergenceWarning

from benchmarks.baselines import NumpyLoop, PlainLoop, product_floor
from benchmarks.timing import ratio, time_in_turn
from benchmarks.workloads import (
    grown_network,
    laplace,
    raw_patches,
    three_gaussians,
    whitened_patches,
)
from hebbnmf import OnlineSNMF

# The schedule of the paper's own run.
SECTION_III_C = {"initial_activity": 1000.0, "activity_gain": 0.01}
# Contestants so slow that they get only some of the samples; seconds are scaled up.
SHARE = {"numpy loop": 1 / 32, "river KMeans": 1 / 64}


def engine_contestants(X, m, rank_penalty, **settings):
    """Ours in both precisions, the plain loop and the floor, on the same grown network."""
    X_32 = X.astype(np.float32)
    net = grown_network(X, m, rank_penalty, **settings)
    net_32 = grown_network(X, m, rank_penalty, dtype=np.float32, **settings)
    plain = PlainLoop(net)
    return net, {
        "ours": lambda: net.learn(X),
        "ours, float32": lambda: net_32.learn(X_32),
        "plain loop": lambda: plain.learn(X),
        "floor": lambda: product_floor(net, X),
        "floor, float32": lambda: product_floor(net_32, X_32),
    }


def peer_contestants(net, X):
    """What a user could take instead, each already fitted once on the same data."""
    m = net.n_units
    numpy_loop = NumpyLoop(net)
    few = X[: int(len(X) * SHARE["numpy loop"])]
    peers = {
        "MiniBatchKMeans, 256": (MiniBatchKMeans(m, random_state=0), X, 256),
        "MiniBatchKMeans, 1024": (MiniBatchKMeans(m, random_state=0), X, 1024),
        "MiniBatchDictionaryLearning": (
            MiniBatchDictionaryLearning(
                m, batch_size=256, fit_algorithm="cd", positive_code=True, random_state=0
            ),
            X,
            256,
        ),
        "MiniBatchNMF, |X|": (MiniBatchNMF(m, batch_size=256, random_state=0), np.abs(X), 256),
        "IncrementalPCA": (IncrementalPCA(min(m, X.shape[1])), X, 256),
    }

    def partial_fit(model, data, size):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for start in range(0, len(data) - size + 1, size):
                model.partial_fit(data[start : start + size])

    river = RiverKMeans(n_clusters=m, seed=0)
    rows = [dict(enumerate(x)) for x in X[: int(len(X) * SHARE["river KMeans"])]]
    return {
        "numpy loop": lambda: numpy_loop.learn(few),
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
    found = {"workload": workload, "microseconds": per_sample(seconds, n_samples)}
    found["ratios"] = {
        "ours / floor": ratio(seconds, "ours", "floor"),
        "ours / floor, float32": ratio(seconds, "ours, float32", "floor, float32"),
        "float64 / float32": ratio(seconds, "ours", "ours, float32"),
    }
    for name in seconds:
        if "ours" not in name and "floor" not in name:
            found["ratios"][f"{name} / ours"] = ratio(seconds, name, "ours") / SHARE.get(name, 1)
    return found


def main_case(n_samples=4096):
    """Whitened natural patches, n = m = 256: the case of the paper, with every peer."""
    X = whitened_patches(n_samples)
    net, contestants = engine_contestants(X, 256, 200.0, **SECTION_III_C)
    contestants |= peer_contestants(net, X)
    return row("patches n=256 m=256", time_in_turn(contestants, rounds=5), n_samples)


def other_cases():
    """The other sizes, without the peers. Samples are fewer where each takes long."""
    for name, X, m, rank_penalty, rounds in (
        ("patches n=256 m=64", whitened_patches(4096), 64, 200.0, 7),
        ("patches n=256 m=1024", whitened_patches(4096), 1024, 0.0, 5),
        ("Laplace n=m=16", laplace(8192, 16), 16, 16.0, 7),
        ("Laplace n=m=64", laplace(8192, 64), 64, 64.0, 7),
        ("three Gaussians n=2 m=3", three_gaussians(10_000), 3, 0.6, 15),
        ("patches n=m=1024", whitened_patches(2048, 32), 1024, 0.0, 3),
    ):
        _, contestants = engine_contestants(X, m, rank_penalty)
        yield row(name, time_in_turn(contestants, rounds=rounds), len(X))


def large_case(n_samples=288):
    """n = m = 4096 on few samples; the network is grown on samples of its own."""
    X = laplace(4500 + n_samples, 4096)
    net = grown_network(X[:4500], 4096, 0.0, n_passes=1)
    rows = X[4500:]
    plain = PlainLoop(net)
    seconds = time_in_turn(
        {
            "ours": lambda: net.learn(rows),
            "plain loop": lambda: plain.learn(rows),
            "floor": lambda: product_floor(net, rows),
        },
        rounds=3,
    )
    return {
        "workload": "Laplace n=m=4096",
        "microseconds": per_sample(seconds, n_samples),
        "ratios": {
            "ours / floor": ratio(seconds, "ours", "floor"),
            "plain loop / ours": ratio(seconds, "plain loop", "ours"),
        },
    }


def slow_convergence(n_samples=4096):
    """Raw patches against whitened ones at tol = 1e-6, and how many samples never settle."""
    unconverged, contestants = {}, {}
    for schedule, settings in (("plain", {}), ("III.C", SECTION_III_C)):
        for kind, X in (("whitened", whitened_patches(n_samples)), ("raw", raw_patches(n_samples))):
            net = grown_network(X, 256, 200.0, tol=1e-6, **settings)
            unconverged[f"{kind}, {schedule}"] = net.learn(X).n_unconverged
            contestants[f"{kind}, {schedule}"] = lambda net=net, X=X: net.learn(X)
    seconds = time_in_turn(contestants, rounds=5)
    return {
        "workload": "raw patches, tol=1e-6",
        "microseconds": per_sample(seconds, n_samples),
        "ratios": {
            f"raw / whitened, {schedule}": ratio(
                seconds, f"raw, {schedule}", f"whitened, {schedule}"
            )
            for schedule in ("plain", "III.C")
        },
        "unconverged": unconverged,
    }


def single_rows(n_samples=1000):
    """One row at a time on a small network, through Network and through partial_fit."""
    X = three_gaussians(n_samples)
    rows = [x[None].copy() for x in X]
    net = grown_network(X, 3, 0.6)
    estimator = OnlineSNMF(3, rank_penalty=0.6, memory=None).fit(X)
    seconds = time_in_turn(
        {
            "chunk": lambda: net.learn(X),
            "Network.learn, a row": lambda: [net.learn(x) for x in rows],
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
