import pickle
import warnings
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hebbnmf.datasets import extract_patches, load_natural_images
from hebbnmf.engine.plasticity import discount
from hebbnmf.preprocessing import (
    MissingFiller,
    PatchNormalizer,
    RunningScaler,
    ZCAWhitener,
    image_filters,
    transform_rows,
    unnamed_rows,
)


def correlated(n_samples=200, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((n_features, n_features))
    return rng.standard_normal((n_samples, n_features)) @ mixing + rng.normal(size=n_features)


@pytest.mark.parametrize("transformer", [PatchNormalizer(), RunningScaler(), ZCAWhitener()])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_keep_their_names(transformer, library):
    X = pd.DataFrame(correlated(20, 3), columns=["a", "b", "c"])
    frame = transformer.set_output(transform=library).fit_transform(X)
    assert list(frame.columns) == ["a", "b", "c"]
    plain = transformer.set_output(transform="default").fit_transform(X)
    np.testing.assert_array_equal(frame.to_numpy(), plain)


def test_normalised_patch_is_the_formula():
    X = correlated(5, 16) * 30 + 100
    expected = [(x - np.mean(x)) / np.sqrt(np.var(x) + 10.0) for x in X]
    np.testing.assert_allclose(PatchNormalizer().fit_transform(X), expected)


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e3), st.integers(0, 2**32 - 1))
def test_normalising_ignores_brightness_and_without_eps_contrast(shift, scale, seed):
    X = np.random.default_rng(seed).standard_normal((3, 16))
    normalizer = PatchNormalizer(eps=0.0)
    np.testing.assert_allclose(
        normalizer.fit_transform(scale * X + shift), normalizer.fit_transform(X), atol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eps", [0.0, 10.0])
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7])
def test_flat_patch_becomes_zero(value, eps, dtype):
    flat = np.full((2, 49), value, dtype=dtype)
    np.testing.assert_allclose(PatchNormalizer(eps=eps).fit_transform(flat), 0.0, atol=1e-6)


def moments_in_order(X, memory):
    """Weigh every row by the discounts of all rows after it, and take the moments: no recursion."""
    gammas = np.array([discount(t, memory or 0) for t in range(len(X))])
    weights = np.append(np.cumprod(gammas[:0:-1])[::-1], 1.0)
    mean = weights @ X / weights.sum()
    return mean, weights @ (X - mean) ** 2 / weights.sum(), weights.sum()


@pytest.mark.parametrize("memory", [None, 0.1, 20])
def test_running_moments_are_those_of_the_rows_so_far(memory):
    X = correlated(60) + 3
    scaler = RunningScaler(memory)
    Z = scaler.partial_fit_transform(X.copy())
    for t in (1, 2, 30, 60):
        mean, var, weight = moments_in_order(X[:t], memory)
        expected = (X[t - 1] - mean) / np.sqrt(np.where(var > 0, var, 1))
        np.testing.assert_allclose(Z[t - 1], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(scaler.mean_, mean)
    np.testing.assert_allclose(scaler.var_, var)
    assert scaler.weight_ == pytest.approx(weight)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.sampled_from([None, 0.2, 10]))
def test_no_chunking_changes_a_bit_of_what_is_scaled(sizes, memory):
    X = correlated(sum(sizes), 4)
    whole, parts = RunningScaler(memory), RunningScaler(memory)
    Z = whole.partial_fit_transform(X.copy())
    chunks = np.split(X.copy(), np.cumsum(sizes)[:-1])
    np.testing.assert_array_equal(np.vstack([parts.partial_fit_transform(c) for c in chunks]), Z)
    np.testing.assert_array_equal(parts.transform(X), whole.transform(X))
    np.testing.assert_array_equal(RunningScaler(memory).fit(X).mean_, whole.mean_)


def test_scaling_by_the_whole_stream_is_that_of_scikit_learn():
    X = correlated(500)
    scaler = RunningScaler().fit(correlated(seed=1)).fit(X)
    expected = StandardScaler().fit(X)
    np.testing.assert_allclose(scaler.transform(X), expected.transform(X), atol=1e-10)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, atol=1e-10)


