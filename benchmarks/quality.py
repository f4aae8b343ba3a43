"""How good are the clusters of one pass, and which memory and penalty are good defaults?

Settings are chosen on one half of the data sets and reported on the other half: the setting with
the greatest sum of the mean ARI where units are as many as classes and of the mean NMI where there
are more. Every figure is a mean over orders of the samples (for made data, over data sets).
"""

import json
from functools import cache
from pathlib import Path

import click
import numpy as np
from scipy.spatial.distance import pdist
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from hebbnmf.datasets import make_three_gaussians
from hebbnmf.learner import Learner, Settings

# letter, penbased, vehicle, movement_libras, segment and vowel are tables of the UCI repository
# that are not part of this package: without --tables they are left out.
CHOOSE_ON = ("three Gaussians", "5 blobs", "20 blobs", "iris", "letter", "penbased", "vehicle")
REPORT_ON = ("8 blobs", "12 blobs", "digits", "wine", "breast cancer")
REPORT_ON += ("movement_libras", "segment", "vowel")
BLOBS = {"5 blobs": (5, 10), "20 blobs": (20, 20), "8 blobs": (8, 6), "12 blobs": (12, 40)}
BUNDLED = {
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits,
    "breast cancer": load_breast_cancer,
}
MEMORIES = (None, 0.05, 0.1, 0.2, 0.3, 1000)
CONSTANTS = (0.3, 0.45, 0.6, 0.75, 0.9)
OLD = (None, 1.0)  # rank_penalty=1.0 without memory, the defaults before there was a memory
N_ROWS = 3000  # of a table
# Units a class where the network is to find the number of clusters by itself.
SPARE = 4


@cache
def data_set(name, seed, tables):
    """Return the samples of a data set in a random order, and their classes."""
    if name == "three Gaussians":
        return make_three_gaussians(random_state=seed)
    if name in BLOBS:
        n_clusters, n_features = BLOBS[name]
        X, y = make_blobs(2000, n_features, centers=n_clusters, random_state=seed)
        return StandardScaler().fit_transform(X), y
    X, y = table(name, tables)
    order = np.random.RandomState(seed).permutation(len(X))
    return X[order], y[order]


@cache
def table(name, tables):
    """Return features whose inner products are about those of a Gaussian kernel, and classes."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    else:
        with np.load(Path(tables) / f"{name}.npz") as stored:
            X, y = stored["X"][:N_ROWS].astype(float), stored["y"][:N_ROWS]
    if name != "digits":  # pixels have one scale
        X = StandardScaler().fit_transform(X)
    gamma = 3 / np.median(pdist(X, "sqeuclidean"))
    features = Nystroem(gamma=gamma, n_components=min(300, len(X)), random_state=0)
    return features.fit_transform(X), y


def available(names, tables):
    """Leave out the tables that are not there."""
    made = {"three Gaussians", *BLOBS, *BUNDLED}
    return [n for n in names if n in made or (tables and (Path(tables) / f"{n}.npz").exists())]


def one_pass(X, n_units, memory, penalty):
    """Learn once from every sample; return all labels by the frozen network, and its units.

    The penalty is a number, or the constant of "auto" as ("auto", c).
    """
    relative = isinstance(penalty, tuple)
    rank_penalty = "auto" if relative else penalty
    learner = Learner(Settings(n_units, rank_penalty=rank_penalty, memory=memory), X.shape[1])
    if relative:
        learner.network.rules = learner.network.rules._replace(threshold=penalty[1])
    learner.learn(X, keep=False)
    return learner.respond(X, keep=False).labels, learner.network.n_units


def judge(name, tables, n_orders, clusterer):
    """Return ARI, NMI, and the number of clusters over that of classes, for every order."""
    scores = []
    for seed in range(n_orders):
        X, y = data_set(name, seed, tables)
        n_classes = len(np.unique(y))
        labels, n_clusters = clusterer(X, n_classes, seed)
        scores.append(
            (
                adjusted_rand_score(y, labels),
                normalized_mutual_info_score(y, labels),
                max(n_clusters, 1) / n_classes,
            )
        )
    return np.array(scores)


def network(memory, penalty, spare=1):
    return lambda X, k, _: one_pass(X, spare * k, memory, penalty)


def k_means(X, k, seed):
    return KMeans(k, n_init=10, random_state=seed).fit_predict(X), k


def k_means_in_one_pass(X, k, seed):
    model = MiniBatchKMeans(k, random_state=seed, n_init=1)
    for chunk in np.array_split(X, max(len(X) // 100, 1)):
        model.partial_fit(chunk)
    return model.predict(X), k


def choose(tables, n_orders):
    """Measure the grid on the first half of the data sets; return means by setting."""
    names = available(CHOOSE_ON, tables)
    found = {}
    penalties = [("auto", c) for c in CONSTANTS]
    grid = [OLD, *((memory, penalty) for memory in MEMORIES for penalty in penalties)]
    for memory, penalty in tqdm(grid, unit="setting"):
        known, free = (
            np.array(
                [
                    judge(name, tables, n_orders, network(memory, penalty, spare)).mean(axis=0)
                    for name in names
                ]
            )
            for spare in (1, SPARE)
        )
        found[f"memory={memory}, penalty={penalty}"] = {
            "ARI": known[:, 0].mean(),
            "NMI, spare units": free[:, 1].mean(),
            "|log(units / classes)|": np.abs(np.log(free[:, 2])).mean(),
        }
    return found


def report(tables, n_orders):
    """Compare the defaults with others on the second half of the data sets."""
    default = Settings()
    penalty = ("auto", default.rules().threshold)
    contestants = {
        "defaults": network(default.memory, penalty),
        "memory=None": network(None, penalty),
        "old defaults": network(*OLD),
        "MiniBatchKMeans, one pass": k_means_in_one_pass,
        "KMeans": k_means,
        f"defaults, {SPARE} units a class": network(default.memory, penalty, SPARE),
    }
    return {
        name: {
            contestant: judge(name, tables, n_orders, clusterer).tolist()
            for contestant, clusterer in contestants.items()
        }
        for name in tqdm(available(REPORT_ON, tables), unit="data set")
    }


def show(chosen, reported):
    click.echo("chosen on one half: mean ARI with as many units as classes; NMI and")
    click.echo(f"|log(units / classes)| with {SPARE} units a class at most")
    best_first = sorted(
        chosen.items(), key=lambda item: -item[1]["ARI"] - item[1]["NMI, spare units"]
    )
    for setting, means in best_first:
        click.echo(f"  {setting:36}" + "".join(f"{value:8.3f}" for value in means.values()))
    click.echo("\nreported on the other half: ARI, mean (least) over orders")
    for name, rows in reported.items():
        click.echo(name)
        for contestant, scores in rows.items():
            ari, nmi, units = np.transpose(scores)
            click.echo(
                f"  {contestant:28} {ari.mean():.3f} ({ari.min():.2f}), NMI {nmi.mean():.3f}, "
                f"{units.mean():.2f} clusters a class"
            )


@click.command()
@click.option("--tables", type=click.Path(), help="Folder of tables, .npz with X and y.")
@click.option("--orders", default=10, show_default=True, help="Orders of the reported half.")
@click.option("--out", default="out/quality.json", show_default=True, help="Where to write.")
def main(tables, orders, out):
    """Choose memory and penalty on half of the data sets, and report on the rest; minutes."""
    with threadpool_limits(1):
        chosen, reported = choose(tables, 3), report(tables, orders)
    show(chosen, reported)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps({"chosen": chosen, "reported": reported}, indent=1))
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    main()
