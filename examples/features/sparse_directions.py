"""
Sparse directions
=================

Independent sources with heavy tails form no clusters, but they have directions along which only
one source is large. Units find both ends of each, and turn with the data when these are rotated
(Fig. 5).
"""

import matplotlib.pyplot as plt
import numpy as np

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_sparse_sources
from hebbnmf.metrics import direction_alignment
from hebbnmf.plots import plot_directions

fig, axes = plt.subplots(1, 2, figsize=(9, 4.8), layout="tight", sharex=True, sharey=True)
for ax, angle in zip(axes, np.radians([0, 30]), strict=True):
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    X = make_sparse_sources(20_000, 2, mixing=rotation, random_state=0)
    net = OnlineSNMF(n_components=4, rank_penalty=4).fit(X)
    plot_directions(X[:1500], net.components_, rotation.T, ax=ax)
    worst = direction_alignment(net.components_, rotation.T).direction_cosines.min()
    ax.set(title=f"worst cosine {worst:.4f}", xlim=(-5, 5), ylim=(-5, 5))
plt.show()
