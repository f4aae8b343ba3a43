"""Fig. 3: clustering three Gaussians online, its cost against offline SNMF (section III.B).

Beyond the paper: the accuracy of the clusters over data sets and over lambda, compared with
K-means and offline SNMF. The data sets are the seeds 0, 1, 2, ... of `make_three_gaussians`.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from hebbnmf.datasets import THREE_GAUSSIANS_CENTERS, make_three_gaussians
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators import OnlineSNMF, SymNMF
from hebbnmf.experiments.report import Report, Results, spread
from hebbnmf.metrics import cluster_agreement
from hebbnmf.plots import panels, plot_clusters, plot_cost_ratio

_RANK_PENALTY = 0.6
_LOW_PENALTY = 0.1
_PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 3.0)
OFFLINE = ("offline SNMF", "K-means", "mini-batch K-means")
ONLINE = ("online responses", "second pass")


def run(*, quick: bool = False) -> Report:
    """Measure and draw Fig. 3.

    Parameters
    ----------
    quick : bool, default=False
        Whether to take 10 data sets instead of the paper's 100.
    """
    n_sets = 10 if quick else 100
    # On 300 samples threads only slow things down, tenfold on a busy machine.
    with threadpool_limits(1):
        results = measure(n_sets)
    parameters = {
        "seeds": list(range(n_sets)),
        "n_samples": 300,
        "n_components": 3,
        "rank_penalty": _RANK_PENALTY,
        "memory": None,
        "penalties": _PENALTIES,
        "offline SNMF": "SymNMF(3, init='pca'), once on each whole data set",
        "K-means": "KMeans(3, n_init=10)",
        "mini-batch K-means": "MiniBatchKMeans(3, batch_size=30, max_iter=1): one pass",
        "cost ratio": "mean over the data sets whose offline cost up to T exceeds rounding errors",
        "example": "the data set of (lower) median online accuracy at rank_penalty",
    }
    return Report("fig3", parameters, results, summarise(results), draw(results))


def measure(
    n_sets: int, *, n_samples: int = 300, penalties: tuple[float, ...] = _PENALTIES
) -> Results:
    """Compute all that Fig. 3 shows, also at lambda = 0.6 if `penalties` lack it."""
    penalties = tuple(sorted({*penalties, _RANK_PENALTY}))
    costs: list[tuple[FloatArray, FloatArray]] = []
    scores: Results = {name: [] for name in OFFLINE}
    scores |= {name: {str(penalty): [] for penalty in penalties} for name in ONLINE}
    units: dict[str, list[int]] = {str(penalty): [] for penalty in penalties}
    for seed in tqdm(range(n_sets), desc="data sets", disable=None):
        X, y = make_three_gaussians(n_samples, random_state=seed)
        for penalty in penalties:
            net = OnlineSNMF(3, rank_penalty=penalty, memory=None)
            Y = net.partial_fit_transform(X)
            scores["online responses"][str(penalty)].append(cluster_agreement(y, net.labels_))
            scores["second pass"][str(penalty)].append(cluster_agreement(y, net.predict(X)))
            units[str(penalty)].append(net.n_components_)
            if penalty == _RANK_PENALTY:
                online = cost_by_time(X, Y)
        offline = SymNMF(n_components=3, init="pca").fit(X)
        costs.append((online, cost_by_time(X, offline.embedding_)))
        batch = KMeans(3, n_init=10, random_state=seed)
        one_pass = MiniBatchKMeans(3, batch_size=30, max_iter=1, n_init=1, random_state=seed)
        for name, labels in zip(
            OFFLINE, (offline.labels_, batch.fit_predict(X), one_pass.fit_predict(X)), strict=True
        ):
            scores[name].append(cluster_agreement(y, labels))
    accuracy = _field(scores, "accuracy")
    return {
        "cost_ratio": cost_ratio(*np.array(costs).swapaxes(0, 1)),
        "accuracy": accuracy,
        "silent": _field(scores, "silent"),
        "n_units": units,
        "example": example(accuracy["online responses"][str(_RANK_PENALTY)], n_samples),
    }


def cost_by_time(X: FloatArray, Y: FloatArray) -> FloatArray:
    """Return the cost (9) of the first T samples for every T, in one pass."""
    # Sample T adds the sums of Eq. (4), 2 sum_{t<T} (x_t.x_T - y_t.y_T)^2 + (|x_T|^2 - |y_T|^2)^2:
    # all squares, so that small costs keep their digits.
    misfit = np.square(X @ X.T - Y @ Y.T)
    return np.asarray(np.cumsum(2 * np.tril(misfit, -1).sum(axis=1) + np.diag(misfit)))


def cost_ratio(online: FloatArray, offline: FloatArray) -> Results:
    """Compare costs over data sets (rows) and T = 2, 3, ... (columns from the second)."""
    online, offline = online[:, 1:], offline[:, 1:]
    # Offline responses can fit the first two or three samples almost exactly, and a few data sets
    # then dominate the mean ratio: those within rounding errors of the last cost are left out of
    # it. The ratio of the mean costs includes all.
    is_reliable = offline > np.finfo(np.float64).eps * offline[:, -1:]
    ratios = np.divide(online, offline, out=np.full_like(online, np.nan), where=is_reliable)
    return {
        "T": list(range(2, online.shape[1] + 2)),
        "mean": np.nanmean(ratios, axis=0).tolist(),
        "std": np.nanstd(ratios, axis=0).tolist(),
        "median": np.nanmedian(ratios, axis=0).tolist(),
        "ratio_of_means": (online.mean(axis=0) / offline.mean(axis=0)).tolist(),
        "n_left_out": np.count_nonzero(~is_reliable, axis=0).tolist(),
        "final": ratios[:, -1].tolist(),
    }


def example(accuracies: list[float], n_samples: int) -> Results:
    """Run the data set of median accuracy again, at the paper's lambda and at a low one."""
    seed = int(np.argsort(accuracies, kind="stable")[(len(accuracies) - 1) // 2])
    X, y = make_three_gaussians(n_samples, random_state=seed)
    shown: Results = {"seed": seed, "X": X.tolist()}
    for penalty in (_RANK_PENALTY, _LOW_PENALTY):
        net = OnlineSNMF(3, rank_penalty=penalty, memory=None).partial_fit(X)
        shown[str(penalty)] = {
            "labels": net.labels_.tolist(),
            "components": net.components_.tolist(),
            "accuracy": cluster_agreement(y, net.labels_).accuracy,
        }
    return shown


def summarise(results: Results) -> tuple[str, ...]:
    """Return the main numbers, a line each."""
    ratio = results["cost_ratio"]
    lines = [
        f"cost (9), online / offline, at T = {T}: "
        f"{ratio['mean'][T - 2]:.4f} +- {ratio['std'][T - 2]:.4f}"
        for T in (20, 50, 100, 300)
        if T <= ratio["T"][-1]
    ]
    for name, values in _by_method(results["accuracy"]).items():
        s = spread(values)
        lines.append(
            f"accuracy of {name}: median {s['median']:.3f}, quartiles "
            f"{s['lower_quartile']:.3f} to {s['upper_quartile']:.3f}"
        )
    silent = np.median(results["silent"]["online responses"][str(_RANK_PENALTY)])
    lines.append(f"silent samples at lambda = {_RANK_PENALTY}: median {silent:.3f}")
    units = results["n_units"][str(_RANK_PENALTY)]
    lines.append(f"data sets that recruited all three units: {units.count(3)} of {len(units)}")
    return tuple(lines)


def draw(results: Results) -> Figure:
    """Draw the results."""
    axes = panels("ABC;DEF", (13, 8))
    shown = results["example"]
    for letter, penalty in (("A", _RANK_PENALTY), ("C", _LOW_PENALTY)):
        learned, ax = shown[str(penalty)], axes[letter]
        drawn = {"components": learned["components"], "centers": THREE_GAUSSIANS_CENTERS}
        plot_clusters(shown["X"], learned["labels"], **drawn, ax=ax)
        title = rf"data set {shown['seed']}, $\lambda$ = {penalty:g}: accuracy "
        ax.set_title(f"{title}{learned['accuracy']:.2f}", fontsize="medium")
    _draw_ratio(results["cost_ratio"], axes["B"])
    _draw_methods(results["accuracy"], axes["D"])
    _draw_penalties(results["accuracy"], axes["E"], "accuracy", (0.5, 1.02))
    _draw_penalties(results["silent"], axes["F"], "share of silent samples", (-0.02, 0.5))
    return axes["A"].get_figure()  # type: ignore[return-value]


def _draw_ratio(ratio: Results, ax: Axes) -> None:
    plot_cost_ratio(ratio["T"], ratio["mean"], ratio["std"], ax=ax)
    ax.plot(ratio["T"], ratio["ratio_of_means"], "k--", linewidth=1, label="ratio of mean costs")
    ax.set_ylim(0.9, 1.8)
    ax.legend(fontsize="small")
    ax.set_xticks([2, 10, 30, 100, 300], ["2", "10", "30", "100", "300"])
    final = f"{ratio['mean'][-1]:.3f} $\\pm$ {ratio['std'][-1]:.3f} at T = {ratio['T'][-1]}"
    ax.set_title(final, fontsize="medium")


def _draw_methods(accuracy: Results, ax: Axes) -> None:
    groups = _by_method(accuracy)
    rng = np.random.default_rng(0)
    for place, values in enumerate(groups.values()):
        jitter = place + rng.uniform(-0.3, 0.3, len(values))
        ax.scatter(jitter, values, s=8, color="C0", alpha=0.6, linewidths=0)
    places, median = range(len(groups)), {"color": "k", "linewidth": 2}
    ax.boxplot(
        list(groups.values()), positions=places, widths=0.7, showfliers=False, medianprops=median
    )
    ax.set_xticks(places, [name.replace(" ", "\n", 1) for name in groups], fontsize="small")
    ax.set(ylabel="accuracy", ylim=(0.45, 1.02))
    ax.set_title(rf"data sets, $\lambda$ = {_RANK_PENALTY} online", fontsize="medium")


def _draw_penalties(measured: Results, ax: Axes, label: str, ylim: tuple[float, float]) -> None:
    for name, color, style, hatch in (
        ("online responses", "C0", "o-", None),
        ("second pass", "C1", "s--", "///"),
    ):
        penalties = [float(penalty) for penalty in measured[name]]
        low, median, high = np.percentile(list(measured[name].values()), [25, 50, 75], axis=1)
        ax.fill_between(penalties, low, high, color=color, alpha=0.25, hatch=hatch, linewidth=0)
        ax.plot(penalties, median, style, color=color, label=name, markersize=5)
    ax.axvline(
        _RANK_PENALTY, color="k", linewidth=0.8, linestyle=":", label="the paper's $\\lambda$"
    )
    ax.set(xscale="log", xlabel=r"rank penalty $\lambda$", ylabel=label, ylim=ylim)
    ax.set_title("median and quartiles over data sets", fontsize="medium")
    ax.legend(fontsize="small")


def _by_method(measured: Results) -> dict[str, list[float]]:
    """Take the numbers of every method, those of the online ones at the paper's lambda."""
    online = {name: measured[name][str(_RANK_PENALTY)] for name in ONLINE}
    return online | {name: measured[name] for name in OFFLINE}


def _field(scores: Any, name: str) -> Any:
    """Take one field of every `ClusterAgreement` in nested dictionaries of lists."""
    if isinstance(scores, dict):
        return {key: _field(value, name) for key, value in scores.items()}
    return [getattr(score, name) for score in scores]
