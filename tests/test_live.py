"""The live page: it shows what the model is, changes what it may, and never what is learned."""

import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlsplit

import numba
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from equality import assert_same_model
from hebbnmf import Learner, OnlinePCA, OnlineSNMF, streams
from hebbnmf.cli import main
from hebbnmf.datasets import make_sparse_sources, make_three_gaussians
from hebbnmf.engine.state import BLOCK
from hebbnmf.live import LiveView
from hebbnmf.live.exchange import Exchange
from hebbnmf.live.messages import MESSAGE_BYTES, read_message
from hebbnmf.live.pace import Pace
from hebbnmf.live.pictures import Painter
from hebbnmf.persistence import read_checkpoint
from hebbnmf.preprocessing import ZCAWhitener, image_filters
from hebbnmf.streams import StreamError, open_stream
from hebbnmf.training import resume, train

SHAPE = (3, 4)
PATIENCE = 180  # seconds: kernels may have to be compiled first
TYPES = {"|u1": np.uint8, "<i2": np.int16, "<f4": np.float32, "<f8": np.float64}


class Page:
    """What a browser does, without a browser: it asks for frames and unpacks them."""

    def __init__(self, url):
        origin = "/".join(url.split("/")[:3])
        self._connection = connect(
            address(url), origin=origin, max_size=None, open_timeout=PATIENCE
        )

    def __enter__(self):
        self._socket = self._connection.__enter__()
        self.hello = json.loads(self.receive())
        return self

    def __exit__(self, *error):
        self._connection.__exit__(*error)

    def send(self, kind, value):
        self._socket.send(json.dumps({kind: value}))

    def receive(self):
        return self._socket.recv(timeout=PATIENCE)

    def frame(self):
        self.send("ready", True)
        while isinstance(data := self.receive(), str):
            self.hello = json.loads(data)
        return unpack(data)

    def told(self, condition):
        """Wait for facts about which this holds."""
        while not condition(self.hello):
            self.hello = json.loads(self.receive())
        return self.hello

    def until(self, condition):
        while not condition(frame := self.frame()):
            pass
        return frame


def address(url):
    return url.replace("http", "ws", 1) + "socket"


