from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kurtosis
from sklearn.datasets import make_blobs

from hebbnmf import OnlineSNMF
from hebbnmf.clustering import cluster_labels
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.metrics import (
    activity_sparsity,
    biological_report,
    cluster_agreement,
    cluster_separation,
    direction_alignment,
    fit_gabors,
)

classes = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=1, max_size=30)


@given(classes)
def test_accuracy_is_that_of_the_best_renaming(pairs):
    y_true, labels = np.array(pairs).T
    names = [dict(zip([0, 1, 2], order, strict=True)) for order in permutations(range(3))]
    best = max(np.mean([name.get(c, -1) == y for y, c in pairs]) for name in names)
    agreement = cluster_agreement(y_true, labels)
    assert agreement.accuracy == pytest.approx(best)
    assert agreement.silent == pytest.approx(np.mean(labels == -1))
    assert agreement.n_clusters == len(set(labels.tolist()) - {-1})


def test_a_class_split_in_two_clusters_counts_the_larger():
    assert cluster_agreement(["a"] * 5 + ["b"] * 5, [0, 0, 0, 1, 1] + [2] * 5).accuracy == 0.8


def test_silent_samples_form_no_cluster():
    assert cluster_agreement([0, 1, 0], [-1, -1, -1]) == (0.0, 1.0, 0)


def test_labels_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        cluster_agreement([0, 1], [0])
    with pytest.raises(ValueError, match="are empty"):
        cluster_agreement([], [])


activities = arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
    elements=st.just(0.0) | st.floats(1e-6, 1e3),
)


@given(activities, st.floats(1e-3, 1e3))
def test_sparsity_is_bounded_free_of_scale_and_mirrors_its_transpose(Y, scale):
    sparsity = activity_sparsity(Y)
    for values in (sparsity.lifetime, sparsity.population):
        assert np.all((values >= 0) & (values <= 1))
    np.testing.assert_array_equal(activity_sparsity(Y.T).lifetime, sparsity.population)
    scaled = activity_sparsity(scale * Y)
    np.testing.assert_allclose(scaled.lifetime, sparsity.lifetime, atol=1e-9)
    assert scaled.probability_zero == sparsity.probability_zero == np.mean(Y == 0)
    assert np.isfinite(sparsity.kurtosis)


@pytest.mark.parametrize("n_active", [1, 5, 20])
def test_sparseness_of_equal_activities_depends_on_their_number_alone(n_active):
    Y = np.zeros((20, 2))
    Y[:n_active, 0] = 3.0
    # a is then the share of active samples.
    expected = (1 - n_active / 20) / (1 - 1 / 20)
    np.testing.assert_allclose(activity_sparsity(Y).lifetime, [expected, 0.0], atol=1e-12)


def test_kurtosis_is_pooled_and_that_of_scipy():
    Y = np.maximum(np.random.default_rng(0).laplace(size=(100, 5)), 0) * [1, 2, 3, 4, 5]
    assert activity_sparsity(Y).kurtosis == pytest.approx(kurtosis(Y, axis=None))
    assert activity_sparsity(Y.astype(np.float32)).kurtosis == pytest.approx(
        kurtosis(Y, axis=None), rel=1e-4
    )


def test_exponential_activity_has_its_known_sparseness():
    Y = np.random.default_rng(0).exponential(size=(20_000, 2))
    # mean^2 / mean of squares is 1/2, the excess kurtosis 6.
    sparsity = activity_sparsity(Y)
    np.testing.assert_allclose(sparsity.lifetime, 0.5, atol=0.02)
    assert sparsity.kurtosis == pytest.approx(6, abs=1)


@pytest.mark.parametrize("Y", [np.zeros((4, 3)), np.ones((4, 3)), np.ones((1, 1))])
def test_constant_activity_is_not_sparse(Y):
    sparsity = activity_sparsity(Y)
    assert sparsity.kurtosis == 0
    np.testing.assert_array_equal(sparsity.lifetime, 0)
    np.testing.assert_array_equal(sparsity.population, 0)


def test_negative_activity_is_refused():
    with pytest.raises(ValueError, match=r"entry -2, but activity must be >= 0: rectify"):
        activity_sparsity([[1.0, -2.0]])


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_alignment_ignores_lengths_and_rotations(seed, n):
    rng = np.random.default_rng(seed)
    W, directions = rng.standard_normal((5, n)), rng.standard_normal((n, n))
    rotation = np.linalg.qr(rng.standard_normal((n, n)))[0]
    plain = direction_alignment(W, directions)
    moved = direction_alignment(W * rng.uniform(0.1, 9, (5, 1)) @ rotation, directions @ rotation)
    np.testing.assert_allclose(moved.direction_cosines, plain.direction_cosines, atol=1e-9)
    np.testing.assert_allclose(moved.component_cosines, plain.component_cosines, atol=1e-9)


