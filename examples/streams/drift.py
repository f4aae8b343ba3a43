"""
Clusters that move
==================

Five clusters turn around the origin once in 8,000 samples. A network that remembers everything
confuses them once they have moved on; with a ``memory`` of 300 samples it follows.
Two of the ten features are shown.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_changing_clusters

X, y = make_changing_clusters(16_000, 5, 10, period=8000, random_state=2)
windows = [slice(t, t + 400) for t in range(0, len(X), 400)]

fig = plt.figure(figsize=(9, 5.4), layout="constrained")
plane, course = fig.subfigures(2, 1, height_ratios=[1, 0.9])
for ax, t in zip(
    plane.subplots(1, 4, sharex=True, sharey=True), (0, 1000, 2000, 3000), strict=True
):
    ax.scatter(*X[t : t + 200, :2].T, c=y[t : t + 200], cmap="tab10", vmax=9, s=8)
    ax.set(title=f"sample {t:,}", aspect="equal", xticks=[], yticks=[])

ax = course.subplots()
for memory, style in ((None, "--"), (0.1, ":"), (300, "-")):
    labels = OnlineSNMF(n_components=5, memory=memory).partial_fit(X).labels_
    rand = [adjusted_rand_score(y[w], labels[w]) for w in windows]
    ax.plot([w.stop for w in windows], rand, style, label=f"memory={memory}")
    print(f"memory={memory}: mean adjusted Rand index {np.mean(rand):.2f}")
ax.set(xlabel="samples", ylabel="adjusted Rand index", ylim=(0, 1.03))
ax.legend(loc="lower right")
plt.show()
