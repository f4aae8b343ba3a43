"""Laws of the offline solver."""

import time
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import estimator_checks_generator

from hebbnmf.datasets import make_three_gaussians
from hebbnmf.estimators import SymNMF


def literal_cost(A, Y):
    return np.sum((A - Y @ Y.T) ** 2)


def projected_gradient(A, Y):
    gradient = 4 * (Y @ Y.T - A) @ Y
    return np.where(Y > 0, gradient, np.minimum(gradient, 0))


def stopped(X, **parameters):
    """Fit for few iterations, without the warning that they did not suffice."""
    with pytest.warns(ConvergenceWarning):
        return SymNMF(**parameters).fit(X)


def start_of(X, n_components):
    """The PCA start, written out as section III.B has it."""
    centred = X - X.mean(axis=0)
    scores = X @ np.linalg.svd(centred, full_matrices=False)[2].T
    scores *= np.sign(np.sum(scores * np.abs(scores), axis=0))
    half = n_components // 2
    return np.maximum(np.hstack([scores[:, : n_components - half], -scores[:, :half]]), 0)


def lbfgs_cost(X, start):
    A, shape = X @ X.T, start.shape

    def value_and_slope(flat):
        Y = flat.reshape(shape)
        return literal_cost(A, Y), (4 * (Y @ (Y.T @ Y) - X @ (X.T @ Y))).ravel()

    bounds = [(0, None)] * start.size
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-6}
    return minimize(
        value_and_slope, start.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).fun


def signed_matrix(seed, n_samples=40):
    A = np.random.default_rng(seed).normal(size=(n_samples, n_samples))
    return A + A.T


