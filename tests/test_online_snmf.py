"""OnlineSNMF: what it refuses, what it warns of, and how it behaves at the extremes."""

import pickle
import re
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, csr_matrix, random_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from equality import assert_same_model
from hebbnmf import Network, OnlineSNMF, StreamPipeline, make_online_clusterer, snmf_cost
from hebbnmf.datasets import make_sparse_sources, make_three_gaussians
from hebbnmf.learner import BATCH
from hebbnmf.preprocessing import RunningScaler

GOOD = np.array([[1.0, 2.0], [-3.0, 0.5], [0.1, -1.0]])
BAD_DATA = {
    "NaN": ([[1.0, np.nan]], "NaN"),
    "infinity": ([[1.0, np.inf]], "infinity"),
    "square overflows": ([[1e160, 1.0]], "squared norm inf, above the limit of 1.34e.154"),
    "fourth power overflows": ([[1e78, 1.0]], "squared norm 1e.156, above the limit"),
    "wrong width": ([[1.0, 2.0, 3.0]], "3 features, but OnlineSNMF is expecting 2 features"),
    "1-D": ([1.0, 2.0], "Expected 2D array, got 1D array"),
    "3-D": (np.ones((2, 2, 2)), "3"),
    "empty": (np.empty((0, 2)), "0 sample"),
    "strings": ([["a", "b"]], "could not convert string to float"),
    "objects": ([[object(), object()]], "must be a string or a real number"),
    "sparse NaN": (csr_array(GOOD) * np.nan, "NaN"),
    "sparse overflow": (csr_array(GOOD) * 1e100, "squared norm .*, above the limit"),
    "complex": (GOOD + 1j, "Complex data not supported"),
}
BAD_PARAMETERS = {
    "n_components": [0, -1, 2.5, True, None],
    "rank_penalty": [-1e-9, np.nan, np.inf, "1", "automatic", True, None],
    "memory": [0, 0.0, -1, -0.5, 1, 1.0, 1.5, np.nan, np.inf, True, "auto", "10"],
    "recycle": [1, None, "yes"],
    "initial_activity": [0.0, -1.0, np.nan, "plain"],
    "activity_gain": [0.0, -1.0, np.nan, np.inf],
    "dynamics": ["linear", None, 7],
    "tol": [0.0, -1e-4, np.nan],
    "max_sweeps": [0, 1.5, 100_001],
    "n_epochs": [0, -2],
    "shuffle": ["yes", None],
    "track_cost": [1, None],
    "n_jobs": [0, 1.5, "all"],
}


def state(net):
    return pickle.dumps((net.components_, net.lateral_weights_, net.cumulative_activity_))


@pytest.mark.parametrize("learn", ["partial_fit", "partial_fit_transform"])
@pytest.mark.parametrize(("bad", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_in_a_later_chunk_are_refused_and_leave_the_network_as_it_was(bad, message, learn):
    net = OnlineSNMF(2).partial_fit(GOOD)
    before, seen = state(net), net.n_samples_seen_
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(net, learn)(bad)
    assert (state(net), net.n_samples_seen_) == (before, seen)


@pytest.mark.parametrize("bad", [case for name, case in BAD_DATA.items() if name != "wrong width"])
def test_bad_data_in_the_first_chunk_leave_no_network_behind(bad):
    net = OnlineSNMF(2)
    with pytest.raises((ValueError, TypeError), match=bad[1]):
        net.partial_fit(bad[0])
    with pytest.raises(NotFittedError):
        net.transform(GOOD)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD_PARAMETERS.items() for value in values],
)
def test_a_bad_parameter_is_named_with_its_value_and_rule(name, value):
    net = OnlineSNMF().set_params(**{name: value})
    with pytest.raises(ValueError, match=f"^{name}=.* cannot be used: set it to .*\\.$"):
        net.fit(GOOD)


def test_a_bad_parameter_in_mid_stream_leaves_the_network_as_it_was():
    net = OnlineSNMF(2).partial_fit(GOOD)
    before = state(net)
    with pytest.raises(ValueError, match="tol=0 cannot be used"):
        net.set_params(tol=0).partial_fit(GOOD)
    assert state(net) == before


def test_float32_rows_whose_square_overflows_are_refused():
    with pytest.raises(ValueError, match=r"above the limit of 3.4e\+38 for float32"):
        OnlineSNMF().fit(np.full((2, 2), 1e25, np.float32))