@pytest.mark.parametrize("memory", [None, 0.1, 100])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_features_of_any_scale_stand_beside_each_other(memory, offset):
    X = correlated(300, 4, seed=2) + offset
    scales = np.array([1e-8, 1.0, 1e8, 1e100])
    Z = RunningScaler(memory).partial_fit_transform(X)
    np.testing.assert_allclose(
        RunningScaler(memory).partial_fit_transform(X * scales), Z, rtol=1e-7, atol=1e-6
    )
    # Sums of squares would lose offset**2 * 1e-16 = 1e-4 of the variance here.
    mean, var, _ = moments_in_order(X, memory)
    np.testing.assert_allclose(Z[-1], (X[-1] - mean) / np.sqrt(var), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -3e7, 1e-30])
@pytest.mark.parametrize("memory", [None, 20])
def test_constant_features_and_first_rows_become_zero(value, dtype, memory):
    X = np.full((1000, 2), value, dtype)
    X[:, 1] = np.arange(1000)
    scaler = RunningScaler(memory)
    Z = scaler.partial_fit_transform(X)
    assert Z.dtype == dtype
    assert not Z[:, 0].any()
    assert not Z[0].any()
    assert Z[1, 1] == pytest.approx(1, abs=0.1)
    assert scaler.scale_[0] == 1
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, atol=1e-3)


def test_a_feature_that_comes_to_rest_far_from_zero_is_constant():
    rest = np.full((20_000, 1), 1e9 / 3)
    Z = RunningScaler(memory=100).partial_fit_transform(np.vstack([rest[:50] * 2, rest]))
    assert np.abs(Z[-1000:]).max() < 1e-5


def test_single_precision_is_scaled_as_double_precision_is():
    X = (correlated(200) + 100).astype(np.float32)
    Z = RunningScaler().partial_fit_transform(X)
    np.testing.assert_allclose(Z, RunningScaler().partial_fit_transform(X.astype(float)), atol=1e-5)


def test_a_scaler_counts_only_rows_that_it_accepts():
    X = correlated(20, 3)
    scaler = RunningScaler().partial_fit(X)
    for bad in ([[1.0, np.nan, 2.0]], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match=r"NaN|features"):
            scaler.partial_fit_transform(bad)
    assert (scaler.n_samples_seen_, scaler.weight_) == (20, 20.0)
    with pytest.raises(NotFittedError):
        RunningScaler().transform(X)
    with pytest.raises(ValueError, match=r"memory=1 cannot be used: set it to a number of samples"):
        RunningScaler(memory=1).fit(X)


def test_a_scaled_frame_keeps_its_index_on_arrival():
    X = pd.DataFrame(correlated(20, 3), columns=list("abc"), index=range(5, 25))
    Z = RunningScaler().set_output(transform="pandas").partial_fit_transform(X)
    assert list(Z.columns) == list("abc")
    assert list(Z.index) == list(X.index)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.floats(-1e6, 1e6))
def test_any_chunking_gives_the_moments_of_the_whole(sizes, offset):
    X = correlated(sum(sizes), 4) + offset
    whitener = ZCAWhitener()
    for chunk in np.split(X.copy(), np.cumsum(sizes)[:-1]):
        whitener.partial_fit(chunk)
    assert whitener.n_samples_seen_ == len(X)
    np.testing.assert_allclose(whitener.mean_, X.mean(axis=0), rtol=1e-12, atol=1e-12)
    expected = np.cov(X.T, bias=True)
    # Raw second moments would lose offset**2 * 1e-16 = 1e-4 here.
    np.testing.assert_allclose(whitener.covariance_, expected, atol=1e-8)


def test_fit_equals_partial_fit_and_forgets():
    X, other = correlated(), correlated(seed=1)
    once = ZCAWhitener().fit(X)
    again = ZCAWhitener().fit(other).fit(X)
    streamed = ZCAWhitener().partial_fit(X[:1]).partial_fit(X[1:])
    np.testing.assert_array_equal(again.whitening_, once.whitening_)
    np.testing.assert_allclose(streamed.whitening_, once.whitening_, rtol=1e-9, atol=1e-12)


def test_fit_of_many_rows_sees_every_one():
    X = correlated(20_001, 3)
    whitener = ZCAWhitener().fit(X)
    assert whitener.n_samples_seen_ == 20_001
    np.testing.assert_allclose(whitener.covariance_, np.cov(X.T, bias=True))


