"""The versions of libraries that results depend on."""

import platform
from importlib.metadata import version

import hebbnmf

__all__ = ["library_versions"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")


def library_versions() -> dict[str, str]:
    """Return the versions of hebbnmf, Python and the libraries, by name."""
    return {
        "hebbnmf": hebbnmf.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }
