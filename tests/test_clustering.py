"""Laws of labels and indicators, and of the K-means bridge of section II."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from hebbnmf.clustering import cluster_labels, indicator_matrix, kmeans_objective
from hebbnmf.cost import snmf_cost
from hebbnmf.datasets import make_three_gaussians

EPS = np.finfo(float).eps


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_both_forms_of_the_objective_equal_the_inertia_of_scikit_learn(shift):
    X = make_three_gaussians(random_state=0)[0] + shift
    kmeans = KMeans(3, n_init=1, random_state=0).fit(X)
    np.testing.assert_allclose(kmeans_objective(X, kmeans.labels_), kmeans.inertia_, rtol=1e-6)
    Y = indicator_matrix(kmeans.labels_)
    traced = np.sum(X**2) - np.trace(Y.T @ X @ X.T @ Y)  # Eq. (2) and its dropped constant
    np.testing.assert_allclose(traced, kmeans.inertia_, rtol=1e-9, atol=10 * EPS * np.sum(X**2))


@pytest.mark.parametrize("seed", range(5))
def test_three_lines_of_the_derivation_are_equal_up_to_their_constants(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    labels = np.append(np.arange(4), rng.integers(4, size=36))
    Y = indicator_matrix(labels)
    np.testing.assert_allclose(Y.T @ Y, np.eye(4), atol=1e-14)
    first = -np.trace(Y.T @ X @ X.T @ Y)
    second = -np.trace(X @ X.T @ Y @ Y.T) + 0.5 * np.trace(Y @ Y.T @ Y @ Y.T)
    third = 0.5 * snmf_cost(X, Y)
    np.testing.assert_allclose(second, first + 4 / 2, rtol=1e-12)
    np.testing.assert_allclose(third, second + 0.5 * np.sum((X.T @ X) ** 2), rtol=1e-12)


def test_silent_samples_are_zero_rows_and_count_in_full():
    X = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    np.testing.assert_array_equal(indicator_matrix([0, 0, -1])[2], [0.0])
    assert indicator_matrix([-1, -1, -1]).shape == (3, 0)
    np.testing.assert_allclose(kmeans_objective(X, [0, 0, -1]), 2 + 25)
    np.testing.assert_allclose(kmeans_objective(X, [-1, -1, -1]), np.sum(X**2))


def test_empty_cluster_is_a_zero_column():
    np.testing.assert_allclose(indicator_matrix([2, 0]), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("labels", [[0.0, 1.0], [-2, 0], ["a", "b"]])
def test_labels_that_are_not_cluster_numbers_are_refused(labels):
    with pytest.raises(ValueError, match="labels must be integers of at least -1"):
        indicator_matrix(labels)


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match="X has 2 samples but labels has 3"):
        kmeans_objective(np.ones((2, 2)), [0, 0, 1])


def test_labels_are_the_strongest_column_and_none_without_activity():
    Y = np.array([[0.0, 2.0, 1.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert cluster_labels(Y).tolist() == [1, 0, -1]
    assert cluster_labels(Y[:, :0]).tolist() == [-1, -1, -1]


def test_labels_may_be_unsigned():
    labels = np.array([2, 0], np.uint8)
    np.testing.assert_array_equal(indicator_matrix(labels), indicator_matrix([2, 0]))
