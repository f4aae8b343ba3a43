"""Draw the pictures of docs/streams_that_change.md, but for that of benchmarks/drift.py."""

from pathlib import Path

import click
import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_changing_clusters
from hebbnmf.engine.plasticity import discount

STYLES = {None: ("0.6", "-"), 0.1: ("C1", "--"), 300: ("C0", "-")}
N_WEIGHED, N_MOVING, WINDOW, N_STREAMS = 10_000, 20_000, 500, 5


def memory():
    """Draw the weight of a sample by its age, and how moving clusters are followed."""
    figure = Figure((10, 3.6), layout="constrained")
    weight, follow = figure.subplots(1, 2)
    ages = np.arange(N_WEIGHED)
    T = np.arange(WINDOW, N_MOVING + 1, WINDOW)
    streams = [
        make_changing_clusters(N_MOVING, period=8000, random_state=s) for s in range(N_STREAMS)
    ]
    for m, (color, style) in STYLES.items():
        gammas = [discount(t, m or 0.0) for t in range(N_WEIGHED - 1, 0, -1)]
        line = {"color": color, "linestyle": style, "linewidth": 2, "label": f"memory={m}"}
        weight.plot(ages, np.cumprod([1.0, *gammas]), **line)
        rand = []
        for X, y in streams:
            labels = OnlineSNMF(5, memory=m).partial_fit(X).labels_
            rand.append([adjusted_rand_score(y[t - WINDOW : t], labels[t - WINDOW : t]) for t in T])
        follow.plot(T, np.mean(rand, axis=0), **line)
    weight.set(
        xlabel="age of a sample", ylabel=f"weight after {N_WEIGHED:,} samples", ylim=(0, 1.05)
    )
    follow.set(xlabel="samples", ylabel="adjusted Rand index", ylim=(0, 1.05))
    weight.legend(loc="center right")
    return figure


def labels(n_samples=4000, n_clusters=5, period=2500, chunk=20):
    """Draw the label of every sample, and where units were born, as clusters turn over."""
    X, y = make_changing_clusters(
        n_samples, n_clusters, 60, change="turn over", period=period, random_state=1
    )
    net = OnlineSNMF(n_clusters, memory=50, recycle=True)
    given, births = [], set()
    for start in range(0, n_samples, chunk):
        given.append(net.partial_fit(X[start : start + chunk]).labels_)
        births |= set(enumerate(net.unit_births_.tolist()))
    given = np.concatenate(given)
    figure = Figure((10, 3.2), layout="constrained")
    ax = figure.subplots()
    t = np.arange(n_samples)
    rng = np.random.default_rng(0)
    for k, marker in enumerate("osv^DP*"):  # more than are there at a time: successors differ
        of_k = (y % 7 == k) & (given >= 0)
        height = given[of_k] + rng.uniform(-0.2, 0.2, of_k.sum())
        shade = str(0.1 + 0.12 * k)
        ax.scatter(t[of_k], height, s=11, marker=marker, color=shade, linewidths=0)
    for unit, birth in births:
        ax.plot([birth, birth], [unit - 0.42, unit + 0.42], color="C3", linewidth=2.5)
    ax.plot([], [], color="C3", linewidth=2.5, label="a unit is born")
    for change in range(period // n_clusters, n_samples, period // n_clusters):
        ax.axvline(change, color="k", linestyle=":", linewidth=1)
    ax.set(xlabel="samples", ylabel="label", yticks=range(n_clusters), xlim=(-40, n_samples))
    figure.legend(loc="outside upper right")
    return figure


@click.command()
@click.option("--out", default="docs/images", show_default=True, help="Folder of the pictures.")
def main(out):
    """Draw the pictures of the guide to streams that change."""
    for draw in (memory, labels):
        draw().savefig(Path(out) / f"{draw.__name__}.png", dpi=110)


if __name__ == "__main__":
    main()
