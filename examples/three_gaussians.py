"""Cluster the paper's three Gaussians as a stream, and save the picture in out/."""

from pathlib import Path

import numpy as np
from tqdm import tqdm

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import THREE_GAUSSIANS_CENTERS, make_three_gaussians
from hebbnmf.plots import plot_clusters

X, truth = make_three_gaussians(300, random_state=0)
net = OnlineSNMF(n_components=3, rank_penalty=0.6)
labels = np.array([net.partial_fit(x[None]).labels_[0] for x in tqdm(X, unit="sample")])

print(f"{net.n_components_} units recruited, {np.mean(labels < 0):.0%} of the samples unanswered")
for k, (w, activity) in enumerate(zip(net.components_, net.cumulative_activity_, strict=True)):
    print(f"unit {k}: direction ({w[0]:+.2f}, {w[1]:+.2f}), cumulative activity {activity:.0f}")

ax = plot_clusters(X, labels, components=net.components_, centers=THREE_GAUSSIANS_CENTERS)
ax.set_title("Three Gaussians, clustered online")
path = Path("out/three_gaussians.png")
path.parent.mkdir(exist_ok=True)
ax.figure.savefig(path, dpi=150)
print(f"saved {path}")
