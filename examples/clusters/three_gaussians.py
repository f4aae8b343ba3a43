"""
Three Gaussians
===============

The paper's first data set: three clusters in the plane. The network sees each sample once and
recruits a unit for each cluster; the arrows are its feedforward weights.
"""

import matplotlib.pyplot as plt

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_three_gaussians
from hebbnmf.metrics import cluster_agreement
from hebbnmf.plots import plot_clusters, plot_network

X, y = make_three_gaussians(900, random_state=0)
net = OnlineSNMF(n_components=8).fit(X)
ax = plot_clusters(X, net.labels_, components=net.components_)

# %%
# Three of at most eight units were recruited. The cluster near the origin has samples in all
# directions: those that point towards another cluster get its label.

accuracy = cluster_agreement(y, net.labels_).accuracy
print(f"{net.n_components_} units, accuracy {accuracy:.2f}")

# %%
# The network itself: what excites a unit, and how units inhibit each other.

plot_network(net.components_, net.lateral_weights_)
plt.show()
