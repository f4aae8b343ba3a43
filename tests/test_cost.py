"""Laws of the cost (9), and of its running form."""

import tracemalloc
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest

from hebbnmf.cost import RunningCost, snmf_cost

EPS = np.finfo(float).eps


def literal_cost(X, Y):
    return np.sum((X @ X.T - Y @ Y.T) ** 2)


def three_term_cost(X, Y):
    return np.sum((X.T @ X) ** 2) - 2 * np.sum((Y.T @ X) ** 2) + np.sum((Y.T @ Y) ** 2)


def random_pair(seed, n_samples=90, n_features=4, n_components=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    return X, np.maximum(rng.normal(size=(n_samples, n_components)), 0)


def exact_pair(seed, n_samples=2500, n_features=5):
    """Non-negative data, and an exact factor of its similarity in rotated columns."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_samples, n_features)) + 0.1
    angle = 0.05
    Y = X.copy()
    Y[:, 0] = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1]
    Y[:, 1] = np.cos(angle) * X[:, 1] - np.sin(angle) * X[:, 0]
    return X, Y


def run(X, Y, cuts):
    running = RunningCost()
    for start, stop in pairwise([0, *cuts, len(X)]):
        running.update(X[start:stop], Y[start:stop])
    return running


@pytest.mark.parametrize("n_samples", [1, 5, 7, 8, 2000])
@pytest.mark.parametrize("n_components", [0, 1, 3])
def test_cost_is_the_literal_equation(n_samples, n_components):
    X, Y = random_pair(n_samples, n_samples=n_samples, n_components=n_components)
    np.testing.assert_allclose(snmf_cost(X, Y), literal_cost(X, Y), rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_cost_of_an_exact_factor_vanishes_to_the_square_of_rounding(seed):
    X, Y = exact_pair(seed)
    scale = np.sum((X.T @ X) ** 2)
    cuts = range(50, 2500, 50)
    assert 0 <= snmf_cost(X, Y) < (100 * EPS) ** 2 * scale
    assert 0 <= run(X, Y, cuts).value < (100 * EPS) ** 2 * scale
    assert abs(three_term_cost(X, Y)) > (1e4 * EPS) ** 2 * scale


def test_small_cost_keeps_its_digits():
    X, Y = exact_pair(0)
    Y[7, 2] += 1e-9
    change = np.zeros((2500, 1))
    change[7] = 1e-9
    y = Y[:, [2]] - change
    # |y c' + c y'|^2 for the one changed column: the cost to first order in the change c
    expected = 2 * (y.T @ y * (change.T @ change) + (y.T @ change) ** 2).item()
    np.testing.assert_allclose(snmf_cost(X, Y), expected, rtol=1e-4)


@pytest.mark.parametrize("cuts", [[], [1], range(1, 90), [13, 14, 60]])
def test_running_cost_equals_the_whole_in_any_chunking(cuts):
    X, Y = random_pair(1)
    running = run(X, Y, cuts)
    assert running.n_samples == 90
    np.testing.assert_allclose(running.value, literal_cost(X, Y), rtol=1e-12)


def test_running_cost_equals_the_whole_after_every_sample():
    X, Y = random_pair(2, n_samples=12)
    running = RunningCost()
    assert running.value == 0
    for t in range(12):
        running.update(X[t : t + 1], Y[t : t + 1])
        np.testing.assert_allclose(
            running.value, literal_cost(X[: t + 1], Y[: t + 1]), rtol=1e-11, atol=1e-25
        )


def test_recruited_columns_are_zero_for_earlier_samples():
    X, Y = random_pair(3)
    Y[:20] = 0
    Y[:50, 1:] = 0
    running = RunningCost()
    running.update(X[:20], Y[:20, :0])
    running.update(X[20:50], Y[20:50, :1])
    running.update(X[50:], Y[50:])
    np.testing.assert_allclose(running.value, literal_cost(X, Y), rtol=1e-12)


def test_restored_state_continues_bit_for_bit(tmp_path):
    X, Y = random_pair(4)
    unbroken = run(X, Y, [31])
    first = run(X[:31], Y[:31], [])
    np.savez(tmp_path / "cost.npz", **asdict(first))
    with np.load(tmp_path / "cost.npz") as state:
        restored = RunningCost(state["triangle"], int(state["n_features"]), int(state["n_samples"]))
    restored.update(X[31:], Y[31:])
    assert restored.value == unbroken.value
    np.testing.assert_array_equal(restored.triangle, unbroken.triangle)


@pytest.mark.parametrize("n_recruited", [1, 3, 5])  # fewer, as many and more columns than part
def test_merged_costs_equal_the_cost_of_the_whole(n_recruited):
    X, Y = random_pair(8, n_components=5)
    Y[:40, n_recruited:] = 0
    Y[40:, 3:] = 0
    merged, part = RunningCost(), RunningCost()
    merged.update(X[:40], Y[:40, :n_recruited])
    part.update(X[40:], Y[40:, :3])
    before = part.triangle.copy()
    merged.merge(part)
    np.testing.assert_allclose(merged.value, literal_cost(X, Y), rtol=1e-12)
    assert (merged.n_samples, merged.n_components) == (90, max(n_recruited, 3))
    np.testing.assert_array_equal(part.triangle, before)


def test_merging_with_an_empty_cost_changes_nothing():
    X, Y = random_pair(9)
    cost = run(X, Y, [])
    before = cost.triangle.copy()
    cost.merge(RunningCost())
    np.testing.assert_array_equal(cost.triangle, before)
    assert cost.n_samples == 90
    empty = RunningCost()
    empty.merge(cost)
    np.testing.assert_allclose(empty.value, literal_cost(X, Y), rtol=1e-12)


def test_merging_other_features_is_refused():
    with pytest.raises(ValueError, match="X has 4 features where earlier chunks had 3"):
        run(*random_pair(0, n_features=3), []).merge(run(*random_pair(0), []))


def test_silent_value_is_the_cost_of_zero_responses():
    X, Y = random_pair(10)
    np.testing.assert_allclose(run(X, Y, [31]).silent_value, literal_cost(X, 0 * Y), rtol=1e-12)


def test_memory_does_not_grow_with_the_square_of_the_samples():
    X, Y = random_pair(5, n_samples=4000)
    assert run(X, Y, []).triangle.shape == (7, 7)
    tracemalloc.start()
    snmf_cost(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * (X.nbytes + Y.nbytes)


def test_few_rows_of_many_features_take_no_more_memory_than_they_are():
    X, Y = random_pair(5, n_features=5000)
    tracemalloc.start()
    running = run(X, Y, [31])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * (X.nbytes + Y.nbytes)
    np.testing.assert_allclose(running.value, literal_cost(X, Y), rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 9, 30])
def test_the_rows_become_a_triangle_once_they_are_as_many_as_its_columns(size):
    X, Y = random_pair(5)
    Y[:11, 1:] = 0
    running = RunningCost()
    for start in range(0, 90, size):
        rows = slice(start, start + size)
        running.update(X[rows], Y[rows, : 1 if start + size <= 11 else None])
        value = literal_cost(X[: start + size], Y[: start + size])
        np.testing.assert_allclose(running.value, value, rtol=1e-11, atol=1e-25)
    assert running.triangle.shape == (7, 7)
    assert not np.tril(running.triangle, -1).any()


def test_update_leaves_its_input_alone():
    X, Y = (np.asfortranarray(a) for a in random_pair(6))
    copies = X.copy(), Y.copy()
    RunningCost().update(X, Y)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(Y, copies[1])


def test_mismatched_chunks_are_refused():
    X, Y = random_pair(7)
    with pytest.raises(ValueError, match="X has 90 rows but Y has 89"):
        snmf_cost(X, Y[1:])
    running = run(X, Y, [])
    with pytest.raises(ValueError, match="X has 3 features where earlier chunks had 4"):
        running.update(X[:, 1:], Y)
    with pytest.raises(ValueError, match="Y has 2 columns where earlier chunks had 3"):
        running.update(X, Y[:, 1:])
    with pytest.raises(ValueError, match="Input Y contains NaN"):
        running.update(X, np.full_like(Y, np.nan))
    np.testing.assert_allclose(running.value, literal_cost(X, Y), rtol=1e-12)
