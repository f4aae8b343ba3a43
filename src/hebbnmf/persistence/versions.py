"""The versions of libraries that results depend on."""

import platform
from importlib.metadata import version

import hebbnmf

__all__ = ["library_versions"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")


def library_versions() -> dict[str, str]:
    """Return the versions of hebbnmf, Python and the libraries, by name.

    Examples
    --------
    >>> from hebbnmf.persistence.versions import library_versions
    >>> sorted(library_versions())[:3]
    ['hebbnmf', 'matplotlib', 'numba']
    """
    return {
        "hebbnmf": hebbnmf.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }
