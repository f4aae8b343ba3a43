"""Model files: safe to read, whole or absent; see docs/model_format.md."""

from hebbnmf.persistence.archives import ModelFileError
from hebbnmf.persistence.files import ModelFile, load, read, save

__all__ = ["ModelFile", "ModelFileError", "load", "read", "save"]
