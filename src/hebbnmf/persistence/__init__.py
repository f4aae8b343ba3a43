"""Model files: safe to read, written whole or not at all; see docs/model_format.md."""

from hebbnmf.persistence.archives import ModelFileError
from hebbnmf.persistence.files import ModelFile, load, read, read_checkpoint, save

__all__ = ["ModelFile", "ModelFileError", "load", "read", "read_checkpoint", "save"]
