"""Model files: model, preprocessing and position, written and read; see docs/model_format.md."""

from collections.abc import Sequence
from os import PathLike
from typing import NamedTuple

import hebbnmf
from hebbnmf.estimators.online import OnlineEstimator
from hebbnmf.persistence.archives import (
    Archive,
    Arrays,
    Json,
    ModelFileError,
    is_count,
    write_archive,
)
from hebbnmf.persistence.models import Model, pack_model, unpack_model
from hebbnmf.persistence.steps import Step, pack_step, unpack_step
from hebbnmf.persistence.versions import library_versions
from hebbnmf.pipeline import StreamPipeline

__all__ = ["Checkpoint", "ModelFile", "load", "read", "read_checkpoint", "save"]

_FORMAT = "hebbnmf-model"
_VERSION = 3
_KEYS = {"format", "version", "class", "parameters", "feature_names", "state", "preprocessing"}
_KEYS |= {"position", "libraries", "step_names"}
_SINCE_FORMAT_3 = {"step_names"}


class ModelFile(NamedTuple):
    """What a model file holds."""

    model: Model
    preprocessing: list[Step]  # steps, first to last, that samples pass before the model
    position: dict[str, Json] | None  # of the training, in a checkpoint
    libraries: dict[str, str]  # versions that wrote the file
    step_names: list[str] | None  # of a StreamPipeline, the model last; else None

    @property
    def pipeline(self) -> StreamPipeline | None:
        """The pipeline that was saved, of these steps and this model, or None."""
        if self.step_names is None:
            return None
        return StreamPipeline(
            list(zip(self.step_names, [*self.preprocessing, self.model], strict=True))
        )


class Checkpoint(NamedTuple):
    """What the checkpoint of a training holds."""

    model: OnlineEstimator | StreamPipeline
    preprocessing: list[Step]
    position: dict[str, Json]


def save(
    model: Model | StreamPipeline,
    path: str | PathLike[str],
    *,
    preprocessing: Sequence[Step] = (),
    position: dict[str, Json] | None = None,
) -> None:
    """Write a model to a file; once loaded, it continues to learn as if never stopped.

    The file appears whole or not at all: whatever was at `path` stays until the new file is
    safely on disk. It holds no code and no pickle. Parameters set since the model last learned act
    at once in the loaded model.

    Parameters
    ----------
    model : OnlineSNMF, OnlinePCA, OnlineDictionary, NonnegativeICA, SymNMF or StreamPipeline
        The model, fitted or not.
    path : path
        Where to write; by custom the name ends in ``.npz``.
    preprocessing : sequence of fitted transformers, default=()
        The steps that samples go through before the model sees them, in order: `MissingFiller`,
        `RunningScaler`, `PatchNormalizer`, `ZCAWhitener`, `RBFMap` or scikit-learn's
        `StandardScaler`. The steps of a pipeline may be these too.
    position : dict, optional
        The position of the stream that the model learns from, which makes a checkpoint.

    Examples
    --------
    >>> import os, tempfile
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.persistence import load, save
    >>> net = OnlineSNMF(2, memory=None).partial_fit([[2.0, 0.0], [0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(net, os.path.join(folder, "net.npz"))
    ...     again = load(os.path.join(folder, "net.npz"))
    >>> again.partial_fit([[2.0, 1.0]]).components_.tolist()
    [[1.0, 0.25], [1.0, 1.0]]
    """
    arrays: Arrays = {}
    names = None
    if isinstance(model, StreamPipeline):
        if preprocessing:
            raise ValueError(
                f"preprocessing={preprocessing!r} cannot be saved with a pipeline: make its steps "
                "steps of the pipeline."
            )
        names = [name for name, _ in model.steps]
        *preprocessing, model = (step for _, step in model.steps)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        **pack_model(model, arrays),
        "preprocessing": [
            pack_step(step, i, arrays, fitted=names is None) for i, step in enumerate(preprocessing)
        ],
        "step_names": names,
        "position": position,
        "libraries": library_versions(),
    }
    write_archive(path, header, arrays)


