"""What is the network good for? Clusters and features of real tables, against what others take.

Settings are chosen on one half of the data sets and reported on both. All contestants get
standardised columns; the online clusterer standardises by itself, as it learns. "One pass" is a
stream of chunks, learned once; the labels are those of the model at the end. Every figure is a mean
over orders of the rows.
"""

import itertools
import json
import time
from functools import cache, partial
from pathlib import Path

import click
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.cluster import BisectingKMeans, MiniBatchKMeans, SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA, MiniBatchDictionaryLearning, MiniBatchNMF
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.quality import BUNDLED, k_means, k_means_in_one_pass
from hebbnmf import OnlineSNMF, StreamPipeline, make_online_clusterer
from hebbnmf.engine.state import BLOCK

# The halves are those of benchmarks/quality.py, with one more table of river in each place of made
# data. segment is in river too; the others of the UCI repository come by --tables.
CHOOSE_ON = ("iris", "letter", "penbased", "vehicle", "Phishing", "Bananas")
REPORT_ON = ("wine", "digits", "breast cancer", "segment", "vowel", "movement_libras")
OF_RIVER = {"Phishing": "Phishing", "Bananas": "Bananas", "segment": "ImageSegments"}
N_ROWS = 6000  # of a table
CHUNK = 1000
ROWS_OF_SPECTRAL, ROWS_OF_RIVER = 2500, 1500
GAUSSIANS = {"5 in 10 dimensions": (5, 10), "20 in 20": (20, 20), "8 in 3": (8, 3)}
WIDTHS, MEMORIES = (1.0, 2.0, 3.0, 5.0), (0.05, 0.1, 0.2)
N_FEATURES = 200
FEATURES_ON = ("digits", "letter", "penbased", "segment")


@cache
def table(name, tables):
    """Return the columns of a data set, and its classes."""
    path = Path(tables or ".") / f"{name}.npz"
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    elif path.exists():
        with np.load(path) as stored:
            X, y = stored["X"], stored["y"]
    else:
        from river import datasets

        rows, classes = zip(*getattr(datasets, OF_RIVER[name])(), strict=True)
        X, y = [list(row.values()) for row in rows], np.unique(classes, return_inverse=True)[1]
    return np.asarray(X, float), np.asarray(y)


def available(names, tables):
    known = {*BUNDLED, *OF_RIVER}
    return [n for n in names if n in known or (Path(tables or ".") / f"{n}.npz").exists()]


def in_order(name, tables, seed):
    X, y = table(name, tables)
    order = np.random.RandomState(seed).permutation(len(X))[:N_ROWS]
    return X[order], y[order], len(np.unique(y))


# Clusterers: from raw columns, the number of classes and a seed, to labels ------------------------


def online(X, k, seed, *, n_passes=1, gamma=None, memory=0.1):
    landmarks = min(300, CHUNK, len(X))
    model = make_online_clusterer(k, n_landmarks=landmarks, memory=memory, random_state=seed)
    if gamma is not None:
        first = StandardScaler().fit_transform(X[:CHUNK])
        model.set_params(kernel__gamma=gamma / np.median(pdist(first, "sqeuclidean")))
    for _ in range(n_passes):
        for start in range(0, len(X), CHUNK):
            model.partial_fit(X[start : start + CHUNK])
    return model.predict(X)


def standardised(clusterer, X, k, seed):
    labels = clusterer(StandardScaler().fit_transform(X), k, seed)
    return labels[0] if isinstance(labels, tuple) else labels


def mini_batch_k_means(X, k, seed):
    return MiniBatchKMeans(k, n_init=10, random_state=seed).fit_predict(X)


def bisecting_k_means(X, k, seed):
    return BisectingKMeans(k, random_state=seed).fit_predict(X)


def spectral(X, k, seed):
    return SpectralClustering(
        k, affinity="nearest_neighbors", n_neighbors=10, random_state=seed
    ).fit_predict(X)


def of_river(make, X, k, seed):
    model = make(k, seed)
    rows = [dict(enumerate(row)) for row in X.tolist()]
    for row in rows:
        model.learn_one(row)
    return np.array([model.predict_one(row) for row in rows])


