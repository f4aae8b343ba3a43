"""
Handwritten digits
==================

One network, two uses. On the pixels, it learns strokes: parts that several units combine into a
digit. Behind a feature map that tells places apart, its units stand for the ten digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import shuffle

from hebbnmf import OnlineSNMF
from hebbnmf.plots import plot_filters

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)

# %%
# Clusters
# --------
# Any two digits share many pixels: seen from the origin they lie close together. An RBF kernel
# makes samples that are far from each other orthogonal; `Nystroem` approximates it with 300
# features.

spread = Nystroem(gamma=0.0013, n_components=300, random_state=0)  # 3 / median squared distance
labels = OnlineSNMF(n_components=10).fit_predict(spread.fit_transform(X))
print(f"adjusted Rand index after one pass: {adjusted_rand_score(y, labels):.2f}")

means = np.array([X[labels == k].mean(axis=0) for k in range(10)])
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.imshow(means.reshape(2, 5, 8, 8).swapaxes(1, 2).reshape(16, 40), cmap="gray_r")
ax.set(title="mean of the samples of each unit", xticks=[], yticks=[])

# %%
# Filters
# -------
# Centred pixels, and as many units as pixels: each sample may recruit one.

centred = X - X.mean(axis=0)
net = OnlineSNMF(n_components=64, rank_penalty=0, memory=0.05, n_epochs=5, shuffle=True)
net.set_params(random_state=0).fit(centred)
active = np.count_nonzero(net.transform(centred), axis=1).mean()
ax = plot_filters(net.components_)
ax.set_title(f"64 units, of which {active:.0f} respond to a digit")
plt.show()
