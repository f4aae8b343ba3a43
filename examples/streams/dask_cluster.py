"""
A Dask cluster
==============

`hebbnmf.distributed.fit` trains in rounds: the network goes out to the workers, each learns from
its shard of the data, and what they learned is merged. The cluster here has two workers in this
process; to use another one, give its address to `Client`.
"""

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster
from sklearn.metrics import adjusted_rand_score

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_changing_clusters
from hebbnmf.distributed import fit

X, y = make_changing_clusters(60_000, 12, 30, change="recur", period=60_000, random_state=0)

with (
    LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as ours,
    Client(ours) as client,
):
    net = fit(OnlineSNMF(n_components=12), X, client, n_shards=2)
labels = net.predict(X)

# %%
# The same number of units as in one process, and clusters of the same quality. One process learns
# such a stream in a second: :doc:`/scaling` says when a cluster is worth it.

serial = OnlineSNMF(n_components=12).fit(X)
for name, found in (("two workers", labels), ("one process", serial.labels_)):
    print(f"{name}: {found.max() + 1} units, ARI {adjusted_rand_score(y, found):.3f}")

counts = np.zeros((12, labels.max() + 1))
np.add.at(counts, (y[labels >= 0], labels[labels >= 0]), 1)
order = np.argsort(counts.argmax(axis=0))
fig, ax = plt.subplots(figsize=(4.6, 4.6), layout="constrained")
ax.imshow(counts[:, order], cmap="Blues")
ax.set(xlabel="unit, trained by two workers", ylabel="true cluster")
plt.show()
