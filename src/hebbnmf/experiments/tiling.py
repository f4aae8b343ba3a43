"""Tiling: units whose similarities are offset cover a ring and a sphere with localised fields.

Beyond the paper: section IV.A names the family; the offset is that of Sengupta et al. (2018).
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from tqdm import tqdm

from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.experiments.report import Report, Results
from hebbnmf.plots import panels

_OFFSETS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
_SHOWN = (0.0, 0.9)
_RING_UNITS, _SPHERE_UNITS = 20, 60
_N_PROBES = 720


def run(*, quick: bool = False) -> Report:
    """Measure and draw the tiling of a ring and of a sphere.

    Parameters
    ----------
    quick : bool, default=False
        Whether to take one seed and 5,000 samples instead of 5 seeds and 20,000.
    """
    seeds, n_samples = ((0,), 5000) if quick else (range(5), 20_000)
    results = measure(seeds, n_samples)
    parameters = {
        "seeds": list(seeds),
        "n_samples": n_samples,
        "n_components": {"ring": _RING_UNITS, "sphere": _SPHERE_UNITS},
        "rank_penalty": 0.0,
        "offsets": _OFFSETS,
        "width": "share of the manifold with more than half of the largest activity of a unit",
    }
    return Report("tiling", parameters, results, summarise(results), draw(results))


def ring(angles: FloatArray) -> FloatArray:
    """Return the points of the unit circle at these angles."""
    return np.column_stack([np.cos(angles), np.sin(angles)])


def sphere(n_samples: int, rng: np.random.Generator) -> FloatArray:
    """Draw points of the unit sphere."""
    X = rng.standard_normal((n_samples, 3))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def tuning_widths(net: OnlineSNMF) -> FloatArray:
    """Return the share of a ring that each unit responds to by more than half of its largest."""
    angles = np.linspace(0, 2 * np.pi, _N_PROBES, endpoint=False)
    return _widths(net.transform(ring(angles)))


def _widths(Y: FloatArray) -> FloatArray:
    largest = Y.max(axis=0)
    return np.asarray((Y > largest / 2).mean(axis=0)[largest > 0])


def measure(seeds: range | tuple[int, ...], n_samples: int) -> Results:
    """Train at every offset; keep the widths of all seeds, and the fields of the first."""
    widths: Results = {"ring": {}, "sphere": {}}
    angles = np.linspace(0, 2 * np.pi, _N_PROBES, endpoint=False)
    curves: Results = {}
    fields: Results = {}
    probes = sphere(4000, np.random.default_rng(1000))
    for offset in tqdm(_OFFSETS, desc="offsets", disable=None):
        on_ring: list[float] = []
        on_sphere: list[float] = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            net = _trained(_RING_UNITS, offset, ring(rng.uniform(0, 2 * np.pi, n_samples)))
            on_ring.append(float(np.median(tuning_widths(net))))
            round_net = _trained(_SPHERE_UNITS, offset, sphere(n_samples, rng))
            Y = round_net.transform(probes)
            on_sphere.append(float(np.median(_widths(Y))))
            if seed == seeds[0] and offset in _SHOWN:
                curves[str(offset)] = net.transform(ring(angles)).T.tolist()
                fields[str(offset)] = _strongest(Y).tolist()
        widths["ring"][str(offset)], widths["sphere"][str(offset)] = on_ring, on_sphere
    return {"widths": widths, "curves": curves, "fields": fields, "probes": probes.tolist()}


def _trained(n_units: int, offset: float, X: FloatArray) -> OnlineSNMF:
    return OnlineSNMF(n_units, rank_penalty=0.0, similarity_offset=offset).partial_fit(X)


def _strongest(Y: FloatArray) -> NDArray[np.intp]:
    return np.where(Y.any(axis=1), Y.argmax(axis=1), -1)


def summarise(results: Results) -> tuple[str, ...]:
    """Return the main numbers, a line each."""
    return tuple(
        f"median width of tuning on the {name}: "
        + ", ".join(f"{np.mean(w):.3f} at {offset}" for offset, w in widths.items())
        for name, widths in results["widths"].items()
    )


def draw(results: Results) -> Figure:
    """Draw the results."""
    axes = panels("AB;CD", (11, 8))
    for letter, offset in zip("AB", _SHOWN, strict=True):
        _draw_curves(results["curves"][str(offset)], offset, axes[letter])
    _draw_widths(results["widths"], axes["C"])
    _draw_fields(results, axes["D"])
    return axes["A"].get_figure()  # type: ignore[return-value]


def _draw_curves(curves: list[list[float]], offset: float, ax: Axes) -> None:
    degrees = np.linspace(0, 360, _N_PROBES, endpoint=False)
    for k, curve in enumerate(curves):
        ax.plot(degrees, curve, linewidth=1.2, linestyle=("-", "--", ":")[k % 3])
    ax.set(xlabel="angle on the ring (degrees)", ylabel="activity", xlim=(0, 360))
    ax.set_title(f"tuning of {len(curves)} units, offset {offset:g}", fontsize="medium")


def _draw_widths(widths: Results, ax: Axes) -> None:
    for (name, by_offset), style in zip(widths.items(), ("o-", "s--"), strict=True):
        offsets = [float(offset) for offset in by_offset]
        ax.plot(offsets, [np.mean(w) for w in by_offset.values()], style, label=name)
    ax.set(xlabel=r"offset $\alpha$", ylabel="median width, share of the manifold")
    ax.set_ylim(bottom=0)
    ax.legend(fontsize="small")


def _draw_fields(results: Results, ax: Axes) -> None:
    """Draw the half of the sphere that faces the reader, by the unit that responds most."""
    probes, fields = np.array(results["probes"]), np.array(results["fields"][str(_SHOWN[-1])])
    front = probes[:, 2] > 0
    shades = np.where(fields >= 0, (fields * 7) % 20, np.nan)  # neighbours differ
    x, y, _ = probes[front].T
    ax.scatter(x, y, c=shades[front], cmap="tab20", s=14, linewidths=0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    title = f"strongest unit on half a sphere, offset {_SHOWN[-1]:g}"
    ax.set_title(title, fontsize="medium")
