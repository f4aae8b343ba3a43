"""The report of an experiment, saved as a picture (PNG and SVG) and its numbers (JSON)."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf import __version__
from hebbnmf.engine.state import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = dict[str, Any]  # nested dictionaries of numbers, arrays and texts, as JSON holds them

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")


@dataclass(frozen=True)
class Report:
    """The parameters, results and figure of an experiment.

    Attributes
    ----------
    name : str
        Name of the figure, and of the files without their suffix.
    parameters : mapping
        Sizes, seeds and settings, with reasons where they are not the paper's.
    results : mapping
        What was measured; contains all that the figure shows.
    summary : tuple of str
        The main numbers, a line each.
    figure : Figure
        The picture.
    """

    name: str
    parameters: Mapping[str, object]
    results: Results
    summary: tuple[str, ...]
    figure: "Figure"

    def save(self, folder: str | Path) -> list[Path]:
        """Write the picture as PNG and SVG and the numbers as JSON, each whole or not at all.

        Parameters
        ----------
        folder : str or Path
            Where to write; made if it does not exist. Files of the same names are replaced.

        Returns
        -------
        paths : list of Path
            The files written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # In the same folder: renaming is atomic only within a file system.
        with TemporaryDirectory(prefix=f".{self.name}-", dir=folder) as unfinished:
            return [draft.replace(folder / draft.name) for draft in self._write(Path(unfinished))]

    def _write(self, folder: Path) -> list[Path]:
        png, svg, text = (folder / f"{self.name}{suffix}" for suffix in (".png", ".svg", ".json"))
        self.figure.savefig(png, dpi=150)
        self.figure.savefig(svg)
        document = {
            "figure": self.name,
            "versions": library_versions(),
            "parameters": self.parameters,
            "results": self.results,
        }
        text.write_text(
            json.dumps(document, indent=1, default=_plain, allow_nan=False) + "\n", encoding="ascii"
        )
        return [png, svg, text]


def library_versions() -> dict[str, str]:
    """Return the versions that the numbers depend on, by name.

    Examples
    --------
    >>> from hebbnmf.experiments.report import library_versions
    >>> sorted(library_versions())[:3]
    ['hebbnmf', 'matplotlib', 'numba']
    """
    libraries = {name: version(name) for name in LIBRARIES}
    return {"hebbnmf": __version__, "python": platform.python_version(), **libraries}


def spread(values: list[float] | FloatArray | NDArray[np.intp]) -> dict[str, float]:
    """Describe a distribution by its mean, standard deviation and quartiles.

    Examples
    --------
    >>> from hebbnmf.experiments.report import spread
    >>> spread([1.0, 2.0, 3.0])["median"]
    2.0
    """
    least, low, median, high, greatest = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        "min": least,
        "lower_quartile": low,
        "median": median,
        "upper_quartile": high,
        "max": greatest,
    }


def _plain(value: NDArray[np.generic] | np.generic) -> object:
    """Convert arrays and numpy's numbers to lists and numbers, for JSON."""
    return value.tolist()