def test_alignment_finds_directions_in_any_order():
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    W = np.vstack([-U, U])[[3, 1, 5, 0, 2]]
    alignment = direction_alignment(W, U)
    # Of U[0], U[1], U[2] and then their negatives, W lacks U[1].
    np.testing.assert_allclose(alignment.direction_cosines, [1, 0, 1, 1, 1, 1], atol=1e-12)
    np.testing.assert_allclose(alignment.component_cosines, 1)
    assert alignment.found == pytest.approx(5 / 6)
    assert direction_alignment(W, U, both_signs=False).found == pytest.approx(2 / 3)


def test_threshold_is_a_cosine():
    slanted = [[np.cos(0.3), np.sin(0.3)]]
    for threshold, found in ((0.95, 1.0), (0.96, 0.0)):
        alignment = direction_alignment(slanted, [[1, 0]], both_signs=False, threshold=threshold)
        assert alignment.found == found


def test_zero_and_missing_components_find_nothing():
    silent = direction_alignment(np.zeros((1, 2)), np.eye(2))
    np.testing.assert_array_equal(silent.component_cosines, [0])
    assert silent.found == 0
    empty = direction_alignment(np.empty((0, 2)), np.eye(2))
    np.testing.assert_array_equal(empty.direction_cosines, -1)
    assert (empty.component_cosines.size, empty.found) == (0, 0)


def test_directions_of_other_width_are_refused():
    with pytest.raises(ValueError, match="components have 3 features and directions 2"):
        direction_alignment(np.eye(3), np.eye(2))


def gabor(x, y, orientation, frequency, phase, width, length, shape=(16, 16)):
    rows, columns = np.indices(shape)
    across = (rows - y) * np.cos(orientation) - (columns - x) * np.sin(orientation)
    along = (columns - x) * np.cos(orientation) + (rows - y) * np.sin(orientation)
    envelope = np.exp(-((across / width) ** 2 + (along / length) ** 2) / 2)
    return (envelope * np.cos(2 * np.pi * frequency * across + phase)).ravel()


def random_gabors(n=64, seed=0, shape=(16, 16)):
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.1, 0.35, n)
    width = np.clip(rng.uniform(0.3, 0.8, n) / frequency, 1.3, 5)
    truth = {
        "x": rng.uniform(3, shape[1] - 4, n),
        "y": rng.uniform(3, shape[0] - 4, n),
        "orientation": rng.uniform(0, np.pi, n),
        "frequency": frequency,
        "phase": rng.uniform(-np.pi, np.pi, n),
        "width": width,
        "length": np.clip(width * rng.uniform(1, 2, n), 1.3, 7),
    }
    filters = [gabor(*values, shape=shape) for values in zip(*truth.values(), strict=True)]
    return np.array(filters), truth


def errors(fits, truth):
    """Absolute errors; angles modulo half a turn for stripes, a whole turn for phases."""
    turn = {"orientation": np.pi, "phase": 2 * np.pi}
    wrong = {}
    for name, value in truth.items():
        error = getattr(fits, name) - value
        if name in turn:
            error = (error + turn[name] / 2) % turn[name] - turn[name] / 2
        wrong[name] = np.abs(error)
    # Either end of a half-turn names the same stripes, with the opposite phase.
    ends = np.abs(fits.orientation - truth["orientation"]) > np.pi / 2
    assert ends.sum() < 5
    return {name: error[~ends] for name, error in wrong.items()}


@pytest.mark.parametrize("shape", [(16, 16), (12, 20)])
def test_parameters_of_gabors_are_recovered(shape):
    filters, truth = random_gabors(shape=shape)
    fits = fit_gabors(filters, shape)
    np.testing.assert_allclose(fits.explained, 1.0, atol=1e-6)
    for name, error in errors(fits, truth).items():
        assert error.max() < 1e-2, name


def test_parameters_survive_a_fifth_of_noise():
    filters, truth = random_gabors()
    noise = np.random.default_rng(1).standard_normal(filters.shape)
    fits = fit_gabors(filters + 0.2 * filters.std(axis=1, keepdims=True) * noise)
    # Noise of 0.2 deviations is 1 / 26 of the variance.
    assert np.median(fits.explained) == pytest.approx(25 / 26, abs=0.02)
    limits = {"orientation": 0.05, "frequency": 0.01}
    for name, error in errors(fits, truth).items():
        assert np.quantile(error, 0.9) < limits.get(name, 0.5), name