@pytest.mark.parametrize("method", ["predict", "transform"])
def test_responding_before_learning_is_refused(method):
    with pytest.raises(NotFittedError):
        getattr(OnlineSNMF(), method)(GOOD)


@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
def test_the_first_chunk_may_be_one_row(dynamics):
    net = OnlineSNMF(rank_penalty=0.5, dynamics=dynamics)
    np.testing.assert_allclose(net.partial_fit_transform([[3.0, 4.0]]), [[5.0]])
    np.testing.assert_allclose(net.components_, [[0.6, 0.8]])
    np.testing.assert_allclose(net.cumulative_activity_, [25.0])


@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
@pytest.mark.parametrize("first", [[], [GOOD]])
def test_a_row_of_zeros_gets_zeros_and_teaches_nothing(first, dynamics):
    net = OnlineSNMF(5, rank_penalty=0.0, memory=None, dynamics=dynamics)
    for chunk in first:
        net.partial_fit(chunk)
    zeros = np.zeros((1, 2))
    seen = getattr(net, "n_samples_seen_", 0)
    before = state(net) if first else None
    assert not net.partial_fit_transform(zeros).any()
    assert net.labels_.tolist() == net.predict(zeros).tolist() == [-1]
    assert net.n_samples_seen_ == seen + 1
    if first:
        assert state(net) == before
    else:
        assert net.n_components_ == 0


def test_a_fit_without_units_warns_with_the_scale_of_the_data():
    with pytest.warns(UserWarning, match=r"rank_penalty=1000.0 .* at most 85.6 in these data"):
        net = OnlineSNMF(rank_penalty=1000.0).fit(GOOD)
    assert net.transform(GOOD).shape == (3, 0)
    assert net.labels_.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
def test_unconverged_responses_give_one_warning_a_call_with_their_number(dynamics):
    X = make_sparse_sources(200, 8, random_state=0)
    net = OnlineSNMF(16, dynamics=dynamics, max_sweeps=1, tol=1e-9)
    learn = (net.fit, net.partial_fit, net.partial_fit_transform)
    calls = (*learn, net.transform, net.predict, net.score)
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(X)
        assert [warning.category for warning in caught] == [ConvergenceWarning]
        assert caught[0].filename == __file__
        # fit presents the data, then labels them with the final weights.
        n_samples = 400 if call == net.fit else 200
        assert f"of {n_samples} samples did not converge within max" in str(caught[0].message)


@pytest.mark.parametrize("dynamics", ["rectified", "quartic"])
class TestExtremes:
    def test_one_feature(self, dynamics):
        X = np.array([[1.0], [2.0], [-1.0], [3.0], [-2.0]])
        net = OnlineSNMF(3, rank_penalty=0.1, dynamics=dynamics).fit(X)
        np.testing.assert_allclose(net.transform(X), np.maximum(X * [[1.0, -1.0]], 0), atol=1e-3)

    def test_one_component_responds_by_its_projection(self, dynamics):
        X = make_sparse_sources(50, 3, random_state=0)
        net = OnlineSNMF(1, rank_penalty=0.0, dynamics=dynamics).fit(X)
        assert net.components_.shape == (1, 3)
        assert net.lateral_weights_.tolist() == [[0.0]]
        if dynamics == "rectified":
            np.testing.assert_allclose(net.transform(X), np.maximum(X @ net.components_.T, 0))

    def test_more_components_than_samples(self, dynamics):
        net = OnlineSNMF(1000, rank_penalty=0.0, dynamics=dynamics).fit(GOOD)
        assert net.n_components_ <= 3
        assert net.transform(GOOD).shape == (3, net.n_components_)

    @pytest.mark.filterwarnings("ignore:The mean of X explains 100%")
    def test_the_same_row_a_thousand_times_is_one_unit(self, dynamics):
        x = np.array([[0.3, -1.7, 2.2]])
        net = OnlineSNMF(10, rank_penalty=0.0, memory=None, dynamics=dynamics, tol=1e-10)
        Y = net.partial_fit_transform(np.repeat(x, 1000, axis=0))
        norm = np.linalg.norm(x)
        np.testing.assert_allclose(Y, norm, rtol=1e-9)
        assert Y.shape == (1000, 1)
        np.testing.assert_allclose(net.components_, x / norm, rtol=1e-9)
        np.testing.assert_allclose(net.cumulative_activity_, 1000 * norm**2)

    def test_orthogonal_rows_get_a_unit_each_and_no_inhibition(self, dynamics):
        X = np.tile(2 * np.eye(4), (3, 1))
        net = OnlineSNMF(10, rank_penalty=0.0, memory=None, dynamics=dynamics).fit(X)
        np.testing.assert_allclose(net.components_, np.eye(4), atol=1e-12)
        assert not net.lateral_weights_.any()
        np.testing.assert_allclose(net.transform(X), X, atol=1e-12)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_no_penalty_recruits_every_unit_and_stays_finite(self, dtype, dynamics):
        X = np.repeat(make_sparse_sources(100, 3, random_state=4), 2, axis=0).astype(dtype)
        net = OnlineSNMF(20, rank_penalty=0.0, dynamics=dynamics, tol=1e-6).fit(X)
        assert net.n_components_ == 20 or dynamics == "quartic"
        assert np.isfinite(net.components_).all()
        # A unit is born from at least a share `floor` of |x|^2: no weight beyond its root.
        assert np.abs(net.components_).max() < 1e4


