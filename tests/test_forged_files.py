"""Forged model files: what loads can be used, and everything else is refused.

A forger rewrites single values of valid files, each an entry of the JSON text or of an array, and
makes the checksums true.
"""

import faulthandler
import json
import warnings
import zipfile
from collections import Counter
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, seed, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from hebbnmf import OnlineSNMF, SymNMF
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.persistence import ModelFileError, read, save
from hebbnmf.persistence.archives import write_archive
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener, transform_rows
from hebbnmf.streams import open_stream

X = make_sparse_sources(90, 5, random_state=0)


def whole_files(folder):
    """Write a model of every kind; return the paths."""
    random_state = np.random.RandomState(3)
    random_state.normal()
    steps, rows = [StandardScaler(), PatchNormalizer(0.1), ZCAWhitener(0.1)], X
    for step in steps:
        rows = step.fit_transform(rows)
    steps[-1].partial_fit_transform(rows)
    fresh = ZCAWhitener(0.2).partial_fit(rows)  # its whitening matrix is computed when needed
    named = OnlineSNMF(4, shuffle=True, random_state=random_state, n_epochs=2, track_cost=True)
    named.partial_fit(rows)
    named.feature_names_in_ = np.array(list("abcde"), dtype=object)
    many = OnlineSNMF(20, rank_penalty=0.0, memory=30, recycle=True, initial_activity=2.0)
    single = OnlineSNMF(3, dynamics="quartic", rank_penalty=2.0, memory=None, activity_gain=0.5)
    stream = open_stream(X, shuffle=True, random_state=1)
    next(stream)
    start = np.random.default_rng(0).random((90, 3))
    offline = SymNMF(3, init=start, random_state=np.random.RandomState(1), tol=1e-2)
    models = {
        "named": (named, [*steps, fresh], None),
        "many": (many.partial_fit(X), [], stream.position),
        "single": (single.partial_fit(X.astype(np.float32)), [], None),
        "offline": (offline.fit(X), [], None),
        "unfitted": (OnlineSNMF(random_state=np.random.RandomState(2)), [], None),
    }
    for name, (model, preprocessing, position) in models.items():
        save(model, folder / f"{name}.npz", preprocessing=preprocessing, position=position)
    return [folder / f"{name}.npz" for name in models]


def places(value, path=()):
    """Yield where each value of a JSON text is, objects and lists included."""
    if path:
        yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value[:3])
        for key, inner in items:
            yield from places(inner, (*path, key))


INTEGERS = st.sampled_from(
    [
        i
        for k in (0, 7, 31, 32, 53, 62, 63, 64, 100)
        for b in (1 << k, -(1 << k))
        for i in (b, b - 1)
    ]
)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e-30, 0.5, 1e20, 1e77, 1e154, 1e300, -1e308]),
)
VALUES = st.one_of(
    INTEGERS,
    FLOATS,
    st.integers(-3, 700),
    st.sampled_from([None, True, False, "", "auto", "float32", "pca", [], {}, [1], {"a": 1}]),
)
ENTRIES = st.one_of(FLOATS, INTEGERS, st.sampled_from([np.nan, np.inf, -np.inf]))


@cache
def contents(path):
    """Return the JSON text, without its table, and the arrays of a whole file."""
    with zipfile.ZipFile(path) as archive:
        text = archive.read("model.json").decode()
    header = json.loads(text)
    with np.load(path) as file:
        return text, {name: file[name] for name in header["arrays"]}


@cache
def all_places(path):
    """Return the names of the arrays that have entries, and all places of the JSON text."""
    text, arrays = contents(path)
    return [name for name, array in arrays.items() if array.size], list(places(json.loads(text)))


@st.composite
def forgeries(draw, paths):
    """Choose a file, and what is changed in it: a value of the text or an entry of an array."""
    path = draw(st.sampled_from(paths))
    names, in_text = all_places(path)
    if names and draw(st.booleans()):
        return path, (draw(st.sampled_from(names)), draw(st.integers(0, 2**16))), draw(ENTRIES)
    return path, draw(st.sampled_from(in_text)), draw(VALUES)


