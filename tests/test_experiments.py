"""The experiments, in small: their laws, and that pictures show the numbers that are saved."""

import json
from importlib import import_module

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from hebbnmf import OnlineSNMF, SymNMF, snmf_cost
from hebbnmf.datasets import THREE_GAUSSIANS_CENTERS, make_three_gaussians
from hebbnmf.experiments import FIGURES, fig3, fig4, fig5
from hebbnmf.experiments.report import Report, spread
from hebbnmf.metrics import fit_gabors
from hebbnmf.persistence.versions import library_versions
from hebbnmf.plots import filter_grid
from hebbnmf.preprocessing import ZCAWhitener, image_filters


@pytest.fixture(scope="module")
def small_fig3():
    return fig3.measure(5, n_samples=60, penalties=(0.1,))


@pytest.fixture(scope="module")
def small_fig5():
    return {
        "example": fig5.example(1500),
        "plane": fig5.measure_plane(2, (200, 1500)),
        "space": fig5.measure_space((3,), 2, 800),
    }


def test_cost_by_time_is_the_cost_of_each_beginning():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 3)), np.abs(rng.standard_normal((40, 2)))
    costs = fig3.cost_by_time(X, Y)
    whole = [snmf_cost(X[:T], Y[:T]) for T in range(1, 41)]
    np.testing.assert_allclose(costs, whole, rtol=1e-10)


def test_ratios_over_no_cost_are_left_out_and_counted():
    online = np.array([[0.0, 3.0, 6.0], [0.0, 5.0, 20.0]])
    offline = np.array([[0.0, 0.0, 4.0], [0.0, 2.0, 10.0]])
    ratio = fig3.cost_ratio(online, offline)
    assert ratio["T"] == [2, 3]
    assert ratio["mean"] == [2.5, 1.75]
    assert ratio["std"] == [0.0, 0.25]
    assert ratio["n_left_out"] == [1, 0]
    assert ratio["ratio_of_means"] == [4.0, 26 / 14]


def test_fig3_gives_one_number_for_each_method_and_data_set(small_fig3):
    assert set(small_fig3["accuracy"]) == {*fig3.OFFLINE, *fig3.ONLINE}
    for name in fig3.ONLINE:
        assert set(small_fig3["accuracy"][name]) == {"0.1", "0.6"}
        assert {len(v) for v in small_fig3["accuracy"][name].values()} == {5}
    assert all(len(small_fig3["silent"][name]) == 5 for name in fig3.OFFLINE)
    for name in fig3.ONLINE:
        accuracy = np.array(list(small_fig3["accuracy"][name].values()))
        silent = np.array(list(small_fig3["silent"][name].values()))
        assert np.all(accuracy + silent <= 1 + 1e-12)


def test_offline_cost_is_restricted_and_not_computed_anew(small_fig3):
    X, _ = make_three_gaussians(60, random_state=0)
    offline = SymNMF(3, init="pca").fit(X)
    assert fig3.cost_by_time(X, offline.embedding_)[-1] == pytest.approx(offline.cost_)
    assert small_fig3["cost_ratio"]["T"] == list(range(2, 61))


def test_the_example_is_the_median_run(small_fig3):
    accuracies = small_fig3["accuracy"]["online responses"]["0.6"]
    shown = small_fig3["example"]
    assert shown["0.6"]["accuracy"] == np.median(accuracies)
    assert accuracies[shown["seed"]] == np.median(accuracies)


def test_fig3_draws_what_it_measured(small_fig3):
    A, B = fig3.draw(small_fig3).axes[:2]
    points = {c.get_label(): c.get_offsets() for c in A.collections}
    np.testing.assert_array_equal(points["centre"], THREE_GAUSSIANS_CENTERS)
    labels, X = np.array(small_fig3["example"]["0.6"]["labels"]), small_fig3["example"]["X"]
    for k in np.unique(labels):
        name = "silent" if k < 0 else f"unit {k}"
        np.testing.assert_array_equal(points[name], np.array(X)[labels == k])
    line = next(line for line in B.lines if line.get_label() == "mean")
    np.testing.assert_array_equal(line.get_ydata(), small_fig3["cost_ratio"]["mean"])


