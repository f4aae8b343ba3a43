"""Reader of the Lab Streaming Layer: samples of an instrument, as they are measured."""

import logging
import re
import time
from importlib import import_module
from typing import Any

import numpy as np

from hebbnmf.engine.state import FloatArray
from hebbnmf.streams.options import ReadOptions
from hebbnmf.streams.readers import Array, BadRows, Reader, StreamError

__all__ = ["SCHEME", "LslReader"]

logger = logging.getLogger(__name__)

SCHEME = "lsl:"
_PROPERTIES = ("name", "type", "source_id", "hostname", "uid")
# Seconds to look for a stream when it is opened, and for one that was lost; to wait for a sample
# before signals are looked at; to gather more after it; and of samples that are kept for us.
_FIRST_SEARCH = 10.0
_SEARCH = 1.0
_PATIENCE = 0.1
_GATHERING = 0.02
_BUFFER = 360
# Seconds without a sample after which a stream of a fixed rate is reported as silent.
_SILENCE = 2.0
_EXAMPLE = "'lsl:name=EEG' or 'lsl:type=EEG,window=50'"


class LslReader(Reader):
    """Samples of a stream of the Lab Streaming Layer, or windows of several, as they arrive.

    Its address is ``lsl:property=value``, with commas between several, of the stream's name, type,
    source_id, hostname and uid; ``window=W`` makes a row of every W samples, one after the other.
    A connection that is lost is reported, and the stream looked for until it is back.
    """

    repeatable = False
    live = True
    passing = True

    def __init__(self, address: str, options: ReadOptions, bad: BadRows) -> None:
        super().__init__(address, options, bad)
        self._query, self._window = _parse(address)
        try:
            self._lsl: Any = import_module("pylsl")
            self._errors: Any = import_module("pylsl.util")
        except (ImportError, RuntimeError) as error:  # the latter without the library itself
            raise ImportError(
                f"{address} needs pylsl: install it with pip install 'hebbnmf[lsl]' ({error})."
            ) from error
        self._pending: Array = np.empty((0, 0))  # samples that fill no window yet
        self._stamps = np.empty(0)
        if not self._connect(_FIRST_SEARCH):
            raise StreamError(
                f"{address} names no stream that is sent in this network: start the instrument, "
                "or look for other properties."
            )
        info = self._inlet.info()
        if info.channel_format() == self._lsl.cf_string:
            raise StreamError(f"{address} sends text, but a stream needs numbers.")
        labels = info.get_channel_labels() or []
        n_channels = info.channel_count()
        names = [str(label) for label in labels] if all(labels) and labels else None
        if names is not None and self._window > 1:
            names = [f"{name} [{t}]" for t in range(1 - self._window, 1) for name in names]
        self._pending = np.empty((0, n_channels))
        self._rate = info.nominal_srate()
        self._set_features(n_channels * self._window, names)

    def tell(self) -> int:
        """Return the number of rows so far; a live stream cannot go back to it."""
        return self.row

    def seek(self, cursor: int) -> None:
        """Take the number of rows as it was: samples since then are lost."""
        self.row = int(cursor)

    def begin(self, epoch: int) -> None:
        """Go on: there is one epoch, and it has begun."""

    def _pull(self, n_rows: int) -> FloatArray | None:
        """Wait for samples, and return those that have come as rows."""
        heard, is_silent = time.monotonic(), False
        while len(self._pending) < self._window:
            if self._receive(n_rows * self._window):
                heard = time.monotonic()
            elif self._rate and not is_silent and time.monotonic() - heard > _SILENCE:
                is_silent = True
                logger.warning("%s: no sample for %g seconds", self.name, _SILENCE)
        n_ready = min(len(self._pending) // self._window, n_rows)
        n_used = n_ready * self._window
        samples, self._pending = np.split(self._pending, [n_used])
        stamps, self._stamps = np.split(self._stamps, [n_used])
        # A window has the time of its last sample.
        times = stamps[self._window - 1 :: self._window]
        return self._advance(samples.reshape(n_ready, self._width), times)

    def _receive(self, n_samples: int) -> bool:
        """Take samples that have come, at most that many; wait a little for the first."""
        try:
            first, stamp = self._inlet.pull_sample(timeout=_PATIENCE)
            if first is None:
                return False
            time.sleep(_GATHERING)
            more, stamps = self._inlet.pull_chunk(timeout=0.0, max_samples=n_samples)
        except self._errors.LostError:
            self._recover()
            return False
        self._pending = np.concatenate([self._pending, [first, *more]])
        self._stamps = np.concatenate([self._stamps, [stamp, *stamps]])
        return True

    def _recover(self) -> None:
        """Look for a lost stream until it is back."""
        logger.warning("%s: the connection is lost; looking for it", self.name)
        # A window with a gap in it would be no window.
        self._pending, self._stamps = self._pending[:0], self._stamps[:0]
        while not self._connect(_SEARCH):
            pass
        logger.warning("%s: connected again; samples in between are lost", self.name)

    def _connect(self, seconds: float) -> bool:
        """Look for the stream, and subscribe to it; return whether it was found."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            # In short searches: Ctrl-C is noticed between them.
            found = self._lsl.resolve_bypred(self._query, 1, _PATIENCE * 5)
            if not found:
                continue
            # By uid, which every start of an outlet draws anew: not one that was closed just now.
            inlet = self._lsl.StreamInlet(found[0], max_buflen=_BUFFER, recover=False)
            try:
                self._subscribe(inlet)
            except (self._errors.LostError, self._errors.TimeoutError):
                continue
            if self._pending.shape[1] not in (0, inlet.channel_count):
                raise StreamError(f"{self.name} has another number of channels than before.")
            self._inlet = inlet
            return True
        return False

    def _subscribe(self, inlet: Any) -> None:
        """Begin to receive, or raise LostError or TimeoutError; Ctrl-C is noticed meanwhile."""
        deadline = time.monotonic() + _FIRST_SEARCH
        while True:
            try:
                return inlet.open_stream(timeout=_PATIENCE * 5)
            except self._errors.TimeoutError:
                if time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        """Unsubscribe."""
        self._inlet.close_stream()
        super().close()


def _parse(address: str) -> tuple[str, int]:
    """Return the XPath predicate of an address, and the number of samples in a window."""
    terms, window = [], 1
    for part in filter(None, address.removeprefix(SCHEME).split(",")):
        key, equals, value = (field.strip() for field in part.partition("="))
        if not equals:  # a bare name
            key, value = "name", key
        if key == "window" and re.fullmatch(r"[1-9]\d*", value):
            window = int(value)
        elif key in _PROPERTIES and "'" not in value:
            terms.append(f"{key}='{value}'")
        else:
            raise StreamError(
                f"{address} is not an address of a stream: {part!r} is none of window=NUMBER and "
                f"{', '.join(_PROPERTIES)}; write it as {_EXAMPLE}."
            )
    if not terms:
        raise StreamError(f"{address} names no stream; write it as {_EXAMPLE}.")
    return " and ".join(terms), window