def river_k_means(k, seed):
    from river.cluster import KMeans

    return KMeans(n_clusters=k, halflife=0.05, seed=seed)


def river_dbstream(_k, _seed):
    from river.cluster import DBSTREAM

    return DBSTREAM(clustering_threshold=1.5, cleanup_interval=100)


CLUSTERERS = {
    "online clusterer, one pass": online,
    "online clusterer, 3 passes": partial(online, n_passes=3),
    "KMeans": partial(standardised, k_means),
    "MiniBatchKMeans": partial(standardised, mini_batch_k_means),
    "MiniBatchKMeans, one pass": partial(standardised, k_means_in_one_pass),
    "BisectingKMeans": partial(standardised, bisecting_k_means),
    "SpectralClustering": partial(standardised, spectral),
    "river KMeans": partial(standardised, partial(of_river, river_k_means)),
    "river DBSTREAM": partial(standardised, partial(of_river, river_dbstream)),
}
LARGEST = {
    "SpectralClustering": ROWS_OF_SPECTRAL,
    "river KMeans": ROWS_OF_RIVER,
    "river DBSTREAM": ROWS_OF_RIVER,
}


def judge(name, tables, seed, clusterer, n_rows=N_ROWS):
    """Return ARI, NMI and seconds."""
    X, y, k = in_order(name, tables, seed)
    X, y = X[:n_rows], y[:n_rows]
    start = time.process_time()
    labels = clusterer(X, k, seed)
    seconds = time.process_time() - start
    return adjusted_rand_score(y, labels), normalized_mutual_info_score(y, labels), seconds


def choose(tables, n_orders):
    """Return the mean ARI of every setting of the online clusterer on the first half."""
    grid = [(gamma, memory) for gamma in WIDTHS for memory in MEMORIES]
    names = available(CHOOSE_ON, tables)
    return {
        f"gamma {gamma:g} / median, memory {memory}": float(
            np.mean(
                [
                    judge(name, tables, seed, partial(online, gamma=gamma, memory=memory))[0]
                    for name in names
                    for seed in range(n_orders)
                ]
            )
        )
        for gamma, memory in tqdm(grid, unit="setting", disable=None)
    }


def compare(tables, n_orders):
    """Return ARI, NMI and seconds of every clusterer, by data set; means over orders."""
    names = available(CHOOSE_ON, tables) + available(REPORT_ON, tables)
    return {
        name: {
            contestant: np.mean(
                [
                    judge(name, tables, seed, clusterer, LARGEST.get(contestant, N_ROWS))
                    for seed in range(n_orders)
                ],
                axis=0,
            ).tolist()
            for contestant, clusterer in CLUSTERERS.items()
        }
        for name in tqdm(names, unit="data set", disable=None)
    }


# The number of clusters not given -----------------------------------------------------------------


def gaussians(k, n, seed, separation=6.0):
    """Return clusters of unit variance whose centres are at least so far apart."""
    rng = np.random.RandomState(seed)
    centers = rng.uniform(-10, 10, (k, n))
    while pdist(centers).min() < separation:
        centers = rng.uniform(-10, 10, (k, n))
    return make_blobs(3000, n, centers=centers, random_state=seed)[0]


def numbers_of_clusters(n_seeds=10):
    """Return, by data set, how many clusters were found that hold a sample, for each seed."""
    return {
        name: [
            len(np.unique(online(gaussians(k, n, seed), 4 * k, seed))) for seed in range(n_seeds)
        ]
        for name, (k, n) in GAUSSIANS.items()
    }


# Features -----------------------------------------------------------------------------------------


def k_means_triangle(X, seed):
    """Return the features of Coates & Ng: how much nearer than the mean each centre is."""
    model = MiniBatchKMeans(N_FEATURES, n_init=1, random_state=seed).fit(X)

    def transform(Z):
        distances = model.transform(Z)
        return np.maximum(distances.mean(axis=1, keepdims=True) - distances, 0)

    return transform


def fitted(make, X, seed):
    return make(seed).fit(X).transform


