"""Fig. 4: on whitened patches of natural images, units become Gabor filters (section III.C).

Beyond the paper: a Gabor fit of every filter, the biological properties of section IV.B, and the
same run with a share of memory in place of the paper's schedule.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFont
from tqdm import tqdm

from hebbnmf.datasets import extract_patches, load_natural_images
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.experiments.report import Report, Results, spread
from hebbnmf.metrics import (
    GaborFits,
    activity_sparsity,
    biological_report,
    fit_gabors,
)
from hebbnmf.plots import (
    filter_grid,
    panels,
    plot_activity_density,
    plot_filters,
    plot_gabor_scatter,
)
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener, image_filters

_PATCH_SIZE = 16
N_PATCHES = 50_000
N_PRESENTATIONS = 40
N_UNITS = 256
# The paper's lambda and its schedule "to speed up convergence".
SETTINGS: Results = {
    "rank_penalty": 200.0,
    "memory": None,
    "initial_activity": 1000.0,
    "activity_gain": 0.01,
}
# What does without both.
WITH_MEMORY: Results = {"rank_penalty": "auto", "memory": 0.03}
# A filter counts as a Gabor filter if a fit explains more than this share of its variance.
GABOR = 0.5
# Samples between two updates of the progress bar.
CHUNK = 2016
# Frames of the animation, at numbers of presentations that grow by one factor from this share of
# all, and its greys.
N_FRAMES, FIRST_FRAME, N_GREYS = 25, 1 / 250, 18
# Samples for the biological report, which lets a copy of the network learn from them.
N_REPORTED = 5000


def run(*, quick: bool = False, images: str | Path | None = None, seed: int = 0) -> Report:
    """Measure and draw Fig. 4.

    Parameters
    ----------
    quick : bool, default=False
        Whether to present each patch 4 times instead of 40.
    images : str or Path, optional
        Where to load pictures from, as `load_natural_images` takes it; by default the two
        photographs that scikit-learn carries.
    seed : int, default=0
        Seed of the patches and of their order.
    """
    n_presentations = N_PRESENTATIONS // 10 if quick else N_PRESENTATIONS
    X, whitener = prepare(images, N_PATCHES, seed)
    frames = n_presentations * len(X) * np.geomspace(FIRST_FRAME, 1, N_FRAMES)
    net, course = train(X, n_presentations, seed, SETTINGS, frames)
    Y = net.transform(X)
    filters = image_filters(net.components_, whitener)
    fits = fit_gabors(filters)
    results = measure(filters, fits, Y)
    results["with_memory"] = _with_memory(X, whitener, n_presentations, seed)
    biology = biological_report(net, X[:N_REPORTED])
    parameters = {
        "images": "scikit-learn's photographs" if images is None else str(images),
        "patch_size": _PATCH_SIZE,
        "n_patches": N_PATCHES,
        "presentations_of_each": n_presentations,
        "n_components": N_UNITS,
        **SETTINGS,
        "with_memory": WITH_MEMORY,
        "dtype": "float32",
        "seed": seed,
    }
    summary = (*summarise(results), *str(biology).splitlines())
    animation = [draw_frame(image_filters(W, whitener), n) for n, W in course.items()]
    return Report("fig4", parameters, results, summary, draw(results, filters, Y, fits), animation)


def prepare(images: str | Path | None, n_patches: int, seed: int) -> tuple[FloatArray, ZCAWhitener]:
    """Cut patches, centre them, normalise their contrast, and whiten them as in ref. [2]."""
    pictures = load_natural_images(images)
    patches = extract_patches(pictures, n_patches, _PATCH_SIZE, random_state=seed)
    normalised = PatchNormalizer().fit_transform(patches)
    whitener = ZCAWhitener().fit(normalised)
    return whitener.transform(normalised), whitener


def train(
    X: FloatArray,
    n_presentations: int,
    seed: int,
    settings: Results,
    frames: Iterable[float] = (),
) -> tuple[OnlineSNMF, dict[int, FloatArray]]:
    """Present every patch `n_presentations` times, in random order, with progress on a terminal.

    Also return the weights as they were by the numbers of presentations of `frames`, which rise.
    """
    net = OnlineSNMF(N_UNITS, **settings)
    rng = np.random.RandomState(seed)
    course: dict[int, FloatArray] = {}
    due = list(frames)[::-1]
    with tqdm(total=n_presentations * len(X), unit="patch", unit_scale=True, disable=None) as bar:
        for _ in range(n_presentations):
            order = rng.permutation(len(X))
            for start in range(0, len(X), CHUNK):
                Y = net.partial_fit_transform(X[order[start : start + CHUNK]])
                active = np.count_nonzero(Y) / len(Y)
                bar.set_postfix(units=net.n_components_, active=f"{active:.1f}")
                bar.update(len(Y))
                while due and net.n_samples_seen_ >= due[-1] - 0.5:
                    due.pop()
                    course[net.n_samples_seen_] = net.components_
    return net, course


def measure(filters: FloatArray, fits: GaborFits, Y: FloatArray) -> Results:
    """Collect the numbers of the figure."""
    sparsity = activity_sparsity(Y)
    return {
        "n_units": len(filters),
        "share_of_gabors": float(np.mean(fits.explained > GABOR)),
        "explained": fits.explained,
        "orientation": np.nan_to_num(fits.orientation),
        "frequency": np.nan_to_num(fits.frequency),
        "probability_zero": sparsity.probability_zero,
        "kurtosis": sparsity.kurtosis,
        "lifetime_sparseness": spread(sparsity.lifetime),
        "population_sparseness": spread(sparsity.population),
        "active_units": spread(np.count_nonzero(Y, axis=1)),
        "filters": filters,
    }


def summarise(results: Results) -> tuple[str, ...]:
    """Return the main numbers, a line each."""
    gabors = (
        f"{results['n_units']} units; a Gabor explains more than {GABOR:.0%} of the filter for "
        f"{results['share_of_gabors']:.1%} of them, {np.median(results['explained']):.0%} at the "
        "median"
    )
    activity = (
        f"probability of zero activity {results['probability_zero']:.3f}, excess kurtosis "
        f"{results['kurtosis']:.0f}, {results['active_units']['mean']:.1f} units active on average"
    )
    with_memory = results["with_memory"]
    other = (
        f"with memory={WITH_MEMORY['memory']} instead of the paper's schedule: "
        f"{with_memory['share_of_gabors']:.1%} Gabors, probability of zero activity "
        f"{with_memory['probability_zero']:.3f}"
    )
    return gabors, activity, other


def draw(results: Results, filters: FloatArray, Y: FloatArray, fits: GaborFits) -> Figure:
    """Draw the filters, the density of activity, and the Gabors that were fitted."""
    axes = panels("AAAB;AAAC;AAAD", (13, 9.6))
    plot_filters(filters, ax=axes["A"])
    axes["A"].set_title(f"filters of {len(filters)} units", fontsize="medium")
    plot_activity_density(Y, ax=axes["B"])
    axes["B"].set_title("activity of all units, frozen weights", fontsize="medium")
    plot_gabor_scatter(fits, ax=axes["C"])
    axes["C"].set_title("fitted Gabors", fontsize="medium")
    axes["D"].hist(results["explained"], np.linspace(0, 1, 41).tolist(), color="C0")
    axes["D"].axvline(GABOR, color="k", linestyle=":")
    axes["D"].set(xlabel="variance explained by a Gabor", ylabel="units", xlim=(0, 1))
    axes["D"].set_title(f"{results['share_of_gabors']:.0%} beyond {GABOR:.0%}", fontsize="medium")
    return axes["A"].get_figure()  # type: ignore[return-value]


def draw_frame(filters: FloatArray, n_presentations: int) -> Image.Image:
    """Draw the filters as they were after a number of presentations, two pixels for one."""
    shades = (np.nan_to_num(filter_grid(filters), nan=1.0) + 1) / 2
    grey = np.rint(shades * (N_GREYS - 1)) * (255 / (N_GREYS - 1))
    grid = Image.fromarray(grey.astype(np.uint8)).resize(
        (2 * grey.shape[1], 2 * grey.shape[0]), Image.Resampling.NEAREST
    )
    frame = Image.new("L", (grid.width, grid.height + 36), 255)
    frame.paste(grid)
    text = f"{len(filters)} units after {n_presentations:,} patches"
    place = (grid.width / 2, grid.height + 18)
    ImageDraw.Draw(frame).text(place, text, 0, ImageFont.load_default(20), anchor="mm")
    return frame


def _with_memory(X: FloatArray, whitener: ZCAWhitener, n_presentations: int, seed: int) -> Results:
    net, _ = train(X, n_presentations, seed, WITH_MEMORY)
    filters = image_filters(net.components_, whitener)
    return measure(filters, fit_gabors(filters), net.transform(X))
