"""How do time and memory grow with the number of units and of features?"""

import subprocess
import sys

import numpy as np

from benchmarks.speed import per_sample
from benchmarks.timing import time_in_turn
from benchmarks.workloads import grown_network, laplace

SIZES = (64, 128, 256, 512, 1024)
MEASURE_MEMORY = """
import sys
from pathlib import Path
import numpy as np
from hebbnmf import Network, Settings
from hebbnmf.datasets import make_sparse_sources
def memory(kind):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(kind + ":")[1].split()[0])
size = int(sys.argv[1])
X = make_sparse_sources(4 * size, size, random_state=0)
Network(8, Settings(8, memory=None).rules()).learn(np.ascontiguousarray(X[:100, :8]))
net = Network(size, Settings(size, rank_penalty=0.0, memory=None).rules())
net.learn(X, keep=False)
assert net.n_units == size
state = sum(array.nbytes for array in net.state)
Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
before = memory("VmRSS")
for start in range(0, len(X), 504):
    net.learn(X[start : start + 504], keep=False)
print((memory("VmHWM") - before) / state)
"""


def time_exponents():
    """Slope of log time a sample in log m (n = 256 fixed) and in log n (m = 256 fixed)."""
    found = {}
    for name, shapes in (
        ("m", [(256, size) for size in SIZES]),
        ("n", [(size, 256) for size in SIZES]),
    ):
        contestants = {}
        for n, m in shapes:
            X = laplace(2048, n)
            net = grown_network(X, m, 0.0)
            contestants[f"n={n} m={m}"] = lambda net=net, X=X: net.learn(X, keep=False)
        times = per_sample(time_in_turn(contestants, rounds=9), 2048)
        slope = np.polyfit(np.log(SIZES[1:]), np.log(list(times.values())[1:]), 1)[0]
        found[name] = {"microseconds": times, "exponent": float(slope)}
    return found


def memory_beyond_the_state(size=1024):
    """Peak memory of learning on a grown network, beyond state and data, in states."""
    command = [sys.executable, "-c", MEASURE_MEMORY, str(size)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