def test_the_learning_rate_never_exceeds_one():
    # y^2 = 25 against a cumulative activity of 1 + 0.01 * 25: the row starts anew, as at birth.
    schedule = {"initial_activity": 1.0, "activity_gain": 0.01, "memory": None}
    net = OnlineSNMF(1, rank_penalty=0.0, **schedule)
    net.partial_fit([[0.5, 0.0], [5.0, 0.0]])
    np.testing.assert_allclose(net.components_, [[1.0, 0.0]])
    np.testing.assert_allclose(net.cumulative_activity_, [1.25])


def test_epochs_and_order_are_those_asked_for():
    X, _ = make_three_gaussians(90, random_state=0)
    by_hand = OnlineSNMF(3, rank_penalty=0.1)
    rng = np.random.RandomState(7)
    for _ in range(3):
        by_hand.partial_fit(X[rng.permutation(90)])
    net = OnlineSNMF(3, rank_penalty=0.1, n_epochs=3, shuffle=True, random_state=7).fit(X)
    assert (net.n_samples_seen_, net.n_iter_) == (270, 3)
    np.testing.assert_allclose(net.components_, by_hand.components_, atol=1e-10)
    in_order = clone(net).set_params(shuffle=False).fit(X)
    assert not np.allclose(in_order.components_, net.components_, atol=1e-6)


def test_fit_begins_anew_and_partial_fit_goes_on():
    X, _ = make_three_gaussians(90, random_state=0)
    net = OnlineSNMF(3, rank_penalty=0.1).fit(X)
    first = state(net)
    assert state(net.fit(X)) == first
    assert net.partial_fit(X).n_samples_seen_ == 180
    assert state(net) != first


def test_a_pickled_network_goes_on_as_the_original():
    X, _ = make_three_gaussians(200, random_state=0)
    net = OnlineSNMF(5, rank_penalty=0.1).partial_fit(X[:100])
    copy = pickle.loads(pickle.dumps(net))
    assert state(copy.partial_fit(X[100:].copy())) == state(net.partial_fit(X[100:]))


def test_labels_after_partial_fit_are_those_given_online():
    X, _ = make_three_gaussians(300, random_state=0)
    Y = OnlineSNMF(3, rank_penalty=0.6).partial_fit_transform(X)
    net = OnlineSNMF(3, rank_penalty=0.6).partial_fit(X)
    silent = ~Y.any(axis=1)
    assert silent.any()
    np.testing.assert_array_equal(net.labels_, np.where(silent, -1, Y.argmax(axis=1)))


def test_predict_names_the_strongest_response():
    X, _ = make_three_gaussians(300, random_state=0)
    net = OnlineSNMF(3, rank_penalty=0.6).fit(X)
    Y = net.transform(X)
    np.testing.assert_array_equal(net.predict(X), np.where(Y.any(axis=1), Y.argmax(axis=1), -1))
    np.testing.assert_array_equal(net.labels_, net.predict(X))


def test_later_chunks_take_the_type_of_the_first():
    net = OnlineSNMF(2).partial_fit(GOOD.astype(np.float32)).partial_fit(GOOD)
    assert net.transform(GOOD).dtype == np.float32
    with pytest.raises(ValueError, match="infinity"):
        net.partial_fit(np.full((1, 2), 1e200))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tracked_cost_is_that_of_the_online_responses(dtype):
    X = make_sparse_sources(700, 4, random_state=0).astype(dtype)
    net = OnlineSNMF(8, rank_penalty=4.0, track_cost=True)
    chunks = [net.partial_fit_transform(X[i : i + 100]) for i in range(0, 700, 100)]
    Y = np.vstack([np.pad(A, ((0, 0), (0, net.n_components_ - A.shape[1]))) for A in chunks])
    np.testing.assert_allclose(net.cost_, snmf_cost(X, Y), rtol=1e-10)
    in_one = OnlineSNMF(8, rank_penalty=4.0, track_cost=True).fit(X)
    np.testing.assert_allclose(in_one.cost_, net.cost_, rtol=1e-4)


