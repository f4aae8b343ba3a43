"""The family (section IV.A): four kinds of units on one engine, each on data of its own."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.decomposition import IncrementalPCA
from tqdm import tqdm

from hebbnmf.datasets import extract_patches, load_natural_images
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators import NonnegativeICA, OnlineDictionary, OnlinePCA, OnlineSNMF
from hebbnmf.experiments.fig4 import GABOR
from hebbnmf.experiments.report import Report, Results
from hebbnmf.experiments.tiling import ring
from hebbnmf.metrics import fit_gabors
from hebbnmf.plots import panels, plot_filters
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener, image_filters

_CHUNK = 500
_MEMORY = 2000
_OFFSET = 0.9


def run(*, quick: bool = False, seed: int = 0) -> Report:
    """Measure and draw the four siblings.

    Parameters
    ----------
    quick : bool, default=False
        Whether to take a quarter of the samples.
    seed : int, default=0
        Seed of all data.
    """
    share = 4 if quick else 1
    results: Results = {}
    parts = {
        "pca": lambda: measure_pca(20_000 // share, seed),
        "dictionary": lambda: measure_dictionary(50_000 // share, seed),
        "ica": lambda: measure_ica(40_000 // share, seed),
        "tiling": lambda: measure_tiling(20_000 // share, seed),
    }
    for name, measure in tqdm(parts.items(), disable=None):
        results[name] = measure()
    parameters = {
        "seed": seed,
        "pca": f"64 features, 8 components, new ones half way; memory={_MEMORY}",
        "dictionary": "144 atoms, alpha=3, on whitened patches of 12 x 12 pixels, two passes",
        "ica": "3 uniform sources in [0, 1], 6 mixtures, 30 dB of noise",
        "tiling": f"20 units on a ring, offset {_OFFSET}",
    }
    return Report("family", parameters, results, summarise(results), draw(results))


def measure_pca(n_samples: int, seed: int) -> Results:
    """Follow the error of the subspace over a stream whose basis changes half way."""
    rng = np.random.default_rng(seed)
    contestants = {
        f"OnlinePCA, memory={_MEMORY}": OnlinePCA(8, memory=_MEMORY),
        "OnlinePCA": OnlinePCA(8),
        "IncrementalPCA": IncrementalPCA(8),
    }
    errors: Results = {name: [] for name in contestants}
    for _ in range(2):
        basis = np.linalg.qr(rng.standard_normal((64, 8)))[0].T
        codes = rng.standard_normal((n_samples, 8)) * np.sqrt(np.linspace(1, 0.5, 8))
        X = codes @ basis + np.sqrt(0.002) * rng.standard_normal((n_samples, 64))
        for start in range(0, n_samples, _CHUNK):
            for name, model in contestants.items():
                model.partial_fit(X[start : start + _CHUNK])
                missed = 1 - np.square(model.components_ @ basis.T).sum() / 8
                errors[name].append(2 * max(float(missed), 1e-12))
    return errors


def measure_dictionary(n_samples: int, seed: int) -> Results:
    """Learn atoms of whitened patches of photographs, and fit Gabor functions to them."""
    patches = extract_patches(load_natural_images(), n_samples, 12, random_state=seed)
    normalised = PatchNormalizer().fit_transform(patches)
    whitener = ZCAWhitener().fit(normalised)
    X = whitener.transform(normalised)
    net = OnlineDictionary(144, alpha=3.0, n_epochs=2).fit(X)
    filters = image_filters(net.components_, whitener)
    return {
        "filters": filters.tolist(),
        "active": float(np.mean(net.transform(X[:5000]) != 0)),
        "gabors": float(np.mean(fit_gabors(filters).explained > GABOR)),
    }


def measure_ica(n_samples: int, seed: int) -> Results:
    """Compare each source with the output that follows it best, as samples come."""
    rng = np.random.default_rng(seed)
    sources = rng.random((n_samples, 3))
    X = sources @ rng.standard_normal((3, 6))
    X += np.sqrt(np.square(X).mean() / 1000) * rng.standard_normal(X.shape)
    ica = NonnegativeICA(3)
    correlations: list[list[float]] = []
    for start in range(0, n_samples, _CHUNK):
        ica.partial_fit(X[start : start + _CHUNK])
        Y = ica.transform(X[:2000])
        among = np.corrcoef(Y.T, sources[:2000].T)[: Y.shape[1], Y.shape[1] :]
        correlations.append(among.max(axis=0).tolist())
    return {"correlations": correlations}


def measure_tiling(n_samples: int, seed: int) -> Results:
    """Tune units to parts of a ring."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, n_samples)
    net = OnlineSNMF(20, rank_penalty=0.0, similarity_offset=_OFFSET).partial_fit(ring(angles))
    probes = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    return {"curves": net.transform(ring(probes)).T.tolist()}


def summarise(results: Results) -> tuple[str, ...]:
    """Return the main numbers, a line each."""
    found = min(results["ica"]["correlations"][-1])
    return (
        *(f"subspace error at the end, {name}: {e[-1]:.1e}" for name, e in results["pca"].items()),
        f"share of atoms that are Gabor filters: {results['dictionary']['gabors']:.3f}",
        f"share of atoms active for a patch: {results['dictionary']['active']:.3f}",
        f"least correlation of a source with its output: {found:.4f}",
    )


def draw(results: Results) -> Figure:
    """Draw the results."""
    axes = panels("AB;CD", (11, 9))
    _draw_errors(results["pca"], axes["A"])
    plot_filters(np.array(results["dictionary"]["filters"]), ax=axes["B"])
    axes["B"].set_title("OnlineDictionary: atoms of natural images", fontsize="medium")
    _draw_correlations(results["ica"], axes["C"])
    _draw_curves(results["tiling"]["curves"], axes["D"])
    return axes["A"].get_figure()  # type: ignore[return-value]


def _draw_errors(errors: Results, ax: Axes) -> None:
    for (name, values), style in zip(errors.items(), ("-", "--", ":"), strict=True):
        ax.plot(_CHUNK * np.arange(1, len(values) + 1), values, style, label=name)
    ax.set(yscale="log", xlabel="samples", ylabel="squared subspace error")
    ax.set_title("OnlinePCA: the subspace changes half way", fontsize="medium")
    ax.legend(fontsize="small")


def _draw_correlations(ica: Results, ax: Axes) -> None:
    values: FloatArray = 1 - np.array(ica["correlations"])
    for k, style in enumerate(("-", "--", ":")):
        samples = _CHUNK * np.arange(1, len(values) + 1)
        ax.plot(samples, np.maximum(values[:, k], 1e-6), style, label=f"source {k}")
    ax.set(yscale="log", xlabel="samples", ylabel="1 - correlation of source and output")
    ax.set_title("NonnegativeICA: three uniform sources", fontsize="medium")
    ax.legend(fontsize="small")


def _draw_curves(curves: list[list[float]], ax: Axes) -> None:
    for k, curve in enumerate(curves):
        ax.plot(np.linspace(0, 360, 720, endpoint=False), curve, ("-", "--", ":")[k % 3])
    ax.set(xlabel="angle on the ring (degrees)", ylabel="activity", xlim=(0, 360))
    title = f"OnlineSNMF, similarity_offset={_OFFSET}: {len(curves)} units tile a ring"
    ax.set_title(title, fontsize="medium")
