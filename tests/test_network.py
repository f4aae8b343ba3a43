"""The engine: blocks, working sets, folds and threads change nothing."""

import os
import pickle
import signal
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from scipy.optimize import nnls
from threadpoolctl import threadpool_info, threadpool_limits

from hebbnmf import Network, Settings
from hebbnmf.clustering import cluster_labels
from hebbnmf.datasets import extract_patches, load_natural_images, make_sparse_sources
from hebbnmf.engine import network
from hebbnmf.engine._blas import ONE_BLAS_THREAD
from hebbnmf.engine.blocks import learn_rows, respond_rows
from hebbnmf.engine.response import FEW_UNITS
from hebbnmf.engine.state import BLOCK, empty_weights
from hebbnmf.preprocessing import PatchNormalizer
from reference import online_snmf

SCHEDULES = [(None, 1.0), (600.0, 0.01)]


def make(n, m, dtype=np.float64, **settings):
    return Network(n, Settings(m, **settings).rules(dtype), dtype)


def exact(X, m, rank_penalty, schedule=(None, 1.0)):
    initial, gain = schedule
    return make(
        X.shape[1],
        m,
        rank_penalty=rank_penalty,
        memory=None,
        initial_activity=initial,
        activity_gain=gain,
        tol=1e-12,
        max_sweeps=10_000,
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_working_set_of_a_large_network_gives_the_responses_of_the_oracle(schedule):
    X = make_sparse_sources(100, 50, random_state=0)
    net = exact(X, 90, 0.0, schedule)
    Y, _, n_unconverged, _ = net.learn(X.copy())
    assert net.n_units == 90 > FEW_UNITS
    assert n_unconverged == 0
    expected, W, M, Yhat, _ = online_snmf(X.copy(), 90, 0.0, initial=schedule[0], gain=schedule[1])
    np.testing.assert_allclose(Y, expected, rtol=0, atol=1e-8 * expected.max())
    np.testing.assert_allclose(net.components, W, rtol=0, atol=1e-8)
    np.testing.assert_allclose(net.lateral_weights, M, rtol=0, atol=1e-8)
    np.testing.assert_allclose(net.cumulative_activity, Yhat, rtol=1e-8)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("m", [10, 90])
@pytest.mark.parametrize("size", [1, 5, 33, 500])
def test_no_block_size_changes_the_weights(size, m, schedule, monkeypatch):
    # 130 samples: blocks that recruit in their middle, and a last one that is not full.
    X = make_sparse_sources(130, 40, random_state=1)
    usual = exact(X, m, 40.0, schedule)
    Y = usual.learn(X.copy()).Y
    monkeypatch.setattr(network, "BLOCK", size)
    other = exact(X, m, 40.0, schedule)
    np.testing.assert_allclose(other.learn(X.copy()).Y, Y, rtol=0, atol=1e-9)
    np.testing.assert_allclose(other.components, usual.components, rtol=0, atol=1e-10)
    np.testing.assert_allclose(other.lateral_weights, usual.lateral_weights, rtol=0, atol=1e-10)


def test_responses_that_converge_slowly_are_those_of_a_direct_solver():
    # Raw patches: sweeps alone take hundreds. Under the plain schedule the response minimises a
    # convex energy with Gram matrix G = diag(Yhat) (I + M), that is |L' y - L^-1 b| for G = L L'.
    X = PatchNormalizer().fit_transform(
        extract_patches(load_natural_images(), 400, 10, dtype=float, random_state=0)
    )
    net = make(100, 80, rank_penalty=0.0, tol=1e-10)
    net.learn(X)
    assert net.n_units == 80
    few = X[:25]
    Y, _, n_unconverged, _ = net.respond(few)
    assert n_unconverged == 0
    Yhat = net.cumulative_activity[:, None]
    L = np.linalg.cholesky(Yhat * (np.eye(80) + net.lateral_weights))
    drive = (Yhat * net.components) @ few.T
    best = [nnls(L.T, b)[0] for b in np.linalg.solve(L, drive).T]
    np.testing.assert_allclose(Y, best, atol=1e-6 * Y.max())


@pytest.mark.parametrize("schedule", [(None, 1.0), (2.0, 1.0)])
def test_weights_survive_the_fold_of_their_scales(schedule):
    X = np.tile(make_sparse_sources(400, 3, random_state=2), (10, 1))
    net = exact(X, 6, 0.25, schedule)
    Y = net.learn(X).Y
    # The scale of a row falls as its first cumulative activity over the present one.
    first = schedule[0] or np.array([y[y > 0][0] ** 2 for y in Y.T])
    assert (first / net.cumulative_activity < 2.0**-10).any()
    assert (net.state.s >= 2.0**-10).all()
    born = [np.flatnonzero(y)[0] for y in Y.T]
    for i, t in enumerate(born):
        # Before its birth a unit is silent; its first sample counts as if seen `first` / y^2 times.
        weight = Y[:, i].copy()
        weight[t] = (schedule[0] or weight[t] ** 2) / weight[t]
        np.testing.assert_allclose(net.components[i], weight @ X / weight.dot(Y[:, i]), atol=1e-11)


@pytest.mark.parametrize("memory", [None, 0.1])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (40, 60), (60, 40)])
@pytest.mark.parametrize("mean", [0.0, pytest.param(2.0, marks=pytest.mark.jit)])
def test_the_error_of_a_response_is_below_the_tolerance(mean, n, m, memory):
    # With a common mean, several eigenvalues are large or small: direct solves instead of steps.
    X = make_sparse_sources(400, n, random_state=4) + mean
    net = make(n, m, rank_penalty=0.0, memory=memory)
    net.learn(X)
    Y = net.respond(X[:100]).Y
    net.rules = net.rules._replace(tol=1e-12, tight_tol=1e-13, max_sweeps=10**5)
    tight = net.respond(X[:100])
    assert tight.n_unconverged == 0
    assert (np.abs(Y - tight.Y).max(axis=1) <= 1e-4 * tight.Y.max(axis=1)).all()


