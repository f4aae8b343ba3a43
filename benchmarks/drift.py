"""Who follows a stream that changes? Online clusterers on clusters that move, go and come back.

Every contestant predicts a sample, then learns it. The score is the adjusted Rand index within a
sliding window, averaged over the stream: labels need to be consistent within a window alone.
Settings of the grid are chosen on one stream of a kind and reported on others; so is every figure
of the defaults. Streams are short, since some contestants take milliseconds a sample.
"""

import json
import time
from itertools import islice
from pathlib import Path

import click
import numpy as np
from matplotlib.figure import Figure
from river import cluster
from river.datasets import synth
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from hebbnmf import OnlineSNMF
from hebbnmf.adapters.river import RiverSNMF
from hebbnmf.datasets import make_changing_clusters

N_SAMPLES, PERIOD, N_CLUSTERS, N_FEATURES = 1200, 400, 5, 10
WINDOW, STEP = 100, 25
CHOOSE_ON, REPORT_ON = (0,), (1, 2)


def changing(change, period=PERIOD):
    def stream(seed):
        return make_changing_clusters(
            N_SAMPLES, N_CLUSTERS, N_FEATURES, change=change, period=period, random_state=seed
        )

    return stream


def of_river(make):
    def stream(seed):
        pairs = list(islice(make(seed), N_SAMPLES))
        return np.array([list(x.values()) for x, _ in pairs], float), np.array(
            [y for _, y in pairs]
        )

    return stream


def random_rbf(seed, **drift):
    shape = {"n_classes": N_CLUSTERS, "n_features": N_FEATURES}
    shape |= {"n_centroids": N_CLUSTERS, "n_drift_centroids": N_CLUSTERS}
    return synth.RandomRBFDrift(seed_model=seed, seed_sample=seed, **shape, **drift)


STREAMS = {
    "clusters move": changing("move", 2 * N_SAMPLES),
    "all are replaced": changing("replace"),
    "one after the other": changing("turn over", 2 * PERIOD),
    "two sets recur": changing("recur"),
    "river: RandomRBFDrift": of_river(lambda seed: random_rbf(seed, change_speed=0.003)),
    "river: ConceptDriftStream": of_river(
        lambda seed: synth.ConceptDriftStream(
            random_rbf(seed), random_rbf(seed + 100), seed=seed, position=600, width=50
        )
    ),
    "river: LEDDrift": of_river(
        lambda seed: synth.LEDDrift(seed=seed, noise_percentage=0.05, n_drift_features=3)
    ),
}
# Number of clusters, for the contestants that want to know it.
N_GIVEN = {"river: LEDDrift": 10}


class ChunkedKMeans:
    """MiniBatchKMeans, one sample at a time: it learns when a chunk is full."""

    def __init__(self, n_clusters, chunk=100, **parameters):
        self.model = MiniBatchKMeans(n_clusters, n_init=1, random_state=0, **parameters)
        self.size, self.chunk = max(chunk, n_clusters), []

    def predict_one(self, x):
        if not hasattr(self.model, "cluster_centers_"):
            return 0
        return int(self.model.predict([list(x.values())])[0])

    def learn_one(self, x):
        self.chunk.append(list(x.values()))
        if len(self.chunk) == self.size:
            self.model.partial_fit(self.chunk)
            self.chunk = []


class StreamKMeans(cluster.STREAMKMeans):
    """STREAMKMeans, which raises an error before its first chunk is full."""

    def predict_one(self, x):
        return super().predict_one(x) if self.centers else 0


# For each contestant how it is made for k clusters, and the grid; the first are the defaults.
CONTESTANTS = {
    "OnlineSNMF": (
        RiverSNMF,
        [{}, *({"memory": m, "recycle": True} for m in (20, 50, 100, 300))],
    ),
    "MiniBatchKMeans": (
        ChunkedKMeans,
        [{}, {"chunk": 10}, {"chunk": 30}, {"chunk": 30, "reassignment_ratio": 0.1}],
    ),
    "river KMeans": (
        lambda k, **p: cluster.KMeans(k, seed=0, **p),
        [{}, {"halflife": 0.1}, {"halflife": 0.03}, {"halflife": 0.1, "sigma": 0.1}],
    ),
    "STREAMKMeans": (
        lambda k, **p: StreamKMeans(n_clusters=k, seed=0, **p),
        [{}, {"chunk_size": 30}, {"chunk_size": 100}, {"chunk_size": 30, "halflife": 0.1}],
    ),
    "CluStream": (
        lambda k, **p: cluster.CluStream(k, seed=0, **p),
        [{}, *({"time_window": w, "time_gap": 20, "max_micro_clusters": 30} for w in (100, 300))],
    ),
    "DenStream": (
        lambda _, **p: cluster.DenStream(**p),
        [
            {},
            *(
                {"epsilon": e, "decaying_factor": 0.01, "n_samples_init": 100, "stream_speed": 1}
                for e in (0.5, 1.0, 2.0)
            ),
        ],
    ),
    "DBSTREAM": (
        lambda _, **p: cluster.DBSTREAM(**p),
        [{}, *({"clustering_threshold": t, "cleanup_interval": 50} for t in (1.5, 2.0, 2.5))],
    ),
}


def scaled_stream(make, seed):
    """Return standardised rows as dicts, the same for every contestant, and their clusters."""
    X, y = make(seed)
    return [dict(enumerate(x)) for x in StandardScaler().fit_transform(X).tolist()], y


def predict_then_learn(model, rows):
    """Return the label of each row, given before it was learned, and the seconds a row takes."""
    labels = []
    start = time.perf_counter()
    for row in rows:
        labels.append(model.predict_one(row))
        model.learn_one(row)
    return np.array(labels), (time.perf_counter() - start) / len(rows)


