"""Pictures: a snapshot turned into the arrays and numbers that a page draws.

A frame is one binary message: the length of a JSON header as four bytes, the header, and the
arrays that it lists, each begun at a multiple of eight bytes.
"""

import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.network import Network
from hebbnmf.engine.state import FloatArray
from hebbnmf.live.exchange import Snapshot
from hebbnmf.live.messages import to_json
from hebbnmf.persistence.steps import Step
from hebbnmf.preprocessing import input_filters

__all__ = ["Painter", "Picture"]

Array = NDArray[Any]
# Bounds of what is shown: units, features, and weights in all.
_MOST_UNITS = 512
_MOST_FEATURES = 2**14
_MOST_WEIGHTS = 2**20
# Samples that are kept for each unit, seconds between looks for better ones, and how fast their
# activities fade, a look: the unit that a sample excited most a minute ago has learned since.
_FAVOURITES = 8
_LOOK_SECONDS = 0.5
_FADING = 0.94
# Seconds over which the speed is measured.
_SPEED_SECONDS = 2.0


class Picture:
    """What a page draws of one snapshot."""

    def __init__(
        self, header: dict[str, Any], arrays: dict[str, Array], favourites: "_Favourites"
    ) -> None:
        self._header, self._arrays, self._favourites = header, arrays, favourites
        self._n_shown = len(arrays["births"])

    def encode(self, unit: int | None) -> bytes:
        """Return the frame for a page on which this unit is chosen."""
        arrays = self._arrays
        if unit is not None and unit < self._n_shown:
            arrays = arrays | self._favourites.of(unit)
        return _pack(self._header | {"unit": unit}, arrays)


