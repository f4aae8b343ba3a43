"""Live sources: samples of the Lab Streaming Layer, each once and with its time; series of NWB."""

import logging
import threading
import time
import uuid

import h5py
import numpy as np
import pytest

from hebbnmf import OnlineSNMF
from hebbnmf.live import LiveView
from hebbnmf.streams import StreamError, open_stream
from hebbnmf.training import resume, train

pylsl = pytest.importorskip("pylsl", reason="pylsl and its library are not installed")
NAMES = ["Fz", "Cz", "Pz", "Oz"]
RATE = 500


class Instrument:
    """An outlet with a name of its own, so that tests do not hear each other."""

    def __init__(self, n_channels=4, kind="float32", rate=RATE):
        self.name = f"hebbnmf-{uuid.uuid4().hex[:8]}"
        self._info = (self.name, "EEG", n_channels, rate, kind)
        self.switch_on()

    def switch_on(self):
        info = pylsl.StreamInfo(*self._info, source_id=self.name)
        if info.channel_count() == len(NAMES):
            info.set_channel_labels(NAMES)
        self._outlet = pylsl.StreamOutlet(info)

    def switch_off(self):
        del self._outlet

    def send(self, X, first_time=100.0, rate=RATE):
        start = time.monotonic()
        for i, x in enumerate(X):
            time.sleep(max(0.0, start + i / rate - time.monotonic()))
            self._outlet.push_sample(x.tolist(), first_time + i / RATE)

    def sending(self, *arguments, **options):
        thread = threading.Thread(target=self.send, args=arguments, kwargs=options)
        thread.start()
        return thread


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((2000, 4)).astype(np.float32)


def test_2000_samples_at_500_hertz_are_each_learned_once(X):
    instrument = Instrument()
    plain = OnlineSNMF(4).partial_fit(X.astype(np.float64))
    model = OnlineSNMF(4)
    with (
        open_stream(f"lsl:name={instrument.name}", limit=len(X)) as stream,
        LiveView(model, port=0) as view,
    ):
        assert stream.feature_names == NAMES
        thread = instrument.sending(X)
        view.train(stream)
        thread.join()
    assert model.n_samples_seen_ == len(X)
    assert model.feature_names_in_.tolist() == NAMES
    # Chunks of any length: equal but for the rounding of sums.
    np.testing.assert_allclose(model.components_, plain.components_, rtol=1e-9)


def test_samples_keep_their_order_values_and_times(X):
    instrument = Instrument()
    with open_stream(f"lsl:name={instrument.name}", limit=500) as stream:
        thread = instrument.sending(X[:500], rate=5000)
        chunks, times = zip(*((chunk, stream.times) for chunk in stream), strict=True)
        thread.join()
    np.testing.assert_array_equal(np.concatenate(chunks), X[:500])
    np.testing.assert_allclose(np.concatenate(times), 100 + np.arange(500) / RATE)


def test_a_window_is_a_row_of_successive_samples(X):
    instrument = Instrument()
    with open_stream(f"lsl:name={instrument.name},window=5", limit=40) as stream:
        assert stream.n_features == 20
        assert stream.feature_names[:2] == ["Fz [-4]", "Cz [-4]"]
        assert stream.feature_names[-1] == "Oz [0]"
        thread = instrument.sending(X[:200], rate=5000)
        chunks, times = zip(*((chunk, stream.times) for chunk in stream), strict=True)
        thread.join()
    np.testing.assert_array_equal(np.concatenate(chunks), X[:200].reshape(40, 20))
    np.testing.assert_allclose(np.concatenate(times), 100 + np.arange(4, 200, 5) / RATE)


def test_a_lost_connection_is_reported_and_recovered(X, caplog):
    caplog.set_level(logging.WARNING, "hebbnmf")
    instrument = Instrument()
    with open_stream(f"lsl:name={instrument.name}", limit=200) as stream:
        instrument.sending(X[:100], rate=5000).join()
        before = next(stream)
        while len(before) < 100:
            before = np.concatenate([before, next(stream)])
        instrument.switch_off()

        def come_back():
            while "looking for it" not in caplog.text:
                time.sleep(0.05)
            instrument.switch_on()
            while "connected again" not in caplog.text:
                time.sleep(0.05)
            instrument.send(X[100:200], rate=5000)

        thread = threading.Thread(target=come_back)
        thread.start()
        after = np.concatenate(list(stream))
        thread.join()
    np.testing.assert_array_equal(before, X[:100])
    np.testing.assert_array_equal(after, X[100:200])


def test_a_checkpoint_of_a_live_stream_goes_on_with_what_comes(X, tmp_path):
    instrument, path = Instrument(), tmp_path / "part.npz"
    for part in (X[:100], X[100:200]):
        with open_stream(f"lsl:name={instrument.name}", limit=100) as stream:
            thread = instrument.sending(part, rate=5000)
            if path.exists():
                resumed = resume(path, stream)
            else:
                train(OnlineSNMF(4), stream, checkpoint=path)
            thread.join()
    assert resumed.n_samples_seen_ == 200
    plain = OnlineSNMF(4).partial_fit(X[:200].astype(np.float64))
    np.testing.assert_allclose(resumed.components_, plain.components_, rtol=1e-9)