def windowed_rand(y, labels):
    starts = range(0, len(y) - WINDOW + 1, STEP)
    return [adjusted_rand_score(y[s : s + WINDOW], labels[s : s + WINDOW]) for s in starts]


def contest(progress):
    """Return for every stream and contestant: setting, index by window, seconds a sample."""
    predict_then_learn(RiverSNMF(), [{0: 1.0}] * 2)  # compiles the kernels
    found = {}
    for stream, make in STREAMS.items():
        k = N_GIVEN.get(stream, N_CLUSTERS)
        data = {seed: scaled_stream(make, seed) for seed in (*CHOOSE_ON, *REPORT_ON)}

        def run(new, setting, seeds, k=k, data=data):
            results = [predict_then_learn(new(k, **setting), data[s][0]) for s in seeds]
            progress.update()
            rand = [windowed_rand(data[s][1], r[0]) for s, r in zip(seeds, results, strict=True)]
            return np.array(rand), float(np.mean([seconds for _, seconds in results]))

        found[stream] = {}
        for name, (new, grid) in CONTESTANTS.items():
            tried = [run(new, setting, CHOOSE_ON)[0].mean() for setting in grid]
            found[stream][name] = {}
            for kind, setting in (("default", grid[0]), ("best", grid[int(np.argmax(tried))])):
                rand, seconds = run(new, setting, REPORT_ON)
                row = {"setting": setting, "rand": rand.tolist(), "seconds": seconds}
                found[stream][name][kind] = row
    return found


def long_streams():
    """Measure the network alone on long streams: the end of a drift, and after replacements."""
    found = {"moving, last 1,000 of 20,000": {}, "replaced, second halves": {}}
    for memory in (None, 0.1, 1000, 300, 100):
        rand = []
        for seed in range(10):
            X, y = make_changing_clusters(20_000, period=40_000, random_state=seed)
            labels = OnlineSNMF(N_CLUSTERS, memory=memory).partial_fit(X).labels_
            rand.append(adjusted_rand_score(y[-1000:], labels[-1000:]))
        found["moving, last 1,000 of 20,000"][f"memory={memory}"] = rand
    for memory in (None, 0.1, 200, 100, 50, 30):
        for recycle in (False, True) if memory else (False,):
            rand = []
            for seed in range(10):
                X, y = make_changing_clusters(20_000, change="replace", random_state=seed)
                net = OnlineSNMF(N_CLUSTERS, memory=memory, recycle=recycle).partial_fit(X)
                for half in (slice(t + 2000, t + 4000) for t in range(0, 20_000, 4000)):
                    rand.append(adjusted_rand_score(y[half], net.labels_[half]))
            found["replaced, second halves"][f"memory={memory}, recycle={recycle}"] = rand
    return found


def draw(found):
    """Draw the index by time, a panel a stream: ours, and the best peer of each kind in grey."""
    figure = Figure((13, 7.5), layout="constrained")
    axes = figure.subplots(2, 4, sharey=True).ravel()
    T = np.arange(WINDOW, N_SAMPLES + 1, STEP)
    styles = dict(
        zip(list(CONTESTANTS)[1:], ("--", ":", "-.", (0, (6, 1)), (0, (1, 1)), "-"), strict=True)
    )
    for ax, (stream, rows) in zip(axes, found.items(), strict=False):
        for name, style in styles.items():
            rand = np.mean(rows[name]["best"]["rand"], axis=0)
            ax.plot(T, rand, color="0.45", linestyle=style, linewidth=1.2, label=name)
        for kind, color, width in (("default", "C1", 1.8), ("best", "C0", 3)):
            rand = np.mean(rows["OnlineSNMF"][kind]["rand"], axis=0)
            ax.plot(T, rand, color=color, linewidth=width, label=f"OnlineSNMF, {kind}")
        ax.set(ylim=(-0.05, 1.05), xlabel="samples")
        ax.set_title(stream, fontsize="medium")
    for ax in axes[::4]:
        ax.set_ylabel(f"adjusted Rand index, {WINDOW} samples")
    axes[-1].axis("off")
    axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center", fontsize="medium")
    return figure


def show(found, long):
    for stream, rows in found.items():
        click.echo(f"\n{stream}: mean index by default, by the best setting; time against ours")
        ours = rows["OnlineSNMF"]["best"]["seconds"]
        for name, row in rows.items():
            default, best = (np.mean(row[kind]["rand"]) for kind in ("default", "best"))
            ratio = row["best"]["seconds"] / ours
            click.echo(
                f"  {name:16} {default:6.2f} {best:6.2f} {ratio:8.2f}  {row['best']['setting']}"
            )
    for stream, rows in long.items():
        click.echo(f"\n{stream}, OnlineSNMF({N_CLUSTERS}): mean index (least)")
        for name, rand in rows.items():
            click.echo(f"  {name:32} {np.mean(rand):.3f} ({np.min(rand):.2f})")


@click.command()
@click.option("--out", default="out", show_default=True, help="Folder of drift.json and drift.png.")
def main(out):
    """Let online clusterers follow streams that change; some minutes."""
    n_runs = len(STREAMS) * sum(len(grid) + 2 for _, grid in CONTESTANTS.values())
    with threadpool_limits(1), tqdm(total=n_runs, unit="run") as progress:
        found = contest(progress)
        long = long_streams()
    show(found, long)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "drift.json").write_text(json.dumps({"contest": found, "long": long}, indent=1))
    draw(found).savefig(folder / "drift.png", dpi=110)
    click.echo(f"\nwrote drift.json and drift.png in {out}")


if __name__ == "__main__":
    main()
