"""Memory, a penalty without a scale, recycling: the oracle, the definitions, and the laws."""

from functools import cache

import numpy as np
import pytest

from hebbnmf import Network, OnlineSNMF, Settings
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.engine import network
from hebbnmf.engine.plasticity import discount
from hebbnmf.engine.response import FEW_UNITS
from reference import discount_of, online_snmf, ratios_of_discounted_sums

DYNAMICS = ["rectified", "quartic"]
MEMORIES = [None, 15, 0.1]
# name: (number of units, a rank penalty that some samples exceed at all times)
STREAMS = {"replaced clusters": (4, 4.0), "laplace 16": (12, 400.0)}


@cache
def stream(name):
    if name == "laplace 16":
        X = make_sparse_sources(150, 16, random_state=2)
    else:
        # Four clusters at a time, all replaced every 60 samples.
        rng = np.random.default_rng(4)
        clusters = np.repeat([0, 4, 8], 60) + rng.integers(4, size=180)
        X = 3 * np.eye(12)[clusters] + 0.3 * rng.normal(size=(180, 12))
    X.setflags(write=False)
    return X


@cache
def wide_stream(m, penalty, memory):
    """Return a stream of many features, and what the oracle learns from it."""
    X = make_sparse_sources(130, 40, random_state=1)
    return X, online_snmf(X.copy(), m, penalty, memory=memory, recycle=True)


def exact(m, rank_penalty, **parameters):
    return OnlineSNMF(m, rank_penalty=rank_penalty, tol=1e-12, max_sweeps=100_000, **parameters)


def learned(net, X, size):
    """Present X in chunks; return all responses, of the units there were in the end."""
    chunks = [net.partial_fit_transform(X[i : i + size].copy()) for i in range(0, len(X), size)]
    return np.vstack([np.pad(Y, ((0, 0), (0, net.n_components_ - Y.shape[1]))) for Y in chunks])


def assert_equal_to_oracle(net, responses, expected, atol=1e-8):
    Y, W, M, Yhat, births = expected
    K = np.count_nonzero(births >= 0)
    np.testing.assert_array_equal(net.unit_births, births[:K])
    np.testing.assert_allclose(responses, Y[:, :K], rtol=0, atol=atol * Y.max())
    np.testing.assert_allclose(net.components, W[:K], rtol=0, atol=atol)
    np.testing.assert_allclose(net.lateral_weights, M[:K, :K], rtol=0, atol=atol)
    np.testing.assert_allclose(net.cumulative_activity, Yhat[:K], rtol=1e-8)


@pytest.mark.parametrize("recycle", [False, True])
@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("name", STREAMS)
def test_every_response_equals_the_oracle_in_any_chunking(name, dynamics, memory, auto, recycle):
    X, (m, rank_penalty) = stream(name), STREAMS[name]
    penalty = "auto" if auto else rank_penalty
    options = {"memory": memory, "recycle": recycle}
    expected = online_snmf(X.copy(), m, penalty, quartic=dynamics == "quartic", **options)
    if recycle and memory == 15:
        assert (expected[-1] >= m).sum() > 1
    for size in (1, 7, len(X)):
        net = exact(m, penalty, dynamics=dynamics, **options)
        responses = learned(net, X, size)
        assert_equal_to_oracle(net.learner_.network, responses, expected)


@pytest.mark.parametrize(("initial", "gain"), [(100.0, 1.0), (None, 0.7)])
@pytest.mark.parametrize("memory", [15, 0.1])
def test_memory_and_the_schedule_of_section_iii_c_combine(memory, initial, gain):
    X = stream("laplace 16")
    options = {"memory": memory, "recycle": True}
    expected = online_snmf(X.copy(), 12, 400.0, initial=initial, gain=gain, **options)
    net = exact(12, 400.0, initial_activity=initial, activity_gain=gain, **options)
    Y = net.partial_fit_transform(X)
    assert_equal_to_oracle(net.learner_.network, Y, expected)


@pytest.mark.parametrize("memory", [20, 0.1])
@pytest.mark.parametrize(("m", "penalty"), [(10, "auto"), (90, 0.0)])
@pytest.mark.parametrize("size", [1, 5, 33, 500])
def test_no_block_size_changes_what_is_learned(size, m, penalty, memory, monkeypatch):
    X, expected = wide_stream(m, penalty, memory)
    assert m < FEW_UNITS or (expected[-1] >= 0).sum() > FEW_UNITS
    monkeypatch.setattr(network, "BLOCK", size)
    settings = Settings(m, penalty, memory, True, tol=1e-12, max_sweeps=10_000)
    net = Network(40, settings.rules())
    assert_equal_to_oracle(net, net.learn(X.copy()).Y, expected)