def test_new_samples_renew_the_whitening_matrix():
    X = correlated()
    whitener = ZCAWhitener().fit(X[:100])
    before = whitener.whitening_.copy()
    after = whitener.partial_fit(X[100:]).whitening_
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, ZCAWhitener().fit(X).whitening_)


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_whitened_covariance_is_known(eps):
    X = correlated()
    whitener = ZCAWhitener(eps=eps)
    Z = whitener.fit_transform(X)
    variances, axes = np.linalg.eigh(np.cov(X.T, bias=True))
    expected = (axes * (variances / (variances + eps))) @ axes.T
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), expected, atol=1e-12)
    np.testing.assert_allclose(whitener.whitening_, whitener.whitening_.T, atol=1e-14)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-12)])
def test_inverse_restores_samples_of_any_rank(dtype, tolerance):
    X = correlated(100, 6).astype(dtype)
    X[:, 2] = 5.0
    X[:, 3] = X[:, 4]
    whitener = ZCAWhitener().fit(X)
    Z = whitener.transform(X)
    np.testing.assert_allclose(Z[:, 2], 0.0, atol=10 * tolerance)
    restored = whitener.inverse_transform(Z)
    assert restored.dtype == dtype
    np.testing.assert_allclose(restored, X, atol=tolerance, rtol=tolerance)


def test_single_sample_and_constant_data_are_defined():
    x = np.array([[3.0, 4.0]])
    whitener = ZCAWhitener(eps=0.25).partial_fit(x)
    np.testing.assert_array_equal(whitener.transform(x), [[0.0, 0.0]])
    np.testing.assert_allclose(whitener.whitening_, 2.0 * np.eye(2))


@pytest.mark.parametrize("X", [np.ones((5, 3)), np.eye(3), correlated(4, 3)[:, [0, 1, 1]]])
def test_exact_whitening_of_a_singular_covariance_is_refused(X):
    with pytest.raises(ValueError, match=r"eps=0.0 cannot whiten .* rank .*try eps=0.01"):
        ZCAWhitener(eps=0.0).fit(X)


def test_a_stream_may_start_singular():
    X = correlated(50, 3)
    whitener = ZCAWhitener(eps=0.0).partial_fit(X[:2])
    with pytest.raises(ValueError, match="rank 1 in 3 features"):
        whitener.transform(X)
    Z = whitener.partial_fit(X[2:]).transform(X)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(3), atol=1e-10)


@pytest.mark.parametrize("transformer", [PatchNormalizer, ZCAWhitener])
@pytest.mark.parametrize("eps", [-1.0, np.nan, np.inf, "ten"])
def test_bad_eps_is_refused(transformer, eps):
    with pytest.raises(ValueError, match=r"eps=.* cannot be used: set it to a finite number"):
        transformer(eps=eps).fit(correlated())


@pytest.mark.parametrize("first", [3, 20, 130])
def test_rows_on_arrival_are_whitened_by_the_matrix_of_the_latest_renewal(first):
    X = correlated(300)
    whitener, mirror = ZCAWhitener(), ZCAWhitener().fit(X[:first])
    np.testing.assert_array_equal(
        whitener.partial_fit_transform(X[:first]), ZCAWhitener().fit_transform(X[:first])
    )
    for n in range(first, 300):
        Z = whitener.partial_fit_transform(X[n : n + 1])
        np.testing.assert_allclose(Z, mirror.transform(X[n : n + 1]), rtol=1e-9, atol=1e-9)
        if len(f"{n + 1:b}".rstrip("0")) <= 4:
            mirror = ZCAWhitener().fit(X[: n + 1])
    np.testing.assert_allclose(whitener.covariance_, np.cov(X.T, bias=True))
    # Samples that do not pass are learned too, and count at once.
    whitener.partial_fit(X[:50])
    expected = ZCAWhitener().fit(np.vstack([X, X[:50]])).transform(X[:1])
    np.testing.assert_allclose(whitener.partial_fit_transform(X[:1]), expected)


@pytest.mark.parametrize("with_mean", [True, False])
def test_missing_values_on_arrival_are_filled_by_the_means_of_the_rows_so_far(with_mean):
    X = correlated(60, 3)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    filler = MissingFiller(with_mean).partial_fit(X[:10])
    Z = filler.partial_fit_transform(X[10:])
    for t, z in enumerate(Z, start=10):
        fill = np.nanmean(X[: t + 1], axis=0) if with_mean else 0.0
        np.testing.assert_allclose(z, np.where(np.isnan(X[t]), fill, X[t]))
    np.testing.assert_allclose(filler.mean_, np.nanmean(X, axis=0))