def test_rotating_the_stream_rotates_the_weights(small_fig5):
    shown = small_fig5["example"]
    assert shown["rotation_error"] < 1e-6
    turned = np.array(shown["unmixed"]["components"]) @ fig5.rotation(shown["angle"]).T
    np.testing.assert_allclose(turned, shown["rotated"]["components"], atol=1e-6)


def test_four_units_find_the_four_directions(small_fig5):
    for of_schedule in small_fig5["plane"].values():
        assert np.shape(of_schedule["directions"]) == (2, 2, 4)
        np.testing.assert_array_equal(
            np.min(of_schedule["directions"], axis=2), of_schedule["worst"]
        )
    steady = small_fig5["plane"][f"gain {fig5.GAIN}"]
    assert np.mean(steady["worst"], axis=0)[-1] > 0.95
    assert np.shape(steady["rows"]) == (2, 4)


def test_space_counts_directions_of_both_signs_for_every_method(small_fig5):
    of_3 = small_fig5["space"]["3"]
    assert set(of_3) == set(fig5.METHODS)
    for measured in of_3.values():
        cosines = np.array(measured["cosines"])
        assert cosines.shape == (2, 6)
        np.testing.assert_allclose(measured["found"], np.mean(cosines >= 0.95, axis=1))
    assert min(of_3["FastICA"]["found"]) == 1.0


def test_fig5_draws_what_it_measured(small_fig5):
    A, _, C = fig5.draw(small_fig5).axes[:3]
    rows = next(c for c in A.collections if c.get_label() == "rows of W")
    np.testing.assert_array_equal(
        rows.get_offsets(), small_fig5["example"]["unmixed"]["components"]
    )
    for name, of_schedule in small_fig5["plane"].items():
        line = next(line for line in C.lines if line.get_label() == name)
        np.testing.assert_allclose(line.get_ydata(), np.mean(of_schedule["worst"], axis=0))


def test_the_same_seeds_give_the_same_numbers(small_fig3, small_fig5):
    again = fig3.measure(5, n_samples=60, penalties=(0.1,))
    assert json.dumps(again) == json.dumps(small_fig3)
    assert fig5.measure_plane(2, (200, 1500)) == small_fig5["plane"]


def test_summaries_name_the_main_numbers(small_fig3, small_fig5):
    lines = fig3.summarise(small_fig3)
    ratio = small_fig3["cost_ratio"]
    assert lines[0].endswith(f"T = 20: {ratio['mean'][18]:.4f} +- {ratio['std'][18]:.4f}")
    assert sum(line.startswith("accuracy of") for line in lines) == 5
    assert any("3 dimensions" in line for line in fig5.summarise(small_fig5))


@pytest.mark.parametrize("quick", [True, False])
def test_run_takes_fewer_data_sets_when_quick(monkeypatch, small_fig3, small_fig5, quick):
    asked = {}
    monkeypatch.setattr(fig3, "measure", lambda n: asked.update(fig3=n) or small_fig3)
    monkeypatch.setattr(fig5, "example", lambda: small_fig5["example"])
    monkeypatch.setattr(
        fig5, "measure_plane", lambda n: asked.update(fig5=n) or small_fig5["plane"]
    )
    monkeypatch.setattr(fig5, "measure_space", lambda *_: small_fig5["space"])
    for name in ("fig3", "fig5"):
        report = import_module(f"hebbnmf.experiments.{name}").run(quick=quick)
        assert report.name == name
        assert report.parameters["seeds"] == list(range(asked[name]))
    assert asked == ({"fig3": 10, "fig5": 5} if quick else {"fig3": 100, "fig5": 20})


