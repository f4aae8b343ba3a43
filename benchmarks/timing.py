"""Timing in turn: these machines are noisy, and only ratios within one run mean anything."""

import time

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm


def time_in_turn(contestants, *, rounds=7, threads=1, clock=time.process_time):
    """Return the seconds of each round for each contestant, all of them called once a round.

    ``contestants`` maps names to functions without arguments; a first round, not counted, warms
    compilers and caches. Seconds are those of the processor, since others want it as well; several
    threads or processes need ``clock=time.perf_counter``.
    """
    seconds = {name: [] for name in contestants}
    with threadpool_limits(threads):  # BLAS and OpenMP: MiniBatchKMeans uses both
        for turn in tqdm(range(rounds + 1), leave=False, unit="round"):
            for name, call in contestants.items():
                start = clock()
                call()
                if turn:
                    seconds[name].append(clock() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def ratio(seconds, slow, fast):
    """How many times faster: the median over rounds of their ratio within the round."""
    return float(np.median(seconds[slow] / seconds[fast]))
