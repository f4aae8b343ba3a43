"""Model files: exact, whole or absent, and never trusted."""

import contextlib
import errno
import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import hebbnmf
from equality import assert_same_model
from hebbnmf import OnlineSNMF, StreamPipeline, SymNMF, make_online_clusterer
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.feature_map import RBFMap
from hebbnmf.persistence import ModelFileError, load, read, save
from hebbnmf.persistence.archives import write_archive
from hebbnmf.preprocessing import MissingFiller, PatchNormalizer, ZCAWhitener
from reference import online_snmf

GOLDEN = Path(__file__).parent / "data" / "format1.npz"
GOLDEN_2 = GOLDEN.with_name("format2.npz")
GOLDEN_3 = GOLDEN.with_name("format3.npz")


def golden_stream():
    return np.sin(1.0 + np.outer(np.arange(90), [1.0, 2.7, 4.1, 7.3])) * [2.0, 1.0, 1.5, 1.0]


def sources(n_samples=150, n=5, dtype=np.float64):
    return make_sparse_sources(n_samples, n, random_state=0).astype(dtype)


def trained(dtype=np.float64, **parameters):
    X = sources(dtype=dtype)
    return OnlineSNMF(7, rank_penalty=2.0, **parameters).partial_fit(X)


def rewrite(path, change):
    """Change the members of an archive, as a forger would: its checksums stay true."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = change(members) or members
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def forge(path, change):
    def forge_members(members):
        header = json.loads(members["model.json"])
        change(header)
        members["model.json"] = json.dumps(header).encode()

    rewrite(path, forge_members)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def assert_same_file(model, again):
    assert_same_model(model, again)
    assert model.get_params() == again.get_params()
    np.testing.assert_array_equal(model.labels_, again.labels_)
    assert (model.n_iter_, model.n_features_in_) == (again.n_iter_, again.n_features_in_)


# Round trips --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"dynamics": "quartic"},
        {"track_cost": True},
        {"initial_activity": 50.0, "activity_gain": 0.01, "memory": None},
        {"memory": 20, "recycle": True, "rank_penalty": "auto"},
        {"memory": 0.1, "dynamics": "quartic"},
        {"random_state": 5, "tol": np.float64(1e-6), "max_sweeps": np.int64(500)},
    ],
)
def test_a_loaded_model_is_the_same_and_goes_on_the_same(tmp_path, dtype, parameters):
    X = sources(400, dtype=dtype)
    net = OnlineSNMF(7, **{"rank_penalty": 2.0, **parameters})
    for start in range(0, 400, 37):
        save(net, tmp_path / "net.npz")
        again = load(tmp_path / "net.npz")
        chunk = X[start : start + 37]
        Y, Y_again = net.partial_fit_transform(chunk.copy()), again.partial_fit_transform(chunk)
        np.testing.assert_array_equal(Y, Y_again)
        assert_same_file(net, again)
    np.testing.assert_array_equal(net.transform(X), again.transform(X))
    assert net.n_components_ > 2


def test_names_and_random_states_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(sources(), columns=list("abcde"))
    net = OnlineSNMF(3, shuffle=True, random_state=np.random.RandomState(3)).fit(X)
    save(net, tmp_path / "net.npz")
    again = load(tmp_path / "net.npz")
    assert again.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(again.predict(X), net.labels_)
    assert again.random_state.normal() == net.random_state.normal()
    assert again.fit(X).labels_.tolist() == net.fit(X).labels_.tolist()


@pytest.mark.parametrize("init", ["pca", "array"])
def test_offline_models_are_kept(tmp_path, init):
    X = sources(40)
    start = np.random.default_rng(0).random((40, 3))
    model = SymNMF(3, init=start if init == "array" else init, max_iter=500).fit(X)
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for name in ("embedding_", "labels_", "cost_history_", "cost_", "n_iter_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.fit(X).embedding_, model.embedding_)


@pytest.mark.parametrize("model", [OnlineSNMF(3), SymNMF(2), OnlineSNMF(3, rank_penalty=1e9)])
def test_models_without_units_are_kept(tmp_path, model):
    if getattr(model, "rank_penalty", 0) == 1e9:
        model.partial_fit(sources())
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.__sklearn_is_fitted__() if hasattr(model, "labels_") else True


@pytest.mark.parametrize("with_std", [True, False])
def test_preprocessing_is_kept_and_cannot_be_overlooked(tmp_path, with_std):
    X = sources(300)
    X[::7, 1] = np.nan
    steps = [MissingFiller(with_std), StandardScaler(with_std=with_std), PatchNormalizer(0.1)]
    steps += [ZCAWhitener(0.1)]
    Z = X
    for step in steps:
        Z = step.fit_transform(Z)
    steps[3].partial_fit(Z)
    X = np.nan_to_num(X)
    fresh = ZCAWhitener(0.2).partial_fit(X)  # its whitening matrix was never asked for
    net = OnlineSNMF(4).partial_fit(Z)
    save(net, tmp_path / "net.npz", preprocessing=[*steps, fresh])
    loaded = read(tmp_path / "net.npz").preprocessing
    Z = X
    for mine, other in zip([*steps, fresh], loaded, strict=True):
        assert type(mine) is type(other)
        np.testing.assert_array_equal(mine.transform(Z), other.transform(Z))
        if not isinstance(mine, PatchNormalizer):
            np.testing.assert_array_equal(
                mine.partial_fit(X).transform(Z), other.partial_fit(X).transform(Z)
            )
    with pytest.raises(ValueError, match="holds preprocessing too"):
        load(tmp_path / "net.npz")


def test_what_cannot_be_kept_is_refused(tmp_path):
    path = tmp_path / "net.npz"

    class Mine(OnlineSNMF):
        pass

    for model in (Mine(3), BaseEstimator()):
        with pytest.raises(TypeError, match="cannot be saved"):
            save(model, path)
    with pytest.raises(TypeError, match="MinMaxScaler cannot be saved"):
        save(OnlineSNMF(3), path, preprocessing=[MinMaxScaler()])
    with pytest.raises(NotFittedError):
        save(OnlineSNMF(3), path, preprocessing=[StandardScaler()])
    holes = StandardScaler().fit([[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(ValueError, match="missing values"):
        save(OnlineSNMF(3), path, preprocessing=[holes])
    with pytest.raises(ValueError, match="tol=nan cannot be saved"):
        save(OnlineSNMF(3, tol=np.nan), path)
    with pytest.raises(ValueError, match="PCG64 cannot be saved"):
        save(OnlineSNMF(3, random_state=np.random.RandomState(np.random.PCG64(0))), path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("memory", [0.1, 50])
@pytest.mark.parametrize("seed", [0, None])
def test_a_loaded_pipeline_is_the_same_and_goes_on_the_same(tmp_path, memory, seed):
    X = sources(400)
    model = make_online_clusterer(5, n_landmarks=30, memory=memory, random_state=seed)
    for chunk in np.split(X, 4):
        save(model, tmp_path / "model.npz")
        again = load(tmp_path / "model.npz")
        assert repr(again) == repr(model)
        if hasattr(model["network"], "learner_"):
            np.testing.assert_array_equal(model.transform(X), again.transform(X))
            np.testing.assert_array_equal(
                model.partial_fit_transform(chunk.copy()), again.partial_fit_transform(chunk)
            )
            assert_same_file(model["network"], again["network"])
        else:
            model.partial_fit(chunk)


def test_the_seed_of_a_step_is_kept_where_it_stands(tmp_path):
    kernel = RBFMap(n_landmarks=5, random_state=np.random.RandomState(1)).fit(sources())
    save(StreamPipeline([("kernel", kernel), ("network", OnlineSNMF(3))]), tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")["kernel"]
    np.testing.assert_array_equal(again.fit(sources()).landmarks_, kernel.fit(sources()).landmarks_)


def test_a_pipeline_with_steps_that_cannot_be_stored_is_refused(tmp_path):
    network = ("network", OnlineSNMF(3))
    with pytest.raises(TypeError, match="MinMaxScaler cannot be saved"):
        save(StreamPipeline([("scaler", MinMaxScaler()), network]), tmp_path / "model.npz")
    with pytest.raises(TypeError, match="MinMaxScaler cannot be saved: give a model of class"):
        save(StreamPipeline([("scaler", MinMaxScaler())]), tmp_path / "model.npz")
    with pytest.raises(ValueError, match="make its steps steps of the pipeline"):
        save(StreamPipeline([network]), tmp_path / "model.npz", preprocessing=[PatchNormalizer()])
    assert os.listdir(tmp_path) == []


PIPELINE_HEADERS = {
    "names": (lambda h: h.update(step_names=["a"]), "names of steps"),
    "a name twice": (lambda h: h.update(step_names=["a", "a", "b"]), "names of steps"),
    "a name of a parameter": (lambda h: h.update(step_names=["a", "b__c", "d"]), "names of steps"),
    "memory": (lambda h: h["preprocessing"][0]["parameters"].update(memory=1), "step 0"),
    "gamma": (lambda h: h["preprocessing"][1]["parameters"].update(gamma="mean"), "step 1"),
    "seed": (lambda h: h["preprocessing"][1]["parameters"].update(random_state=-1), "not a seed"),
    "columns": (lambda h: h["preprocessing"][0].update(feature_names=["a"]), "names of step 0"),
    "features": (lambda h: h["preprocessing"][1].update(n_features=3), "landmarks_"),
    "not fitted": (lambda h: h["preprocessing"][0].update(n_features=0), "unknown arrays"),
}


@pytest.mark.parametrize("name", PIPELINE_HEADERS)
def test_a_forged_pipeline_is_refused(tmp_path, name):
    change, message = PIPELINE_HEADERS[name]
    save(make_online_clusterer(5, n_landmarks=30).partial_fit(sources()), tmp_path / "net.npz")
    forge(tmp_path / "net.npz", change)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "net.npz")


def test_the_golden_file_loads_for_ever():
    X = golden_stream()
    file = read(GOLDEN)
    net = file.model
    Y, W, M, Yhat, _ = online_snmf(X[:70], 6, 0.5)
    K = np.count_nonzero(Yhat)
    assert (net.n_components_, net.n_samples_seen_, net.n_features_in_) == (K, 70, 4)
    # The definitions of the weights, as ratios of sums over the responses of the oracle.
    np.testing.assert_allclose(net.cumulative_activity_, np.square(Y).sum(axis=0)[:K])
    ratios = (Y.T @ X[:70])[:K] / net.cumulative_activity_[:, None]
    np.testing.assert_allclose(net.components_, ratios, atol=1e-9)
    np.testing.assert_allclose(net.components_, W[:K], atol=1e-9)
    np.testing.assert_allclose(net.lateral_weights_, M[:K, :K], atol=1e-9)
    assert net.get_params()["tol"] == 1e-12
    assert (net.memory, net.recycle) == (None, False)
    assert net.unit_births_.tolist() == [-1] * K
    assert file.position == {"epoch": 0, "cursor": 70}
    assert [type(step) for step in file.preprocessing] == [StandardScaler, ZCAWhitener]
    np.testing.assert_allclose(file.preprocessing[0].mean_, X.mean(axis=0), atol=1e-12)
    Y, W, M, Yhat, _ = online_snmf(X, 6, 0.5)
    K = net.partial_fit(X[70:]).n_components_
    np.testing.assert_allclose(net.components_, W[:K], atol=1e-9)
    np.testing.assert_allclose(net.cumulative_activity_, Yhat[:K])


def test_the_golden_file_with_memory_loads_for_ever():
    # Written on the 18th of November 2026: the first 70 rows, in one chunk.
    X = golden_stream()
    net = read(GOLDEN_2).model
    assert (net.rank_penalty, net.memory, net.recycle) == ("auto", 5, True)
    for rows in (X[:70], X):
        if net.n_samples_seen_ < len(rows):
            net.partial_fit(rows[70:])
        _, W, M, Yhat, births = online_snmf(rows, 3, "auto", memory=5, recycle=True)
        assert births.max() > 10
        np.testing.assert_array_equal(net.unit_births_, births)
        np.testing.assert_allclose(net.components_, W, atol=1e-9)
        np.testing.assert_allclose(net.lateral_weights_, M, atol=1e-9)
        np.testing.assert_allclose(net.cumulative_activity_, Yhat)


def test_the_golden_pipeline_loads_for_ever():
    # Written on the 18th of November 2026: the first 70 rows, in one chunk.
    X = golden_stream()
    model = load(GOLDEN_3)
    assert [name for name, _ in model.steps] == ["scaler", "network"]
    assert list(model.feature_names_in_) == list("abcd")
    means = np.cumsum(X, axis=0) / np.arange(1, 91)[:, None]
    stds = np.array([X[: t + 1].std(axis=0) for t in range(90)])
    scaled = (X - means) / np.where(stds > 0, stds, 1)
    np.testing.assert_allclose(model["scaler"].mean_, means[69])
    for rows in (scaled[:70], scaled):
        if len(rows) == 90:
            model.partial_fit(pandas_frame(X[70:]))
        _, W, _, Yhat, _ = online_snmf(rows, 6, 0.5)
        K = np.count_nonzero(Yhat)
        np.testing.assert_allclose(model["network"].components_, W[:K], atol=1e-9)
        np.testing.assert_allclose(model["network"].cumulative_activity_, Yhat[:K])


def pandas_frame(X):
    return pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))


def test_the_same_model_makes_the_same_bytes_and_any_reader_of_npz_can_look(tmp_path):
    net = trained()
    save(net, tmp_path / "a.npz")
    save(load(tmp_path / "a.npz"), tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["s"][:, None] * file["V"], net.components_)
        assert json.loads(file["model.json"])["libraries"]["hebbnmf"] == hebbnmf.__version__


# Damage -------------------------------------------------------------------------------------------


def damage(data, rng):
    """Bit flips, cuts, runs of zeros, pieces moved, lost, doubled: as disks and networks do."""
    data = bytearray(data)
    i, j = sorted(rng.integers(0, len(data), 2).tolist())
    length = int(rng.integers(1, 64))
    kind = rng.integers(0, 8)
    if kind <= 2:
        data[i] ^= 1 << int(rng.integers(0, 8))
    elif kind == 3:
        del data[i:]
    elif kind == 4:
        data[i : i + length] = bytes(len(data[i : i + length]))
    elif kind == 5:
        del data[i : i + length]
    elif kind == 6:
        data[i:i] = rng.bytes(length)
    else:
        data[i : i + length], data[j : j + length] = data[j : j + length], data[i : i + length]
    return bytes(data)


def survive(folder, n_mutations, seed):
    """Whatever byte is damaged, a file gives the very same model or a ModelFileError."""
    rng = np.random.default_rng(seed)
    whitener = ZCAWhitener().fit(sources())
    save(trained(track_cost=True), folder / "whole.npz", preprocessing=[whitener])
    whole = (folder / "whole.npz").read_bytes()
    path, copy = folder / "damaged.npz", folder / "copy.npz"
    n_refused = 0
    for _ in range(n_mutations):
        path.write_bytes(damage(whole, rng))
        try:
            file = read(path)
        except ModelFileError:
            n_refused += 1
        else:
            save(file.model, copy, preprocessing=file.preprocessing)
            assert copy.read_bytes() == whole
    assert n_refused > 0.9 * n_mutations
    return {"files": n_mutations, "refused": n_refused, "unharmed": n_mutations - n_refused}


def test_a_damaged_file_gives_the_same_model_or_one_error(tmp_path):
    survive(tmp_path, 400, 0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_thousand_damaged_files(tmp_path, seed, record_property):
    record_property("damaged files", survive(tmp_path, 1000, seed))


def test_every_flipped_bit_of_a_small_file(tmp_path):
    save(OnlineSNMF(1), tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "damaged.npz"
    for bit in range(0, 8 * len(whole), 11):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        with contextlib.suppress(ModelFileError):
            assert load(path).get_params() == OnlineSNMF(1).get_params()


def swap(a, b):
    def change(members):
        members[a], members[b] = members[b], members[a]

    return change


def put(name, data):
    return lambda members: members.update({name: data})


MEMBERS = {
    "swapped arrays": (swap("s.npy", "Yhat.npy"), "checksum"),
    "a matrix for a vector": (swap("s.npy", "V.npy"), "of another kind"),
    "an object array": (put("s.npy", npy(np.array([{}], dtype=object))), "valid"),
    "a path out of the folder": (put("../../evil.npy", npy(np.zeros(1))), "members and table"),
    "an absolute path": (put("/etc/evil.npy", npy(np.zeros(1))), "members and table"),
    "an extra array": (put("more.npy", npy(np.zeros(1))), "members and table"),
    "a lost array": (lambda m: m.pop("s.npy") and None, "members and table"),
    "no text": (lambda m: m.pop("model.json") and None, "model.json is missing"),
    "a text that is no JSON": (put("model.json", b"{"), "valid"),
    "a text of NaN": (put("model.json", b'{"format": NaN}'), "NaN"),
    "a text with a key twice": (put("model.json", b'{"a": 1, "a": 2}'), "twice"),
    "a text without end": (put("model.json", b"[" * 200_000), "valid"),
    "a list": (put("model.json", b"[]"), "not an object"),
    "bad letters": (put("model.json", b'"\xff"'), "valid"),
    "an empty member": (put("V.npy", b""), "valid"),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_forged_members_are_refused(tmp_path, name):
    change, message = MEMBERS[name]
    save(trained(), tmp_path / "net.npz")
    rewrite(tmp_path / "net.npz", change)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "net.npz")


HEADERS = {
    "format": (lambda h: h.update(format="other"), "its format is not"),
    "no version": (lambda h: h.pop("version"), "no format version"),
    "zero version": (lambda h: h.update(version=0), "no format version"),
    "class": (lambda h: h.update({"class": "os.system"}), "not a known class"),
    "class of another kind": (lambda h: h.update({"class": "SymNMF"}), "parameters do not fit"),
    "unhashable class": (lambda h: h.update({"class": []}), "valid"),
    "extra key": (lambda h: h.update(more=1), "other keys"),
    "parameter": (lambda h: h["parameters"].update(tol=-1.0), "tol=-1.0"),
    "memory": (lambda h: h["parameters"].update(memory=1), "memory=1 cannot"),
    "penalty": (lambda h: h["parameters"].update(rank_penalty="car"), "rank_penalty='car' cannot"),
    "lost parameter": (lambda h: h["parameters"].pop("memory"), "parameters do not fit"),
    "infinite parameter": (lambda h: h["parameters"].update(tol=1e999), "Infinity"),
    "unknown parameter": (lambda h: h["parameters"].update(evil=1), "parameters do not fit"),
    "parameters": (lambda h: h.update(parameters=None), "parameters do not fit"),
    "seed": (lambda h: h["parameters"].update(random_state=-1), "not a seed"),
    "random state": (lambda h: h["parameters"].update(random_state={"MT19937": [1]}), "other keys"),
    "many samples": (lambda h: h["state"].update(n_samples=2**53), "n_samples is not a count"),
    "many units": (lambda h: h["parameters"].update(n_components=10**30), "n_components=1000"),
    "sweeps": (
        lambda h: h["parameters"].update(max_sweeps=2**62),
        "max_sweeps=4611686018427387904",
    ),
    "step flag": (lambda h: h["preprocessing"][0]["parameters"].update(eps=True), "step 0"),
    "n_units": (lambda h: h["state"].update(n_units=1), "'V' is not"),
    "negative": (lambda h: h["state"].update(n_units=-1), "n_units is not a count"),
    "boolean": (lambda h: h["state"].update(n_units=True), "n_units is not a count"),
    "terabyte": (lambda h: h["state"].update(n_features=2**40), "do not fit the features"),
    "n_samples": (lambda h: h["state"].update(n_samples=1), "cannot come from 1 samples"),
    "dtype": (lambda h: h["state"].update(dtype="float16"), "dtype is not"),
    "other dtype": (lambda h: h["state"].update(dtype="float32"), "'V' is not"),
    "object dtype": (lambda h: h["arrays"]["V"].update(dtype="|O"), "'V' is not"),
    "no shape": (lambda h: h["arrays"]["V"].pop("shape"), "has no shape"),
    "checksum": (lambda h: h["arrays"]["V"].update(sha256="0"), "checksum"),
    "table": (lambda h: h.update(arrays=[]), "no table of arrays"),
    "state": (lambda h: h.update(state=[]), "state is not an object"),
    "no state": (lambda h: h.update(state=None), "unknown arrays"),
    "cost": (lambda h: h["state"].update(cost_samples=5), "'triangle' is missing"),
    "names": (lambda h: h.update(feature_names=["a"]), "feature names"),
    "names of no one": (lambda h: h.update(feature_names=[1, 2, 3, 4, 5]), "feature names"),
    "position": (lambda h: h.update(position=[]), "position is not"),
    "libraries": (lambda h: h.update(libraries=[]), "libraries"),
    "preprocessing": (lambda h: h.update(preprocessing={}), "not a list"),
    "step": (lambda h: h.update(preprocessing=[{"class": "os"}]), "step 0"),
    "step parameters": (lambda h: h["preprocessing"][0]["parameters"].update(eps="x"), "step 0"),
    "step features": (lambda h: h["preprocessing"][0].update(n_features=4), "'step0.mean_'"),
}


RANDOM_STATES = {
    "position": 2**31 - 1,  # numpy would read out of bounds
    "has_gauss": 2,
    "cached_gaussian": 1e300,
    "MT19937": [1] + 623 * [0],  # without end for a normal deviate
}


@pytest.mark.parametrize("key", RANDOM_STATES)
def test_a_forged_random_state_is_refused(tmp_path, key):
    model = OnlineSNMF(2, random_state=np.random.RandomState(0))
    save(model, tmp_path / "net.npz")
    state = {key: RANDOM_STATES[key]}
    forge(tmp_path / "net.npz", lambda h: h["parameters"]["random_state"].update(state))
    with pytest.raises(ModelFileError, match="random_state is not a state of MT19937"):
        load(tmp_path / "net.npz")


@pytest.mark.parametrize("name", HEADERS)
def test_a_forged_text_is_refused(tmp_path, name):
    change, message = HEADERS[name]
    save(trained(), tmp_path / "net.npz", preprocessing=[ZCAWhitener().fit(sources())])
    forge(tmp_path / "net.npz", change)
    with pytest.raises(ModelFileError, match=message):
        read(tmp_path / "net.npz")


INVARIANTS = {
    "V": (lambda V: np.full_like(V, np.nan), "not finite"),
    "N_T": (lambda N: N - 1, "'N_T' has entries from -1.0 to"),
    "s": (lambda s: 0 * s, "'s' has entries from 0.0 to 0.0, but they lie between 1e-06"),
    "Yhat": (lambda Yhat: -Yhat, "'Yhat' has entries from -"),
    "born": (lambda born: born + 150, "but they lie between -1 and 149"),
    "energy": (lambda energy: -energy, "'energy' has entries"),
    "labels": (lambda labels: labels + 100, "'labels' has entries"),
    "triangle": (lambda R: R + 1, "triangle"),
}


MORE_INVARIANTS = {
    "diagonal": ("N_T", lambda N: N + np.eye(len(N)), "inhibit themselves"),
    "before the stream": ("born", lambda born: born - 2 - born.min(), "'born' has entries from -2"),
    "infinite": ("energy", lambda energy: energy + np.inf, "not finite"),
    "huge weights": ("V", lambda V: V * 1e40, "'V' has entries"),
    "huge lateral weights": ("N_T", lambda N: N * 1e40, "'N_T' has entries"),
    "large scales": ("s", lambda s: s + 1, "'s' has entries from"),
    "huge activity": ("Yhat", lambda Yhat: Yhat * 1e200, "'Yhat' has entries"),
    "energy of nothing": ("energy", lambda energy: energy * [1, 0], "the energy is not"),
    "huge energy": ("energy", lambda energy: energy * [1e170, 1], "the energy is not"),
    "huge cost": ("triangle", lambda R: R * 1e200, "'triangle' has entries"),
    "more than came": ("energy", lambda energy: energy * 2, "the energy is not"),
}


@pytest.mark.parametrize("name", [*INVARIANTS, *MORE_INVARIANTS])
def test_arrays_that_no_network_can_have_are_refused(tmp_path, name):
    attribute, change, message = MORE_INVARIANTS.get(name) or (name, *INVARIANTS[name])
    path = tmp_path / "net.npz"
    save(trained(track_cost=True, memory=None), path)
    with np.load(path) as file:
        header = json.loads(file["model.json"])
        arrays = {key: file[key] for key in header.pop("arrays")}
    write_archive(path, header, arrays)
    load(path)
    write_archive(path, header, arrays | {attribute: change(arrays[attribute])})
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_a_newer_format_names_the_version_needed(tmp_path):
    save(trained(), tmp_path / "net.npz")
    forge(tmp_path / "net.npz", lambda h: (h.update(version=4), h["libraries"].update(hebbnmf="9")))
    with pytest.raises(ModelFileError, match=r"format version 4, .* install hebbnmf 9 or later"):
        load(tmp_path / "net.npz")


def test_bombs_and_false_sizes_are_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "net.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", b" " * 50_000_000)
    with pytest.raises(ModelFileError, match="compressed"):
        load(path)
    save(OnlineSNMF(2, rank_penalty=0).partial_fit([[1.0, 2.0]]), path)
    huge = io.BytesIO()
    shape = (1, 2**40)
    np.lib.format.write_array_header_1_0(
        huge, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    rewrite(path, put("V.npy", huge.getvalue() + bytes(16)))
    forge(
        path, lambda h: (h["state"].update(n_features=2**40), h["arrays"]["V"].update(shape=shape))
    )
    with pytest.raises(ModelFileError, match="has 16 bytes, not 8796093022208"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all" * 50, npy(np.eye(3))])
def test_files_of_other_kinds_are_refused(tmp_path, content):
    (tmp_path / "net.npz").write_bytes(content)
    with pytest.raises(ModelFileError, match="not a valid model file"):
        load(tmp_path / "net.npz")


# Disks --------------------------------------------------------------------------------------------


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such model file: .*net\.npz"):
        load(tmp_path / "net.npz")
    (tmp_path / "net.npz").mkdir()
    with pytest.raises(IsADirectoryError, match=r"net\.npz"):
        load(tmp_path / "net.npz")
    with pytest.raises(IsADirectoryError, match=r"net\.npz"):
        save(trained(), tmp_path / "net.npz")
    with pytest.raises(FileNotFoundError, match="was not written"):
        save(trained(), tmp_path / "nowhere" / "net.npz")
    assert os.listdir(tmp_path) == ["net.npz"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "net.npz"
    save(OnlineSNMF(1), path)
    old = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(OSError, match=r"not written, and what was .* unchanged") as failure:
            save(trained(), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.value.errno == errno.EFBIG
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["net.npz"]


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 32 kB; it can be made only by root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(command).returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_or_locked_disk_leaves_the_old_file(tiny_disk):
    path = tiny_disk / "net.npz"
    save(OnlineSNMF(1), path)
    old = path.read_bytes()
    large = OnlineSNMF(40, rank_penalty=0).partial_fit(sources(60, 40))
    with pytest.raises(OSError, match="No space left") as failure:
        save(large, path)
    assert failure.value.errno == errno.ENOSPC
    assert path.read_bytes() == old
    assert os.listdir(tiny_disk) == ["net.npz"]
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(OSError, match="Read-only") as failure:
        save(OnlineSNMF(1), path)
    assert failure.value.errno == errno.EROFS
    assert path.read_bytes() == old


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_leaves_the_old_file(tmp_path):
    path = tmp_path / "net.npz"
    save(OnlineSNMF(1), path)
    old = path.read_bytes()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="not written"):
            save(trained(), path)
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == old


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.npz").symlink_to(tmp_path / "net.npz")
    save(OnlineSNMF(1), tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert load(tmp_path / "net.npz").n_components == 1


def test_loading_imports_no_pickle_and_runs_nothing(tmp_path):
    save(trained(), tmp_path / "net.npz")
    code = (
        "import sys, pickle\n"
        "def refuse(*_, **__): raise SystemExit('unpickled')\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        "from hebbnmf.persistence import load\n"
        f"print(load({str(tmp_path / 'net.npz')!r}).n_components_)"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert process.stdout.split() == [str(trained().n_components_).encode()], process.stderr