def unpack(data):
    (length,) = struct.unpack_from("<I", data)
    frame = json.loads(data[4 : 4 + length])
    offset = 4 + length
    for name, kind, shape in frame["arrays"]:
        n = int(np.prod(shape))
        frame[name] = np.frombuffer(data, TYPES[kind], n, offset).reshape(shape)
        offset += -(-frame[name].nbytes // 8) * 8
    assert offset == len(data)
    return frame


@pytest.fixture(scope="module")
def X():
    return make_sparse_sources(30 * BLOCK + 5, 12, random_state=0)


def opened(X, **options):
    return open_stream(X, chunk_bytes=1, **options)


def new_model(**parameters):
    return OnlineSNMF(6, **{"rank_penalty": 2.0, **parameters})


@contextlib.contextmanager
def in_thread(function, view):
    """Run a function beside the learner, and raise what it raises."""
    errors = []

    def run():
        try:
            function()
        except BaseException as error:
            errors.append(error)
            view.resume()  # or the learner waits for ever

    thread = threading.Thread(target=run)
    thread.start()
    yield thread
    thread.join(PATIENCE)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_a_page_that_pauses_and_steps_changes_no_bit(X):
    plain = train(new_model(), opened(X))
    model = new_model()
    with LiveView(model, speed=2000.0, port=0) as view:

        def watch():
            with Page(view.url) as page:
                page.frame()  # a learner that is paused before the first sample has none to show
                page.send("do", "pause")
                paused = page.until(lambda f: f["state"] == "paused")
                n_seen = paused["n_samples"]
                for _ in range(10):
                    page.send("do", "step")
                    stepped = page.until(lambda f, n=n_seen: f["n_samples"] > n)
                    n_seen += BLOCK
                    assert (stepped["n_samples"], stepped["state"]) == (n_seen, "paused")
                page.send("do", "resume")
                page.send("set", ["speed", None])
                page.until(lambda f: f["n_samples"] == len(X))

        with in_thread(watch, view):
            view.train(opened(X))
            view.end()
    assert_same_model(model, plain)


@pytest.fixture
def shown(X):
    """A model that has learned under a view, and the last frame of its page."""
    model = new_model()
    with LiveView(model, port=0) as view:
        view.train(opened(X))
        view.end()
        with Page(view.url) as page:
            page.send("unit", 1)
            yield model, page.hello, page.frame()


def test_a_frame_is_the_network_between_two_chunks(X, shown):
    model, hello, frame = shown
    assert hello["n_features"] == 12
    assert hello["shape"] is None
    assert (frame["state"], frame["n_samples"]) == ("ended", len(X))
    assert frame["n_units"] == model.n_components_ == len(frame["births"])
    W = frame["filters"] / 32767 * frame["peaks"][:, None]
    np.testing.assert_allclose(W, model.components_, atol=1e-3)
    M = frame["lateral"] / 255 * frame["strongest"]
    np.testing.assert_allclose(M, model.lateral_weights_, atol=frame["strongest"] / 200)
    np.testing.assert_array_equal(frame["births"], model.unit_births_)
    np.testing.assert_allclose(frame["cumulative"], model.cumulative_activity_, rtol=1e-6)


def test_a_frame_holds_the_responses_to_the_latest_samples(X, shown):
    model, _, frame = shown
    rows = X[-len(frame["labels"]) :]
    Y = model.transform(rows)
    assert len(rows) >= 2 * BLOCK
    np.testing.assert_array_equal(frame["labels"], model.predict(rows))
    shown_Y = frame["activities"] / 255 * frame["highest"]
    np.testing.assert_allclose(shown_Y, Y, atol=frame["highest"] / 200)
    np.testing.assert_array_equal(frame["activities"] > 0, Y > 0)
    assert frame["explained"] == pytest.approx(model.score(rows), abs=1e-6)
    residual = ((rows**2).sum(1) - (Y**2).sum(1)) / np.sqrt(2.0)
    np.testing.assert_allclose(frame["residuals"], residual, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(frame["samples"], rows[-1:], rtol=1e-6)


def test_the_favourites_of_a_unit_are_samples_it_responds_to(X, shown):
    model, _, frame = shown
    samples = frame["favourites"] / 32767 * frame["favourite_peaks"][:, None]
    assert 0 < len(samples) <= 8
    assert (np.diff(frame["favourite_activities"]) <= 0).all()
    nearest = np.abs(X[:, None] - samples).max(axis=2).argmin(axis=0)
    assert len(set(nearest)) == len(samples)
    np.testing.assert_allclose(X[nearest], samples, atol=1e-3)
    assert (model.transform(X[nearest])[:, 1] > 0).mean() > 0.5


def test_pictures_are_shown_as_they_were_before_whitening(X):
    whitener = ZCAWhitener().fit(X)
    model = new_model()
    with LiveView(model, shape=SHAPE, port=0) as view:
        view.train(opened(X), preprocessing=[whitener])
        with Page(view.url) as page:
            frame = page.frame()
            assert page.hello["shape"] == list(SHAPE)
    filters = frame["filters"] / 32767 * frame["peaks"][:, None]
    np.testing.assert_allclose(filters, image_filters(model.components_, whitener), atol=1e-2)
    np.testing.assert_allclose(frame["samples"], X[-1:], rtol=1e-6)


def test_sliders_change_the_model_and_bad_values_are_refused(X):
    model = new_model()
    with LiveView(model, port=0) as view:
        view.train(opened(X[:BLOCK]))

        def turn():
            with Page(view.url) as page:
                page.send("set", ["memory", 0.25])
                page.until(lambda f: f["settings"]["memory"] == 0.25)
                page.send("set", ["memory", 1.5])
                note = page.until(lambda f: f["note"][0] > 0)["note"][1]
                assert note.startswith("memory=1.5 cannot be used")
                page.send("set", ["rank_penalty", "auto"])
                page.until(lambda f: f["settings"]["rank_penalty"] == "auto")
                page.send("set", ["speed", None])

        with in_thread(turn, view) as thread:
            seed = 0
            while thread.is_alive():
                view.partial_fit(make_sparse_sources(BLOCK, 12, random_state=seed))
                seed += 1
    assert (model.memory, model.rank_penalty) == (0.25, "auto")
    assert model.learner_.settings.memory == 0.25
    assert model.learner_.network.rules.relative


def test_a_checkpoint_saved_from_the_page_is_resumed_to_the_same_weights(X, tmp_path):
    path = tmp_path / "saved.npz"
    whole = train(new_model(), opened(X))
    with LiveView(new_model(), checkpoint=path, speed=2000.0, port=0) as view:

        def save():
            with Page(view.url) as page:
                page.until(lambda f: f["n_samples"] >= 2 * BLOCK)
                page.send("do", "save")
                note = page.until(lambda f: f["note"][0] > 0)["note"][1]
                assert note == f"Saved to {path}."
                page.send("set", ["speed", None])

        with in_thread(save, view):
            view.train(opened(X))
    n_seen = read_checkpoint(path).model.n_samples_seen_
    assert 2 * BLOCK <= n_seen < len(X)
    assert_same_model(resume(path, opened(X)), whole)


def test_a_checkpoint_saved_from_the_page_knows_the_rows_that_were_learned(X, tmp_path):
    path = tmp_path / "saved.npz"
    with LiveView(new_model(), checkpoint=path, port=0) as view:
        view.train(opened(X, limit=5 * BLOCK))
        with Page(view.url) as page:
            page.send("do", "save")
            page.until(lambda f: f["note"][1].startswith("Saved"))
    with pytest.raises(StreamError, match="not as it was when the checkpoint was written"):
        resume(path, opened(X[::-1].copy()))
    assert_same_model(resume(path, opened(X)), train(new_model(), opened(X)))


class DisturbedLearner(Learner):
    """A learner in whose third chunk something else happens."""

    n_calls = 0

    def learn(self, X, *, keep=True):
        self.n_calls += 1
        if self.n_calls == 3:
            self.disturb()
        return super().learn(X, keep=keep)


def disturbed_model(disturb):
    model = new_model()
    model.begin(12)
    model.learner_ = DisturbedLearner(model.check_parameters(), 12)
    model.learner_.disturb = disturb
    return model


@pytest.fixture
def send_order(monkeypatch):
    """Send an order as a page does, and wait until it has come."""
    has_come, order = threading.Event(), Exchange.order

    def note(*args):
        order(*args)
        has_come.set()

    def send(view, *message):
        has_come.clear()
        with Page(view.url) as page:
            page.send(*message)
            assert has_come.wait(PATIENCE)

    monkeypatch.setattr(Exchange, "order", note)
    return send


def test_after_an_interrupt_the_page_saves_what_a_training_is_resumed_from(X, tmp_path, send_order):
    path, is_interrupted = tmp_path / "part.npz", threading.Event()

    def interrupt(*_):
        is_interrupted.set()
        raise KeyboardInterrupt

    def disturb():
        send_order(view, "do", "save")
        while not is_interrupted.wait(0.1):  # a signal just before the main thread waits is lost
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    signal.signal(signal.SIGINT, interrupt)
    with LiveView(disturbed_model(disturb), checkpoint=str(path), port=0) as view:
        with pytest.raises(KeyboardInterrupt):
            view.train(opened(X), checkpoint=str(path))
        with Page(view.url) as page:
            page.told(lambda hello: hello["note"][1] == f"Saved to {path}.")
    assert read_checkpoint(path).model.n_samples_seen_ == 3 * BLOCK
    assert_same_model(resume(path, opened(X)), train(new_model(), opened(X)))


def test_a_model_that_has_learned_part_of_a_chunk_is_not_saved(X, tmp_path):
    path = tmp_path / "part.npz"

    def disturb():
        raise MemoryError

    with LiveView(disturbed_model(disturb), checkpoint=str(path), port=0) as view:
        with pytest.raises(MemoryError):
            view.train(opened(X), checkpoint=str(path), every=1)
        with Page(view.url) as page:
            page.send("do", "save")
            page.told(lambda hello: hello["note"][1].startswith("Not saved: part of a chunk"))
    assert read_checkpoint(path).model.n_samples_seen_ == 2 * BLOCK
    assert_same_model(resume(path, opened(X)), train(new_model(), opened(X)))


@pytest.mark.parametrize("is_learning", [False, True])
def test_an_order_that_fails_is_told_and_harms_no_training(
    X, monkeypatch, caplog, send_order, is_learning
):
    def broken(*_):
        raise RuntimeError("no way")

    monkeypatch.setattr(Pace, "pause", broken)
    model = disturbed_model(lambda: send_order(view, "do", "pause"))
    with LiveView(model, port=0) as view:
        if not is_learning:
            send_order(view, "do", "pause")
        with Page(view.url) as page:
            if is_learning:
                view.train(opened(X))
            page.told(lambda hello: hello["note"][1] == "pause failed: RuntimeError('no way')")
            page.send("do", "step")
            page.told(lambda hello: hello["state"] == "paused")
            page.send("do", "resume")
            page.told(lambda hello: hello["state"] != "paused")
        if not is_learning:
            model.learner_.disturb = lambda: None
            view.train(opened(X))
    assert_same_model(model, train(new_model(), opened(X)))
    assert "no way" in caplog.text


def test_a_setting_that_the_learner_refuses_leaves_the_model_as_it_was(X, monkeypatch):
    def refuse(*_):
        raise ValueError("never")

    model = new_model()
    with LiveView(model, port=0) as view, Page(view.url) as page:
        view.partial_fit(X[:BLOCK])
        monkeypatch.setattr(Learner, "configure", refuse)
        page.send("set", ["memory", 0.25])
        assert page.told(lambda hello: hello["note"][0])["note"][1] == "never"
    assert model.memory == new_model().memory


def test_an_interrupt_of_a_wait_leaves_the_page_attended_to(X, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pace, "wait", interrupt)
    monkeypatch.setattr(Pace, "take", interrupt)
    with LiveView(new_model(), port=0) as view, Page(view.url) as page:
        page.send("do", "pause")
        page.told(lambda hello: hello["state"] == "paused")
        with pytest.raises(KeyboardInterrupt):
            view.partial_fit(X[:BLOCK])
        page.send("do", "resume")
        page.told(lambda hello: hello["state"] == "waiting")


class Silent:
    """Chunks of rows, and then nothing until the end is told, as from a source that is silent."""

    def __init__(self, *chunks):
        self._chunks, self.is_over = chunks, threading.Event()

    def __iter__(self):
        yield from self._chunks
        assert self.is_over.wait(PATIENCE)


def test_controls_act_while_the_source_is_silent(X, tmp_path):
    path, source = tmp_path / "saved.npz", Silent(X[: 2 * BLOCK])
    model = new_model()
    with LiveView(model, checkpoint=path, port=0) as view:

        def play():
            with Page(view.url) as page:
                page.until(lambda f: f["n_samples"] == 2 * BLOCK)
                page.send("do", "pause")
                page.until(lambda f: f["state"] == "paused")
                page.send("set", ["memory", 0.25])
                page.until(lambda f: f["settings"]["memory"] == 0.25)
                assert model.learner_.settings.memory == 0.25
                page.send("do", "save")
                page.until(lambda f: f["note"][1] == f"Saved to {path}.")
                page.send("do", "step")
                page.send("do", "resume")
                page.until(lambda f: f["state"] == "learning")
            # A page that comes later sees the latest state too.
            with Page(view.url) as page:
                assert page.frame()["n_samples"] == 2 * BLOCK
            source.is_over.set()

        with in_thread(play, view):
            view.train(open_stream(source, chunk_bytes=1))
    assert read_checkpoint(path).model.n_samples_seen_ == 2 * BLOCK


def test_controls_act_before_the_first_sample(X, tmp_path):
    model, checkpoint = new_model(), tmp_path / "saved.npz"
    with LiveView(model, checkpoint=checkpoint, port=0) as view, Page(view.url) as page:
        assert page.hello["state"] == "waiting"
        page.send("do", "pause")
        page.told(lambda hello: hello["state"] == "paused")
        page.send("set", ["memory", 0.25])
        page.told(lambda hello: hello["settings"]["memory"] == 0.25)
        page.send("do", "save")
        page.told(lambda hello: hello["note"][1] == "Not saved: nothing is learned yet.")
        page.send("do", "step")
        view.partial_fit(X[:BLOCK])
        assert page.frame()["state"] == "paused"
    assert model.learner_.settings.memory == 0.25
    assert not checkpoint.exists()


def test_the_page_is_told_that_kernels_are_compiled():
    @numba.njit
    def kernel(x):
        return x + 1

    with LiveView(new_model(), port=0) as view, Page(view.url) as page:
        assert page.hello["compiling"] is None
        assert kernel(1) == 2
        assert time.time() - 60 < page.told(lambda hello: hello["compiling"])["compiling"]
        page.told(lambda hello: hello["compiling"] is None)


def test_saving_replaces_no_file_that_is_not_its_own(X, tmp_path):
    path = tmp_path / "precious.npz"
    path.write_bytes(b"precious")
    with LiveView(new_model(), checkpoint=path, speed=2000.0, port=0) as view:

        def save():
            with Page(view.url) as page:
                page.frame()
                page.send("do", "save")
                note = page.until(lambda f: f["note"][0] > 0)["note"][1]
                assert note.startswith(f"Not saved: {path} exists")
                page.send("set", ["speed", None])

        with in_thread(save, view):
            view.train(opened(X))
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("kind", [str, Path, os.path.relpath])
def test_saving_replaces_the_checkpoint_of_the_training(X, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "part.npz"
    with LiveView(new_model(), checkpoint=str(path), port=0) as view:
        view.train(opened(X, limit=BLOCK), checkpoint=kind(path))
        with Page(view.url) as page:
            page.send("do", "save")
            page.told(lambda hello: hello["note"][0] > 0)
            assert page.hello["note"][1] == f"Saved to {path}."


def test_saving_does_not_replace_a_checkpoint_that_the_training_was_refused(X, tmp_path):
    path = tmp_path / "precious.npz"
    path.write_bytes(b"precious")
    with LiveView(new_model(), checkpoint=str(path), port=0) as view:
        with pytest.raises(FileExistsError):
            view.train(opened(X), checkpoint=str(path))
        view.partial_fit(X[:BLOCK])
        with Page(view.url) as page:
            page.send("do", "save")
            page.told(lambda hello: hello["note"][0] > 0)
            assert page.hello["note"][1].startswith(f"Not saved: {path} exists")
    assert path.read_bytes() == b"precious"


def test_a_loop_of_your_own_learns_the_same(X):
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(12)])
    plain, model = new_model().partial_fit(frame), new_model()
    with LiveView(model, port=0) as view:
        for start in range(0, len(X), 4 * BLOCK):
            view.partial_fit(frame[start : start + 4 * BLOCK])
        with Page(view.url) as page:
            assert page.hello["names"] == list(frame.columns)
        assert view.url in view._repr_html_()
    assert_same_model(model, plain)


def test_a_page_opened_before_the_first_sample_is_told_what_the_samples_are(X):
    with LiveView(new_model(), port=0) as view, Page(view.url) as page:
        assert page.hello["n_features"] is None
        view.partial_fit(X[:BLOCK])
        page.send("ready", True)
        assert json.loads(page.receive())["n_features"] == 12
        assert unpack(page.receive())["n_samples"] == BLOCK


def test_numbers_of_numpy_and_others_reach_the_page(X):
    model = OnlineSNMF(
        np.int64(6), memory=np.int64(100), rank_penalty=Fraction(5, 2), recycle=np.bool_(True)
    )
    shape = tuple(np.array(SHAPE))
    with LiveView(model, shape=shape, speed=np.int64(10**6), port=0) as view:
        view.partial_fit(X[:BLOCK])
        with Page(view.url) as page:
            assert page.hello["shape"] == list(SHAPE)
            frame = page.frame()
            assert frame["settings"] == {"memory": 100, "rank_penalty": 2.5, "speed": 1e6}
            assert (frame["max_units"], frame["recycle"]) == (6, True)


def test_a_model_that_cannot_learn_is_refused_at_once():
    with pytest.raises(ValueError, match="memory=nan cannot be used"):
        LiveView(new_model(memory=np.nan))


def filled(X, buffer):
    """Fill one buffer again and again, as sources do that save memory."""
    for start in range(0, len(X), len(buffer)):
        buffer[:] = X[start : start + len(buffer)]
        yield buffer


@pytest.mark.parametrize("kind", ["generator", "array"])
def test_the_rows_shown_are_those_that_were_learned(X, kind):
    X, model = X[: 4 * BLOCK], new_model()
    buffer = np.empty((BLOCK, 12))
    with LiveView(model, port=0) as view:
        if kind == "generator":
            view.train(opened(filled(X, buffer)))
        else:
            for rows in filled(X, buffer):
                view.train(opened(rows))
        buffer[:] = 0
        with Page(view.url) as page:
            frame = page.frame()
    np.testing.assert_array_equal(frame["labels"], model.predict(X[-2 * BLOCK :]))
    np.testing.assert_allclose(frame["samples"], X[-1:], rtol=1e-6)


KINDS = {
    "integers": lambda X: (10 * X).astype(np.int32),
    "float16": lambda X: X.astype(np.float16),
    "lists": lambda X: X.tolist(),
    "objects": lambda X: pd.DataFrame(X, columns=list("abcdefghijkl"), dtype=object),
    "sparse": lambda X: csr_array(np.where(X > 1, X, 0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunk_may_be_of_any_kind_that_a_model_takes(X, kind):
    rows = KINDS[kind](X[: BLOCK + 9])
    model, plain = new_model(), new_model().partial_fit(rows)
    with LiveView(model, port=0) as view:
        view.partial_fit(rows)
        with Page(view.url) as page:
            assert page.frame()["n_samples"] == BLOCK + 9
    assert_same_model(model, plain)


def test_one_picture_is_painted_at_a_time_though_pages_leave(X, monkeypatch):
    has_begun, may_end, paint = threading.Event(), threading.Event(), Painter.paint
    painting, n_painting = [], []

    def slow(*args):
        painting.append(None)
        n_painting.append(len(painting))
        has_begun.set()
        assert may_end.wait(PATIENCE)
        picture = paint(*args)
        painting.pop()
        return picture

    monkeypatch.setattr(Painter, "paint", slow)
    with LiveView(new_model(), port=0) as view:
        view.partial_fit(X[:BLOCK])
        with Page(view.url) as page:
            page.send("ready", True)
            assert has_begun.wait(PATIENCE)
        with Page(view.url) as page:
            page.send("ready", True)
            page.send("do", "pause")
            page.told(lambda hello: hello["state"] == "paused")  # the first has left by now
            may_end.set()
            page.until(lambda f: f["state"] == "paused")
    assert max(n_painting) == 1


def test_what_a_page_knows_is_not_told_again(X):
    with LiveView(new_model(), port=0) as view:
        view.partial_fit(X[:BLOCK])
        with Page(view.url) as page:
            for start in range(BLOCK, 9 * BLOCK, BLOCK):
                view.partial_fit(X[start : start + BLOCK])
            page.send("ready", True)
            assert unpack(page.receive())["n_samples"] == 9 * BLOCK


def test_a_recording_that_ends_in_bad_rows_is_shown_to_its_end(X, tmp_path):
    path, rows = tmp_path / "session.nwb", X[: 2 * BLOCK].copy()
    rows[BLOCK:] = np.nan
    with pytest.importorskip("h5py").File(path, "w") as file:
        file["acquisition/lfp/data"] = rows
        file["acquisition/lfp/timestamps"] = np.arange(len(rows)) / 10
    stream = opened(path, dataset="acquisition/lfp", on_bad_row="skip")
    with LiveView(new_model(), port=0) as view:
        view.train(stream)
        view.end()
        with Page(view.url) as page:
            frame = page.frame()
    assert (frame["n_samples"], frame["clock"]) == (BLOCK, None)


def test_points_of_the_plane_all_reach_the_page():
    X, _ = make_three_gaussians(2 * BLOCK, random_state=0)
    with LiveView(OnlineSNMF(3), port=0) as view:
        view.partial_fit(X)
        view.end()
        with Page(view.url) as page:
            np.testing.assert_allclose(page.frame()["samples"], X, rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"shape": (0, 3)}, "shape="),
        ({"speed": -1.0}, "speed=-1.0"),
        ({"port": 70000}, "port=70000"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LiveView(new_model(), **parameters)


def test_models_that_the_page_cannot_show_are_refused():
    with pytest.raises(TypeError, match="OnlinePCA cannot be shown: the page shows"):
        LiveView(OnlinePCA(2))


def test_a_shape_that_does_not_suit_the_samples_is_refused(X):
    with (
        LiveView(new_model(), shape=(5, 5), port=0) as view,
        pytest.raises(ValueError, match=r"shape=\(5, 5\) cannot be used for samples of 12"),
    ):
        view.train(opened(X))


# Safety.


@pytest.fixture(scope="module")
def served(X):
    """A view with a frame to show, for requests of every kind."""
    with LiveView(new_model(), port=0) as view:
        view.partial_fit(X)
        yield view


def get(view, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", view.port, timeout=PATIENCE)
    host = headers.pop("host", f"127.0.0.1:{view.port}")
    connection.putrequest(method, path, skip_host=True)
    for name, value in {"host": host, **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), body


def secret_path(view):
    return urlsplit(view.url).path


@pytest.mark.parametrize("name", ["", "index.html", "app.js", "style.css", "icon.svg"])
def test_whoever_knows_the_secret_gets_the_page(served, name):
    status, headers, body = get(served, secret_path(served) + name)
    assert status == 200
    assert body
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_localhost_is_this_machine_too(served):
    host = f"localhost:{served.port}"
    assert get(served, secret_path(served), host=host, origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/wrong/", "/wrong/app.js", "//", "/socket"])
def test_without_the_secret_everything_is_refused(served, path):
    status, _, body = get(served, path)
    assert status == 403
    assert b"script" not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:{port}"},  # a name that an attacker has pointed here
        {"host": "127.0.0.1"},
        {"host": "192.168.0.7:{port}"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:{port}"},
    ],
)
def test_other_hosts_and_origins_are_refused(served, headers):
    headers = {name: value.format(port=served.port) for name, value in headers.items()}
    assert get(served, secret_path(served), **headers)[0] == 403


@pytest.mark.parametrize("name", ["../view.py", "..%2fview.py", "nothing.js", "page/app.js"])
def test_no_other_file_is_served(served, name):
    assert get(served, secret_path(served) + name)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_allowed(served, method):
    assert get(served, secret_path(served), method=method)[0] == 405


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null"])
def test_a_socket_from_elsewhere_is_refused(served, origin):
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(address(served.url), origin=origin, open_timeout=PATIENCE),
    ):
        pass


MALFORMED = [
    "",
    "{}",
    "[]",
    "null",
    "1e999",
    "{" * 900,
    '{"ready": 1}',
    '{"unit": -1}',
    '{"unit": 1.5}',
    '{"unit": true}',
    '{"do": "exit"}',
    '{"do": null}',
    '{"set": ["tol", 1]}',
    '{"set": ["memory", NaN]}',
    '{"set": ["memory", Infinity]}',
    '{"set": ["memory", "0.1"]}',
    '{"set": ["memory"]}',
    '{"set": ["speed", 0]}',
    '{"set": ["rank_penalty", true]}',
    '{"set": [["memory"], 1]}',
    '{"ready": true, "do": "pause"}',
]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_messages_are_no_messages(text):
    with pytest.raises(ValueError, match="is not a message of the page"):
        read_message(text)


def test_a_hundred_malformed_requests_do_not_disturb_the_learning(X):
    plain = train(new_model(), opened(X))
    model = new_model()
    attempts = []
    with LiveView(model, speed=2000.0, port=0) as view, contextlib.ExitStack() as stack:

        def half_open(data):
            connection = socket.create_connection(("127.0.0.1", view.port), timeout=PATIENCE)
            connection.sendall(data)
            stack.enter_context(connection)
            attempts.append(data)

        def refuse(message):
            origin = f"http://127.0.0.1:{view.port}"
            with connect(address(view.url), origin=origin) as page:
                page.recv(timeout=PATIENCE)
                page.send(message)
                with pytest.raises(ConnectionClosed):
                    page.recv(timeout=PATIENCE)
                attempts.append(message)

        def attack():
            for message in MALFORMED:
                refuse(message)
            for size in (MESSAGE_BYTES + 1, 10**6):
                refuse("x" * size)
                refuse(bytes(size))
            for noise in range(10):
                refuse(np.random.default_rng(noise).bytes(100))
            for path in ["/", "/x/", "/" + "x" * 9000, "/%00/", "/%ff/"]:
                for host in ("evil.example", f"127.0.0.1:{view.port}"):
                    assert get(view, path, host=host)[0] in (400, 403)
                    attempts.append(path)
            for data in (b"", b"GET ", b"GET / HTTP/1.1\r\nhost: x\r\n", b"\x16\x03\x01\x02\x00"):
                for _ in range(15):
                    half_open(data)
            for size in (2**15, 2**20):
                with contextlib.suppress(ConnectionError):
                    half_open(b"GET /" + b"x" * size)
            status, _, _ = get(view, secret_path(view))
            assert status == 200
            with Page(view.url) as page:
                assert page.frame()["n_samples"] > 0
                page.send("set", ["speed", None])

        with in_thread(attack, view):
            view.train(opened(X))
    assert len(attempts) >= 100
    assert_same_model(model, plain)


def test_a_taken_port_gives_way_to_the_next():
    with (
        LiveView(new_model(), port=0) as first,
        LiveView(new_model(), port=first.port) as second,
    ):
        assert second.port > first.port
        assert f":{second.port}/" in second.url
        assert get(second, secret_path(second))[0] == 200
        assert get(second, secret_path(first))[0] == 403


def test_closing_ends_the_thread_although_pages_hang(X):
    def servers():
        return {thread for thread in threading.enumerate() if thread.name == "hebbnmf live"}

    before = servers()
    with contextlib.ExitStack() as stack:
        with LiveView(new_model(), port=0) as view:
            view.partial_fit(X[:BLOCK])
            page = stack.enter_context(Page(view.url))
            page.frame()
            for _ in range(5):
                stack.enter_context(socket.create_connection(("127.0.0.1", view.port)))
            assert len(servers() - before) == 1
        assert servers() == before


def test_a_public_view_answers_to_its_addresses_but_to_no_other_name():
    with LiveView(new_model(), host="0.0.0.0", port=0) as view:
        path, port = secret_path(view), view.port
        for host in ("127.0.0.1", "192.168.0.7", socket.gethostname()):
            assert get(view, path, host=f"{host}:{port}")[0] == 200
        assert get(view, path, host=f"evil.example:{port}")[0] == 403


# The command.


@contextlib.contextmanager
def command(folder, *arguments):
    """Run `hebbnmf live` with a checkpoint; yield the process and the address of its page."""
    options = ["--no-browser", "--port", "0", "--checkpoint", "part.npz"]
    with subprocess.Popen(
        [sys.executable, "-m", "hebbnmf.cli", "live", *arguments, *options],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process, process.stderr.readline().split()[-1]


def check_ended(process, folder, name):
    assert process.wait(PATIENCE) == 128 + signal.Signals[name]
    assert "part.npz is written; --resume continues from it." in process.stderr.read()
    return read_checkpoint(folder / "part.npz").model


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_command_with_the_checkpoint_written(X, tmp_path, name):
    np.save(tmp_path / "x.npy", X)
    with command(tmp_path, "x.npy", "--speed", "400") as (process, url):
        with Page(url) as page:
            page.until(lambda f: f["n_samples"] >= BLOCK)
        os.kill(process.pid, signal.Signals[name])
        assert check_ended(process, tmp_path, name).n_samples_seen_ % BLOCK == 0


@pytest.mark.parametrize(("options", "n_units"), [([], 144), (["--n-components", "6"], 6)])
def test_the_demo_learns_144_filters_unless_asked_for_others(tmp_path, options, n_units):
    with command(tmp_path, "demo", *options) as (process, url):
        with Page(url) as page:
            page.until(lambda f: f["n_samples"] >= BLOCK)
        os.kill(process.pid, signal.SIGINT)
        assert check_ended(process, tmp_path, "SIGINT").n_components == n_units


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_signal_ends_the_command_while_nothing_comes(X, tmp_path, is_paused):
    with command(tmp_path, "-", "--watch") as (process, url):
        np.savetxt(process.stdin, X[:BLOCK], delimiter=",")
        process.stdin.flush()
        with Page(url) as page:
            page.until(lambda f: f["n_samples"] == BLOCK)
            if is_paused:
                page.send("do", "pause")
                page.until(lambda f: f["state"] == "paused")
                np.savetxt(process.stdin, X[:BLOCK], delimiter=",")  # read, but not learned
                process.stdin.flush()
            # A page that stays open keeps nobody waiting.
            os.kill(process.pid, signal.SIGINT)
            assert check_ended(process, tmp_path, "SIGINT").n_samples_seen_ == BLOCK


def test_a_signal_before_the_first_row_tells_of_no_checkpoint(X, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    monkeypatch.setattr(streams, "open_stream", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    result = CliRunner().invoke(
        main, ["live", "x.npy", "--no-browser", "--port", "0", "--checkpoint", "part.npz"]
    )
    assert result.exit_code == 130
    assert "The page" in result.stderr
    assert "part.npz" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.npy", "--model", "pca"], "the page shows the network of --model snmf alone"),
        (["x.npy", "--shape", "16"], "'16' is not a height and a width"),
        (["x.npy", "--resume"], "--resume needs --checkpoint"),
        (["lsl:name=x", "--whiten"], "lsl:name=x can be read only once"),
        (["x.npy", "--shape", "5x5"], "shape=(5, 5) cannot be used for samples of 12 features"),
    ],
)
def test_bad_usage_is_one_clear_line(X, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    result = CliRunner().invoke(main, ["live", *arguments, "--no-browser", "--port", "0"])
    assert result.exit_code != 0
    assert message in result.stderr
