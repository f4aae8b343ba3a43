"""Do frozen answers use all cores?"""

from unittest.mock import patch

import numpy as np

from benchmarks.speed import per_sample
from benchmarks.timing import ratio, time_in_turn
from benchmarks.workloads import grown_network, whitened_patches
from hebbnmf.engine import network


def cores(n_samples=8192):
    """`Network.answer` with one core against all of them."""
    X = whitened_patches(n_samples)
    net = grown_network(X, 256, 200.0, n_passes=1)

    def on_one_core():
        with patch.object(network, "cpu_count", lambda: 1):
            net.answer(X)

    n_cores = network.cpu_count()
    seconds = time_in_turn({"one core": on_one_core, "all cores": lambda: net.answer(X)}, rounds=9)
    with patch.object(network, "cpu_count", lambda: 1):
        alone = net.answer(X)[0]
    return {
        "workload": f"frozen answers n=m=256, {n_cores} cores",
        "microseconds": per_sample(seconds, n_samples),
        "ratios": {"one core / all cores": ratio(seconds, "one core", "all cores")},
        "equal": bool(np.array_equal(alone, net.answer(X)[0])),
    }
