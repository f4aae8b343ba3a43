"""Pictures: what is drawn is what was given."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.metrics import GaborFits
from hebbnmf.plots import (
    panels,
    plot_activity_density,
    plot_clusters,
    plot_cost,
    plot_cost_ratio,
    plot_directions,
    plot_filters,
    plot_gabor_scatter,
    plot_network,
)


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


def _gabor_fits(n):
    values = np.linspace(0.1, 0.4, n)
    fields = dict.fromkeys(GaborFits._fields, values)
    return GaborFits(**{**fields, "orientation": np.linspace(0, 3, n)})


@pytest.mark.parametrize(
    ("plot", "data"),
    [
        (plot_cost_ratio, ([2, 3], [2.0, 1.0], [0.5, 0.1])),
        (plot_directions, (np.ones((3, 2)), np.eye(2))),
        (plot_filters, (np.ones((3, 4)),)),
        (plot_activity_density, (np.array([[0.0, 1.0], [2.0, 0.0]]),)),
        (plot_gabor_scatter, (_gabor_fits(3),)),
        (plot_network, (np.eye(2), np.zeros((2, 2)))),
    ],
)
def test_draws_on_the_given_axes_and_else_on_new_ones(plot, data):
    _, ax = plt.subplots()
    assert plot(*data, ax=ax) is ax
    other = plot(*data)
    assert other is not ax
    other.figure.canvas.draw()


def test_the_shadow_spans_one_standard_deviation_each_way():
    ax = plot_cost_ratio([2, 20], [1.5, 1.2], [0.25, 0.1])
    shadow = ax.collections[0].get_paths()[0].vertices
    assert {(x, round(y, 9)) for x, y in shadow} == {(2, 1.25), (2, 1.75), (20, 1.1), (20, 1.3)}


def test_rows_of_w_are_drawn_where_they_point():
    W = np.array([[1.0, 2.0], [-3.0, 0.5], [0.0, -1.0]])
    ax = plot_directions(np.zeros((5, 2)), W, np.eye(2))
    circles = next(c for c in ax.collections if c.get_label() == "rows of W")
    np.testing.assert_array_equal(circles.get_offsets(), W)
    assert [text.get_text() for text in ax.get_legend().get_texts()].count("sparse directions") == 1


def test_each_filter_fills_its_own_tile_at_its_own_scale():
    filters = np.random.default_rng(0).standard_normal((5, 12)) * [[1], [10], [1e-3], [4], [0]]
    ax = plot_filters(filters, (3, 4), n_columns=2)
    image = ax.images[0]
    grid = np.ma.filled(image.get_array(), np.nan)
    assert grid.shape == (3 * 4 + 1, 2 * 5 + 1)
    for k, f in enumerate(filters):
        top, left = 4 * (k // 2) + 1, 5 * (k % 2) + 1
        tile = grid[top : top + 3, left : left + 4]
        np.testing.assert_allclose(tile.ravel() * np.abs(f).max(), f)
        assert np.abs(tile).max() == (1 if k < 4 else 0)
    assert np.isnan(grid).sum() == grid.size - 5 * 12
    assert image.get_clim() == (-1, 1)


def test_a_shape_that_filters_do_not_have_is_refused():
    with pytest.raises(ValueError, match=r"patch_shape=None .* 12 pixels"):
        plot_filters(np.ones((2, 12)))


def test_density_and_arrow_share_out_all_probability():
    Y = np.maximum(np.random.default_rng(0).standard_normal((1000, 3)), 0)
    ax = plot_activity_density(Y)
    values, edges, _ = ax.patches[0].get_data()
    zero = float(ax.texts[0].get_text().split("= ")[-1])
    assert np.nansum(values * np.diff(edges)) + zero == pytest.approx(1, abs=1e-3)
    assert zero == pytest.approx(np.mean(Y == 0), abs=1e-3)
    gaussian = ax.lines[0].get_ydata()
    assert gaussian[0] == pytest.approx(1 / (Y.std() * np.sqrt(2 * np.pi)))


def test_silence_has_no_density():
    with pytest.raises(ValueError, match="no entry above 0"):
        plot_activity_density(np.zeros((3, 2)))


def test_constant_activity_can_be_drawn():
    plot_activity_density(np.ones((4, 2))).figure.canvas.draw()


def test_filters_without_a_fit_are_left_out():
    fits = _gabor_fits(4)
    fits.frequency[2] = np.nan
    points = plot_gabor_scatter(fits).collections[0]
    kept = [0, 1, 3]
    np.testing.assert_allclose(points.get_offsets()[:, 0], np.degrees(fits.orientation[kept]))
    np.testing.assert_array_equal(points.get_array(), fits.explained[kept])


def test_synapses_are_as_wide_as_they_are_strong_and_dashed_where_negative():
    W = np.array([[2.0, -1.0, 0.0], [0.5, 1.0, -2.0]])
    M = np.array([[0.0, 0.4], [0.1, 0.0]])
    ax = plot_network(W, M)
    feedforward, lateral = ax.patches[:6], ax.patches[6:]
    widths = np.array([arrow.get_linewidth() for arrow in feedforward]).reshape(2, 3)
    np.testing.assert_allclose(widths / widths.max(), np.abs(W) / 2)
    dashed = [arrow.get_linestyle() == "--" for arrow in feedforward]
    assert dashed == (W < 0).ravel().tolist()
    assert [arc.get_linewidth() for arc in lateral] == pytest.approx([3.5, 3.5 / 4])
    assert {text.get_text() for text in ax.texts} >= {"$x_{3}$", "$y_{2}$"}


def test_panels_are_lettered_and_unknown_to_pyplot():
    axes = panels("AB;CC", (4, 3))
    assert [axes[letter].get_title(loc="left") for letter in "ABC"] == ["A", "B", "C"]
    assert plt.get_fignums() == []


def test_the_cost_ends_at_what_the_score_leaves_unexplained():
    X = make_sparse_sources(250, 3, random_state=0)
    X[:5] = 0  # no share of no cost
    net = OnlineSNMF(4).fit(X)
    line = plot_cost(X, net.transform(X)).lines[0]
    assert line.get_xdata()[-1] == 250
    assert np.isfinite(line.get_ydata()).all()
    assert line.get_ydata()[-1] == pytest.approx(1 - net.score(X), rel=1e-9)
