"""Pictures: what is drawn is what was given."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

from hebbnmf.plots import plot_clusters


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_every_sample_is_drawn_once_and_silent_ones_apart():
    X = np.arange(12.0).reshape(6, 2)
    ax = plot_clusters(X, [0, 1, -1, 1, -1, 4])
    drawn = {c.get_label(): c.get_offsets() for c in ax.collections}
    assert set(drawn) == {"silent", "unit 0", "unit 1", "unit 4"}
    np.testing.assert_array_equal(drawn["silent"], X[[2, 4]])
    np.testing.assert_array_equal(drawn["unit 1"], X[[1, 3]])
    assert sum(map(len, drawn.values())) == 6


def test_draws_on_the_given_axes_with_all_arrows_in_view():
    _, ax = plt.subplots()
    W = np.array([[30.0, 0.0], [0.0, -20.0]])
    assert plot_clusters([[0.0, 0.0]], [0], components=W, centers=[[1.0, 1.0]], ax=ax) is ax
    assert [tuple(a.xy) for a in ax.texts] == [(30.0, 0.0), (0.0, -20.0)]
    assert ax.get_xlim()[1] >= 30
    assert ax.get_ylim()[0] <= -20
