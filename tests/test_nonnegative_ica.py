"""NonnegativeICA: the oracle, sources that are found, and what scaling leaves alone."""

import numpy as np
import pytest

from hebbnmf import NonnegativeICA
from reference import separated_online


def mixtures(n_samples, n_sources, n, noise, seed):
    rng = np.random.default_rng(seed)
    sources = rng.random((n_samples, n_sources))
    X = sources @ rng.normal(size=(n_sources, n))
    return X + noise * rng.normal(size=X.shape), sources


@pytest.mark.parametrize("memory", [None, 0.1, 50])
def test_every_response_equals_the_oracle_in_any_chunking(memory):
    X, _ = mixtures(300, 3, 6, 0.1, seed=0)
    Y, W, M, _, _ = separated_online(X.copy(), 3, memory)
    for size in (1, 7, 100, 300):
        ica = NonnegativeICA(3, memory=memory, tol=1e-12, max_sweeps=100_000)
        for i in range(0, len(X), size):
            ica.partial_fit(X[i : i + size].copy())
        separation = ica.learner_.network.separation
        np.testing.assert_allclose(separation.components, W, rtol=0, atol=1e-6)
        np.testing.assert_allclose(separation.lateral_weights, M, rtol=0, atol=1e-6)
    again = NonnegativeICA(3, memory=memory, tol=1e-12, max_sweeps=100_000).partial_fit(X[:1])
    responses = again.learner_.learn(X[1:].copy()).Y
    np.testing.assert_allclose(responses, Y[1:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sources_are_found_up_to_order_and_scale(dtype):
    X, sources = mixtures(30_000, 3, 6, 0.01, seed=1)
    ica = NonnegativeICA(3).fit(X.astype(dtype))
    Y = ica.transform(X.astype(dtype))
    assert Y.dtype == dtype
    assert Y.min() >= 0
    similarity = np.corrcoef(Y.T, sources.T)[:3, 3:]
    assert sorted(similarity.argmax(axis=1)) == [0, 1, 2]
    assert similarity.max(axis=1).min() > 0.99
    np.testing.assert_allclose(Y.var(axis=0), 1, atol=0.1)
    order = similarity.argmax(axis=1)
    scale = sources[:, order].std(axis=0)
    mixing = np.linalg.lstsq(sources, X)[0].T[:, order] * scale
    np.testing.assert_allclose(ica.mixing_, mixing, atol=0.15)
    np.testing.assert_allclose(ica.components_ @ ica.mixing_, np.eye(3), atol=1e-4)


def test_whitened_samples_have_unit_covariance():
    X, _ = mixtures(20_000, 3, 6, 0.0, seed=2)
    Z = X @ NonnegativeICA(3).fit(X).whitening_.T
    np.testing.assert_allclose(np.cov(Z.T), np.eye(3), atol=0.02)


def test_a_scale_of_the_samples_changes_nothing():
    X, _ = mixtures(500, 3, 6, 0.1, seed=3)
    ica, scaled = NonnegativeICA(3).fit(X), NonnegativeICA(3).fit(2.0**40 * X)
    np.testing.assert_allclose(scaled.components_, 2.0**-40 * ica.components_, rtol=1e-6)
