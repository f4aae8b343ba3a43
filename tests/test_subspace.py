"""Networks of linear units: the oracle, and directions that fade."""

from functools import cache

import numpy as np
import pytest

from hebbnmf.learner import SubspaceSettings
from reference import online_subspace


@cache
def stream(n_samples=150, n=12):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_samples, n)) * np.geomspace(3, 0.1, n) @ rng.normal(size=(n, n)) + 1
    X.setflags(write=False)
    return X


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("memory", [None, 15, 0.2])
@pytest.mark.parametrize("m", [1, 4, 12, 15])
def test_every_response_equals_the_oracle_in_any_chunking(m, memory, center):
    X = stream()
    Y, A, B, mean = online_subspace(X.copy(), m, memory=memory, center=center)
    for size in (1, 7, 100):
        net = SubspaceSettings(m, memory, center).network(X.shape[1], float)
        chunks = [net.learn(X[i : i + size].copy()).Y for i in range(0, len(X), size)]
        responses = np.vstack([np.pad(y, ((0, 0), (0, m - y.shape[1]))) for y in chunks])
        np.testing.assert_allclose(responses, Y, rtol=0, atol=1e-7)
        np.testing.assert_allclose(net.learned.A, A, rtol=0, atol=1e-7 * A.max())
        np.testing.assert_allclose(net.learned.F, np.linalg.solve(A, B), rtol=0, atol=1e-7)
        np.testing.assert_allclose(net.learned.mean, mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("still", "n_left", "n_samples"), [(0.0, 0, 4000), (1.0, 1, 300)])
def test_directions_that_have_faded_make_room_for_new_ones(still, n_left, n_samples):
    X = stream()
    net, fresh = (SubspaceSettings(4, 5, False).network(12, float) for _ in range(2))
    net.learn(X)
    net.learn(np.full((n_samples, 12), still))
    assert (net.n_units, net.n_turns > 0) == (n_left, True)
    np.testing.assert_allclose(net.filters.sum(axis=1) ** 2, 12 * np.ones(n_left))
    net.learn(X)
    fresh.learn(X)
    assert net.n_units == 4
    np.testing.assert_allclose(net.principal_axes()[1], fresh.principal_axes()[1], rtol=0.5)
