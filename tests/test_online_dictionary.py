"""OnlineDictionary: two-sided optimality, and atoms that are found."""

from functools import cache

import numpy as np
import pytest

from hebbnmf import OnlineDictionary
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.preprocessing import ZCAWhitener


@cache
def stream(n=10):
    X = make_sparse_sources(150, n, random_state=2)
    X.setflags(write=False)
    return X


def exact(m, **parameters):
    return OnlineDictionary(m, tol=1e-12, max_sweeps=100_000, **parameters)


def sparse_mixtures(n_samples, n_atoms, n, seed):
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(n_atoms, n))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = rng.normal(size=(n_samples, n_atoms)) * (rng.random((n_samples, n_atoms)) < 0.15)
    return codes @ atoms, atoms


@pytest.mark.parametrize("positive_code", [False, True])
def test_codes_satisfy_their_optimality_conditions(positive_code):
    X, _ = sparse_mixtures(500, 30, 16, seed=0)
    net = exact(30, alpha=0.3, positive_code=positive_code).fit(X)
    W, M = net.feedforward_weights_, net.lateral_weights_
    for x, y in zip(X, net.transform(X), strict=True):
        drive = W @ x - M @ y - y  # what is left for the threshold to hold back
        active = np.abs(y) > 1e-9
        np.testing.assert_allclose(drive[active], 0.3 * np.sign(y[active]), atol=1e-9)
        held_back = drive[~active] if positive_code else np.abs(drive[~active])
        assert (held_back <= 0.3 + 1e-9).all()
        assert active.any() or np.abs(W @ x).max() <= 0.3 or positive_code


def test_energy_never_rises_in_a_sweep():
    X, _ = sparse_mixtures(500, 24, 16, seed=1)
    net = exact(24, alpha=0.3).fit(X)
    W, M, Yhat = net.feedforward_weights_, net.lateral_weights_, net.cumulative_activity_
    gram = Yhat[:, None] * (np.eye(24) + M)
    np.testing.assert_allclose(gram, gram.T, atol=1e-9 * Yhat.max())
    assert np.linalg.eigvalsh(gram)[0] > -1e-9 * Yhat.max()

    def energy(y, x):
        return y @ gram @ y / 2 - (Yhat * (W @ x)) @ y + 0.3 * Yhat @ np.abs(y)

    for x, code in zip(X[:50], net.transform(X[:50]), strict=True):
        y, energies = np.zeros(24), [0.0]
        for _ in range(20):
            for i in range(24):
                h = W[i] @ x - M[i] @ y
                y[i] = np.sign(h) * max(abs(h) - 0.3, 0)
            energies.append(energy(y, x))
        slack = 1e-9 * abs(energies[-1])
        assert (np.diff(energies) <= slack).all()
        assert energy(code, x) <= energies[-1] + slack


@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_the_error_of_a_code_stays_near_tol(tol):
    X, _ = sparse_mixtures(2000, 24, 16, seed=2)
    Y = exact(24).fit(X[:1500]).transform(X[1500:])
    net = exact(24).fit(X[:1500])
    net.learner_.configure(OnlineDictionary(24, tol=tol).check_parameters())
    error = np.abs(net.transform(X[1500:]) - Y).max(axis=1)
    assert np.mean(error <= 3 * tol * np.abs(Y).max(axis=1)) > 0.95


def test_atoms_are_found_in_whitened_data():
    X, atoms = sparse_mixtures(20_000, 24, 16, seed=3)
    whitener = ZCAWhitener(eps=0.0).fit(X)
    net = OnlineDictionary(24, memory=0.05).fit(whitener.transform(X))
    found = net.components_ @ np.linalg.inv(whitener.whitening_)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    assert (np.abs(found @ atoms.T).max(axis=0) > 0.95).sum() >= 20
    np.testing.assert_allclose(np.linalg.norm(net.components_, axis=1), 1)


def test_a_larger_threshold_gives_sparser_codes():
    X, _ = sparse_mixtures(3000, 24, 16, seed=4)
    shares = [np.mean(OnlineDictionary(24, alpha=a).fit_transform(X) != 0) for a in (0.2, 0.5, 1.0)]
    assert shares[0] > shares[1] > shares[2] > 0


def test_float32_follows_float64():
    X, _ = sparse_mixtures(300, 24, 16, seed=5)
    net, narrow = OnlineDictionary(24).fit(X), OnlineDictionary(24).fit(X.astype(np.float32))
    assert narrow.components_.dtype == narrow.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(narrow.components_, net.components_, atol=5e-2)


@pytest.mark.parametrize("bad", [{"alpha": -1.0}, {"positive_code": 1}, {"memory": 1}, {"tol": 0}])
def test_a_bad_parameter_is_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))}=.* cannot be used"):
        OnlineDictionary(**bad).fit(stream())