def forge(path, place, value, target):
    """Write a copy of a file in which one value is another."""
    text, arrays = contents(path)
    header = json.loads(text)
    name, index = place[0], place[-1]
    if name in arrays and len(place) == 2 and isinstance(index, int):
        array = arrays[name].copy()
        with np.errstate(all="ignore"):
            try:
                array.flat[index % array.size] = value
            except (ValueError, OverflowError):
                reject()  # no number of this type
        header.pop("arrays")
        write_archive(target, header, arrays | {name: array})
        return
    inner = header
    for key in place[:-1]:
        inner = inner[key]
    inner[index] = value
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w") as forged:
        for member in archive.namelist():
            changed = json.dumps(header) if member == "model.json" else archive.read(member)
            forged.writestr(member, changed)


def use(file, copy):
    """Do with a model what users do; raise what they would see."""
    model, steps, position, *_ = file
    if position is not None:
        with open_stream(X, shuffle=True, random_state=1) as stream:
            stream.seek(position)
            list(stream)
    rows = transform_rows(steps, X)
    if isinstance(model, SymNMF):
        assert model.embedding_.shape == (90, 3)
        model.fit(X)
        return
    if model.__sklearn_is_fitted__():
        rows = rows.astype(model.learner_.network.dtype)
        labels, Y = model.predict(rows), model.transform(rows)
        assert Y.shape == (90, model.n_components_)
        assert ((labels >= -1) & (labels < max(model.n_components_, 1))).all()
        assert np.isfinite(Y).all()
        model.partial_fit(rows[:30])
        model.partial_fit(rows[30:])
        save(model, copy, preprocessing=steps, position=position)
        read(copy)  # what a model learns can be written, and read again
    model.set_params(n_epochs=min(model.n_epochs, 2)).fit(rows)
    assert np.isfinite(model.transform(rows)).all()


def read_and_use(path, copy):
    """Return how it ended: the file was refused, the model could be used, or an error said why."""
    try:
        file = read(path)
    except ModelFileError:
        return "refused"
    try:
        use(file, copy)
    except ModelFileError:
        raise  # of what was learned
    except ValueError:
        return "refused in use"
    return "used"


@contextmanager
def patience():
    """End the process with a traceback if a case hangs."""
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def survive(folder, n_cases, number):
    seen = Counter()
    paths = whole_files(folder)
    target, copy = folder / "forged.npz", folder / "copy.npz"

    @seed(number)
    @settings(
        max_examples=n_cases,
        derandomize=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(forgeries(paths))
    def check(case):
        forge(*case, target)
        with warnings.catch_warnings(record=True) as caught, patience():
            warnings.simplefilter("always")
            end = read_and_use(target, copy)
        seen.update(["files", end])
        texts = [str(warning.message) for warning in caught]
        assert len(texts) <= 10, texts
        if end == "used":
            assert not any(w.category is RuntimeWarning for w in caught), texts

    check()
    return seen


def test_forged_files_are_refused_or_can_be_used(tmp_path):
    seen = survive(tmp_path, 300, 0)
    assert seen["refused"] > 0.3 * seen["files"]
    assert seen["used"] > 0.1 * seen["files"]


def test_no_model_learns_more_samples_than_a_file_can_count(tmp_path):
    path = whole_files(tmp_path)[1]
    forge(path, ("state", "n_samples"), 2**53 - 100, tmp_path / "forged.npz")
    model = read(tmp_path / "forged.npz").model
    rows = X.astype(model.learner_.network.dtype)
    save(model.partial_fit(rows), tmp_path / "again.npz")
    assert read(tmp_path / "again.npz").model.n_samples_seen_ == 2**53 - 100 + len(X)
    with pytest.raises(ValueError, match="fit a new model"):
        model.partial_fit(rows)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, 11))
def test_twenty_thousand_forged_files(tmp_path, number, record_property):
    seen = survive(tmp_path, 2000, number)
    record_property("forged files", dict(seen))
    assert seen["files"] >= 2000
