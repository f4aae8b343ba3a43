"""The versions of libraries that results depend on."""

import platform
from importlib.metadata import version

import hebbnmf

__all__ = ["library_versions"]


def library_versions() -> dict[str, str]:
    """Return the versions of hebbnmf, Python and the libraries, by name."""
    libraries = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
    own = {"hebbnmf": hebbnmf.__version__, "python": platform.python_version()}
    return own | {name: version(name) for name in libraries}