def load(path: str | PathLike[str]) -> Model | StreamPipeline:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path
        The file. One with preprocessing is refused, since the model alone would respond to
        raw samples wrongly: use `read`.

    Returns
    -------
    OnlineSNMF, OnlinePCA, OnlineDictionary, NonnegativeICA, SymNMF or StreamPipeline
        The model, the same to the last bit.
    """
    file = read(path)
    if (pipeline := file.pipeline) is not None:
        return pipeline
    if file.preprocessing:
        steps = ", ".join(type(step).__name__ for step in file.preprocessing)
        raise ValueError(
            f"{path!s} holds preprocessing too ({steps}), without which the model responds "
            "wrongly; use hebbnmf.persistence.read, which returns both."
        )
    return file.model


def read(path: str | PathLike[str]) -> ModelFile:
    """Read all that a model file holds: model, preprocessing and, in a checkpoint, position.

    Parameters
    ----------
    path : path
        The file. It need not be trusted: every byte is checked before use.

    Returns
    -------
    ModelFile
        The contents. A file that is not valid raises `ModelFileError`.
    """
    with Archive(path) as archive:
        header = archive.header
        _check_version(archive, header)
        keys = _KEYS if header["version"] >= 3 else _KEYS - _SINCE_FORMAT_3
        archive.require(set(header) == keys, "its JSON text has other keys than the format")
        with archive.one_error():
            model = unpack_model(archive, header)
            steps = header["preprocessing"]
            archive.require(isinstance(steps, list), "preprocessing is not a list")
            preprocessing = [unpack_step(archive, step, i) for i, step in enumerate(steps)]
            _check_features(archive, [*preprocessing, model])
            names = header.get("step_names")
            archive.require(
                names is None
                or (
                    isinstance(names, list)
                    and len(set(names)) == len(names) == len(preprocessing) + 1
                    and all(isinstance(name, str) and "__" not in name for name in names)
                ),
                "names of steps do not fit",
            )
            position, libraries = header["position"], header["libraries"]
            archive.require(isinstance(position, dict | None), "position is not an object")
            archive.require(
                isinstance(libraries, dict)
                and all(isinstance(value, str) for value in libraries.values()),
                "libraries are not named",
            )
        archive.finish()
        return ModelFile(model, preprocessing, position, libraries, names)


def read_checkpoint(path: str | PathLike[str], *, rounds: bool = False) -> Checkpoint:
    """Read the checkpoint of a training.

    Raise ValueError for a file that is not a checkpoint, or is one of the other kind of training.
    """
    file = read(path)
    position = file.position
    if (
        position is None
        or ("rounds" in position) != rounds
        or not isinstance(file.model, OnlineEstimator)
    ):
        kind = "a training in rounds" if rounds else "a training on a stream"
        raise ValueError(
            f"{path!s} is a model but not a checkpoint of {kind}: it cannot be resumed; start "
            "again."
        )
    if not is_count(position.get("n_before", 0)):
        raise ModelFileError(
            f"{path!s} is not a valid checkpoint: {position['n_before']!r} is not a number of "
            "samples; restore it from a copy."
        )
    if (pipeline := file.pipeline) is not None:
        return Checkpoint(pipeline, [], position)
    return Checkpoint(file.model, file.preprocessing, position)


def _check_features(archive: Archive, steps: list[Step]) -> None:
    """Require that each step gives as many features as the next one takes; of those fitted."""
    given = None
    for step in steps:
        taken = getattr(step, "n_features_in_", None)
        archive.require(None in (given, taken) or given == taken, "features of a step do not fit")
        given = len(step.landmarks_) if hasattr(step, "landmarks_") else taken


def _check_version(archive: Archive, header: dict[str, Json]) -> None:
    archive.require(header.get("format") == _FORMAT, f"its format is not {_FORMAT!r}")
    version: Json = header.get("version")
    archive.require(is_count(version) and version != 0, "it has no format version")
    if version > _VERSION:
        libraries = header.get("libraries")
        writer = libraries.get("hebbnmf") if isinstance(libraries, dict) else None
        raise ModelFileError(
            f"{archive.path!r} is of format version {version}, but hebbnmf "
            f"{hebbnmf.__version__} reads versions up to {_VERSION}: install hebbnmf "
            f"{writer or 'in a newer version'} or later to load it."
        )