def test_noise_is_no_gabor():
    noise = np.random.default_rng(0).standard_normal((256, 256))
    assert fit_gabors(noise).explained.max() < 0.3


def test_single_pixels_are_no_gabors():
    assert fit_gabors(np.eye(144)).explained.max() < 0.5


def test_explained_share_falls_as_noise_grows():
    filters, _ = random_gabors(16)
    filters = (filters - filters.mean(axis=1, keepdims=True)) / filters.std(axis=1, keepdims=True)
    noise = np.random.default_rng(1).standard_normal(filters.shape)
    shares = [fit_gabors(filters + level * noise).explained.mean() for level in (0, 0.5, 1, 2)]
    # Noise of as much variance as the filter leaves half of it, a little more by overfitting.
    assert shares == sorted(shares, reverse=True)
    assert shares[2] == pytest.approx(0.5, abs=0.1)


@given(st.floats(1e-6, 1e6), st.floats(-10, 10), st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_scale_and_offset_do_not_matter_and_sign_turns_the_phase(scale, offset, seed):
    filters, _ = random_gabors(4, seed)
    filters += 0.1 * np.random.default_rng(seed).standard_normal(filters.shape)
    fits, negated = fit_gabors(filters), fit_gabors(-scale * (filters + offset))
    np.testing.assert_allclose(negated.explained, fits.explained, atol=1e-6)
    np.testing.assert_allclose(negated.frequency, fits.frequency, atol=1e-3)
    np.testing.assert_allclose(np.cos(negated.phase - fits.phase), -1.0, atol=1e-3)


def test_fits_do_not_depend_on_the_other_filters():
    filters, _ = random_gabors(40)
    together = fit_gabors(filters)
    np.testing.assert_allclose(fit_gabors(filters[37:38]).width, together.width[37:38], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_constant_filters_explain_nothing_and_disturb_none(value):
    filters, _ = random_gabors(2)
    fits = fit_gabors(np.vstack([filters[0], np.full(256, value), filters[1]]))
    np.testing.assert_allclose(fits.explained, [1, 0, 1], atol=1e-6)
    assert np.isnan(fits.frequency).tolist() == [False, True, False]
    assert fit_gabors(np.full((1, 256), value)).explained == [0]
    assert fit_gabors(np.empty((0, 256))).explained.shape == (0,)


def test_bandwidth_is_the_octaves_between_half_heights():
    fits = fit_gabors(gabor(7.5, 7.5, 0.5, 0.2, 0.3, 2.5, 3.0)[np.newaxis])
    tuning = np.exp(-2 * (np.pi * 2.5 * (np.linspace(0, 0.5, 100_001) - 0.2)) ** 2)
    above = np.linspace(0, 0.5, 100_001)[tuning >= 0.5]
    assert fits.bandwidth[0] == pytest.approx(np.log2(above[-1] / above[0]), abs=1e-3)
    assert fits.aspect_ratio[0] == pytest.approx(3.0 / 2.5)


def test_blobs_have_no_bandwidth():
    blob = gabor(7, 8, 0, 0, 0, 2, 2)[np.newaxis]
    assert np.isinf(fit_gabors(blob).bandwidth[0])


@pytest.mark.parametrize("patch_shape", [None, (15, 17), (4, 60), (2, 120)])
def test_shapes_that_do_not_suit_are_refused(patch_shape):
    with pytest.raises(ValueError, match="does not suit filters of 240 pixels"):
        fit_gabors(np.ones((1, 240)), patch_shape)


def test_the_reported_gabor_explains_the_reported_share():
    filters, _ = random_gabors(16)
    filters += 0.2 * np.random.default_rng(2).standard_normal(filters.shape)
    fits = fit_gabors(filters)
    names = ("x", "y", "orientation", "frequency", "phase", "width", "length")
    for i, values in enumerate(zip(*(getattr(fits, name) for name in names), strict=True)):
        share = np.corrcoef(gabor(*values), filters[i])[0, 1] ** 2
        assert share == pytest.approx(fits.explained[i], abs=1e-9)


class Recording:
    """A stand-in for a network, with given responses, weights and effect of learning."""

    def __init__(self, Y, M, activity, learned=1.0):
        self.lateral_weights_, self.cumulative_activity_ = np.array(M), np.array(activity)
        self._Y, self._learned = np.array(Y), learned

    def transform(self, X):
        return self._Y[: len(X)]

    def partial_fit(self, X):
        self.cumulative_activity_ = self.cumulative_activity_ + self._learned * len(X)
        return self


INHIBITION = [[0.0, 0.5], [0.2, 0.0]]
FIRING = [[0.0, 0.0], [0.0, 3.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_trained_network_has_the_properties_of_section_iv_b_and_is_not_changed():
    X = make_sparse_sources(1500, 4, random_state=0)
    net = OnlineSNMF(n_components=8, rank_penalty=16.0, memory=None, activity_gain=0.1)
    net.fit(X)
    W, activity = net.components_.copy(), net.cumulative_activity_.copy()
    report = biological_report(net, X[:500])
    assert report.obeys_dales_law
    assert report.is_rectified
    assert report.learning_rates_fall
    assert report.learning_rates == (1 / activity.max(), 1 / activity.min())
    sparsity = activity_sparsity(net.transform(X[:500]))
    assert report.kurtosis == sparsity.kurtosis
    assert report.lifetime_sparseness == pytest.approx(sparsity.lifetime.mean())
    np.testing.assert_array_equal(net.components_, W)
    np.testing.assert_array_equal(net.cumulative_activity_, activity)
    assert net.n_samples_seen_ == 1500


def test_excitation_between_units_breaks_dales_law():
    M = [[0.0, 0.5], [-0.2, 0.0]]
    report = biological_report(Recording(FIRING, M, [1.0, 2.0]), np.zeros((4, 1)))
    assert not report.obeys_dales_law
    assert report.least_lateral_weight == -0.2
    assert report.is_rectified
    assert "NO   Dale's law: lateral weights >= -0.2" in str(report)
    assert str(report).count("NO ") == 1


def test_negative_activity_is_reported():
    report = biological_report(Recording([[0.0, -1.5]], INHIBITION, [1.0, 2.0]), [[0.0]])
    assert (report.is_rectified, report.least_activity) == (False, -1.5)
    assert report.obeys_dales_law


@pytest.mark.parametrize(("learned", "falls"), [(1.0, True), (0.0, False), (-0.1, False)])
def test_learning_rates_fall_where_activity_accumulates(learned, falls):
    net = Recording(FIRING, INHIBITION, [2.0, 8.0], learned)
    report = biological_report(net, np.zeros((4, 1)))
    assert report.learning_rates_fall is falls
    assert report.learning_rates == (0.125, 0.5)


def test_firing_is_sparse_only_beyond_a_rectified_gaussian():
    g = np.random.default_rng(0).standard_normal((400_000, 2))
    for threshold, sparse in ((-0.1, False), (0.1, True)):
        net = Recording(np.maximum(g - threshold, 0), INHIBITION, [1.0, 1.0])
        assert biological_report(net, g).fires_sparsely is sparse


def test_a_single_unit_inhibits_nobody():
    report = biological_report(Recording([[1.0]], [[0.0]], [1.0]), [[0.0]])
    assert (report.obeys_dales_law, report.least_lateral_weight, report.n_units) == (True, 0.0, 1)


def test_a_network_without_units_has_no_report():
    with pytest.raises(ValueError, match="net has 0 units"):
        biological_report(Recording(np.zeros((1, 0)), np.zeros((0, 0)), []), [[0.0]])


def test_separation_is_the_share_by_which_the_strongest_unit_leads():
    rng = np.random.default_rng(0)
    Y = np.maximum(rng.normal(size=(200, 4)), 0)
    expected = np.array([1 - np.sort(y)[-2] / y.max() if y.any() else 0 for y in Y])
    found = cluster_separation(Y)
    assert found.mean == pytest.approx(expected.mean())
    labels = cluster_labels(Y)
    for k in range(4):
        assert found.by_cluster[k] == pytest.approx(expected[labels == k].mean())
    assert cluster_separation(1e30 * Y).mean == pytest.approx(found.mean)


def test_separation_tells_clusters_that_a_network_tells_apart():
    X, _ = make_blobs(600, 10, centers=4, random_state=0)
    Z = (X - X.mean(axis=0)) / X.std()
    noise = np.random.default_rng(0).normal(size=(600, 10))
    apart, mixed = (
        cluster_separation(OnlineSNMF(4).fit_transform(rows)).mean for rows in (Z, noise)
    )
    assert apart > 0.8
    assert 1 - apart < (1 - mixed) / 2


def test_separation_of_no_unit_and_of_what_is_no_response():
    assert cluster_separation(np.zeros((3, 0))).mean == 0
    assert cluster_separation([[2.0], [0.0]]).mean == 0.5
    with pytest.raises(ValueError, match="negative entries"):
        cluster_separation([[-1.0]])
