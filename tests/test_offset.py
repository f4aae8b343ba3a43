"""Similarities less an offset: the oracle, optimality, and scale."""

from functools import cache

import numpy as np
import pytest

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources
from reference import online_snmf


@cache
def stream(n):
    X = make_sparse_sources(150, n, random_state=2)
    X.setflags(write=False)
    return X


def exact(m, **parameters):
    return OnlineSNMF(m, tol=1e-12, max_sweeps=100_000, **parameters)


@pytest.mark.parametrize("penalty", [0.0, "auto"])
@pytest.mark.parametrize("memory", [None, 0.1, 30])
@pytest.mark.parametrize("offset", [2.0, "30%"])
@pytest.mark.parametrize(("n", "m"), [(4, 6), (12, 24)])
@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
def test_every_response_equals_the_oracle_in_any_chunking(dynamics, n, m, offset, memory, penalty):
    X = stream(n)
    options = {"memory": memory, "recycle": memory == 30}
    Y, W, M, Yhat, births = online_snmf(
        X.copy(), m, penalty, offset=offset, quartic=dynamics == "quartic", **options
    )
    K = np.count_nonzero(births >= 0)
    for size in (1, 7, 100):
        net = exact(m, rank_penalty=penalty, similarity_offset=offset, dynamics=dynamics, **options)
        chunks = [net.partial_fit_transform(X[i : i + size].copy()) for i in range(0, 150, size)]
        responses = np.vstack([np.pad(y, ((0, 0), (0, K - y.shape[1]))) for y in chunks])
        np.testing.assert_array_equal(net.unit_births_, births[:K])
        np.testing.assert_allclose(responses, Y[:, :K], rtol=0, atol=1e-7 * Y.max())
        np.testing.assert_allclose(net.components_, W[:K], rtol=0, atol=1e-7)
        np.testing.assert_allclose(net.lateral_weights_, M[:K, :K], rtol=0, atol=1e-7)
        np.testing.assert_allclose(net.cumulative_activity_, Yhat[:K], rtol=1e-7)


@pytest.mark.parametrize("m", [6, 24])
def test_frozen_responses_satisfy_their_optimality_conditions(m):
    X = stream(12)
    net = exact(m, similarity_offset="30%").fit(X)
    W, M, thresholds = net.components_, net.lateral_weights_, net.thresholds_
    assert (thresholds > 0).all()
    Y = net.transform(X)
    np.testing.assert_allclose(Y, np.maximum(X @ W.T - thresholds - Y @ M.T, 0), atol=1e-9)
    assert ((Y > 0).any(axis=0)).all()


def test_an_offset_may_be_set_later_and_taken_back():
    X = stream(12)
    late = exact(6, memory=None).partial_fit(X[:70])
    late.set_params(similarity_offset=1.0).partial_fit(X[70:])
    assert (late.thresholds_ > 0).any()
    again = late.set_params(similarity_offset=0.0).partial_fit(X)
    assert not again.thresholds_.any()
    assert again.components_.shape == (6, 12)


def test_a_share_needs_no_scale():
    X = stream(12)
    net, scaled = (exact(8, similarity_offset="40%").fit(Z) for Z in (X, 2.0**20 * X))
    np.testing.assert_allclose(scaled.components_, net.components_, rtol=1e-9)
    np.testing.assert_allclose(scaled.thresholds_, 2.0**20 * net.thresholds_, rtol=1e-9)


@pytest.mark.parametrize("bad", [-1.0, "x", "100%", "-5%", np.nan, None])
def test_a_bad_offset_is_refused(bad):
    with pytest.raises(ValueError, match=r"similarity_offset=.* cannot be used"):
        OnlineSNMF(similarity_offset=bad).fit(stream(4))