@pytest.mark.parametrize("recycle", [False, True])
@pytest.mark.parametrize("memory", [15, 0.1, 0.5])
@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("name", STREAMS)
def test_weights_are_the_ratios_of_discounted_sums(name, dynamics, memory, recycle):
    X = stream(name)
    net = exact(STREAMS[name][0], "auto", dynamics=dynamics, memory=memory, recycle=recycle)
    Y = net.partial_fit_transform(X)
    W, M, Yhat = ratios_of_discounted_sums(X, Y, net.unit_births_, memory)
    np.testing.assert_allclose(net.cumulative_activity_, Yhat, rtol=1e-10)
    np.testing.assert_allclose(net.components_, W, atol=1e-10)
    np.testing.assert_allclose(net.lateral_weights_, M, atol=1e-10)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", STREAMS)
def test_one_clock_keeps_the_gram_matrix(name, memory):
    net = exact(STREAMS[name][0], "auto", memory=memory, recycle=True).partial_fit(stream(name))
    Yhat, M = net.cumulative_activity_, net.lateral_weights_
    gram = Yhat[:, None] * (np.eye(len(M)) + M)
    np.testing.assert_allclose(gram, gram.T, atol=1e-10 * Yhat.max())
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * Yhat.max()


def test_a_share_of_the_stream_is_remembered():
    for share in (0.03, 0.1, 0.5):
        total = 0.0
        for T in range(20_000):
            total = discount(T, share) * total + 1
        assert total == pytest.approx(share * 20_000 + 10, rel=1e-3)


def test_an_endless_memory_is_none():
    X = stream("laplace 16")
    plain, endless = (exact(12, 4.0, memory=memory).partial_fit(X) for memory in (None, 1e14))
    np.testing.assert_allclose(endless.components_, plain.components_, atol=1e-9)