def test_cost_is_unknown_unless_tracked():
    net = OnlineSNMF().fit(GOOD)
    with pytest.raises(AttributeError, match="track_cost=True"):
        _ = net.cost_


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"tol": 1}, "tol=1 cannot be used: set it to a number above 0 and below 1"),
        ({"n_components": 10**30}, "an integer from 1 to 1,000,000,000,000,000"),
        ({"max_sweeps": 10**30}, "an integer from 1 to 100,000"),
        ({"rank_penalty": 10**400}, "a finite number of at least 0"),
    ],
)
def test_numbers_out_of_range_are_refused(parameters, rule):
    with pytest.raises(ValueError, match=rule):
        OnlineSNMF(**parameters).partial_fit(np.eye(3))


def test_large_integers_are_numbers():
    net = OnlineSNMF(rank_penalty=10**30, memory=10**30)
    assert net.partial_fit(np.eye(3) * 1e10).n_components_ == 3


def test_fewer_components_than_units_are_refused():
    net = OnlineSNMF(3).partial_fit(np.eye(3))
    with pytest.raises(ValueError, match="n_components=2 cannot be used: 3 units are recruited"):
        net.set_params(n_components=2).partial_fit(np.eye(3))
    assert net.set_params(n_components=3).partial_fit(np.eye(3)).n_components_ == 3


def test_a_bare_row_is_told_how_to_be_one():
    net = OnlineSNMF(3).partial_fit(np.eye(3))
    with pytest.raises(ValueError, match=r"X has shape \(3,\).*X\.reshape\(1, -1\)"):
        net.learner_.check_rows(np.ones(3))


# Help before harm ---------------------------------------------------------------------------------


def uncentred(n_samples=400):
    X, _ = make_three_gaussians(random_state=0)
    return np.tile(X, (2, 1))[:n_samples] + 5.0


MEAN = "The mean of X explains 9.% of the squared length of its rows, .* RunningScaler"


@pytest.mark.parametrize("size", [1, 30, 100, 400])
def test_data_whose_mean_hides_what_tells_them_apart_are_noticed_once(size):
    X = uncentred()
    net = OnlineSNMF(3)
    heard = []
    for start in range(0, 400, size):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            net.partial_fit(X[start : start + size])
        heard += [(start + size, w) for w in caught]
    assert len(heard) == 1
    n_seen, warning = heard[0]
    assert re.match(MEAN, str(warning.message))
    assert warning.filename == __file__
    assert n_seen == max(size, -(-100 // size) * size)


def test_the_remedy_is_one_and_centred_or_few_data_are_fine():
    X = uncentred()
    with pytest.warns(UserWarning, match=MEAN):
        OnlineSNMF(3).fit(X)
    OnlineSNMF(3).fit(X - X.mean(axis=0))
    OnlineSNMF(3).fit(X[:99])
    StreamPipeline([("scaler", RunningScaler()), ("network", OnlineSNMF(3))]).fit(X)
    make_online_clusterer(3, random_state=0).fit(X)


def test_centred_data_that_are_sorted_by_cluster_are_fine():
    X = np.random.default_rng(0).normal(size=(600, 4)) * 0.1
    X[:300, 0] += 1
    X[300:, 0] -= 1
    OnlineSNMF(3).fit(X)


def test_parameters_may_be_numbers_of_numpy():
    X = make_sparse_sources(100, 3, random_state=0)
    of_numpy = OnlineSNMF(np.int32(2), rank_penalty=np.float32(0.5), memory=np.float16(0.125))
    expected = OnlineSNMF(2, rank_penalty=0.5, memory=0.125).fit(X)
    np.testing.assert_array_equal(of_numpy.fit(X).components_, expected.components_)
    with pytest.raises(ValueError, match="rank_penalty"):
        OnlineSNMF(rank_penalty=np.float32(np.inf)).fit(X)


# Sparse matrices ----------------------------------------------------------------------------------


def texts(n_samples, n_features=600, n_topics=6, seed=0):
    """Rows of a few words each, of a topic; topics follow one another, words lie scattered."""
    rng = np.random.default_rng(seed)
    words = rng.permutation(n_features).reshape(n_topics, -1)
    X = np.zeros((n_samples, n_features))
    for t, topic in enumerate(rng.integers(n_topics, size=n_samples) * (np.arange(n_samples) > 20)):
        X[t, rng.choice(words[topic, :25], 4)] = rng.random(4) + 0.5
    X[5] = 0
    return X


@pytest.mark.jit
@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        (np.float32, {}),
        (np.float64, {}),
        (np.float64, {"memory": None, "recycle": True}),
        (np.float64, {"memory": 100, "recycle": True, "n_components": 5}),  # 30: ties of units
        (np.float64, {"n_components": 40, "rank_penalty": 0.0}),
        (np.float64, {"initial_activity": 5.0, "activity_gain": 0.5, "memory": None}),
        (np.float64, {"track_cost": True}),
        (np.float64, {"similarity_offset": 0.1}),
    ],
    ids=str,
)
def test_rows_of_few_of_the_features_teach_what_dense_ones_teach(dtype, settings):
    X = texts(1500).astype(dtype)
    tol = 1e-10 if dtype == np.float64 else 1e-5
    sparse, dense = (
        OnlineSNMF(**{"n_components": 8, "tol": tol / 10} | settings).partial_fit(X[:100])
        for _ in range(2)
    )
    for rows in (slice(100, 101), slice(101, 900), slice(900, None)):
        Y = sparse.partial_fit_transform(csr_array(X[rows]))
        np.testing.assert_allclose(Y, dense.partial_fit_transform(X[rows].copy()), atol=1e3 * tol)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e2 * tol)
    np.testing.assert_allclose(sparse.lateral_weights_, dense.lateral_weights_, atol=1e2 * tol)
    np.testing.assert_array_equal(sparse.unit_births_, dense.unit_births_)
    assert sparse.n_samples_seen_ == 1500
    np.testing.assert_allclose(sparse.transform(csr_array(X)), dense.transform(X), atol=1e3 * tol)


