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

__all__ = ["Checkpoint", "ModelFile", "load", "read", "read_checkpoint", "save"]

_FORMAT = "hebbnmf-model"
_VERSION = 3
_KEYS = {"format", "version", "class", "parameters", "feature_names", "state", "preprocessing"}
_KEYS |= {"position", "libraries"}


class ModelFile(NamedTuple):
    """What a model file holds."""

    model: Model
    preprocessing: list[Step]  # fitted steps, first to last, that samples pass before the model
    position: dict[str, Json] | None  # of the training, in a checkpoint
    libraries: dict[str, str]  # versions that wrote the file


class Checkpoint(NamedTuple):
    """What the checkpoint of a training holds."""

    model: OnlineEstimator
    preprocessing: list[Step]
    position: dict[str, Json]


def save(
    model: Model,
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
    model : OnlineSNMF, OnlinePCA, OnlineDictionary, NonnegativeICA or SymNMF
        The model, fitted or not.
    path : path
        Where to write; by custom the name ends in ``.npz``.
    preprocessing : sequence of fitted transformers, default=()
        The steps that samples go through before the model sees them, in order: `MissingFiller`,
        `PatchNormalizer`, `ZCAWhitener` or scikit-learn's `StandardScaler`.
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
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        **pack_model(model, arrays),
        "preprocessing": [pack_step(step, i, arrays) for i, step in enumerate(preprocessing)],
        "position": position,
        "libraries": library_versions(),
    }
    write_archive(path, header, arrays)


def load(path: str | PathLike[str]) -> Model:
    """Load a model that `save` wrote.

    Parameters
    ----------
    path : path
        The file. One with preprocessing is refused, since the model alone would respond to
        raw samples wrongly: use `read`.

    Returns
    -------
    OnlineSNMF, OnlinePCA, OnlineDictionary, NonnegativeICA or SymNMF
        The model, the same to the last bit.
    """
    file = read(path)
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
        archive.require(set(header) == _KEYS, "its JSON text has other keys than the format")
        with archive.one_error():
            model = unpack_model(archive, header)
            steps = header["preprocessing"]
            archive.require(isinstance(steps, list), "preprocessing is not a list")
            preprocessing = [unpack_step(archive, step, i) for i, step in enumerate(steps)]
            n_features = getattr(model, "n_features_in_", None)
            for step in preprocessing:
                archive.require(
                    n_features in (None, step.n_features_in_), "features of a step do not fit"
                )
            position, libraries = header["position"], header["libraries"]
            archive.require(isinstance(position, dict | None), "position is not an object")
            archive.require(
                isinstance(libraries, dict)
                and all(isinstance(value, str) for value in libraries.values()),
                "libraries are not named",
            )
        archive.finish()
        return ModelFile(model, preprocessing, position, libraries)


def read_checkpoint(path: str | PathLike[str], *, rounds: bool = False) -> Checkpoint:
    """Read the checkpoint of a training.

    Raise ValueError for a file that is not a checkpoint, or is one of the other kind of training.
    """
    model, preprocessing, position, _ = read(path)
    if (
        position is None
        or ("rounds" in position) != rounds
        or not isinstance(model, OnlineEstimator)
    ):
        kind = "a training in rounds" if rounds else "a training on a stream"
        raise ValueError(
            f"{path!s} is a model but not a checkpoint of {kind}: it cannot be resumed; begin anew."
        )
    return Checkpoint(model, preprocessing, position)


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
