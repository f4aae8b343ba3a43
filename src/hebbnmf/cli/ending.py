"""How `fit` ends: what was learned is saved, and the user is told where, whatever ends it."""

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hebbnmf.cli.messages import say
from hebbnmf.cli.signals import Interrupts
from hebbnmf.cli.summary import Watcher

if TYPE_CHECKING:
    from hebbnmf.cli.fit import Begin, Options
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence.archives import Arrays

__all__ = ["Ending"]


@dataclass
class Ending:
    """The end of a training: it has ended, was interrupted or has failed.

    An interrupt is how watching ends: what was watched is saved as if it had come to its end, when
    it fails too. Otherwise a model that is at the output stays unless the training has ended: it is
    whole, and may be in use, or what this one continues.
    """

    begin: "Begin"
    watcher: Watcher
    interrupts: Interrupts
    output: str
    options: "Options"

    def __post_init__(self) -> None:
        self._n_before = self.begin.n_learned()
        self._has_ended = self._is_written = False  # the training, the output

    def has_learned(self) -> bool:
        """Return whether rows were learned since this command began."""
        return self.begin.n_learned() > self._n_before

    def ended(self) -> None:
        """Save the model at the output, and sum it up.

        If nothing was left to learn, a model there that has seen as many samples stays: it may have
        been continued since.
        """
        self._has_ended = True
        network, model = self.begin.network, self.begin.model
        stored = None if self.has_learned() else _read_network(self.output)
        if stored is None or _n_seen(stored) < _n_seen(network):
            try:
                self._save(self.output)
                self._is_written = True
            except BaseException:  # also once the file is in its place
                self._is_written = self._holds_learned(self.output)
                raise
        else:
            model = stored
            if not _are_same(stored, network):
                say(
                    f"{self.output} stays as it is, with {_n_seen(stored)} samples seen: name "
                    f"another output to save the model that has seen {_n_seen(network)}.",
                    err=True,
                )
        self.watcher.summarise(model, self.output, as_json=self.options["as_json"])

    def interrupted(self) -> None:
        """Keep what was learned, and say where."""
        self._end_watching()
        where = self._keep_learned()
        say(f"Interrupted: {where}.", err=True)

    def failed(self, error: Exception) -> None:
        """Keep what was learned, and note where in the error."""
        from hebbnmf.persistence.atomic import is_streamed

        if isinstance(error, BrokenPipeError) and is_streamed(self.output):
            return  # whoever reads the model has seen enough, and errors of pipes are not shown
        if self.has_learned():
            self._end_watching()
            where = self._keep_learned()
            error.add_note(f"{where}.")

    def _end_watching(self) -> None:
        if self.options["watch"] and self.begin.n_learned() and not self._has_ended:
            # It is kept elsewhere then; another interrupt ends the wait for the reader of a pipe.
            with suppress(Exception, KeyboardInterrupt):
                self.ended()

    def _keep_learned(self) -> str:
        """Save what was learned, unless a file holds it; return how many rows it is, and where."""
        rows, checkpoint = f"{self.begin.n_learned()} rows are learned", self.options["checkpoint"]
        held = []
        if self._is_written:
            held.append(f"{self.output} is written")
        if checkpoint is not None and self._holds_learned(checkpoint):
            held.append(f"run the same command with --resume to continue from {checkpoint}")
        if held:
            return f"{rows}: {'; '.join(held)}"
        if not self.has_learned():
            return "nothing is learned, and nothing is written"
        path = self._save_unfinished()
        if path is None:
            return f"{rows}, and can be written nowhere"
        others = self._others(path)
        return f"{rows}: {path} holds them{others}; --continue {path} learns further rows"

    def _others(self, path: str) -> str:
        """Return what to say of the files that do not hold what `path` holds."""
        from hebbnmf.persistence.atomic import is_taken

        checkpoint = self.options["checkpoint"]
        text = ""
        if checkpoint is not None and is_taken(checkpoint):
            text += f", {checkpoint} does not"
        if path != self.output and is_taken(self.output):
            text += f", and {self.output} is as it was"
        return text

    def _holds_learned(self, path: str) -> bool:
        """Return whether a file holds this model, with all that was learned.

        It may be older, or of another training, where it could not be replaced.
        """
        with suppress(Exception):  # a file that cannot be read holds nothing
            stored = _read_network(path)
            return stored is not None and _are_same(stored, self.begin.network)
        return False

    def _save_unfinished(self) -> str | None:
        """Save a model at the output, or beside it, or else where there is room; return the path.

        No pipe or device gets a model that is not finished.
        """
        from hebbnmf.persistence.atomic import is_streamed

        # No failure here may hide what ended the training.
        name = "model.npz"
        if not is_streamed(self.output):
            name = Path(self.output).name
            with suppress(Exception):
                path = _free(Path(self.output))
                self._save(path)
                return str(path)
        with suppress(Exception):
            folder = Path(tempfile.mkdtemp(prefix="hebbnmf-"))
            with suppress(Exception):
                self._save(folder / name)
                return str(folder / name)
            folder.rmdir()
        return None

    def _save(self, path: str | Path) -> None:
        from hebbnmf.persistence import save

        with self.interrupts.waiting():
            save(self.begin.model, path, preprocessing=self.begin.steps)


def _read_network(path: str) -> "OnlineEstimator | None":
    """Return the network of a model file; None if there is none that can be read."""
    from hebbnmf.estimators.online import OnlineEstimator
    from hebbnmf.persistence import read
    from hebbnmf.persistence.atomic import is_taken

    if not is_taken(path):  # reading a pipe would wait for a writer
        return None
    try:
        network = read(path).model
    except (OSError, ValueError):
        return None
    return network if isinstance(network, OnlineEstimator) else None


def _n_seen(network: "OnlineEstimator") -> int:
    return network.n_samples_seen_ if network.__sklearn_is_fitted__() else 0


def _are_same(network: "OnlineEstimator", other: "OnlineEstimator") -> bool:
    """Return whether two networks are the same to the last bit."""
    import numpy as np

    from hebbnmf.persistence.models import pack_model

    arrays: Arrays = {}
    others: Arrays = {}
    return (
        pack_model(network, arrays) == pack_model(other, others)
        and arrays.keys() == others.keys()
        and all(np.array_equal(arrays[name], others[name]) for name in arrays)
    )


def _free(path: Path) -> Path:
    """Return the path, or "name.partial.npz", "name.partial2.npz", ... if there is a file."""
    from hebbnmf.persistence.atomic import is_streamed, is_taken

    others = (path.with_stem(f"{path.stem}.partial{n or ''}") for n in (0, *range(2, 1000)))
    return next(path for path in (path, *others) if not is_taken(path) and not is_streamed(path))