@pytest.mark.jit
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [2, 8, 16, 17, 40])
@pytest.mark.parametrize("tol", [1e-4, 1e-7])
def test_responses_to_data_that_are_not_centred_settle_in_both_precisions(tol, m, dtype):
    # Units almost in parallel: sweeps take thousands, and in float32 their moves end in rounding.
    X = np.random.default_rng(0).random((150, 300)).astype(dtype)
    net = make(300, m, rank_penalty=0.0, tol=tol, dtype=dtype)
    assert net.learn(X).n_unconverged == 0
    Y, _, n_unconverged, _ = net.respond(X)
    assert n_unconverged == 0
    drive = X @ net.components.T.astype(float)
    net_input = drive - Y @ net.lateral_weights.T
    bound = tol * Y.max() + 16 * np.finfo(dtype).eps * np.abs(drive).max()
    np.testing.assert_allclose(Y, np.maximum(net_input, 0), rtol=0, atol=bound)


@pytest.mark.parametrize("m", [17, 18, 19, 20])
def test_all_units_may_be_active_where_steps_contract_slowly(m):
    # Two groups of units that are almost alike: I + M has the eigenvalue 0.05.
    group = np.arange(m) % 2
    gram = np.where(group[:, None] == group, 0.95, 0.2)
    np.fill_diagonal(gram, 1)
    weights = empty_weights(m, m, float)
    weights.V[:] = gram
    weights.N_T[:, :m] = gram - np.eye(m)
    weights.s[:] = weights.Yhat[:] = 1
    net = make(m, m, tol=1e-9)
    net.restore(weights, m)
    expected = np.random.default_rng(0).uniform(1, 2, (20, m))  # W x = (I + M) x
    Y, _, n_unconverged, _ = net.respond(expected)
    assert n_unconverged == 0
    np.testing.assert_allclose(Y, expected, rtol=1e-8)