@pytest.fixture
def small_fig4(monkeypatch):
    for name, value in {
        "N_PATCHES": 300,
        "N_PRESENTATIONS": 20,
        "N_UNITS": 9,
        "CHUNK": 100,
    }.items():
        monkeypatch.setattr(fig4, name, value)
    monkeypatch.setattr(fig4, "N_REPORTED", 50)


@pytest.mark.usefixtures("small_fig4")
def test_fig4_draws_what_it_measured():
    report = fig4.run(quick=True)
    results = report.results
    assert report.parameters["presentations_of_each"] == 2
    assert results["n_units"] == len(results["filters"]) == 9
    assert results["share_of_gabors"] == np.mean(results["explained"] > fig4.GABOR)
    assert 0 < results["probability_zero"] < 1
    assert any("Dale's law" in line for line in report.summary)
    assert {"A", "B", "C", "D"} <= {ax.get_label() for ax in report.figure.axes}
    assert report.figure.axes[0].images


@pytest.mark.usefixtures("small_fig4")
def test_the_animation_of_fig4_ends_with_the_filters_of_the_figure(tmp_path):
    report = fig4.run(quick=True)
    assert len(report.animation) > 3
    (gif,) = (path for path in report.save(tmp_path) if path.suffix == ".gif")
    with Image.open(gif) as picture:
        assert picture.n_frames == len(report.animation)
        picture.seek(picture.n_frames - 1)
        shown = np.asarray(picture.convert("L"))[::2, ::2] / 127.5 - 1
    grid = filter_grid(report.results["filters"])
    inside = np.isfinite(grid)
    shown = shown[: len(grid), : grid.shape[1]]
    np.testing.assert_allclose(shown[inside], grid[inside], atol=1.01 / (fig4.N_GREYS - 1))
    assert (shown[~inside] == 1).all()


@pytest.mark.usefixtures("small_fig4")
def test_fig4_takes_pictures_from_a_path(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (2, 40, 30)).astype(np.uint8)
    np.save(tmp_path / "pictures.npy", pictures)
    report = fig4.run(quick=True, images=tmp_path / "pictures.npy")
    assert report.parameters["images"].endswith("pictures.npy")
    other = fig4.run(quick=True)
    assert not np.allclose(report.results["filters"], other.results["filters"])


def test_a_network_trained_on_noise_has_no_gabors():
    noise = np.random.default_rng(0).standard_normal((2000, 256))
    whitener = ZCAWhitener().fit(noise)
    net = OnlineSNMF(24, **fig4.SETTINGS).fit(whitener.transform(noise))
    assert net.n_components_ == 24
    assert fit_gabors(image_filters(net.components_, whitener)).explained.max() < fig4.GABOR


@pytest.mark.parametrize("name", FIGURES)
def test_every_listed_figure_can_be_run(name):
    assert callable(import_module(f"hebbnmf.experiments.{name}").run)


def _report(results):
    return Report("figure", {"seeds": [1]}, results, (), Figure((1, 1)))


def test_saved_numbers_are_those_of_the_report_with_parameters_and_versions(tmp_path):
    values = {"a": np.array([0.1, 1 / 3]), "b": np.float64(2.5), "c": np.int64(3)}
    paths = _report(values).save(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["figure.png", "figure.svg", "figure.json"]
    assert sorted(paths) == sorted((tmp_path / "new" / "folder").iterdir())
    document = json.loads(paths[2].read_text())
    assert document["results"] == {"a": [0.1, 1 / 3], "b": 2.5, "c": 3}
    assert document["parameters"] == {"seeds": [1]}
    assert document["versions"] == library_versions()
    assert document["versions"]["numpy"] == np.__version__


def test_a_report_that_cannot_be_written_whole_replaces_nothing(tmp_path):
    _report({"value": 1}).save(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="JSON compliant"):
        _report({"value": np.nan}).save(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_spread_gives_moments_and_quartiles():
    values = np.random.default_rng(0).standard_normal(101)
    described = spread(values)
    assert described["mean"] == pytest.approx(np.mean(values))
    assert described["min"] == values.min()
    assert described["lower_quartile"] == np.sort(values)[25]
