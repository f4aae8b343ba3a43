"""Training: however it ends and is resumed, the weights are those of a run never stopped."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from equality import assert_same_model
from hebbnmf import Learner, OnlinePCA, OnlineSNMF, StreamPipeline, make_online_clusterer
from hebbnmf.datasets import make_sparse_sources, make_three_gaussians
from hebbnmf.engine.state import BLOCK
from hebbnmf.persistence import load, read, save
from hebbnmf.preprocessing import MissingFiller, RunningScaler, ZCAWhitener
from hebbnmf.streams import StreamError, open_stream
from hebbnmf.training import checkpoints, loop, resume, train

N_FEATURES = 4
OPTIONS = {"chunk_bytes": BLOCK * N_FEATURES * 8, "epochs": 2, "random_state": 1}
SIGNALS = [signal.SIGINT, signal.SIGTERM]


def new_model(**parameters):
    return OnlineSNMF(6, **{"rank_penalty": 2.0, "track_cost": True, **parameters})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    X = make_sparse_sources(5 * BLOCK + 20, N_FEATURES, random_state=0)
    np.save(folder / "x.npy", X)
    np.savetxt(folder / "x.csv", X, delimiter=",")
    return folder


MEMORY = {"memory": 50, "rank_penalty": "auto", "recycle": True}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters"), [("x.npy", {}), ("x.csv", {}), ("x.npy", MEMORY), ("x.csv", MEMORY)]
)
def test_resuming_from_every_checkpoint_ends_in_the_same_weights(
    tmp_path, data, name, parameters, shuffle
):
    def opened():
        return open_stream(data / name, shuffle=shuffle, **OPTIONS)

    whole = train(new_model(**parameters), opened())
    copies = []

    def keep(_):
        if path.exists():  # written after the chunk before this one
            copies.append(shutil.copy(path, tmp_path / f"{len(copies)}.npz"))

    path = tmp_path / "checkpoint.npz"
    train(new_model(**parameters), opened(), checkpoint=path, every=1, on_progress=keep)
    assert_same_model(load(path), whole)
    assert len(copies) == 11
    for copy in [*copies, path]:
        model = resume(copy, opened())
        assert_same_model(model, whole)
        assert model.n_samples_seen_ == whole.n_samples_seen_


def test_checkpoints_do_not_change_what_is_learned(tmp_path, data):
    plain = train(new_model(), open_stream(data / "x.npy", **OPTIONS))
    for options in ({"every": 100}, {"every_seconds": 0.0}, {}):
        path = tmp_path / f"checkpoint {len(list(tmp_path.iterdir()))}.npz"
        stream = open_stream(data / "x.npy", **OPTIONS)
        model = train(new_model(), stream, checkpoint=path, **options)
        assert_same_model(model, plain)
        assert_same_model(load(path), plain)


def test_preprocessing_is_applied_stored_and_resumed(tmp_path, data):
    X = np.load(data / "x.npy")
    whitener = ZCAWhitener().fit(X)
    expected = new_model()
    for chunk in open_stream(X, **OPTIONS):
        expected.partial_fit(whitener.transform(chunk))
    path = tmp_path / "checkpoint.npz"
    train(
        new_model(),
        open_stream(X, **OPTIONS),
        preprocessing=[whitener],
        checkpoint=path,
        should_stop=path.exists,
        every=1,
    )
    assert read(path).model.n_samples_seen_ == BLOCK
    assert_same_model(resume(path, open_stream(X, **OPTIONS)), expected)


PIPELINES = {
    "clusterer": lambda: make_online_clusterer(6, n_landmarks=20, random_state=0),
    "drifting": lambda: make_online_clusterer(6, n_landmarks=20, random_state=0, memory=50),
    "scaled": lambda: StreamPipeline([("scaler", RunningScaler()), ("network", new_model())]),
    "whitened": lambda: StreamPipeline([("whitener", ZCAWhitener()), ("network", new_model())]),
    "of one step": lambda: StreamPipeline([("network", new_model())]),
}


def assert_same_pipeline(pipeline, other):
    assert_same_model(pipeline["network"], other["network"])
    assert [name for name, _ in pipeline.steps] == [name for name, _ in other.steps]
    for step, expected in zip(pipeline[:-1], other[:-1], strict=True):
        assert vars(step).keys() == vars(expected).keys()
        for name, value in vars(expected).items():
            np.testing.assert_array_equal(getattr(step, name), value, err_msg=name)


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_a_pipeline_resumed_from_every_checkpoint_ends_the_same(
    tmp_path, data, name, make, monkeypatch
):
    monkeypatch.setattr(loop, "_FIRST_ROWS", 100)
    monkeypatch.setattr(loop, "_PIECE", 50)

    def opened():
        return open_stream(data / name, shuffle=True, **OPTIONS)

    whole = train(make(), opened())
    copies = []

    def keep(_):
        if path.exists():
            copies.append(shutil.copy(path, tmp_path / f"{len(copies)}.npz"))

    path = tmp_path / "checkpoint.npz"
    train(make(), opened(), checkpoint=path, every=1, on_progress=keep)
    assert_same_pipeline(load(path), whole)
    assert len(copies) >= 10
    for copy in [*copies, path]:
        assert_same_pipeline(resume(copy, opened()), whole)
    assert whole["network"].n_samples_seen_ == 2 * (5 * BLOCK + 20)


def test_a_pipeline_trained_on_a_stream_is_one_that_learned_the_array(data):
    X = np.load(data / "x.npy")
    model = PIPELINES["clusterer"]()
    trained = train(model, open_stream(X))
    assert trained is model
    expected = PIPELINES["clusterer"]().partial_fit(X)
    assert_same_pipeline(trained, expected)
    np.testing.assert_array_equal(trained.labels_, expected.labels_)


def test_an_untrained_pipeline_is_stored_and_names_of_columns_are_kept(tmp_path, data):
    path = tmp_path / "checkpoint.npz"
    stream = open_stream(data / "x.npy", **OPTIONS)
    model = train(PIPELINES["clusterer"](), stream, checkpoint=path, should_stop=lambda: True)
    assert not hasattr(model["network"], "learner_")
    assert_same_pipeline(
        resume(path, open_stream(data / "x.npy", **OPTIONS)),
        train(PIPELINES["clusterer"](), open_stream(data / "x.npy", **OPTIONS)),
    )
    X = np.load(data / "x.npy")
    path = tmp_path / "named.npz"
    train(model, open_stream(write_csv(tmp_path / "a.csv", X, "abcd")), checkpoint=path)
    assert list(load(path).feature_names_in_) == list("abcd")
    with pytest.raises(StreamError, match="but the model learned the columns a, b, c, d"):
        train(load(path), open_stream(write_csv(tmp_path / "b.csv", X, "abdc")))


def test_pipelines_that_a_stream_cannot_train_are_refused(data):
    stream = open_stream(data / "x.npy")
    with pytest.raises(TypeError, match="the last step of the pipeline is a PCA, but a stream"):
        train(StreamPipeline([("pca", PCA(2))]), stream)
    with pytest.raises(ValueError, match="make its steps steps of the pipeline"):
        train(PIPELINES["scaled"](), stream, preprocessing=[ZCAWhitener().fit(np.eye(4))])


def test_steps_that_cannot_be_stored_are_refused_before_work_begins(data, tmp_path):
    path = tmp_path / "checkpoint.npz"
    for model, steps in (
        (StreamPipeline([("unit", Normalizer()), ("network", OnlineSNMF(3))]), []),
        (OnlineSNMF(3), [Normalizer()]),
    ):
        stream = open_stream(data / "x.npy")
        with pytest.raises(TypeError, match="Normalizer cannot be saved"):
            train(model, stream, preprocessing=steps, checkpoint=path)
        assert stream.is_at_start
    assert not path.exists()


def test_steps_that_return_sparse_rows_are_refused(data):
    sparse = FunctionTransformer(csr_array)
    with pytest.raises(TypeError, match="FunctionTransformer returns a sparse matrix"):
        train(
            StreamPipeline([("sparse", sparse), ("network", OnlineSNMF(3))]),
            open_stream(data / "x.npy"),
        )


@pytest.mark.parametrize("step", [OnlinePCA(3), OnlineSNMF(6)], ids=repr)
def test_a_network_within_a_pipeline_gets_the_rows_it_needs_to_grow(step):
    X = make_sparse_sources(1500, 5, random_state=0)
    rows = (X[i : i + 3] for i in range(0, len(X), 3))
    model = StreamPipeline([("step", step), ("network", OnlineSNMF(4))])
    assert train(model, open_stream(rows))["network"].n_samples_seen_ == 1500


def write_csv(path, X, names):
    np.savetxt(path, X, delimiter=",", header=",".join(names), comments="")
    return path


def test_names_of_features_are_kept_checked_and_stored(tmp_path, data):
    X = np.load(data / "x.npy")
    path = write_csv(tmp_path / "a.csv", X, "abcd")
    model = train(new_model(), open_stream(path), checkpoint=tmp_path / "checkpoint.npz")
    assert list(model.feature_names_in_) == list("abcd")
    assert list(load(tmp_path / "checkpoint.npz").feature_names_in_) == list("abcd")
    again = train(model, open_stream(path))
    assert_same_model(again, new_model().partial_fit(X).partial_fit(X))
    train(model, open_stream(X))  # columns without names may be any
    before = pickle.dumps(model.learner_.state)
    for names in ("abdc", "abc"):
        other = write_csv(tmp_path / "b.csv", X[:, : len(names)], names)
        with pytest.raises(StreamError, match=r"but the model learned the columns a, b, c, d"):
            train(model, open_stream(other))
    assert pickle.dumps(model.learner_.state) == before
    assert list(model.feature_names_in_) == list("abcd")


def test_names_go_through_preprocessing(tmp_path, data):
    X = np.load(data / "x.npy")
    frame = pd.DataFrame(X, columns=list("abcd"))
    path = write_csv(tmp_path / "a.csv", X, "abcd")
    swapped = write_csv(tmp_path / "b.csv", X, "abdc")
    for step, names in (
        (StandardScaler().fit(frame), "a b c d"),
        (StandardScaler().fit(X), "a b c d"),
        (PCA(2).fit(frame), "pca0 pca1"),
        (FunctionTransformer(np.negative).fit(X), ""),
    ):
        model = train(new_model(), open_stream(path), preprocessing=[step])
        train(model, open_stream(X), preprocessing=[step])
        assert list(getattr(model, "feature_names_in_", ())) == names.split()
        assert list(getattr(step, "feature_names_in_", "abcd")) == list("abcd")
        assert model.n_samples_seen_ == 2 * len(X)
        if hasattr(step, "feature_names_in_") or names == "a b c d":
            with pytest.raises(ValueError, match=r"not equal to feature_names_in_|but the model"):
                train(model, open_stream(swapped), preprocessing=[step])
            assert model.n_samples_seen_ == 2 * len(X)


# Interrupts ---------------------------------------------------------------------------------------


class InterruptedLearner(Learner):
    """A learner that gets Ctrl-C while it learns its third chunk, as in a notebook."""

    n_calls = 0

    def learn(self, X, *, keep=True):
        self.n_calls += 1
        if self.n_calls == 3:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.1)  # the main thread handles it meanwhile
        return super().learn(X, keep=keep)


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_interrupt_ends_the_chunk_in_hand_saves_and_is_a_keyboard_interrupt(
    tmp_path, data, shuffle
):
    def opened():
        return open_stream(data / "x.csv", shuffle=shuffle, **OPTIONS)

    path, model = tmp_path / "checkpoint.npz", new_model()
    model.begin(N_FEATURES)
    model.learner_ = InterruptedLearner(model.check_parameters(), N_FEATURES)
    with pytest.raises(KeyboardInterrupt):
        train(model, opened(), checkpoint=path)
    assert load(path).n_samples_seen_ == 3 * BLOCK
    assert_same_model(resume(path, opened()), train(new_model(), opened()))


class SlowLearner(Learner):
    """A learner that takes long, and gets Ctrl-C while it learns its second chunk."""

    n_calls = 0
    may_go_on = threading.Event()

    def learn(self, X, *, keep=True):
        self.n_calls += 1
        if self.n_calls == 1:
            time.sleep(0.6)
        else:
            time.sleep(0.2)  # until the main thread waits: a signal just before is not heard
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            self.may_go_on.wait()
        return super().learn(X, keep=keep)


def test_an_interrupt_gives_up_a_chunk_that_takes_long(tmp_path, data):
    path, model = tmp_path / "checkpoint.npz", new_model()
    model.begin(N_FEATURES)
    model.learner_ = slow = SlowLearner(model.check_parameters(), N_FEATURES)
    with pytest.raises(KeyboardInterrupt):
        train(model, open_stream(data / "x.csv", **OPTIONS), checkpoint=path)
    assert slow.network.n_samples == BLOCK
    assert load(path).n_samples_seen_ == model.n_samples_seen_ == BLOCK
    slow.may_go_on.set()
    while slow.network.n_samples == BLOCK:  # it goes on in its thread, and changes nothing
        time.sleep(0.05)
    assert model.n_samples_seen_ == BLOCK
    whole = train(new_model(), open_stream(data / "x.csv", **OPTIONS))
    assert_same_model(resume(path, open_stream(data / "x.csv", **OPTIONS)), whole)


def test_an_interrupt_is_not_kept_waiting_by_a_silent_source(tmp_path):
    X = make_sparse_sources(3 * BLOCK, N_FEATURES, random_state=0)

    def silent():
        yield X[: 2 * BLOCK]
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(60)
        yield X[2 * BLOCK :]

    path = tmp_path / "checkpoint.npz"
    start = time.monotonic()
    stream = open_stream(silent(), chunk_bytes=OPTIONS["chunk_bytes"])
    with pytest.raises(KeyboardInterrupt):
        train(new_model(), stream, checkpoint=path)
    assert time.monotonic() - start < 30
    assert load(path).n_samples_seen_ == 2 * BLOCK
    stream = open_stream(iter(X), chunk_bytes=OPTIONS["chunk_bytes"])
    whole = train(new_model(), open_stream(X, chunk_bytes=OPTIONS["chunk_bytes"]))
    assert_same_model(resume(path, stream), whole)


def test_a_training_told_to_stop_ends_before_the_next_chunk_and_can_go_on(tmp_path, data):
    seen = []
    path = tmp_path / "checkpoint.npz"
    stream = open_stream(data / "x.npy", **OPTIONS)
    model = train(
        new_model(),
        stream,
        checkpoint=path,
        on_progress=seen.append,
        should_stop=lambda: len(seen) == 2,
    )
    assert model.n_samples_seen_ == load(path).n_samples_seen_ == 2 * BLOCK
    whole = train(new_model(), open_stream(data / "x.npy", **OPTIONS))
    assert_same_model(train(model, stream), whole)
    assert_same_model(resume(path, open_stream(data / "x.npy", **OPTIONS)), whole)


def test_an_interrupt_while_the_last_checkpoint_is_written_leaves_it_written(
    tmp_path, data, monkeypatch
):
    path, n_calls = tmp_path / "checkpoint.npz", []

    def interrupted(*args, **options):
        n_calls.append(1)
        if len(n_calls) == 1:
            raise KeyboardInterrupt
        save(*args, **options)

    monkeypatch.setattr(checkpoints, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(new_model(), open_stream(data / "x.npy", **OPTIONS), checkpoint=path)
    assert load(path).n_samples_seen_ == 2 * (5 * BLOCK + 20)


def test_a_slow_disk_does_not_get_a_checkpoint_for_every_chunk(tmp_path, data, monkeypatch):
    n_calls, seen = [], []

    def slow(*_, **__):
        n_calls.append(1)
        time.sleep(1.0)

    def wait_once(_):
        seen.append(1)
        time.sleep(0.6 if len(seen) == 1 else 0)

    monkeypatch.setattr(checkpoints, "save", slow)
    options = {"checkpoint": tmp_path / "c.npz", "every_seconds": 0.5, "on_progress": wait_once}
    train(new_model(), open_stream(data / "x.npy", **OPTIONS), **options)
    assert len(seen) == 12
    assert len(n_calls) == 2  # after the first chunk, and at the end


@pytest.mark.parametrize("output", ["pandas", "default"])
def test_steps_may_return_frames_and_integers(data, output):
    X = np.load(data / "x.npy")
    frame = pd.DataFrame(X, columns=list("abcd"))
    scaler = StandardScaler().set_output(transform=output).fit(frame)
    rounded = FunctionTransformer(lambda rows: np.round(10 * np.asarray(rows)).astype(int)).fit(X)
    model = train(new_model(), open_stream(X, **OPTIONS), preprocessing=[scaler, rounded])
    assert model.components_.dtype == np.float64
    assert model.n_samples_seen_ == 2 * len(X)


def test_handlers_of_signals_are_left_alone(data):
    before = [signal.getsignal(s) for s in SIGNALS]
    seen = []
    train(
        new_model(),
        open_stream(data / "x.npy", **OPTIONS),
        on_progress=lambda _: seen.append([signal.getsignal(s) for s in SIGNALS]),
    )
    assert seen == [before] * 12


def test_unconverged_responses_give_one_warning_at_the_line_of_the_caller(data):
    stream = open_stream(data / "x.npy", **OPTIONS)
    with pytest.warns(ConvergenceWarning) as caught:
        train(new_model().set_params(max_sweeps=1, tol=1e-12), stream)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert f"of {2 * (5 * BLOCK + 20)} samples did not converge" in str(caught[0].message)


# Failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "pipeline"])
def test_data_whose_mean_hides_what_tells_them_apart_are_noticed_once(kind):
    X = np.tile(make_three_gaussians(random_state=0)[0], (2, 1)) + 5.0
    model = OnlineSNMF(3)
    if kind == "pipeline":
        model = StreamPipeline([("filler", MissingFiller()), ("network", model)])
    with pytest.warns(UserWarning, match="The mean of X explains 9.%") as caught:
        train(model, open_stream(X, chunk_bytes=1, epochs=2))
    assert [warning.filename for warning in caught] == [__file__]
    scaler = StandardScaler().fit(X)
    by_class = X[np.argsort(X[:, 0])]
    train(OnlineSNMF(3), open_stream(by_class), preprocessing=[scaler])


def test_a_stream_that_fails_leaves_a_checkpoint_of_all_before(tmp_path, data):
    rows = (data / "x.csv").read_text().splitlines()
    broken, path = tmp_path / "x.csv", tmp_path / "checkpoint.npz"
    broken.write_text("\n".join([*rows[: 3 * BLOCK + 8], "1,2,3,x", *rows[3 * BLOCK + 8 :]]))
    with pytest.raises(StreamError, match=f"line {3 * BLOCK + 9}"):
        train(new_model(), open_stream(broken, **OPTIONS), checkpoint=path)
    assert load(path).n_samples_seen_ == 3 * BLOCK
    broken.write_text("\n".join(rows))
    whole = train(new_model(), open_stream(data / "x.csv", **OPTIONS))
    with pytest.warns(UserWarning, match=r"x\.csv is shorter than when the checkpoint was written"):
        assert_same_model(resume(path, open_stream(broken, **OPTIONS)), whole)


def test_a_checkpoint_that_cannot_be_written_is_reported(tmp_path, data):
    stream = open_stream(data / "x.npy", **OPTIONS)
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        train(new_model(), stream, checkpoint=tmp_path / "nowhere" / "c.npz", every=1)


def test_what_is_no_checkpoint_is_not_resumed(tmp_path, data):
    stream = open_stream(data / "x.npy", **OPTIONS)
    save(new_model(), tmp_path / "model.npz")
    with pytest.raises(ValueError, match="not a checkpoint"):
        resume(tmp_path / "model.npz", stream)
    for options in ({"every": 0}, {"every_seconds": float("nan")}):
        with pytest.raises(ValueError, match="cannot be used"):
            train(new_model(), stream, **options)


# Sources that change ------------------------------------------------------------------------------


def changed(how, X):
    """Rows of which some that were learned have changed."""
    Z = X.copy()
    if how == "edited":
        Z[BLOCK + 3, 1] += 1e-9
    changes = {"reversed": Z[::-1], "fewer": Z[:100], "swapped": np.roll(Z, 1, axis=1)}
    return changes.get(how, Z) if how != "float32" else Z.astype(np.float32)


def write_rows(kind, folder, X):
    """Write rows in a format, and return what opens them."""
    if kind == "array":
        return X
    path = folder / f"rows.{kind}"
    if kind == "npy":
        np.save(path, X)
    else:
        np.savetxt(path, X, "%.17g", ",")
    return path


@pytest.mark.parametrize("kind", ["npy", "csv", "array"])
@pytest.mark.parametrize("how", ["reversed", "edited", "fewer", "swapped", "float32"])
@pytest.mark.parametrize(("shuffle", "n_chunks"), [(False, 3), (True, 8), (False, 8)])
def test_rows_that_were_learned_must_not_change(tmp_path, data, kind, how, shuffle, n_chunks):
    X, path = np.load(data / "x.npy"), tmp_path / "checkpoint.npz"

    def opened(rows):
        return open_stream(write_rows(kind, tmp_path, rows), shuffle=shuffle, **OPTIONS)

    seen = []
    train(
        new_model(),
        opened(X),
        checkpoint=path,
        on_progress=seen.append,
        should_stop=lambda: len(seen) == n_chunks,
    )
    before = path.read_bytes()
    with pytest.raises(
        StreamError, match=r"is not as it was when the checkpoint .* force=True|but"
    ):
        resume(path, opened(changed(how, X)))
    assert path.read_bytes() == before
    if how in ("reversed", "edited"):
        model = resume(path, opened(changed(how, X)), force=True)
        assert model.n_samples_seen_ == 2 * len(X)


@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_a_first_chunk_is_compared_though_size_and_time_are_those_of_before(tmp_path, data, name):
    path, copy = tmp_path / "checkpoint.npz", tmp_path / name
    shutil.copy2(data / name, copy)
    train(new_model(), open_stream(copy, **OPTIONS, limit=80), checkpoint=path)
    content = bytearray(copy.read_bytes())
    content[300] ^= 1
    times = copy.stat()
    copy.write_bytes(content)
    os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(StreamError, match="rows 0 to 71, as they were learned, are not the same"):
        resume(path, open_stream(copy, **OPTIONS))


def test_files_that_were_copied_or_touched_are_the_same(tmp_path, data):
    for name, shuffle in (("x.npy", True), ("x.csv", False), ("x.csv", True)):
        seen, path, copy = [], tmp_path / f"{name}{shuffle}.npz", tmp_path / name
        train(
            new_model(),
            open_stream(data / name, shuffle=shuffle, **OPTIONS),
            checkpoint=path,
            should_stop=lambda seen=seen: len(seen) == 4,
            on_progress=seen.append,
        )
        shutil.copy(data / name, copy)
        os.utime(copy, (1, 1))
        model = resume(path, open_stream(copy, shuffle=shuffle, **OPTIONS))
        whole = train(new_model(), open_stream(data / name, shuffle=shuffle, **OPTIONS))
        assert_same_model(model, whole)


def test_a_file_may_grow_until_an_epoch_has_ended(tmp_path, data):
    X, path = np.load(data / "x.npy"), tmp_path / "checkpoint.npz"

    def opened(rows, epochs=1):
        np.savetxt(tmp_path / "x.csv", rows, "%.17g", ",")
        return open_stream(tmp_path / "x.csv", **{**OPTIONS, "epochs": epochs})

    train(new_model(), opened(X[: 3 * BLOCK]), checkpoint=path)
    model = resume(path, opened(X))
    assert_same_model(model, train(new_model(), opened(X)))
    resume(path, opened(X, epochs=2))
    with pytest.raises(StreamError, match="rows were added to those of the first epoch"):
        resume(path, opened(np.vstack([X, X]), epochs=3))


def test_a_pipe_that_gives_other_rows_is_refused(tmp_path, data):
    X, path = np.load(data / "x.npy"), tmp_path / "checkpoint.npz"

    def opened(rows, limit=None):
        return open_stream(iter(rows), chunk_bytes=OPTIONS["chunk_bytes"], limit=limit)

    train(new_model(), opened(X, 2 * BLOCK), checkpoint=path)
    with pytest.raises(StreamError, match="rows 0 to 71, as they were learned, are not the same"):
        resume(path, opened(X[::-1]))
    other = X.copy()
    other[BLOCK + 1] += 1
    with pytest.raises(StreamError, match="rows 72 to 143, as they were learned"):
        resume(path, opened(other))
    assert_same_model(resume(path, opened(X)), train(new_model(), opened(X)))


def test_other_options_of_reading_are_refused(tmp_path, data):
    path = tmp_path / "checkpoint.npz"
    train(new_model(), open_stream(data / "x.npy", **OPTIONS, limit=80), checkpoint=path)
    for options, message in (
        ({"columns": [1, 0, 2, 3]}, r"columns \(?\[1, 0, 2, 3\]\)? are read"),
        ({"dtype": "float32", "chunk_bytes": BLOCK * N_FEATURES * 4}, "read as float32"),
    ):
        with pytest.raises(StreamError, match=message):
            resume(path, open_stream(data / "x.npy", **{**OPTIONS, **options}))


def test_several_files_are_one_source(tmp_path, data):
    X, path = np.load(data / "x.npy"), tmp_path / "checkpoint.npz"
    files = [tmp_path / f"{i}.csv" for i in range(3)]
    for file, rows in zip(files, np.array_split(X, 3), strict=True):
        np.savetxt(file, rows, "%.17g", ",")
    train(new_model(), open_stream(files, **{**OPTIONS, "limit": 3 * BLOCK}), checkpoint=path)
    with pytest.raises(StreamError, match="as they were learned, are not the same"):
        resume(path, open_stream(files[::-1], **OPTIONS))
    files[2].write_text(files[2].read_text() + files[0].read_text())  # not read yet
    whole = train(new_model(), open_stream(files, **OPTIONS))
    assert_same_model(resume(path, open_stream(files, **OPTIONS)), whole)


def test_checkpoints_without_a_fingerprint_are_resumed(tmp_path, data):
    path = tmp_path / "checkpoint.npz"
    train(new_model(), open_stream(data / "x.npy", **OPTIONS, limit=80), checkpoint=path)
    file = read(path)
    del file.position["source"]
    save(file.model, path, position=file.position)
    whole = train(new_model(), open_stream(data / "x.npy", **OPTIONS))
    assert_same_model(resume(path, open_stream(data / "x.npy", **OPTIONS)), whole)
    assert read(path).position["source"]["read"] is None


@pytest.mark.parametrize("source", [[], {}, {"dtype": "float64"}, {"read": 3}])
def test_a_forged_fingerprint_is_refused(tmp_path, data, source):
    path = tmp_path / "checkpoint.npz"
    train(new_model(), open_stream(data / "x.npy", **OPTIONS, limit=80), checkpoint=path)
    file = read(path)
    save(file.model, path, position={**file.position, "source": source})
    with pytest.raises(StreamError, match="not a fingerprint"):
        resume(path, open_stream(data / "x.npy", **OPTIONS))


@pytest.mark.filterwarnings("default")
def test_a_checkpoint_that_cannot_be_written_on_the_way_is_a_warning(tmp_path, data):
    folder = tmp_path / "disk"
    folder.mkdir()
    whole = train(new_model(), open_stream(data / "x.npy", **OPTIONS))
    with pytest.warns(UserWarning, match=r"c\.npz: was not written.*training goes on"):
        model = train(
            new_model(),
            open_stream(data / "x.npy", **OPTIONS),
            checkpoint=folder / "c.npz",
            every=1,
            on_progress=lambda _: shutil.rmtree(folder, ignore_errors=True),
        )
    assert_same_model(model, whole)


# Killed processes ---------------------------------------------------------------------------------

CHILD = """
import os, sys, time
from hebbnmf import OnlineSNMF
from hebbnmf.streams import open_stream
from hebbnmf.training import loop, resume, train
data, path, epochs, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
stream = open_stream(data, chunk_bytes=64 * 4 * 8, epochs=epochs, shuffle=True, random_state=1)
def wait(_):
    print("chunk", flush=True)
    time.sleep(pause)
