"""OnlinePCA: the laws of linear units, and the face of IncrementalPCA."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from hebbnmf import OnlinePCA
from reference import discount_of

MEMORIES = [None, 15, 0.2]


@cache
def stream(n_samples=150, n=12):
    rng = np.random.default_rng(3)
    axes = ortho_group.rvs(n, random_state=1)
    X = rng.normal(size=(n_samples, n)) * np.geomspace(3, 0.1, n) @ axes + rng.normal(size=n)
    X.setflags(write=False)
    return X


def spiked(n_samples, n, m, seed):
    """Return samples with m directions of large variance, and these."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n, m)))[0].T
    noise = 0.05 * rng.normal(size=(n_samples, n))
    return rng.normal(size=(n_samples, m)) * np.linspace(1, 0.7, m) @ basis + noise, basis


def subspace_error(components, basis):
    return np.linalg.norm(components.T @ components - basis.T @ basis) ** 2 / len(basis)


@pytest.mark.parametrize("memory", MEMORIES)
def test_mean_and_variance_are_the_discounted_ones(memory):
    X = stream()
    w = np.array([np.prod([discount_of(u, memory) for u in range(t + 1, 150)]) for t in range(150)])
    mean = w @ X / w.sum()
    scatter = w @ np.square(X - mean).sum(axis=1)
    pca = OnlinePCA(3, memory=memory).fit(X)
    np.testing.assert_allclose(pca.mean_, mean, rtol=1e-10)
    whole = pca.explained_variance_.sum() / pca.explained_variance_ratio_.sum()
    np.testing.assert_allclose(whole, scatter / (w.sum() - 1), rtol=1e-10)


@pytest.mark.parametrize("rank", [2, 5])
def test_data_of_no_more_dimensions_than_units_give_the_pca_of_the_whole(rank):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, rank)) * np.arange(1, rank + 1) @ rng.normal(size=(rank, 9)) + 5
    pca, batch = OnlinePCA(5).partial_fit(X[:1]).partial_fit(X[1:]), PCA(rank).fit(X)
    assert pca.n_components_ == rank
    signs = np.sign(np.sum(pca.components_ * batch.components_, axis=1))
    np.testing.assert_allclose(pca.components_, signs[:, None] * batch.components_, atol=1e-8)
    np.testing.assert_allclose(pca.explained_variance_, batch.explained_variance_)
    np.testing.assert_allclose(pca.explained_variance_ratio_, batch.explained_variance_ratio_)
    np.testing.assert_allclose(pca.singular_values_, batch.singular_values_)
    np.testing.assert_allclose(pca.noise_variance_, batch.noise_variance_, atol=1e-12)
    np.testing.assert_allclose(pca.get_covariance(), np.cov(X.T), atol=1e-8)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X)


def test_noise_and_covariance_are_those_of_probabilistic_pca():
    X, _ = spiked(20_000, 20, 4, seed=0)
    pca, batch = OnlinePCA(4).fit(X), PCA(4, svd_solver="full").fit(X)
    np.testing.assert_allclose(pca.noise_variance_, batch.noise_variance_, rtol=1e-2)
    np.testing.assert_allclose(pca.get_covariance(), batch.get_covariance(), atol=1e-2)


def test_remembers_all_as_well_as_batch_pca_and_follows_with_memory():
    (X, old), (Z, new) = spiked(6000, 30, 3, seed=1), spiked(6000, 30, 3, seed=2)
    best = subspace_error(PCA(3).fit(X).components_, old)
    forgetful, lasting = (OnlinePCA(3, memory=memory).partial_fit(X) for memory in (500, None))
    assert subspace_error(lasting.components_, old) < 1.1 * best
    for pca in (forgetful, lasting):
        pca.partial_fit(Z)
    assert subspace_error(forgetful.components_, new) < 1e-3
    assert subspace_error(lasting.components_, new) > 0.1


def test_responses_become_coordinates_in_an_orthonormal_basis():
    X, basis = spiked(20_000, 30, 3, seed=4)
    pca = OnlinePCA(3, center=False).fit(X)
    W, M = pca.feedforward_weights_, pca.lateral_weights_
    F = np.linalg.solve(np.eye(3) + M, W)  # y = W x - M y
    np.testing.assert_allclose(F, pca.learner_.network.filters, atol=1e-12)
    np.testing.assert_allclose(F @ F.T, np.eye(3), atol=1e-2)
    gram = pca.cumulative_activity_[:, None] * (np.eye(3) + M)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-9)
    assert np.linalg.eigvalsh(gram)[0] > 0
    assert subspace_error(np.linalg.qr(F.T)[0].T, basis) < 1e-3


def test_scaling_scales_and_rotating_rotates():
    X, R = stream(), ortho_group.rvs(12, random_state=5)
    pca = OnlinePCA(4, memory=0.3).fit(X)
    scaled, turned = (OnlinePCA(4, memory=0.3).fit(Z) for Z in (1e-9 * X, X @ R.T))
    np.testing.assert_allclose(scaled.lateral_weights_, pca.lateral_weights_, atol=1e-9)
    np.testing.assert_allclose(scaled.components_, pca.components_, atol=1e-9)
    np.testing.assert_allclose(turned.lateral_weights_, pca.lateral_weights_, atol=1e-9)
    np.testing.assert_allclose(abs(turned.components_ @ R), abs(pca.components_), atol=1e-9)


def test_float32_follows_float64():
    X, _ = spiked(3000, 20, 4, seed=6)
    pca, narrow = OnlinePCA(4).fit(X), OnlinePCA(4).fit(X.astype(np.float32))
    Z, Z_32 = pca.transform(X), narrow.transform(X.astype(np.float32))
    assert Z_32.dtype == narrow.explained_variance_.dtype == narrow.mean_.dtype == np.float32
    np.testing.assert_allclose(Z_32, Z, atol=1e-3)


def test_whitened_coordinates_have_unit_variance_and_go_back():
    X, _ = spiked(5000, 20, 4, seed=7)
    pca = OnlinePCA(4, whiten=True).fit(X)
    Z = pca.transform(X)
    np.testing.assert_allclose(np.cov(Z.T), np.eye(4), atol=0.02)
    plain = OnlinePCA(4).fit(X)
    np.testing.assert_allclose(
        pca.inverse_transform(Z), plain.inverse_transform(plain.transform(X)), atol=1e-10
    )


def test_coordinates_of_another_number_are_refused():
    pca = OnlinePCA(3).fit(stream())
    with pytest.raises(ValueError, match="X has 2 columns, but there are 3 components"):
        pca.inverse_transform(np.ones((4, 2)))


@pytest.mark.parametrize(
    "bad", [{"n_components": 0}, {"memory": 1}, {"whiten": 1}, {"center": None}, {"n_epochs": 0}]
)
def test_a_bad_parameter_is_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))}=.* cannot be used"):
        OnlinePCA(**bad).fit(stream())