def test_columns_are_chosen_by_name_of_channel(X):
    instrument = Instrument()
    address = f"lsl:name={instrument.name}"
    with open_stream(address, columns=["Pz", "Fz"], limit=10) as stream:
        thread = instrument.sending(X[:10], rate=5000)
        np.testing.assert_array_equal(np.concatenate(list(stream)), X[:10, [2, 0]])
        thread.join()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("lsl:", "names no stream; write it as 'lsl:name=EEG'"),
        ("lsl:window=3", "names no stream"),
        ("lsl:name=x,window=0", "'window=0' is none of window=NUMBER and name, type"),
        ("lsl:colour=red", "'colour=red' is none of"),
        ("lsl:name=x' or '1'='1", "is none of"),
    ],
)
def test_a_bad_address_is_refused(address, message):
    with pytest.raises(StreamError, match=message):
        open_stream(address)


def test_a_stream_that_nobody_sends_is_reported(monkeypatch):
    monkeypatch.setattr("hebbnmf.streams.lsl._FIRST_SEARCH", 0.2)
    with pytest.raises(StreamError, match="no stream that is sent in this network"):
        open_stream("lsl:name=hebbnmf-nobody")


def test_text_is_refused():
    instrument = Instrument(1, "string", 0)
    with pytest.raises(StreamError, match="sends text, but a stream needs numbers"):
        open_stream(f"lsl:name={instrument.name}")


def write_nwb(path, X, *, stamps=None, rate=None):
    """Write a recording as the schema of NWB 2 lays it out, by hand."""
    with h5py.File(path, "w") as file:
        file.attrs.update(neurodata_type="NWBFile", namespace="core", nwb_version="2.7.0")
        series = file.create_group("acquisition/ElectricalSeries")
        series.attrs.update(neurodata_type="ElectricalSeries", namespace="core")
        data = series.create_dataset("data", data=X)
        data.attrs.update(conversion=1e-6, unit="volts")
        if stamps is not None:
            times = series.create_dataset("timestamps", data=stamps)
            times.attrs.update(interval=1, unit="seconds")
        if rate is not None:
            start = series.create_dataset("starting_time", data=12.5)
            start.attrs.update(rate=np.float32(rate), unit="seconds")
        file.create_dataset("units/spike_depths", data=np.zeros((3, 2)))


SERIES = "/acquisition/ElectricalSeries"


@pytest.mark.parametrize("dataset", [SERIES, SERIES + "/data"])
@pytest.mark.parametrize("clock", ["rate", "stamps"])
def test_a_series_of_an_nwb_file_has_the_times_of_its_samples(tmp_path, X, dataset, clock):
    stamps = 12.5 + np.arange(len(X)) / 250
    write_nwb(tmp_path / "x.nwb", X, **{clock: 250.0 if clock == "rate" else stamps})
    with open_stream(tmp_path / "x.nwb", dataset=dataset, chunk_bytes=1) as stream:
        chunks, times = zip(*((chunk, stream.times) for chunk in stream), strict=True)
    np.testing.assert_array_equal(np.concatenate(chunks), X)
    np.testing.assert_allclose(np.concatenate(times), stamps)
    assert len(chunks) > 1


def test_times_of_rows_left_out_are_left_out(tmp_path, X):
    X[7] = np.nan
    write_nwb(tmp_path / "x.nwb", X, rate=250.0)
    with open_stream(tmp_path / "x.nwb", dataset=SERIES, on_bad_row="skip") as stream:
        np.testing.assert_array_equal(next(stream), np.delete(X, 7, axis=0))
        np.testing.assert_allclose(stream.times, np.delete(12.5 + np.arange(2000) / 250, 7))


def test_a_series_without_a_clock_and_shuffled_rows_have_no_times(tmp_path, X):
    write_nwb(tmp_path / "x.nwb", X)
    write_nwb(tmp_path / "timed.nwb", X, rate=250.0)
    for name, options in (("x.nwb", {}), ("timed.nwb", {"shuffle": True, "random_state": 0})):
        with open_stream(tmp_path / name, dataset=SERIES, **options) as stream:
            next(stream)
            assert stream.times is None


def test_an_nwb_file_is_learned_and_resumed(tmp_path, X):
    write_nwb(tmp_path / "x.nwb", X, rate=250.0)
    whole = train(OnlineSNMF(4), open_stream(X.astype(np.float64)))
    model = train(OnlineSNMF(4), open_stream(tmp_path / "x.nwb", dataset=SERIES))
    np.testing.assert_array_equal(model.components_, whole.components_)


def test_a_dataset_needs_one_file(X):
    with pytest.raises(TypeError, match="dataset='/x' needs one file"):
        open_stream(X, dataset="/x")