FEATURES = {
    "the columns": lambda _X, _seed: lambda Z: Z,
    "OnlineSNMF, one pass": partial(
        fitted, lambda seed: OnlineSNMF(N_FEATURES, rank_penalty=0.0, random_state=seed)
    ),
    "PCA": partial(fitted, lambda seed: PCA(0.99, random_state=seed)),
    "MiniBatchNMF": partial(
        fitted,
        lambda seed: MiniBatchNMF(N_FEATURES, init="random", max_iter=20, random_state=seed),
    ),
    "MiniBatchDictionaryLearning": partial(
        fitted,
        lambda seed: MiniBatchDictionaryLearning(
            N_FEATURES,
            max_iter=5,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            positive_code=True,
            random_state=seed,
        ),
    ),
    "K-means triangle": k_means_triangle,
}


def features(tables, n_orders=2):
    """Return, by data set and features, the accuracy of ridge on held-out rows, and seconds."""
    found = {}
    for name in tqdm(available(FEATURES_ON, tables), unit="data set", disable=None):
        found[name] = {}
        for contestant, learn in FEATURES.items():
            scores = []
            for seed in range(n_orders):
                X, y, _ = in_order(name, tables, seed)
                scaler = (
                    MinMaxScaler(clip=True) if contestant == "MiniBatchNMF" else StandardScaler()
                )
                parts = train_test_split(X, y, test_size=1 / 3, random_state=seed)
                train, test, y_train, y_test = parts
                train = scaler.fit_transform(train)
                start = time.process_time()
                transform = learn(train, seed)
                Y = transform(train)
                seconds = time.process_time() - start
                ridge = RidgeClassifierCV(np.logspace(-3, 3, 7)).fit(Y, y_train)
                scores.append((ridge.score(transform(scaler.transform(test)), y_test), seconds))
            found[name][contestant] = np.mean(scores, axis=0).tolist()
    return found


# Time ---------------------------------------------------------------------------------------------


def pipeline_times(n_rows=100_000, chunk_sizes=(100, 500, 2000)):
    """Return, by rows a chunk, microseconds a row of the online clusterer and of each step."""
    X, _ = make_blobs(n_rows + CHUNK, 20, centers=10, random_state=0)
    found = {}
    for size in chunk_sizes:
        model = make_online_clusterer(10, n_landmarks=100, random_state=0).partial_fit(X[:CHUNK])
        parts = clone(model).partial_fit(X[:CHUNK])
        seconds = dict.fromkeys(["whole", *(name for name, _ in parts.steps)], 0.0)
        for start in range(CHUNK, len(X), size):
            begin = time.process_time()
            model.partial_fit(X[start : start + size])
            seconds["whole"] += time.process_time() - begin
            rows = X[start : start + size]
            for name, step in parts.steps:
                begin = time.process_time()
                if name == "network":
                    step.partial_fit(rows)
                else:
                    rows = StreamPipeline([(name, step)]).partial_fit_transform(rows)
                seconds[name] += time.process_time() - begin
        found[size] = {name: 1e6 * s / n_rows for name, s in seconds.items()}
    return found


def sparse_times(n_rows=1440, n_words=20):
    """Return, by features and units, microseconds a row of texts, sparse and dense, and parts.

    Frequencies of words fall as one over their rank. The parts are one product each, of the dense
    rows, in blocks of 72.
    """
    found = {}
    for n, m in itertools.product((2000, 20_000), (64, 256)):
        rng = np.random.default_rng(0)
        share = 1 / np.arange(1, n + 1)
        words = rng.choice(n, (CHUNK + n_rows, n_words), p=share / share.sum())
        weights = rng.exponential(size=words.size)
        pointers = np.arange(0, words.size + 1, n_words)
        X = normalize(csr_array((weights, words.ravel(), pointers), (len(words), n)))
        sparse, dense = (OnlineSNMF(m, rank_penalty=0.0).partial_fit(X[:CHUNK]) for _ in range(2))
        W, rows, full = sparse.components_, X[CHUNK:], X[CHUNK:].toarray()
        blocks = [slice(i, i + BLOCK) for i in range(0, n_rows, BLOCK)]
        calls = {
            "CSR": lambda: sparse.partial_fit(rows),  # noqa: B023
            "dense": lambda: dense.partial_fit(full),  # noqa: B023
            "toarray": lambda: rows.toarray(),  # noqa: B023
            "W X'": lambda: [W @ full[block].T for block in blocks],  # noqa: B023
            "X X'": lambda: [full[block] @ full[block].T for block in blocks],  # noqa: B023
            "X W' by scipy": lambda: [rows[block] @ W.T for block in blocks],  # noqa: B023
        }
        found[f"{n} features, {m} units"] = {}
        for name, call in calls.items():
            begin = time.process_time()
            call()
            seconds = time.process_time() - begin
            found[f"{n} features, {m} units"][name] = 1e6 * seconds / n_rows
    return found


