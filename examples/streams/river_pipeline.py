"""
A river pipeline
================

`river <https://riverml.xyz>`_ learns from one dictionary at a time. `RiverSNMF` is a clusterer and
a transformer there: it predicts the cluster of each event, then learns from it. Here it is judged
as river judges, before it learns, on a stream in which all clusters are replaced twice.
"""

import matplotlib.pyplot as plt
from river import metrics, preprocessing, utils

from hebbnmf.adapters.river import RiverSNMF
from hebbnmf.datasets import make_changing_clusters

X, y = make_changing_clusters(3000, 4, 8, change="replace", period=1000, random_state=1)
events = [dict(zip("abcdefgh", row, strict=True)) for row in X.tolist()]

models = {
    "memory=50, recycle": {"memory": 50, "recycle": True},
    "all samples": {"memory": None},
}
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, settings), style in zip(models.items(), ("-", "--"), strict=True):
    model = preprocessing.StandardScaler() | RiverSNMF(n_components=4, **settings)
    recent = utils.Rolling(metrics.AdjustedRand, window_size=200)
    course = []
    for x, true in zip(events, y.tolist(), strict=True):
        recent.update(true, model.predict_one(x))
        model.learn_one(x)
        course.append(recent.get())
    ax.plot(course, style, label=name)
for change in (1000, 2000):
    ax.axvline(change, color="0.6", linestyle=":")
ax.set(xlabel="events", ylabel="adjusted Rand index, last 200", ylim=(0, 1.03))
ax.legend(loc="lower left")
plt.show()
