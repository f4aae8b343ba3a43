"""The report of an experiment, saved as a picture (PNG and SVG) and its numbers (JSON)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine.state import FloatArray
from hebbnmf.persistence.atomic import replacing
from hebbnmf.persistence.versions import library_versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = dict[str, Any]  # nested dictionaries of numbers, arrays and texts, as JSON holds them


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
        document = {
            "figure": self.name,
            "versions": library_versions(),
            "parameters": self.parameters,
            "results": self.results,
        }
        text = json.dumps(document, indent=1, default=_plain, allow_nan=False) + "\n"
        paths = [folder / f"{self.name}.{kind}" for kind in ("png", "svg", "json")]
        for path in paths:
            with replacing(path) as file:
                if path.suffix == ".json":
                    file.write(text.encode("ascii"))
                else:
                    self.figure.savefig(file, format=path.suffix[1:], dpi=150)
        return paths


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
