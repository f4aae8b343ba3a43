"""What a training came to: a sample of its rows, and facts about the responses to them."""

import json
import time
from typing import TYPE_CHECKING, Any

import click

from hebbnmf.cli.messages import say
from hebbnmf.cli.preparing import parts

if TYPE_CHECKING:
    from tqdm import tqdm

    from hebbnmf.engine.state import FloatArray
    from hebbnmf.streams import Stream
    from hebbnmf.training.loop import Trainable

# Rows of the sample at most, and bytes.
_ROWS = 10_000
_BYTES = 2**26
# Sizes of units that are printed in full.
_SIZES = 12
# Rows that warnings about the data take.
_ROWS_TO_TELL = 10
# Ratio of standard deviations from which on a column is said to outweigh the median one.
_OUTWEIGHS = 10.0


class Sample:
    """Rows drawn from a stream, each with the same chance, in memory that does not grow."""

    def __init__(self) -> None:
        self.n_rows = 0  # of the stream
        self.start = time.monotonic()
        self._kept: FloatArray | None = None

    def add(self, rows: "FloatArray") -> None:
        """Draw from the next rows (algorithm R): row t takes the place of another, or none."""
        import numpy as np

        if self._kept is None:
            self._room = max(min(_ROWS, _BYTES // rows[0].nbytes), 1)
            self._kept = np.empty((0, rows.shape[1]), rows.dtype)
            self._rng = np.random.default_rng(0)  # a summary is the same each time
        n_new = min(self._room - len(self._kept), len(rows))
        self._kept = np.concatenate([self._kept, rows[:n_new]]) if n_new else self._kept
        late = np.arange(self.n_rows + n_new, self.n_rows + len(rows))
        places = self._rng.integers(late + 1) if len(late) else late
        taken = places < self._room
        self._kept[places[taken]] = rows[n_new:][taken]
        self.n_rows += len(rows)

    @property
    def rows(self) -> "FloatArray":
        """The rows drawn."""
        if self._kept is None:
            raise ValueError("no row has come")
        return self._kept


def _summary(model: "Trainable", sample: Sample, output: str) -> dict[str, Any]:
    """Return what a training came to, as JSON."""
    import numpy as np

    from hebbnmf.preprocessing import transform_rows

    network, steps = parts(model)
    facts: dict[str, Any] = {
        "file": output,
        "samples_seen": network.n_samples_seen_,
        "rows": sample.n_rows,
        "units": network.n_components_,
        "units_at_most": int(network.n_components),
        "seconds": round(time.monotonic() - sample.start, 3),
    }
    if sample.n_rows and hasattr(network, "predict"):
        rows = network.learner_.check_rows(transform_rows(steps, sample.rows))
        labels = network.respond(rows, keep=False).labels
        facts |= {
            "sampled_rows": len(rows),
            "unit_sizes": np.bincount(labels[labels >= 0], minlength=facts["units"]).tolist(),
            "rows_without_response": int((labels < 0).sum()),
            "explained_similarity": network.learner_.score(rows)[0],
        }
    return facts


def _in_words(facts: dict[str, Any]) -> list[str]:
    """Return a summary as lines for people."""
    units, most = facts["units"], facts["units_at_most"]
    lines = [
        f"{facts['file']}: {units} unit{'s' * (units != 1)}, {facts['samples_seen']} samples seen"
    ]
    if units == most:
        lines.append(f"units: all {most} that were allowed; a larger number may find more")
    if "unit_sizes" not in facts:
        return [*lines, f"time: {facts['seconds']:.1f} s"]
    n_rows = facts["sampled_rows"]
    of_rows = f"of {n_rows} rows" + (" drawn at random" if n_rows < facts["rows"] else "")
    sizes = facts["unit_sizes"]
    shown = ", ".join(map(str, sizes[:_SIZES])) + ", ..." * (len(sizes) > _SIZES)
    silent = facts["rows_without_response"]
    lines += [
        f"sizes: {shown or 'none'}, {of_rows}; without a response: {silent}",
        f"explained similarity: {facts['explained_similarity']:.3f}",
        f"time: {facts['seconds']:.1f} s",
    ]
    return lines


class Watcher:
    """Follows a training: moves the progress bar, draws the sample, warns and sums up."""

    def __init__(self, *, suggest_scale: bool) -> None:
        self._suggest_scale = suggest_scale
        self._sample = Sample()
        self._noted: set[str] = set()

    def follow(self, stream: "Stream", bar: "tqdm[Any]") -> None:
        """Note the stream that is to be learned, and the bar that shows how far it is."""
        self._stream, self._bar = stream, bar

    def on_rows(self, rows: "FloatArray") -> None:
        """Draw from rows that come, and warn once there are enough to tell their scales."""
        self._sample.add(rows)
        if self._suggest_scale and self._sample.n_rows >= _ROWS_TO_TELL:
            self._note("scales", _about_scales(self._sample.rows, self._stream.feature_names))
        window = self._stream.window_rows
        if window is not None and self._sample.n_rows > window:
            self._note(
                "window",
                f"--shuffle mixes {self._stream.name} within windows of {window} rows, since it is "
                "read in order; to mix all rows, convert it to .npy",
            )

    def on_progress(self, n_rows: int) -> None:
        """Move the bar; the total may be known only after the first epoch."""
        if self._bar.total is None:
            self._bar.total = self._stream.total
        self._bar.update(n_rows)

    def summarise(self, model: "Trainable", output: str, *, as_json: bool) -> None:
        """Write what the training came to: JSON to standard output, or lines to standard error."""
        facts = _summary(model, self._sample, output)
        if as_json:
            click.echo(json.dumps(facts, indent=1))
            return
        for line in _in_words(facts):
            say(line, err=True)

    def _note(self, kind: str, text: str | None) -> None:
        if kind not in self._noted and text is not None:
            say(f"Warning: {text}.", err=True)
        self._noted.add(kind)


def _about_scales(rows: "FloatArray", names: list[str] | None) -> str | None:
    """Return a warning if a column varies so much more than most that it decides alone."""
    import numpy as np

    deviations = rows.std(axis=0, dtype=np.float64)
    varying = np.flatnonzero(deviations > 0)
    if len(varying) < 2:
        return None
    order = varying[np.argsort(deviations[varying])]
    middle, widest = order[(len(order) - 1) // 2], order[-1]
    ratio = deviations[widest] / deviations[middle]
    if ratio <= _OUTWEIGHS:
        return None
    wide, usual = (repr(names[j]) if names else f"{j} (counted from 0)" for j in (widest, middle))
    return (
        f"column {wide} varies {ratio:.0f} times as much as column {usual}, the median one, and "
        "outweighs it; give all columns the same weight by --scale"
    )
