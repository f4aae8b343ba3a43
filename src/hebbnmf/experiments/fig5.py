"""Fig. 5: the rows of W point along sparse directions, and rotate with the data (section III.C).

Beyond the paper: over many data sets and angles, as learning goes on, and in 8 to 32 dimensions,
compared with FastICA and K-means.

The plain schedule is slow here: its rates fall as one over time, a unit that starts between two
sparse directions turns as a small power of time, and half a million samples may not suffice. An
`activity_gain` below 1 multiplies the rates, and hence that power, without moving the fixed points
of Eq. (8): thousands of samples suffice. So does a memory of a share of the stream, with all other
settings by default. All three are measured.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import ortho_group
from sklearn.cluster import KMeans
from sklearn.decomposition import FastICA
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from hebbnmf.datasets import make_sparse_sources
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.experiments.report import Report, Results
from hebbnmf.metrics import direction_alignment
from hebbnmf.plots import panels, plot_directions

GAIN = 0.1
MEMORY = 0.1
_SCHEDULES: dict[str, Results] = {
    f"gain {GAIN}": {"memory": None, "activity_gain": GAIN},
    "plain schedule": {"memory": None},
    f"memory {MEMORY}": {"memory": MEMORY, "rank_penalty": "auto"},
}
_CHECKPOINTS = (1000, 2000, 5000, 10_000, 20_000, 50_000)
_EXAMPLE_ANGLE = np.pi / 6
_N_SHOWN = 1500
METHODS = (*(f"online, {name}" for name in _SCHEDULES), "K-means", "FastICA")


def run(*, quick: bool = False) -> Report:
    """Measure and draw Fig. 5.

    Parameters
    ----------
    quick : bool, default=False
        Whether to take 5 seeds instead of 20, and one in 8 and 16 dimensions instead of five in
        8, 16 and 32.
    """
    n_seeds, dimensions = (5, (8, 16)) if quick else (20, (8, 16, 32))
    n_high_seeds, n_high_samples = (1, 50_000) if quick else (5, 100_000)
    # One thread: small products, and numbers that do not depend on the machine's cores.
    with threadpool_limits(1):
        plane = measure_plane(n_seeds)
        space = measure_space(dimensions, n_high_seeds, n_high_samples)
    results = {"example": example(), "plane": plane, "space": space}
    parameters = {
        "seeds": list(range(n_seeds)),
        "angles": "seed k of n: the data are turned by k / n of a quarter turn",
        "n_components": "2 n_features",
        "rank_penalty": "n_features^2 = (mean |x|^2)^2, which is the paper's 4 in the plane",
        "schedules": _SCHEDULES,
        "space": {
            "seeds": list(range(n_high_seeds)),
            "n_samples": n_high_samples,
            "mixing": "a random rotation for each seed",
            "K-means": "KMeans(2 n, n_init=1): one start, as online",
            "FastICA": "FastICA(n), each direction taken with both signs",
        },
        "found": "a direction to which some row has a cosine of at least 0.95",
    }
    return Report("fig5", parameters, results, summarise(results), draw(results))


def rotation(angle: float) -> FloatArray:
    """Return the matrix that turns the plane by an angle in radians."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def example(n_samples: int = 20_000) -> Results:
    """Learn from one stream and from the same stream rotated: Fig. 5A and 5B."""
    shown: Results = {"seed": 0, "angle": _EXAMPLE_ANGLE, "n_samples": n_samples}
    weights = []
    for name, angle in (("unmixed", 0.0), ("rotated", _EXAMPLE_ANGLE)):
        A = rotation(angle)
        X = make_sparse_sources(n_samples, 2, mixing=A, random_state=0)
        weights.append(_network(2, f"gain {GAIN}").partial_fit(X).components_)
        shown[name] = {
            "X": X[:_N_SHOWN].tolist(),
            "components": weights[-1].tolist(),
            "directions": A.T.tolist(),
        }
    turned = weights[0] @ rotation(_EXAMPLE_ANGLE).T
    return {**shown, "rotation_error": float(np.abs(turned - weights[1]).max())}


def measure_plane(n_seeds: int, checkpoints: tuple[int, ...] = _CHECKPOINTS) -> dict[str, Results]:
    """Follow the rows of W of four units in the plane, over data sets, each with its own angle."""
    measured: dict[str, Results] = {}
    for name in _SCHEDULES:
        directions, rows = [], []
        for seed in tqdm(range(n_seeds), desc=f"plane, {name}", disable=None):
            A = rotation(np.pi / 2 * seed / n_seeds)
            X = make_sparse_sources(checkpoints[-1], 2, mixing=A, random_state=seed)
            net, path = _network(2, name), []
            for chunk in np.split(X, checkpoints[:-1]):
                path.append(direction_alignment(net.partial_fit(chunk).components_, A.T))
            directions.append([alignment.direction_cosines.tolist() for alignment in path])
            rows.append(path[-1].component_cosines.tolist())
        measured[name] = {
            "n_samples": list(checkpoints),
            "directions": directions,  # cosines by data set, checkpoint and direction
            "rows": rows,  # cosines by data set and row, at the last checkpoint
            "worst": np.min(directions, axis=2).tolist(),
        }
    return measured


def measure_space(dimensions: tuple[int, ...], n_seeds: int, n_samples: int) -> dict[str, Results]:
    """Look for the 2n sparse directions of n-dimensional data, each set randomly rotated."""
    measured: dict[str, Results] = {}
    for n in dimensions:
        of_n: Results = {name: {"found": [], "cosines": []} for name in METHODS}
        for seed in tqdm(range(n_seeds), desc=f"{n} dimensions", disable=None):
            A = ortho_group.rvs(n, random_state=seed)
            X = make_sparse_sources(n_samples, n, mixing=A, random_state=seed)
            for name, W in _rows_of_each_method(X, seed).items():
                alignment = direction_alignment(W, A.T)
                of_n[name]["found"].append(alignment.found)
                of_n[name]["cosines"].append(alignment.direction_cosines.tolist())
        measured[str(n)] = of_n
    return measured


