"""The siblings in files, checkpoints, commands and rounds, as OnlineSNMF is in them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

from hebbnmf import Learner, NonnegativeICA, OnlineDictionary, OnlinePCA, OnlineSNMF
from hebbnmf.cli import main
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.distributed import fit, transform
from hebbnmf.engine.state import BLOCK
from hebbnmf.experiments import family, tiling
from hebbnmf.persistence import ModelFileError, load, save
from hebbnmf.persistence.archives import Archive, write_archive
from hebbnmf.streams import open_stream
from hebbnmf.training import resume, train

MODELS = [
    OnlinePCA(3, memory=100),
    OnlinePCA(3, whiten=True, center=False),
    OnlineDictionary(6),
    OnlineDictionary(6, positive_code=True, alpha=0.2),
    NonnegativeICA(3),
    OnlineSNMF(6, similarity_offset="30%"),
    OnlineSNMF(6, similarity_offset=0.5),
]
of_every_kind = pytest.mark.parametrize("model", MODELS, ids=repr)


@pytest.fixture
def X():
    return np.abs(make_sparse_sources(5 * BLOCK + 20, 4, random_state=0))


def arrays_of(record):
    """Flatten a record of arrays and records."""
    for part in record:
        if isinstance(part, tuple):
            yield from arrays_of(part)
        elif part is not None:
            yield np.asarray(part)


def assert_same_state(model, other):
    for mine, theirs in zip(
        arrays_of(model.learner_.state), arrays_of(other.learner_.state), strict=True
    ):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def fresh(model):
    return type(model)(**model.get_params())


@of_every_kind
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_loaded_model_is_the_same_and_goes_on_the_same(tmp_path, X, model, dtype):
    rows = X.astype(dtype)
    net = fresh(model).partial_fit(rows[:100])
    save(net, tmp_path / "net.npz")
    again = load(tmp_path / "net.npz")
    assert_same_state(again, net)
    assert again.get_params() == net.get_params()
    np.testing.assert_array_equal(again.transform(rows), net.transform(rows))
    for one in (net, again):
        one.partial_fit(rows[100:])
    assert_same_state(again, net)


@of_every_kind
def test_models_that_are_not_fitted_are_kept(tmp_path, model):
    save(fresh(model), tmp_path / "net.npz")
    again = load(tmp_path / "net.npz")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()


@of_every_kind
def test_a_training_resumed_from_a_checkpoint_ends_in_the_same_bits(tmp_path, X, model):
    def opened():
        return open_stream(X, chunk_bytes=BLOCK * 4 * 8, epochs=2)

    whole = train(fresh(model), opened())
    n_chunks = iter(range(1000))
    path = tmp_path / "part.npz"
    train(fresh(model), opened(), checkpoint=path, should_stop=lambda: next(n_chunks) == 4)
    assert load(path).n_samples_seen_ == 4 * BLOCK
    assert_same_state(resume(path, opened()), whole)


FORGED = {
    "OnlinePCA": ({"A": lambda a: -a, "energy": lambda a: a + 1e9}, OnlinePCA(3)),
    "OnlineDictionary": ({"s": lambda a: -a, "Yhat": lambda a: 0 * a}, OnlineDictionary(3)),
    "NonnegativeICA": (
        {"whitening.A": lambda a: -a, "Q": lambda a: a[:, :2], "born": lambda a: a + 10**6},
        NonnegativeICA(3),
    ),
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, (forged, _) in FORGED.items() for name in forged]
)
def test_arrays_that_no_network_can_have_are_refused(tmp_path, X, kind, name):
    forged, model = FORGED[kind]
    path = tmp_path / "net.npz"
    save(fresh(model).fit(X), path)
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files if key != "model.json"}
    with Archive(path) as archive:
        header = archive.header
    arrays[name] = forged[name](arrays[name])
    write_archive(path, header, arrays)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize(
    ("kind", "options", "model"),
    [
        ("pca", ("--memory", "50", "--no-center"), OnlinePCA(3, memory=50, center=False)),
        (
            "dictionary",
            ("--alpha", "0.2", "--positive-code"),
            OnlineDictionary(3, alpha=0.2, positive_code=True),
        ),
        ("ica", (), NonnegativeICA(3)),
        ("snmf", ("--similarity-offset", "30%"), OnlineSNMF(3, similarity_offset="30%")),
    ],
)
def test_the_command_fits_and_transforms(tmp_path, X, kind, options, model):
    rows, out, path = (str(tmp_path / name) for name in ("x.npy", "y.npy", "net.npz"))
    np.save(rows, X)
    run = CliRunner().invoke
    common = ["fit", rows, "-o", path, "--model", kind, "--n-components", "3", *options]
    assert run(main, common).exit_code == 0
    net = fresh(model).fit(X)
    np.testing.assert_allclose(load(path).transform(X), net.transform(X), rtol=1e-9, atol=1e-12)
    assert run(main, ["transform", path, rows, "-o", out]).exit_code == 0
    np.testing.assert_allclose(np.load(out), net.transform(X), rtol=1e-9, atol=1e-12)
    info = run(main, ["info", path])
    assert f"model          {type(model).__name__}" in info.output
    refused = run(main, ["predict", path, rows])
    assert (refused.exit_code == 0) == (kind == "snmf")


def test_options_that_a_model_does_not_have_are_refused(tmp_path, X):
    rows, path = str(tmp_path / "x.npy"), str(tmp_path / "net.npz")
    np.save(rows, X)
    for options in (
        ("pca", "--rank-penalty", "1"),
        ("ica", "--alpha", "1"),
        ("snmf", "--no-center"),
    ):
        result = CliRunner().invoke(main, ["fit", rows, "-o", path, "--model", *options])
        assert result.exit_code == 2
        assert f"{options[1]} is no option of --model {options[0]}" in result.output.replace(
            "--center", "--no-center"
        )


def test_a_dictionary_learns_in_rounds():
    X = make_sparse_sources(20_000, 4, random_state=1)
    with ThreadPoolExecutor(2) as executor:
        alone = fit(OnlineDictionary(6), X, executor, n_shards=1)
        shared = fit(OnlineDictionary(6), X, executor, n_shards=2)
    serial = OnlineDictionary(6).fit(X)
    assert_same_state(alone, serial)
    assert (shared.lateral_weights_ < 0).any()
    assert shared.n_samples_seen_ == 20_000
    similarity = np.abs(shared.components_ @ serial.components_.T)
    assert similarity.max(axis=1).min() > 0.9


def test_models_whose_sums_do_not_add_up_are_refused_in_rounds(X):
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(TypeError, match="cannot learn in rounds"),
    ):
        fit(NonnegativeICA(3), X, executor, n_shards=1)


def test_an_offset_is_refused_in_rounds(X):
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ValueError, match="similarity_offset='30%' cannot be used in rounds"),
    ):
        fit(OnlineSNMF(3, similarity_offset="30%"), X, executor, n_shards=1)


@of_every_kind
def test_responses_on_a_cluster_are_those_of_transform(X, model):
    da = pytest.importorskip("dask.array")
    net = fresh(model).fit(X)
    lazy = transform(net, da.from_array(X, chunks=(100, 4)))
    np.testing.assert_allclose(lazy.compute(scheduler="threads"), net.transform(X), rtol=1e-9)


def test_figures_show_what_was_measured():
    measured = {
        "pca": family.measure_pca(2000, 0),
        "dictionary": {"filters": np.eye(9), "active": 0.1, "gabors": 0.5},
        "ica": family.measure_ica(1000, 0),
        "tiling": family.measure_tiling(1000, 0),
    }
    errors = measured["pca"]
    assert all(len(values) == 8 for values in errors.values())
    assert errors["OnlinePCA, memory=2000"][-1] < errors["OnlinePCA"][-1]
    figure = family.draw(measured)
    line = figure.axes[0].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), errors["OnlinePCA, memory=2000"])
    assert len(figure.axes[3].lines) == len(measured["tiling"]["curves"]) == 20
    assert len(family.summarise(measured)) == 6


def test_the_tiling_figure_shows_widths_that_fall():
    results = tiling.measure((0,), 2000)
    for widths in results["widths"].values():
        assert widths["0.9"][0] < widths["0.0"][0]
    figure = tiling.draw(results)
    np.testing.assert_array_equal(
        figure.axes[2].lines[0].get_ydata(), [w[0] for w in results["widths"]["ring"].values()]
    )
    assert len(tiling.summarise(results)) == 2


def test_fields_on_a_ring_are_narrower_the_larger_the_offset():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 20_000)
    probe = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    widths = []
    for offset in (0.0, 0.5, "80%"):
        net = OnlineSNMF(12, rank_penalty=0.0, similarity_offset=offset)
        net.partial_fit(np.column_stack([np.cos(angles), np.sin(angles)]))
        Y = net.transform(np.column_stack([np.cos(probe), np.sin(probe)]))
        half = Y > Y.max(axis=0) / 2
        widths.append(np.median(half[:, Y.max(axis=0) > 0].mean(axis=0)))
    assert widths[0] > 1.2 * widths[1] > 1.2**2 * widths[2] > 0


@of_every_kind
def test_learners_take_sparse_rows(model):
    X = np.random.default_rng(0).random((200, 40)) * (np.arange(40) % 8 == 0)
    sparse, dense = (Learner(model.check_parameters(), 40) for _ in range(2))
    sparse.learn(csr_array(X))
    dense.learn(X)
    for a, b in zip(arrays_of(sparse.state), arrays_of(dense.state), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