def blobs(seed, n_samples=120, n_features=5):
    return make_blobs(n_samples, n_features, centers=4, center_box=(-4, 4), random_state=seed)


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pair
        for pair in estimator_checks_generator(SymNMF(affinity="precomputed"))
        # This one check hands plain data to estimators that declare themselves pairwise.
        if pair[1].func.__name__ != "check_clustering"
    ],
)
def test_contract_of_scikit_learn_for_precomputed_similarity(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", range(10))
def test_no_worse_than_lbfgs_from_the_same_start_on_the_data_of_the_paper(seed):
    X, _ = make_three_gaussians(random_state=seed)
    model = SymNMF().fit(X)
    assert model.cost_ <= lbfgs_cost(X, start_of(X, 3)) * (1 + 1e-9)


def test_hundred_datasets_of_the_paper_converge_in_few_iterations():
    counts, lost = [], []
    for seed in range(100):
        X, _ = make_three_gaussians(random_state=seed)
        A = X @ X.T
        model = SymNMF().fit(X)
        counts.append(model.n_iter_)
        bound = model.tol * np.linalg.norm(A) ** 1.5
        lost.append(np.linalg.norm(projected_gradient(A, model.embedding_)) > bound * (1 + 1e-6))
    assert np.median(counts) <= 8
    assert max(counts) <= 20
    assert not any(lost)


def test_start_is_that_of_the_paper_for_three_components():
    X, _ = make_three_gaussians(random_state=3)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        model = SymNMF(max_iter=1).fit(X)
    np.testing.assert_allclose(
        model.cost_history_[0], literal_cost(X @ X.T, start_of(X, 3)), rtol=1e-12
    )


@pytest.mark.parametrize("n_components", [1, 2, 4, 7])
@pytest.mark.parametrize("affinity", ["linear", "precomputed"])
def test_every_number_of_components_starts_alive(n_components, affinity):
    X, _ = make_three_gaussians(60, random_state=1)
    for shifted in (X, X + 10.0):  # far from the origin, all projections have one sign
        given = shifted if affinity == "linear" else shifted @ shifted.T
        model = SymNMF(n_components, affinity=affinity, random_state=0, tol=1e-4).fit(given)
        assert model.cost_ < np.sum((shifted.T @ shifted) ** 2)
        # A column of zeros has no gradient: those of the start would still be zero.
        assert model.embedding_.shape == (60, n_components)
        assert model.embedding_.any(axis=0).all()


@pytest.mark.parametrize("init", ["pca", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_data_and_their_similarity_give_equal_results(seed, init):
    X, _ = blobs(seed)
    ours = SymNMF(4, init=init, random_state=0).fit(X)
    theirs = SymNMF(4, init=init, affinity="precomputed", random_state=0).fit(X @ X.T)
    np.testing.assert_allclose(
        theirs.embedding_, ours.embedding_, atol=1e-7 * ours.embedding_.max()
    )
    np.testing.assert_array_equal(theirs.labels_, ours.labels_)
    np.testing.assert_allclose(theirs.cost_, ours.cost_, rtol=1e-9)


def test_more_features_than_samples_give_the_result_of_their_similarity():
    X = np.random.default_rng(0).normal(size=(15, 80))
    ours = SymNMF(4).fit(X).embedding_
    theirs = SymNMF(4, affinity="precomputed").fit(X @ X.T).embedding_
    np.testing.assert_allclose(theirs, ours, atol=1e-7 * ours.max())


# Six components of two-dimensional data have a flat optimum, where rounding moves the factor.
@pytest.mark.parametrize(("n_components", "atol"), [(3, 1e-9), (6, 1e-4)])
def test_permuted_samples_permute_the_embedding(n_components, atol):
    X, _ = make_three_gaussians(90, random_state=0)
    order = np.random.default_rng(0).permutation(90)
    model = SymNMF(n_components, random_state=0).fit(X)
    permuted = clone(model).fit(X[order])
    np.testing.assert_allclose(permuted.embedding_, model.embedding_[order], atol=atol)
    np.testing.assert_array_equal(permuted.labels_, model.labels_[order])


@pytest.mark.parametrize("affinity", ["linear", "precomputed"])
@pytest.mark.parametrize("scale", [1e-60, 1e-3, 1e60])
def test_scaled_data_scale_the_embedding(scale, affinity):
    X, _ = make_three_gaussians(60, random_state=0)

    def fit(X):
        return SymNMF(affinity=affinity).fit(X if affinity == "linear" else X @ X.T)

    plain, scaled = fit(X), fit(scale * X)
    np.testing.assert_allclose(scaled.embedding_ / scale, plain.embedding_, atol=1e-9)
    np.testing.assert_allclose(scaled.cost_ / scale**4, plain.cost_, rtol=1e-9)


def test_data_whose_fourth_powers_vanish_keep_their_embedding():
    X, _ = make_three_gaussians(60, random_state=0)
    tiny = SymNMF().fit(1e-100 * X)
    np.testing.assert_allclose(tiny.embedding_ / 1e-100, SymNMF().fit(X).embedding_, atol=1e-9)


@pytest.mark.parametrize("init", ["pca", "random"])
@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_cost_never_rises_and_ends_at_the_cost_of_the_embedding(init, n_components):
    X, _ = blobs(0)
    model = SymNMF(n_components, init=init, random_state=0).fit(X)
    assert len(model.cost_history_) == model.n_iter_ + 1
    assert np.all(np.diff(model.cost_history_) <= 0)
    np.testing.assert_allclose(model.cost_, literal_cost(X @ X.T, model.embedding_), rtol=1e-9)


def test_history_is_the_cost_after_each_iteration():
    X, _ = blobs(1)
    full = SymNMF(4).fit(X)
    assert full.n_iter_ > 3
    for n_iter in range(1, 4):
        part = stopped(X, n_components=4, max_iter=n_iter)
        np.testing.assert_allclose(part.cost_, full.cost_history_[n_iter], rtol=1e-9)


def test_signed_similarity_descends_to_a_stationary_point():
    A = signed_matrix(0)
    model = SymNMF(5, affinity="precomputed").fit(A)
    bound = 1.01e-6 * np.linalg.norm(A) ** 1.5
    assert model.embedding_.min() >= 0
    assert np.linalg.norm(projected_gradient(A, model.embedding_)) < bound
    assert model.cost_ < np.sum(A**2)


def test_asymmetry_within_rounding_does_not_spoil_convergence():
    A = signed_matrix(1)
    skewed = A + 1e-9 * np.abs(A).max() * np.triu(np.ones_like(A))
    model = SymNMF(3, affinity="precomputed", tol=1e-11).fit(skewed)
    symmetric = (skewed + skewed.T) / 2
    bound = 1.01e-11 * np.linalg.norm(A) ** 1.5
    assert np.linalg.norm(projected_gradient(symmetric, model.embedding_)) < bound


def test_negative_definite_similarity_has_an_embedding_of_zeros():
    model = SymNMF(2, affinity="precomputed", tol=1e-9).fit(-np.eye(10))
    np.testing.assert_allclose(model.cost_, 10, rtol=1e-6)


def test_exact_factor_is_found_and_recognised():
    Y = np.kron(np.eye(3), np.ones((10, 1))) * np.linspace(1, 2, 30)[:, None]
    found = SymNMF(3, affinity="precomputed", tol=1e-10).fit(Y @ Y.T)
    assert found.cost_ < 1e-15 * np.sum((Y.T @ Y) ** 2)
    assert adjusted_rand_score(found.labels_, np.repeat(range(3), 10)) == 1
    given = SymNMF(3, init=Y, affinity="precomputed").fit(Y @ Y.T)
    assert given.n_iter_ == 0
    np.testing.assert_allclose(given.embedding_, Y, rtol=1e-12)


def test_random_start_has_the_norm_of_the_similarity_on_centred_data():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X -= X.mean(axis=0)
    uniform = np.random.RandomState(0).uniform(size=(50, 4))
    start = uniform * np.sqrt(np.linalg.norm(X.T @ X) / np.linalg.norm(uniform.T @ uniform))
    model = SymNMF(4, init="random", random_state=0).fit(X)
    np.testing.assert_allclose(model.cost_history_[0], literal_cost(X @ X.T, start), rtol=1e-12)


def test_start_close_to_zero_grows_to_an_optimum():
    X, _ = make_three_gaussians(60, random_state=0)
    start = 1e-10 * np.random.default_rng(0).random((60, 3))
    model = SymNMF(init=start, tol=1e-12).fit(X)
    assert model.cost_ < 0.2 * np.sum((X.T @ X) ** 2)


def test_silent_samples_have_no_label():
    X, _ = make_three_gaussians(30, random_state=0)
    X[[4, 9]] = 0
    labels = SymNMF().fit_predict(X)
    np.testing.assert_array_equal(np.flatnonzero(labels == -1), [4, 9])
    np.testing.assert_array_equal(SymNMF().fit_predict(np.zeros((5, 2))), [-1] * 5)


def test_equal_samples_share_one_row():
    model = SymNMF(2, tol=1e-8, random_state=0).fit(np.full((20, 3), 2.0))
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, 12, rtol=1e-4)


def test_output_columns_are_named_and_there_is_no_transform():
    X, _ = blobs(0)
    model = SymNMF(4)
    frame = model.set_output(transform="pandas").fit_transform(X)
    assert list(frame.columns) == ["symnmf0", "symnmf1", "symnmf2", "symnmf3"]
    np.testing.assert_array_equal(frame.to_numpy(), model.embedding_)
    assert not hasattr(model, "transform")


@pytest.fixture(params=["linear", "precomputed"])
def problem(request):
    """What to fit and with which affinity, its similarity, and the optimum."""
    X, _ = make_three_gaussians(24, random_state=0)
    A = X @ X.T
    given, affinity = (X if request.param == "linear" else A), {"affinity": request.param}
    return given, affinity, A, SymNMF(tol=1e-12, **affinity).fit(given).embedding_


@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4, 1e-5])
def test_newton_steps_converge_superlinearly(problem, size):
    X, affinity, A, optimum = problem
    noise = np.random.default_rng(0).uniform(-size, size, optimum.shape)
    start = optimum * (1 + noise)
    model = stopped(X, init=start, max_iter=1, tol=1e-15, **affinity)
    before, after = (
        np.linalg.norm(projected_gradient(A, Y)) / np.linalg.norm(A) ** 1.5
        for Y in (start, model.embedding_)
    )
    # The step solves for the gradient up to the share sqrt(|gradient|), if the Hessian is right.
    assert after < before**1.5