def summarise(results: Results) -> tuple[str, ...]:
    """Return the main numbers, a line each."""
    lines = []
    for name, of_schedule in results["plane"].items():
        worst = np.array(of_schedule["worst"])[:, -1]
        lines.append(
            f"plane, {name}, {of_schedule['n_samples'][-1]} samples: worst cosine of the four "
            f"directions {worst.mean():.4f} on average, {worst.min():.4f} at least"
        )
    lines.append(f"W of rotated data against rotated W: {results['example']['rotation_error']:.1e}")
    for n, of_n in results["space"].items():
        shares = "; ".join(f"{name}: {np.mean(of_n[name]['found']):.3f}" for name in METHODS)
        lines.append(f"{n} dimensions, share of directions found by {shares}")
    return tuple(lines)


def draw(results: Results) -> Figure:
    """Draw the results."""
    axes = panels("AABBCC;DDDEEE", (13, 8.4))
    for letter, name in (("A", "unmixed"), ("B", "rotated")):
        shown, ax = results["example"][name], axes[letter]
        plot_directions(shown["X"], shown["components"], shown["directions"], ax=ax)
        ax.set(xlim=(-4.5, 4.5), ylim=(-4.5, 4.5))
        ax.set_title(f"{name}, {results['example']['n_samples']} samples", fontsize="medium")
    _draw_plane(results["plane"], axes["C"])
    _draw_found(results["space"], axes["D"])
    _draw_cosines(results["space"], axes["E"])
    return axes["A"].get_figure()  # type: ignore[return-value]


def _network(n_features: int, schedule: str) -> OnlineSNMF:
    settings: Results = {"rank_penalty": float(n_features**2), **_SCHEDULES[schedule]}
    return OnlineSNMF(2 * n_features, **settings)


def _rows_of_each_method(X: FloatArray, seed: int) -> dict[str, FloatArray]:
    n = X.shape[1]
    centres = KMeans(2 * n, n_init=1, random_state=seed).fit(X).cluster_centers_
    mixing = FastICA(n, whiten="unit-variance", random_state=seed, max_iter=500).fit(X).mixing_.T
    online = [_network(n, name).partial_fit(X).components_ for name in _SCHEDULES]
    return dict(zip(METHODS, (*online, centres, np.vstack([mixing, -mixing])), strict=True))


def _draw_plane(plane: Results, ax: Axes) -> None:
    styles = (("C0", "o-", None), ("C1", "s--", "///"), ("C2", "v:", "..."))
    for (name, of_schedule), (color, style, hatch) in zip(plane.items(), styles, strict=True):
        T, worst = of_schedule["n_samples"], np.array(of_schedule["worst"])
        low, high = worst.min(axis=0), worst.max(axis=0)
        ax.fill_between(T, low, high, color=color, alpha=0.25, hatch=hatch, linewidth=0)
        ax.plot(T, worst.mean(axis=0), style, color=color, label=name, markersize=5)
    ax.axhline(0.97, color="k", linewidth=0.8, linestyle=":", label="cosine 0.97")
    ax.set(xscale="log", xlabel="samples", ylabel="worst cosine of the four directions")
    ax.set_title("mean and range over seeds and angles", fontsize="medium")
    ax.legend(loc="lower right", fontsize="small")


def _draw_found(space: Results, ax: Axes) -> None:
    places = np.arange(len(space))
    for k, (name, marker) in enumerate(zip(METHODS, "osvD^", strict=True)):
        x = places + 0.15 * (k - 2)
        found = np.array([of_n[name]["found"] for of_n in space.values()])
        x_each = np.repeat(x, found.shape[1])
        ax.scatter(x_each, found, s=22, marker=marker, color=f"C{k}", alpha=0.5)
        ax.hlines(found.mean(axis=1), x - 0.07, x + 0.07, color="k", linewidth=2)
        ax.scatter([], [], marker=marker, color=f"C{k}", label=name)
    ax.set_xticks(places, list(space))
    ax.set(xlabel="dimensions n", ylabel="share of the 2n directions found", ylim=(-0.03, 1.05))
    ax.set_title("each data set, and their mean", fontsize="medium")
    ax.legend(loc="center right", fontsize="small")


def _draw_cosines(space: Results, ax: Axes) -> None:
    for k, (name, hatch) in enumerate(zip(METHODS, ("", "///", "ooo", "...", "xxx"), strict=True)):
        boxes = ax.boxplot(
            [1 - np.minimum(np.ravel(of_n[name]["cosines"]), 1) for of_n in space.values()],
            positions=np.arange(len(space)) + 0.15 * (k - 2),
            widths=0.13,
            whis=(5, 95),
            patch_artist=True,
            manage_ticks=False,
            flierprops={"marker": ".", "markersize": 4, "markeredgecolor": f"C{k}"},
            medianprops={"color": "k"},
        )
        for box in boxes["boxes"]:
            box.set(facecolor=f"C{k}", alpha=0.7, hatch=hatch)
        boxes["boxes"][0].set_label(name)
    ax.set_xticks(range(len(space)), list(space))
    ax.set(yscale="log", ylim=(1e-6, 60), xlabel="dimensions n")
    ax.set_ylabel("1 - cosine of a direction to its nearest row")
    ax.set_title("all directions of all data sets; whiskers 5 % to 95 %", fontsize="medium")
    ax.legend(loc="upper center", ncols=3, fontsize="small")