def test_units_that_always_respond_alike_settle():
    # A singular system: no direct solve on it, and sweeps have the last word.
    n, m = 30, 24
    rng = np.random.default_rng(0)
    weights = empty_weights(m, n, float)
    W = rng.normal(size=(m // 2, n))
    weights.V[:] = np.vstack([W, W])
    lateral = np.tile(0.3 * np.abs(np.corrcoef(W)), (2, 2))
    half = np.arange(m // 2)
    lateral[half, half + m // 2] = lateral[half + m // 2, half] = 1
    np.fill_diagonal(lateral, 0)
    weights.N_T[:, :m] = lateral
    weights.s[:] = weights.Yhat[:] = 1
    net = make(n, m, rank_penalty=0.0)
    net.restore(weights, m)
    X = rng.normal(size=(50, n))
    Y, _, n_unconverged, _ = net.respond(X)
    assert n_unconverged == 0
    net_input = X @ net.components.T - Y @ net.lateral_weights.T
    np.testing.assert_allclose(Y, np.maximum(net_input, 0), atol=1e-3 * Y.max())


@pytest.mark.parametrize("m", [6, 40])
def test_labels_are_the_strongest_units_with_or_without_the_responses(m):
    X = make_sparse_sources(300, 20, random_state=0)
    X[200] = 0
    net, other = (make(20, m, rank_penalty=100.0) for _ in range(2))
    kept, labels_alone = net.learn(X), other.learn(X, keep=False)
    assert labels_alone.Y.shape == (0, net.n_units)
    assert kept.labels[200] == -1
    for responses in (kept, net.respond(X)):
        np.testing.assert_array_equal(responses.labels, cluster_labels(responses.Y))
    np.testing.assert_array_equal(labels_alone.labels, kept.labels)
    np.testing.assert_array_equal(other.components, net.components)
    np.testing.assert_array_equal(net.respond(X, keep=False).labels, net.respond(X).labels)


@pytest.mark.jit
def test_the_number_of_threads_changes_no_bit():
    X = make_sparse_sources(600, 10, random_state=0)
    net = make(10, 70, rank_penalty=0.0)
    net.learn(X[:120])
    all_cores = net.respond(X).Y
    for n_jobs in (1, 2, 5, -1):
        np.testing.assert_array_equal(net.respond(X, n_jobs).Y, all_cores)


def test_responding_changes_nothing():
    X = make_sparse_sources(300, 5, random_state=0)
    net = make(5, 10)
    net.learn(X)
    before = pickle.dumps(net)
    net.respond(X)
    assert pickle.dumps(net) == before


def test_room_for_units_is_made_as_they_come():
    X = make_sparse_sources(300, 4, random_state=0)
    net = make(4, 10**9, rank_penalty=2.0)
    tracemalloc.start()
    Y = net.learn(X).Y
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert Y.shape == (300, net.n_units)
    assert peak < 20 * 8 * 300**2


@pytest.mark.parametrize("m", [8, 80])
def test_unconverged_samples_are_counted(m):
    X = make_sparse_sources(200, 20, random_state=0)
    net = make(20, m, rank_penalty=0.0, tol=1e-12, max_sweeps=2)
    assert 0 < net.learn(X).n_unconverged <= 200
    assert 0 < net.respond(X).n_unconverged <= 200


def cyclic(m, max_sweeps):
    """Three units inhibit each other in a circle, and have no response to what drives all three."""
    net = make(m, m + 2, rank_penalty=1e10, memory=None, max_sweeps=max_sweeps)
    weights = empty_weights(m, m, np.float64)
    weights.V[:], weights.s[:], weights.Yhat[:] = np.eye(m), 1.0, 1e6
    for i in range(3):
        weights.N_T[i, (i + 1) % 3] = 2.0
    net.restore(weights, 100)
    X = make_sparse_sources(4 * BLOCK, m, random_state=0)
    X[:, :3] = X[::7] = 0
    X[::7, :3] = 1
    return net, X


@pytest.mark.parametrize("m", [8, 80])
def test_a_response_that_did_not_converge_ends_the_call_of_a_kernel(m):
    net, X = cyclic(m, 100)
    state, Y, labels = net.state, np.zeros_like(X), np.zeros(len(X), np.intp)
    for start, done in ((0, 1), (1, 7), (8, 7)):
        assert respond_rows(m, X[start:], Y, labels, state, net.rules) == (done, 1)
        found = learn_rows(m, 0, True, 100, BLOCK, X[start:], Y[:0], labels, state, net.rules)
        assert found == (m, done, 1)
    assert net.respond(X).n_unconverged == len(X[::7])


@pytest.mark.parametrize("m", [8, 80])
def test_calls_that_end_early_change_neither_weights_nor_responses(m):
    # Just below 100 sweeps calls go to their end: the same but for rounding, and for the units that
    # go in circles, which an even number of sweeps more leaves where they were.
    nets, Ys = [], []
    for max_sweeps, chunk in ((98, 4 * BLOCK), (100, 4 * BLOCK), (100, BLOCK), (100, 3 * BLOCK)):
        net, X = cyclic(m, max_sweeps)
        parts = [net.learn(X[i : i + chunk]) for i in range(0, len(X), chunk)]
        assert [part.deferred for part in parts] == [[]] * len(parts)
        assert sum(part.n_unconverged for part in parts) == len(X[::7])
        nets.append(net)
        Ys.append(np.vstack([part.Y for part in parts]))
    np.testing.assert_allclose(Ys[1], Ys[0], atol=1e-9)
    np.testing.assert_allclose(nets[1].components, nets[0].components, atol=1e-9)
    for net, Y in zip(nets[2:], Ys[2:], strict=True):
        np.testing.assert_array_equal(Y, Ys[1])
        np.testing.assert_array_equal(net.components, nets[1].components)
    one, two = (nets[1].respond(X, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.Y, two.Y)
    assert one.n_unconverged == two.n_unconverged == len(X[::7])


@pytest.mark.parametrize("m", [8, 80])
def test_samples_are_deferred_between_responses_that_did_not_converge(m):
    net, X = cyclic(m, 100)
    X[[7, 30]] = -1000 * np.eye(m)[4]  # the first in the place of a sample that has no response
    assert net.learn(X, recruit=False).deferred == [7, 30]
    assert net.n_samples == 100 + len(X) - 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_row_at_a_time_equals_one_chunk(dtype):
    X = make_sparse_sources(150, 6, random_state=0).astype(dtype)
    chunk, rows = (make(6, 12, dtype, rank_penalty=6.0, tol=1e-10) for _ in range(2))
    chunk.learn(X.copy())
    for x in X:
        y = rows.learn(x[None]).Y
        assert y.shape == (1, rows.n_units)
    atol = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(rows.components, chunk.components, atol=atol)
    assert rows.n_samples == chunk.n_samples == 150


@pytest.mark.jit
def test_read_only_data_and_weights_compile_no_second_kernel(tmp_path):
    X = make_sparse_sources(300, 5, random_state=0)
    net = make(5, 10)
    net.learn(X)
    net.respond(X)
    compiled = [len(kernel.nopython_signatures) for kernel in (learn_rows, respond_rows)]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    joblib.dump(net, tmp_path / "net")
    again = joblib.load(tmp_path / "net", mmap_mode="r")
    np.testing.assert_array_equal(again.learn(mapped).Y, net.learn(X).Y)
    np.testing.assert_array_equal(again.respond(mapped).Y, net.respond(X).Y)
    assert [len(k.nopython_signatures) for k in (learn_rows, respond_rows)] == compiled


def test_learning_in_several_threads_leaves_the_threads_of_blas_as_they_were():
    X = make_sparse_sources(150, 80, random_state=0)

    def learn(_):
        net = make(80, 20, rank_penalty=0.0)
        net.learn(X)
        return net.components

    serial = learn(0)
    before = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
    with ThreadPoolExecutor(4) as pool:
        for W in pool.map(learn, range(8)):
            np.testing.assert_array_equal(W, serial)
    after = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
    assert after == before


def test_blas_keeps_to_one_thread_whichever_threads_learn():
    def n_threads():
        return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}

    with (
        threadpool_limits(2, "blas"),  # set by this thread, not by those that learn
        ThreadPoolExecutor(1) as first,
        ThreadPoolExecutor(1) as second,
    ):
        one = ONE_BLAS_THREAD
        for thread, step, expected in (
            (first, one.__enter__, {1}),
            (second, one.__enter__, {1}),
            (first, one.__exit__, {1}),
            (second, one.__exit__, {2}),
        ):
            thread.submit(step).result()
            assert n_threads() == expected


@pytest.mark.jit
def test_bits_do_not_depend_on_the_threads_of_blas_while_units_are_recruited():
    X = np.random.default_rng(0).normal(size=(1440, 30))
    X[:720, 3:] = 0  # few units at first, then some five hundred

    def learned(n_rows):
        net = make(30, 600, rank_penalty=0.0)
        for start in range(0, len(X), n_rows):
            net.learn(X[start : start + n_rows])
        return net.components

    with threadpool_limits(1, "blas"):
        expected = learned(1440)
    assert len(expected) > 300
    with threadpool_limits(2, "blas"):
        for n_rows in (72, 720, 1440):
            np.testing.assert_array_equal(learned(n_rows), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_another_thread_learns_can_learn():
    with ONE_BLAS_THREAD.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends the child if it hangs
            with ONE_BLAS_THREAD:
                os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_samples_that_would_recruit_are_deferred_and_the_others_learned(schedule):
    X = make_sparse_sources(200, 6, random_state=3)
    X[:, 5] = 0
    X[[80, 81, 150]] = [0, 0, 0, 0, 0, 100]
    grown = exact(X, 20, 0.0, schedule)
    grown.learn(X[:40])
    rest = X[40:]
    # Room for two more, and a threshold that only the new direction exceeds.
    grown.rules = grown.rules._replace(max_units=grown.n_units + 2, threshold=5000.0)
    net, other = (pickle.loads(pickle.dumps(grown)) for _ in range(2))
    Y, _, _, deferred = net.learn(rest, recruit=False)
    assert deferred == [40, 41]  # the third finds the places taken
    assert (net.n_units, net.n_samples) == (grown.n_units, 198)
    assert not Y[deferred].any()
    other.rules = other.rules._replace(max_units=grown.n_units)
    learned = np.delete(np.arange(len(rest)), deferred)
    np.testing.assert_allclose(Y[learned], other.learn(rest[learned]).Y, atol=1e-9)
    np.testing.assert_allclose(net.components, other.components, atol=1e-12)
    np.testing.assert_allclose(net.lateral_weights, other.lateral_weights, atol=1e-12)


def test_inside_a_worker_of_joblib_one_thread_responds(monkeypatch):
    X = make_sparse_sources(600, 5, random_state=0)
    net = make(5, 10)
    net.learn(X)
    n_threads = []

    def recorded(n):
        n_threads.append(n)
        return ThreadPoolExecutor(n)

    monkeypatch.setattr(network, "ThreadPoolExecutor", recorded)
    for n_jobs in (None, 3, -1):
        net.respond(X, n_jobs)
    assert n_threads == [joblib.cpu_count(), 3, joblib.cpu_count()]
    n_threads.clear()
    joblib.Parallel(2, backend="threading")([joblib.delayed(net.respond)(X)] * 2)
    assert n_threads == [1, 1]
