"""Equality of models, bit for bit: what they have learned, and the running cost."""

import numpy as np


def assert_same_model(model, other):
    weights, n_samples, cost = model.learner_.state
    expected, n_expected, expected_cost = other.learner_.state
    assert n_samples == n_expected
    assert (cost is None) == (expected_cost is None)
    if cost is not None:
        assert cost.value == expected_cost.value
    # Scales may differ where weights are the same: a merge folds them into the rows.
    for name in ("components_", "lateral_weights_", "cumulative_activity_", "unit_births_"):
        mine, theirs = getattr(model, name), getattr(other, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    assert len(weights.s) == len(expected.s)
    np.testing.assert_array_equal(weights.energy, expected.energy)