class Painter:
    """Paints snapshots, one after the other."""

    def __init__(self) -> None:
        self._times: deque[tuple[float, int]] = deque()
        self._favourites: _Favourites | None = None
        self._next_look = -np.inf

    def paint(self, snapshot: Snapshot, steps: Sequence[Step]) -> Picture:
        """Turn a snapshot into a picture.

        Steps are the preprocessing that filters and samples are shown without; none where they
        are shown as the network learns them.
        """
        weights = snapshot.weights
        rows = snapshot.latest(prepared=True).astype(weights.V.dtype, copy=False)
        network = Network(rows.shape[1], snapshot.rules, rows.dtype)
        network.restore(weights, snapshot.n_samples)
        responses = network.respond(rows, n_jobs=1)
        n_units = network.n_units
        shown = slice(min(n_units, _MOST_UNITS, max(1, _MOST_WEIGHTS // rows.shape[1])))
        features = slice(_MOST_FEATURES)
        Y = responses.Y[:, shown]
        read = snapshot.latest(prepared=not steps)[:, features].astype(np.float32)
        if self._favourites is None:
            self._favourites = _Favourites(read.shape[1])
        if snapshot.taken >= self._next_look or Y.shape[1] > len(self._favourites):
            self._favourites.update(Y, read, weights.born[shown])
            self._next_look = snapshot.taken + _LOOK_SECONDS
        filters, peaks = _to_int16(input_filters(network.components[shown], steps)[:, features])
        lateral, strongest = _to_uint8(network.lateral_weights[shown, shown])
        activities, highest = _to_uint8(Y)
        header = {
            **snapshot.status,
            "n_samples": snapshot.n_samples,
            "n_units": n_units,
            "max_units": snapshot.rules.max_units,
            "recycle": snapshot.rules.recycle,
            "clock": snapshot.clock,
            "speed": self._speed(snapshot),
            "explained": explained_similarity(rows, responses.Y),
            "n_active": float(np.count_nonzero(responses.Y) / max(len(rows), 1)),
            "strongest": strongest,
            "highest": highest,
        }
        arrays: dict[str, Array] = {
            "filters": filters,
            "peaks": peaks,
            "lateral": lateral,
            "activities": activities,
            "labels": responses.labels.astype(np.int16),
            "cumulative": weights.Yhat[shown].astype(np.float32),
            "births": weights.born[shown].astype(np.float64),
            "residuals": _residuals(snapshot, rows, responses.Y),
            # All points of the plane; of longer samples the latest is enough.
            "samples": read if read.shape[1] == 2 else read[-1:],
        }
        return Picture(header, arrays, self._favourites)

    def _speed(self, snapshot: Snapshot) -> float:
        """Return the samples a second over the last seconds."""
        self._times.append((snapshot.taken, snapshot.n_samples))
        while len(self._times) > 2 and snapshot.taken - self._times[1][0] > _SPEED_SECONDS:
            self._times.popleft()
        (start, first), (end, last) = self._times[0], self._times[-1]
        return (last - first) / (end - start) if end > start else 0.0


class _Favourites:
    """The samples to which each unit responded most, of those that were shown."""

    def __init__(self, n_features: int) -> None:
        self._born = np.zeros(0, np.int64)
        self._activity = np.zeros((0, _FAVOURITES), np.float32)
        self._keys = np.zeros((0, _FAVOURITES), np.int64)  # that tell samples apart
        self._samples = np.zeros((0, _FAVOURITES, n_features), np.float32)

    def __len__(self) -> int:
        return len(self._born)

    def update(self, Y: FloatArray, samples: NDArray[np.float32], born: Array) -> None:
        """Take in the latest samples, one row each, and the responses to them."""
        n_new = len(born) - len(self._born)
        grown = ((0, n_new), (0, 0))
        self._activity = np.pad(self._activity, grown) * np.float32(_FADING)
        self._keys = np.pad(self._keys, grown)
        self._samples = np.pad(self._samples, (*grown, (0, 0)))
        # A recycled unit is another one.
        self._activity[np.pad(self._born, (0, n_new), constant_values=-2) != born] = 0
        self._born = born
        keys = np.array([hash(sample.tobytes()) for sample in samples])
        for unit in np.flatnonzero(Y.max(axis=0, initial=0) > self._activity.min(axis=1)).tolist():
            best = Y[:, unit].argsort()[-_FAVOURITES:]
            activity = np.concatenate([Y[best, unit], self._activity[unit]])
            all_keys = np.concatenate([keys[best], self._keys[unit]])
            # Of a sample that is shown again the fresh activity counts: the first of its key.
            once = np.unique(all_keys, return_index=True)[1]
            chosen = once[activity[once].argsort()[::-1][:_FAVOURITES]]
            found = np.concatenate([samples[best], self._samples[unit]])[chosen]
            self._samples[unit], self._activity[unit] = 0, 0
            self._samples[unit, : len(chosen)] = found
            self._activity[unit, : len(chosen)] = activity[chosen]
            self._keys[unit, : len(chosen)] = all_keys[chosen]

    def of(self, unit: int) -> dict[str, Array]:
        """Return the samples of one unit and its activities, strongest first."""
        used = self._activity[unit] > 0
        samples, peaks = _to_int16(self._samples[unit][used])
        return {
            "favourites": samples,
            "favourite_peaks": peaks,
            "favourite_activities": self._activity[unit][used],
        }


def explained_similarity(X: FloatArray, Y: FloatArray) -> float | None:
    """Return the share of the similarities of some rows that responses explain; see `score`."""
    gram = X @ X.T
    whole = float(np.sum(gram * gram, dtype=np.float64))
    rest = float(np.sum((gram - Y @ Y.T) ** 2, dtype=np.float64))
    return 1 - rest / whole if 0 < whole < np.inf else None


def _residuals(snapshot: Snapshot, X: FloatArray, Y: FloatArray) -> NDArray[np.float32]:
    """Return |x|^2 - |y|^2 of each sample as a share of the threshold that recruits, Eq. (5)."""
    x_norm2 = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    residual = x_norm2 - np.einsum("ij,ij->i", Y, Y, dtype=np.float64)
    rules = snapshot.rules
    threshold = np.full_like(x_norm2, rules.threshold)
    if rules.relative:
        x_norm2_sum, n_discounted = snapshot.weights.energy
        threshold *= np.sqrt(x_norm2) * np.sqrt(x_norm2_sum / max(n_discounted, 1e-300))
    floor = np.maximum(threshold, rules.floor * x_norm2)
    return np.divide(residual, floor, out=np.zeros_like(floor), where=floor > 0).astype(np.float32)


def _to_int16(rows: FloatArray) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return rows as integers, each scaled to its largest entry, and these entries."""
    peaks = np.abs(rows).max(axis=1, initial=0)
    scale = np.divide(32767, peaks, out=np.zeros_like(peaks), where=peaks > 0)
    return (rows * scale[:, None]).astype(np.int16), peaks.astype(np.float32)


def _to_uint8(array: FloatArray) -> tuple[NDArray[np.uint8], float]:
    """Return a non-negative array as small integers, and the entry that 255 stands for."""
    peak = float(array.max(initial=0))
    scaled = array * (255 / peak) if peak > 0 else array
    # What is not zero is seen.
    return np.ceil(scaled).clip(0, 255).astype(np.uint8), peak


def _pack(header: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    table = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    text = to_json(header | {"arrays": table}).encode()
    text += b" " * (-(4 + len(text)) % 8)
    parts = [struct.pack("<I", len(text)), text]
    for array in arrays.values():
        data = np.ascontiguousarray(array).tobytes()
        parts += [data, bytes(-len(data) % 8)]
    return b"".join(parts)