def show_times(title, found):
    columns = list(next(iter(found.values())))
    click.echo(f"\n{title}, us a row\n\n| | " + " | ".join(columns) + " |")
    click.echo("|---" * (len(columns) + 1) + "|")
    for name, row in found.items():
        click.echo(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row.values()) + " |")


# What comes out -----------------------------------------------------------------------------------


def markdown(rows, column, width=".2f"):
    """Return a table of one figure: contestants down, data sets across, means of halves last."""
    names = list(rows)
    halves = {"chosen on": CHOOSE_ON, "reported on": REPORT_ON}
    lines = ["| | " + " | ".join([*names, *halves]) + " |", "|---" * (len(names) + 3) + "|"]
    for contestant in next(iter(rows.values())):
        values = {name: rows[name][contestant][column] for name in names}
        means = [np.mean([values[n] for n in half if n in values]) for half in halves.values()]
        cells = [f"{value:{width}}" for value in values.values()]
        lines.append(
            f"| {contestant} | " + " | ".join([*cells, *(f"{m:.3f}" for m in means)]) + " |"
        )
    return "\n".join(lines)


def draw(rows, path):
    """Draw the ARI of the online clusterer beside that of K-means, batch and in one pass."""
    shown = {
        "online clusterer, one pass": ("o", "black"),
        "MiniBatchKMeans, one pass": ("s", "0.65"),
        "KMeans": ("|", "0.3"),
    }
    names = sorted(rows, key=lambda name: rows[name]["online clusterer, one pass"][0])
    with mpl.rc_context({"font.size": 9}):
        figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
        for contestant, (marker, color) in shown.items():
            values = [rows[name][contestant][0] for name in names]
            ax.plot(values, range(len(names)), marker, color=color, ms=7, mew=2, label=contestant)
        ax.set_yticks(range(len(names)), names)
        ax.set_xlabel("adjusted Rand index, mean over 5 orders of the rows")
        ax.set_xlim(left=0)
        ax.grid(axis="y", color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="lower right")
        figure.savefig(path, dpi=150)


@click.command()
@click.option("--tables", type=click.Path(), help="Folder of tables, .npz with X and y.")
@click.option("--orders", default=5, show_default=True, help="Orders of the rows.")
@click.option("--out", default="out/practice.json", show_default=True, help="Where to write.")
@click.option("--times", is_flag=True, help="Time learning alone: a minute.")
@click.option("--picture", type=click.Path(), help="Where to draw the adjusted Rand indices.")
def main(tables, orders, out, times, picture):
    """Compare clusterers and features on real tables; many minutes."""
    if times:
        with threadpool_limits(1):
            show_times("20 columns, 10 clusters, 100 landmarks; rows a chunk", pipeline_times())
            show_times("texts of 20 words", sparse_times())
        return
    with threadpool_limits(1):
        found = {
            "chosen": choose(tables, 3),
            "numbers": numbers_of_clusters(),
            "features": features(tables),
            "clusters": compare(tables, orders),
        }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(found, indent=1))
    for setting, ari in sorted(found["chosen"].items(), key=lambda item: -item[1]):
        click.echo(f"{ari:.3f}  {setting}")
    for column, title in enumerate(("ARI", "NMI", "seconds")):
        click.echo(f"\n{title}\n\n{markdown(found['clusters'], column)}")
    click.echo(f"\nclusters found: {found['numbers']}")
    click.echo(f"\naccuracy\n\n{markdown(found['features'], 0, '.3f')}")
    click.echo(f"\nseconds\n\n{markdown(found['features'], 1)}")
    if picture:
        draw(found["clusters"], picture)
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    main()