def test_step_without_positive_curvature_is_the_scaled_gradient(problem):
    X, affinity, A, optimum = problem
    start = 0.01 * optimum  # close to zero the cost bends downwards
    step = 4 * (start @ start.T - A) @ start / (4 * np.sum(start**2, axis=0))
    model = stopped(X, init=start, max_iter=1, **affinity)
    halved = [np.maximum(start - 0.5**n * step, 0) for n in range(20)]
    assert min(np.abs(model.embedding_ - Y).max() for Y in halved) < 1e-12


@pytest.mark.parametrize("size", [1e-2, 1e-5, 1e-8])
def test_history_keeps_the_digits_of_small_decreases(problem, size):
    X, affinity, A, optimum = problem
    start = optimum * (1 + np.random.default_rng(2).uniform(-size, size, optimum.shape))
    model = stopped(X, init=start, max_iter=1, tol=1e-15, **affinity)
    # A - Y1 Y1' = E - C with C the change: the difference of squares, without cancelling
    D = model.embedding_ - start
    E, C = A - start @ start.T, start @ D.T + D @ start.T + D @ D.T
    expected = -np.sum(C * (C - 2 * E))
    rounding = 1e-15 * model.cost_
    assert np.subtract(*model.cost_history_) == pytest.approx(expected, rel=1e-6, abs=rounding)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_unattainable_tolerance_ends_where_no_step_descends():
    model = SymNMF(3, affinity="precomputed", init=1.1 * np.eye(3), tol=1e-300).fit(np.eye(3))
    assert model.n_iter_ < 20
    np.testing.assert_allclose(model.embedding_, np.eye(3), atol=1e-12)