@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_unit_that_was_silent_for_very_long_starts_anew_where_it_is_needed(dtype):
    X = np.repeat([[3.0, 0.0], [0.0, 2.0], [1.0, 0.1]], [1, 4000, 1], axis=0).astype(dtype)
    net = OnlineSNMF(2, rank_penalty=0.5, memory=3).partial_fit(X[:-1])
    assert net.cumulative_activity_[1] == pytest.approx(4 * 3)
    assert 0 < net.cumulative_activity_[0] < 1e-300  # (2/3)^4000 is 1e-704
    Y = net.partial_fit_transform(X[-1:])
    np.testing.assert_allclose(Y, [[1.0, 0.1]], rtol=1e-6)
    np.testing.assert_allclose(net.components_[0], [1.0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(net.cumulative_activity_, [1.0, 8.01], rtol=1e-6)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dynamics", DYNAMICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_under_auto_the_scale_of_the_data_plays_no_part(dtype, dynamics, memory):
    def fit(scale):
        net = OnlineSNMF(4, rank_penalty="auto", memory=memory, recycle=True, dynamics=dynamics)
        return net.fit(stream("replaced clusters").astype(dtype) * dtype(scale))

    net = fit(1.0)
    for scale in (1e-6, 1e6):
        other = fit(scale)
        np.testing.assert_array_equal(other.labels_, net.labels_)
        np.testing.assert_array_equal(other.unit_births_, net.unit_births_)
        atol = 1e-9 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(other.components_, net.components_, atol=atol)
        np.testing.assert_allclose(other.lateral_weights_, net.lateral_weights_, atol=atol)
    for scale in (2.0**-30, 2.0**20) if dynamics == "rectified" else ():
        other = fit(scale)  # exact: a power of two rounds nothing, but for a cubic root
        np.testing.assert_array_equal(other.labels_, net.labels_)
        np.testing.assert_array_equal(other.components_, net.components_)
        np.testing.assert_array_equal(other.lateral_weights_, net.lateral_weights_)


@pytest.mark.parametrize("scale", [1e-150, 1e76])
def test_auto_holds_to_the_ends_of_the_range_of_numbers(scale):
    X = stream("replaced clusters")
    births = OnlineSNMF(20, rank_penalty="auto").fit(X).unit_births_
    np.testing.assert_array_equal(
        OnlineSNMF(20, rank_penalty="auto").fit(X * scale).unit_births_, births
    )


@pytest.mark.parametrize("memory", [15, 0.1])
def test_float32_follows_float64(memory):
    # As many units as clusters: units that compete for few samples amplify rounding.
    X = stream("replaced clusters")
    double, single = (OnlineSNMF(4, rank_penalty="auto", memory=memory, tol=1e-6) for _ in "ab")
    Y, Y_32 = double.partial_fit_transform(X), single.partial_fit_transform(X.astype(np.float32))
    assert single.components_.dtype == np.float32
    np.testing.assert_allclose(Y_32, Y, atol=1e-4 * Y.max())
    np.testing.assert_allclose(single.components_, double.components_, atol=1e-4)


def test_recycling_follows_clusters_that_are_replaced():
    X = stream("replaced clusters")
    settings = {"n_components": 4, "rank_penalty": "auto", "memory": 10}
    kept = OnlineSNMF(**settings).partial_fit(X)
    recycled = OnlineSNMF(**settings, recycle=True).partial_fit(X)
    assert kept.unit_births_.max() < 60
    assert recycled.unit_births_.min() >= 120
    last = X[120:]
    assert recycled.score(last) > 0.9 > kept.score(last)


def test_a_unit_that_responds_is_never_replaced():
    X = [[0.1, 0.0, 0.0], [0.0, 5.0, 0.0]]
    for third, births in (([0.1, 0.0, 3.0], [0, 1]), ([0.0, 0.0, 3.0], [2, 1])):
        # Both samples leave a residual of 9; the weakest unit, at 0.01, responds to the first.
        net = OnlineSNMF(2, rank_penalty=0.0, recycle=True).partial_fit([*X, third])
        assert net.unit_births_.tolist() == births


@pytest.mark.parametrize("memory", MEMORIES)
def test_samples_that_would_recycle_are_deferred_and_the_others_learned(memory):
    X = stream("replaced clusters")
    grown = Network(12, Settings(4, "auto", memory, True).rules())
    grown.learn(X[:60])
    strange = X[60:].copy()
    strange[:, :] = X[:60].mean(axis=0)
    strange[::10] = 50.0 * (-1) ** np.arange(12)
    births = grown.unit_births
    other = Network(12, grown.rules._replace(recycle=False))
    other.restore(grown.state, grown.n_samples)
    Y, _, _, deferred = grown.learn(strange, recruit=False)
    assert deferred == [0, 10, 20, 30]  # one for each unit
    assert not Y[deferred].any()
    np.testing.assert_array_equal(grown.unit_births, births)
    rest = np.delete(np.arange(len(strange)), deferred)
    np.testing.assert_allclose(Y[rest], other.learn(strange[rest]).Y, atol=1e-9)
    np.testing.assert_allclose(grown.components, other.components, atol=1e-12)
    np.testing.assert_allclose(grown.cumulative_activity, other.cumulative_activity)
    np.testing.assert_allclose(grown.state.energy, other.state.energy)


def test_without_a_unit_under_auto_the_warning_names_the_cause():
    with pytest.warns(UserWarning, match=r"No unit was recruited: all samples are zero"):
        OnlineSNMF(rank_penalty="auto").fit(np.zeros((3, 2)))


def test_a_memory_set_in_mid_stream_acts_from_then_on():
    X = stream("laplace 16")
    net = exact(12, 400.0).partial_fit(X[:100])
    before = net.cumulative_activity_
    Y = net.set_params(memory=15).partial_fit_transform(X[100:])
    ages = np.arange(len(Y))[::-1]
    expected = (14 / 15) ** len(Y) * before + (14 / 15) ** ages @ np.square(Y)
    np.testing.assert_allclose(net.cumulative_activity_, expected, rtol=1e-10)


@pytest.mark.jit
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("memory", [20, 0.1])
def test_a_long_stream_loses_nothing_that_it_should_remember(memory, dtype):
    X = make_sparse_sources(30_000, 4, random_state=5).astype(dtype)
    net = OnlineSNMF(6, rank_penalty=1.0, memory=memory, tol=1e-6)
    Y = learned(net, X, 7200).astype(np.float64)
    gammas = np.array([discount_of(T, memory) for T in range(1, len(X))])
    w = np.append(np.cumprod(gammas[::-1])[::-1], 1.0)
    Yhat = w @ np.square(Y)
    rtol = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(net.cumulative_activity_, Yhat, rtol=rtol)
    W = (w[:, None] * Y).T @ X / Yhat[:, None]
    np.testing.assert_allclose(net.components_, W, atol=rtol)
    assert net.learner_.state.weights.energy[1] == pytest.approx(w.sum())
