"""The laws of the method, as the package's users see it: through OnlineSNMF."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ortho_group

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import (
    extract_patches,
    load_natural_images,
    make_sparse_sources,
    make_three_gaussians,
)
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener
from reference import online_snmf

DYNAMICS = ["rectified", "quartic"]
# name: (samples, rank penalty, numbers of units below, at and above the number of features)
STREAMS = {
    "three gaussians": (300, 0.1, (1, 2, 5)),
    "laplace 2": (300, 4.0, (1, 2, 4)),
    "laplace 16": (120, 16.0, (6, 16, 24)),
    "whitened patches": (120, 10.0, (10, 25, 40)),
}
CASES = [(name, m) for name, (_, _, ms) in STREAMS.items() for m in ms]
# The schedule of section III.C, its initial activity as a multiple of the largest |x|^2.
SCHEDULES = {"plain": (None, 1.0), "section III.C": (1.5, 0.01)}


@cache
def stream(name):
    n_samples, rank_penalty, _ = STREAMS[name]
    if name == "three gaussians":
        X, _ = make_three_gaussians(n_samples, random_state=3)
    elif name == "whitened patches":
        patches = extract_patches(load_natural_images(), 2000, 5, dtype=float, random_state=1)
        X = ZCAWhitener().fit_transform(PatchNormalizer().fit_transform(patches))[:n_samples]
    else:
        X = make_sparse_sources(n_samples, int(name.split()[1]), random_state=2)
    X.setflags(write=False)
    return X, rank_penalty


def schedule(name, X):
    initial, gain = SCHEDULES[name]
    return (None if initial is None else initial * np.square(X).sum(axis=1).max()), gain


def exact(m, rank_penalty, schedule=(None, 1.0), **parameters):
    return OnlineSNMF(
        m,
        rank_penalty=rank_penalty,
        memory=None,
        initial_activity=schedule[0],
        activity_gain=schedule[1],
        tol=1e-12,
        max_sweeps=100_000,
        **parameters,
    )


def small_streams(min_samples=1):
    """Streams of every shape, sign and degeneracy: few distinct values make ties and repeats."""
    return st.tuples(
        st.integers(min_samples, 40), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans()
    ).map(_small_stream)


def _small_stream(parts):
    n_samples, n, seed, coarse = parts
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, (n_samples, n)) * 1.0 if coarse else rng.laplace(size=(n_samples, n))


@pytest.mark.parametrize("name_of_schedule", SCHEDULES)
@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize(("name", "m"), CASES)
def test_every_response_equals_the_oracle_in_any_chunking(name, m, dynamics, name_of_schedule):
    X, rank_penalty = stream(name)
    plan = schedule(name_of_schedule, X)
    Y, W, M, Yhat, _ = online_snmf(
        X.copy(), m, rank_penalty, initial=plan[0], gain=plan[1], quartic=dynamics == "quartic"
    )
    for size in (1, 7, len(X)):
        net = exact(m, rank_penalty, plan, dynamics=dynamics)
        chunks = [net.partial_fit_transform(X[i : i + size].copy()) for i in range(0, len(X), size)]
        K = net.n_components_
        assert K == np.count_nonzero(Yhat)
        responses = np.vstack([np.pad(A, ((0, 0), (0, K - A.shape[1]))) for A in chunks])
        scale = np.abs(Y).max()
        np.testing.assert_allclose(responses, Y[:, :K], rtol=0, atol=1e-8 * scale)
        np.testing.assert_allclose(net.components_, W[:K], rtol=0, atol=1e-8)
        np.testing.assert_allclose(net.lateral_weights_, M[:K, :K], rtol=0, atol=1e-8)
        np.testing.assert_allclose(net.cumulative_activity_, Yhat[:K], rtol=1e-8)
        if size == 1:
            W_1, M_1 = net.components_, net.lateral_weights_
        np.testing.assert_allclose(net.components_, W_1, rtol=0, atol=1e-10)
        np.testing.assert_allclose(net.lateral_weights_, M_1, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("name", STREAMS)
def test_weights_are_the_ratios_of_sums_that_define_them(name, dynamics):
    X, rank_penalty = stream(name)
    net = exact(30, rank_penalty, dynamics=dynamics)
    Y = net.partial_fit_transform(X)
    Yhat = np.square(Y).sum(axis=0)
    lateral = Y.T @ Y / Yhat[:, None]
    np.fill_diagonal(lateral, 0)
    np.testing.assert_allclose(net.cumulative_activity_, Yhat, rtol=1e-12)
    np.testing.assert_allclose(net.components_, Y.T @ X / Yhat[:, None], atol=1e-11)
    np.testing.assert_allclose(net.lateral_weights_, lateral, atol=1e-11)


# Under the schedule of section III.C no energy is known to fall: some responses may not settle.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@given(small_streams(), st.sampled_from(DYNAMICS), st.floats(0, 5), st.sampled_from([None, 2.0]))
def test_responses_and_lateral_weights_are_never_negative(X, dynamics, rank_penalty, initial):
    gain = 1.0 if initial is None else 0.01
    net = exact(6, rank_penalty, (initial, gain), dynamics=dynamics).set_params(max_sweeps=1000)
    Y = net.partial_fit_transform(X)
    M = net.lateral_weights_
    assert np.isfinite(net.components_).all()
    assert (Y >= 0).all()
    assert (M >= 0).all()
    assert (np.diag(M) == 0).all()
    assert (net.cumulative_activity_ > 0).all()


@given(small_streams(), st.floats(0, 5))
def test_rectified_responses_satisfy_equation_7(X, rank_penalty):
    net = exact(6, rank_penalty).partial_fit(X)
    Y = net.transform(X)
    net_input = X @ net.components_.T - Y @ net.lateral_weights_.T
    scale = np.abs(X @ net.components_.T).max(initial=1.0)
    np.testing.assert_allclose(Y, np.maximum(net_input, 0), atol=1e-9 * scale)


@given(small_streams(), st.floats(0, 5))
def test_quartic_responses_cannot_be_improved_one_at_a_time(X, rank_penalty):
    net = exact(6, rank_penalty, dynamics="quartic").partial_fit(X)
    Y = net.transform(X)
    W, M, Yhat = net.components_, net.lateral_weights_, net.cumulative_activity_
    for x, y in zip(X, Y, strict=True):
        for i in range(len(W)):
            p = Yhat[i] + y @ y - y[i] ** 2 - x @ x
            c = Yhat[i] * (W[i] @ x - M[i] @ y)
            energy = np.polynomial.Polynomial([0, -c, p / 2, 0, 1 / 4])
            others = np.linspace(0, 2 * np.linalg.norm(x) + 1, 400)
            assert energy(y[i]) <= energy(others).min() + 1e-8 * (1 + abs(energy(y[i])))


@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("scale", [1e-60, 0.5, 3.0, 1e60])
def test_scaling_the_data_scales_the_responses_alone(scale, dynamics):
    X, rank_penalty = stream("laplace 16")
    net = exact(20, rank_penalty, (50.0, 0.1), dynamics=dynamics)
    scaled = exact(20, rank_penalty * scale**4, (50.0 * scale**2, 0.1), dynamics=dynamics)
    Y, Y_scaled = net.partial_fit_transform(X), scaled.partial_fit_transform(X * scale)
    np.testing.assert_allclose(Y_scaled / scale, Y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(scaled.components_, net.components_, atol=1e-9)
    np.testing.assert_allclose(scaled.lateral_weights_, net.lateral_weights_, atol=1e-9)


@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("name", ["laplace 2", "laplace 16", "whitened patches"])
def test_rotating_the_data_rotates_the_components_alone(name, dynamics):
    X, rank_penalty = stream(name)
    R = ortho_group.rvs(X.shape[1], random_state=5)
    net, rotated = (exact(20, rank_penalty, dynamics=dynamics) for _ in range(2))
    Y, Y_rotated = net.partial_fit_transform(X), rotated.partial_fit_transform(X @ R.T)
    np.testing.assert_allclose(Y_rotated, Y, atol=1e-8)
    np.testing.assert_allclose(rotated.components_, net.components_ @ R.T, atol=1e-9)
    np.testing.assert_allclose(rotated.lateral_weights_, net.lateral_weights_, atol=1e-9)


def test_energy_never_rises_in_a_sweep_under_the_plain_schedule():
    X, rank_penalty = stream("laplace 16")
    net = exact(24, rank_penalty).partial_fit(X)
    W, M, Yhat = net.components_, net.lateral_weights_, net.cumulative_activity_
    gram = Yhat[:, None] * (np.eye(len(W)) + M)
    np.testing.assert_allclose(gram, gram.T, atol=1e-9 * Yhat.max())
    final = net.transform(X)
    for x, response in zip(X, final, strict=True):
        y = np.zeros(len(W))
        energies = [0.0]
        for _ in range(20):
            for i in range(len(W)):
                y[i] = max(W[i] @ x - M[i] @ y, 0)
            energies.append(y @ gram @ y / 2 - (Yhat * (W @ x)) @ y)
        assert (np.diff(energies) <= 1e-9 * abs(energies[-1])).all()
        at_response = response @ gram @ response / 2 - (Yhat * (W @ x)) @ response
        assert at_response <= energies[-1] + 1e-9 * abs(energies[-1])


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_float32_follows_float64(dynamics):
    X, rank_penalty = stream("whitened patches")
    settings = {"rank_penalty": rank_penalty, "memory": None, "dynamics": dynamics}
    nets = [OnlineSNMF(40, **settings, tol=1e-6) for _ in "ab"]
    Y, Y_32 = nets[0].partial_fit_transform(X), nets[1].partial_fit_transform(X.astype(np.float32))
    assert Y_32.dtype == nets[1].components_.dtype == np.float32
    assert nets[1].cumulative_activity_.dtype == np.float64
    np.testing.assert_allclose(Y_32, Y, atol=2e-4 * Y.max())
    np.testing.assert_allclose(nets[1].components_, nets[0].components_, atol=2e-4)


@given(small_streams(min_samples=2), st.data(), st.sampled_from(DYNAMICS))
def test_any_chunking_gives_the_same_weights(X, data, dynamics):
    cut = data.draw(st.integers(1, len(X) - 1))
    whole = exact(6, 0.5, dynamics=dynamics).partial_fit(X.copy())
    parts = exact(6, 0.5, dynamics=dynamics).partial_fit(X[:cut].copy()).partial_fit(X[cut:].copy())
    assert parts.n_components_ == whole.n_components_
    np.testing.assert_allclose(parts.components_, whole.components_, atol=1e-9)
    np.testing.assert_allclose(parts.lateral_weights_, whole.lateral_weights_, atol=1e-9)
