"""Units with a threshold, signed and rectified: the oracle."""

from functools import cache

import numpy as np
import pytest

from hebbnmf import OnlineDictionary
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.engine.units import soft_threshold
from reference import online_snmf

MEMORIES = [None, 15, 0.1]


@cache
def stream(n=10):
    X = make_sparse_sources(120, n, random_state=2)
    X.setflags(write=False)
    return X


def exact(m, **parameters):
    return OnlineDictionary(m, tol=1e-12, max_sweeps=100_000, **parameters)


@pytest.mark.parametrize(
    ("net_input", "activity"), [(3.0, 2.0), (-3.0, -2.0), (0.5, 0.0), (-0.5, 0.0), (1.0, 0.0)]
)
def test_a_unit_is_silent_within_its_threshold(net_input, activity):
    assert soft_threshold(net_input, 1.0) == activity
    assert soft_threshold(net_input, 0.0) == net_input


@pytest.mark.parametrize("positive_code", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(("m", "alpha"), [(1, 0.5), (6, 0.0), (6, 0.5), (12, 1.0), (24, 1.0)])
def test_every_code_equals_the_oracle_in_any_chunking(m, alpha, memory, positive_code):
    X = stream()
    options = {"alpha": alpha, "memory": memory}
    Y, W, M, Yhat, _ = online_snmf(X.copy(), m, 0.0, signed=not positive_code, **options)
    assert (Y.min() < 0) != positive_code
    for size in (1, 7, len(X)):
        net = exact(m, positive_code=positive_code, **options)
        chunks = []
        for i in range(0, len(X), size):
            net.partial_fit(X[i : i + 1].copy())
            chunks.append(net.learner_.learn(X[i + 1 : i + size].copy(), keep=True).Y)
        np.testing.assert_allclose(net.feedforward_weights_, W, rtol=0, atol=1e-7)
        np.testing.assert_allclose(net.lateral_weights_, M, rtol=0, atol=1e-7)
        np.testing.assert_allclose(net.cumulative_activity_, Yhat, rtol=1e-7)
        codes = np.pad(chunks[-1], ((0, 0), (0, m - chunks[-1].shape[1])))
        np.testing.assert_allclose(codes, Y[len(X) - len(codes) :], rtol=0, atol=1e-7 * Y.max())