def test_paper_sized_fit_is_quick():
    X, _ = make_three_gaussians(random_state=0)
    SymNMF().fit(X)
    begin = time.perf_counter()
    SymNMF().fit(X)
    assert time.perf_counter() - begin < 0.1


def test_memory_is_linear_in_the_number_of_samples():
    X, _ = blobs(0, n_samples=20_000)
    model = SymNMF(3, max_iter=2)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * X.nbytes  # one n_samples x n_samples array would be 4000 times X


X10 = np.random.default_rng(0).normal(size=(10, 3))


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"affinity": "precomputed"}, X10, r"shape \(10, 3\).*square similarity matrix"),
        ({"affinity": "precomputed"}, np.triu(np.ones((4, 4))), "must be symmetric"),
        ({"affinity": "cosine"}, X10, "affinity='cosine' cannot be used: set it to 'linear'"),
        ({}, np.where(X10 > 1, np.nan, X10), "Input X contains NaN"),
        ({"n_components": 11}, X10, "n_components=11 exceeds n_samples=10"),
        ({"n_components": 0}, X10, "n_components=0 cannot be used: set it to an integer"),
        ({"n_components": 2.5}, X10, "n_components=2.5 cannot be used"),
        ({"max_iter": 0}, X10, "max_iter=0 cannot be used: set it to an integer"),
        ({"tol": 0.0}, X10, "tol=0.0 cannot be used: set it to a finite number"),
        ({"tol": np.nan}, X10, "tol=nan cannot be used: set it to a finite number"),
        ({"tol": "small"}, X10, "tol='small' cannot be used: set it to a finite number"),
        ({"init": "kmeans"}, X10, "init='kmeans' cannot be used: set it to 'pca' or 'random'"),
        ({"init": -np.ones((10, 3))}, X10, "init has negative entries, such as -1"),
        ({"init": np.ones((9, 3))}, X10, r"init has shape \(9, 3\).*make \(10, 3\)"),
        ({"init": np.full((10, 3), np.inf)}, X10, "Input init contains infinity"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        SymNMF(**parameters).fit(X)
