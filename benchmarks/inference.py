"""Do frozen responses use all cores?"""

import time

import numpy as np
from joblib import cpu_count

from benchmarks.speed import per_sample
from benchmarks.timing import ratio, time_in_turn
from benchmarks.workloads import grown_network, whitened_patches


def cores(n_samples=8192):
    """`Network.respond` with one core against all of them."""
    X = whitened_patches(n_samples)
    net = grown_network(X, 256, 200.0, n_passes=1)
    seconds = time_in_turn(
        {"one core": lambda: net.respond(X, 1), "all cores": lambda: net.respond(X)},
        rounds=15,
        clock=time.perf_counter,
    )
    return {
        "workload": f"frozen responses n=m=256, {cpu_count()} cores",
        "microseconds": per_sample(seconds, n_samples),
        "ratios": {"one core / all cores": ratio(seconds, "one core", "all cores")},
        "equal": bool(np.array_equal(net.respond(X, 1).Y, net.respond(X).Y)),
    }