if os.path.exists(path):
    model = resume(path, stream, every=128, on_progress=wait)
else:
    model = OnlineSNMF(6, rank_penalty=2.0, track_cost=True)
    train(model, stream, checkpoint=path, every=128, on_progress=wait)
"""


def survive_kills(folder, data, *, epochs, n_kills, seed):
    """Kill a training again and again at random moments, and let it finish at last."""
    rng = np.random.default_rng(seed)
    path = folder / "checkpoint.npz"
    command = [sys.executable, "-c", CHILD, str(data), str(path), str(epochs)]
    for _ in range(n_kills):
        with subprocess.Popen([*command, "0.004"], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(rng.uniform(0, 0.4))
            child.kill()
        assert child.returncode == -signal.SIGKILL
        if path.exists():
            assert read(path).position is not None
    subprocess.run([*command, "0"], check=True, stdout=subprocess.DEVNULL)
    options = {**OPTIONS, "epochs": epochs, "shuffle": True}
    assert_same_model(load(path), train(new_model(), open_stream(data, **options)))
    assert [name for name in os.listdir(folder) if name.endswith(".tmp")] == []


def test_killed_processes_resume_to_the_same_weights(tmp_path, data):
    survive_kills(tmp_path, data / "x.npy", epochs=40, n_kills=3, seed=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["x.npy", "x.csv"])
def test_fifty_killed_processes(tmp_path, data, name, seed, record_property):
    survive_kills(tmp_path, data / name, epochs=100, n_kills=5, seed=seed)
    record_property("killed trainings", {"killed": 5, "resumed to the same bits": 1})


def test_an_interrupt_from_outside_ends_a_process_with_a_checkpoint(tmp_path, data):
    path = tmp_path / "checkpoint.npz"
    command = [sys.executable, "-c", CHILD, str(data / "x.npy"), str(path), "40", "0.01"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in child.communicate()[1]
    assert load(path).n_samples_seen_ > 0


@pytest.mark.parametrize("n_new", [1, 40])  # the new log is shorter than the old one, and longer
def test_a_log_that_was_rotated_meanwhile_is_resumed_from_its_new_beginning(tmp_path, n_new):
    X = make_sparse_sources(20 + n_new, N_FEATURES, random_state=0).round(3)
    log, path = tmp_path / "log.csv", tmp_path / "checkpoint.npz"
    np.savetxt(log, X[:20], "%+.3f", ",", header="a,b,c,d,e,f"[: 2 * N_FEATURES - 1], comments="")
    train(new_model(), open_stream(log, follow=True, limit=20), checkpoint=path)
    log.rename(tmp_path / "log.csv.1")
    np.savetxt(log, X[20:], "%+.3f", ",", header="a,b,c,d,e,f"[: 2 * N_FEATURES - 1], comments="")
    resumed = resume(path, open_stream(log, follow=True, limit=n_new))
    assert resumed.n_samples_seen_ == 20 + n_new
    whole = new_model().partial_fit(X)
    np.testing.assert_allclose(resumed.components_, whole.components_, rtol=1e-6)