def test_a_sparse_block_that_is_interrupted_leaves_a_network_that_goes_on():
    X = texts(300)
    net, expected = (OnlineSNMF(8).partial_fit(X[:72]) for _ in range(2))
    learn, n_calls = Network.learn, iter(range(10))

    def interrupted(self, X, **options):
        responses = learn(self, X, **options)
        if next(n_calls) == 1:
            raise KeyboardInterrupt
        return responses

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net.partial_fit(csr_array(X[72:]))
    assert net.n_samples_seen_ == 216
    net.partial_fit(csr_array(X[216:]))
    expected.partial_fit(csr_array(X[72:]))
    np.testing.assert_array_equal(net.components_, expected.components_)


@pytest.mark.jit
@pytest.mark.parametrize("kind", [csr_array, csr_matrix, csc_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("track_cost", [False, True])
def test_sparse_rows_with_few_zeros_teach_just_what_dense_ones_teach(kind, dtype, track_cost):
    rng = np.random.default_rng(0)
    shape = (2 * BATCH + 50, 30)
    X = (rng.standard_normal(shape) * (rng.random(shape) < 0.4)).astype(dtype)
    sparse, dense = (OnlineSNMF(20, track_cost=track_cost) for _ in range(2))
    for rows in (slice(0, 3), slice(3, None)):
        Y = sparse.partial_fit_transform(kind(X[rows]))
        np.testing.assert_array_equal(Y, dense.partial_fit_transform(X[rows].copy()))
        np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    if track_cost:  # which is summed up in batches, and rounds
        assert sparse.cost_ == pytest.approx(dense.cost_, rel=1e-9)
        for model in (sparse, dense):
            model.learner_.cost = None
    assert_same_model(sparse, dense)
    for method in ("transform", "predict", "score"):
        np.testing.assert_array_equal(getattr(sparse, method)(kind(X)), getattr(dense, method)(X))
    shuffled = [OnlineSNMF(20, n_epochs=2, shuffle=True, random_state=0) for _ in range(2)]
    assert_same_model(shuffled[0].fit(kind(X)), shuffled[1].fit(X))


@pytest.mark.jit
def test_a_large_sparse_matrix_is_never_dense_as_a_whole():
    X = random_array((20_000, 2_000), density=0.001, random_state=0, format="csr")
    net = OnlineSNMF(4)
    tracemalloc.start()
    net.partial_fit(X)
    net.predict(X)
    assert tracemalloc.get_traced_memory()[1] < 20_000 * 2_000 * 8 / 2
    tracemalloc.stop()
