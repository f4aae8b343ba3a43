"""The report of an experiment, saved as a picture (PNG, SVG, GIF) and its numbers (JSON)."""

import json
from collections.abc import Mapping, Sequence
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
    from PIL.Image import Image

# Milliseconds for which an animation shows a frame.
_FRAME, _LAST_FRAME = 200, 3000

Results = dict[str, Any]  # nested dictionaries of numbers, arrays and texts, as JSON holds them


@dataclass(frozen=True)
class Report:
    """The parameters, results and figure of an experiment."""

    name: str  # of the figure, and of the files without their suffix
    parameters: Mapping[str, object]  # with reasons where they are not the paper's
    results: Results  # all that the figure shows
    summary: tuple[str, ...]  # the main numbers, a line each
    figure: "Figure"
    animation: "Sequence[Image]" = ()  # frames of a picture that moves

    def save(self, folder: str | Path) -> list[Path]:
        """Write the picture as PNG and SVG, the numbers as JSON and the animation, if any, as GIF.

        Each is written whole or not at all.

        Parameters
        ----------
        folder : str or Path
            Made if it does not exist; files of the same names are replaced.

        Returns
        -------
        list of Path
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
        # Arrays and numpy's numbers become lists and numbers.
        text = json.dumps(document, indent=1, default=lambda x: x.tolist(), allow_nan=False) + "\n"
        kinds = ("png", "svg", "json", *(["gif"] if self.animation else []))
        paths = [folder / f"{self.name}.{kind}" for kind in kinds]
        for path in paths:
            with replacing(path) as file:
                if path.suffix == ".json":
                    file.write(text.encode("ascii"))
                elif path.suffix == ".gif":
                    first, *rest = self.animation
                    milliseconds = [_FRAME] * len(rest) + [_LAST_FRAME]
                    first.save(
                        file,
                        "gif",
                        save_all=True,
                        append_images=rest,
                        duration=milliseconds,
                        loop=0,
                    )
                else:
                    self.figure.savefig(file, format=path.suffix[1:], dpi=150)
        return paths


def spread(values: list[float] | FloatArray | NDArray[np.intp]) -> dict[str, float]:
    """Describe a distribution by its mean, standard deviation, range and quartiles."""
    names = ("min", "lower_quartile", "median", "upper_quartile", "max")
    quartiles = np.percentile(values, [0, 25, 50, 75, 100]).tolist()
    moments = {"mean": float(np.mean(values)), "std": float(np.std(values))}
    return moments | dict(zip(names, quartiles, strict=True))