@pytest.mark.parametrize("step", [MissingFiller(), ZCAWhitener()])
def test_a_chunk_on_arrival_comes_in_the_container_that_was_set(step):
    X = pd.DataFrame(correlated(20, 3), columns=list("abc"), index=range(5, 25))
    step = step.set_output(transform="pandas")
    for chunk in (X[:8], X[8:]):
        Z = step.partial_fit_transform(chunk)
        assert list(Z.columns) == list("abc")
        assert list(Z.index) == list(chunk.index)


def test_inverse_refuses_another_width():
    with pytest.raises(ValueError, match="X has 3 features"):
        ZCAWhitener().fit(correlated()).inverse_transform(np.ones((2, 3)))


def test_pickled_whitener_continues_the_stream():
    X = correlated()
    whitener = ZCAWhitener().partial_fit(X[:50])
    copy = pickle.loads(pickle.dumps(whitener))
    np.testing.assert_array_equal(
        copy.partial_fit(X[50:]).whitening_, whitener.partial_fit(X[50:]).whitening_
    )


def test_image_filters_respond_to_images_as_weights_to_whitened_ones():
    X = correlated()
    whitener = ZCAWhitener().fit(X)
    W = np.random.default_rng(1).standard_normal((4, 6))
    filters = image_filters(W, whitener)
    np.testing.assert_allclose((X - X.mean(axis=0)) @ filters.T, whitener.transform(X) @ W.T)
    assert image_filters(W.astype(np.float32), whitener).dtype == np.float32
    assert image_filters(np.empty((0, 6)), whitener).shape == (0, 6)


def test_image_filters_refuse_a_whitener_of_other_data():
    with pytest.raises(ValueError, match="components have 3 features"):
        image_filters(np.ones((2, 3)), ZCAWhitener().fit(correlated()))
    with pytest.raises(NotFittedError):
        image_filters(np.ones((2, 3)), ZCAWhitener())


@pytest.mark.filterwarnings("error")
def test_rows_pass_through_steps_fitted_on_named_columns_in_order():
    X = correlated(20, 3)
    scaler = StandardScaler().fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    whitener = ZCAWhitener().fit((X - X.mean(axis=0)) / X.std(axis=0))
    expected = whitener.transform((X - X.mean(axis=0)) / X.std(axis=0))
    np.testing.assert_allclose(transform_rows([scaler, whitener], X), expected)
    assert transform_rows([], X) is X
    with pytest.raises(UserWarning, match="feature names"):
        scaler.transform(X)


def test_other_warnings_of_steps_are_heard():
    step = FunctionTransformer(np.log)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        transform_rows([step], np.zeros((1, 1)))


def test_natural_patches_come_out_white():
    patches = extract_patches(load_natural_images(), 20_000, 8, random_state=0)
    Z = make_pipeline(PatchNormalizer(), ZCAWhitener()).fit_transform(patches)
    assert Z.dtype == np.float32
    variances, axes = np.linalg.eigh(
        np.cov(PatchNormalizer().fit_transform(patches).T.astype(float), bias=True)
    )
    # One direction is lost to centring; eps = 0.01 leaves the weak ones below unit variance.
    strong = axes[:, variances > 0.1]
    assert strong.shape[1] > 10
    covariance = np.cov((Z @ strong).T, bias=True)
    np.testing.assert_allclose(covariance, np.eye(strong.shape[1]), atol=0.1)
    assert np.cov(Z.T, bias=True).trace() < 64


@pytest.mark.parametrize("chunk", [1, 7, 200])
def test_missing_values_are_filled_by_what_a_stream_has_of_their_column(chunk):
    X = correlated() + 1e6
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    X[:, 2] = np.nan
    filler = MissingFiller()
    for start in range(0, len(X), chunk):
        filler.partial_fit(X[start : start + chunk])
    means = np.r_[np.nanmean(X[:, :2], axis=0), 0.0, np.nanmean(X[:, 3:], axis=0)]
    for with_mean, fill in ((True, means), (False, np.zeros(6))):
        filled = filler.set_params(with_mean=with_mean).transform(X)
        np.testing.assert_allclose(filled, np.where(np.isnan(X), fill, X), rtol=1e-12)
    with pytest.raises(ValueError, match="with_mean='yes' cannot be used"):
        MissingFiller("yes").fit(X)


def test_no_filter_of_warnings_is_left_where_threads_overlap():
    before = list(warnings.filters)
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(unnamed_rows)
        second.enter_context(unnamed_rows)
        first.close()
        StandardScaler().fit(pd.DataFrame(np.eye(2), columns=list("ab"))).transform(np.eye(2))
    assert warnings.filters == before
