"""
Head-direction cells
====================

Simulated recordings: sixty neurons, each of which fires when the animal looks in its direction, and
a walk of twenty minutes. From spike counts alone the network finds the ring: each of its
units comes to stand for a sector of directions, though it is never told the direction.
"""

import matplotlib.pyplot as plt
import numpy as np

from hebbnmf import OnlineSNMF

rng = np.random.default_rng(0)
n_neurons, n_bins = 60, 12_000  # bins of 100 ms

# %%
# The head turns at random; each neuron has a bump-shaped tuning curve around its own direction, and
# spikes are Poisson counts.

heading = np.cumsum(rng.normal(0, 0.25, n_bins)) % (2 * np.pi)
preferred = rng.uniform(0, 2 * np.pi, n_neurons)
rate = 3 * np.exp(4 * (np.cos(heading[:, None] - preferred) - 1))
spikes = rng.poisson(rate)

# %%
# Square roots even out the noise of the counts; after centring, headings are directions from the
# origin.

X = np.sqrt(spikes)
X -= X.mean(axis=0)
net = OnlineSNMF(n_components=8, memory=0.1).fit(X[: n_bins // 2])
Y = net.transform(X[n_bins // 2 :])  # held out: the second half of the walk

# %%
# Mean activity of each unit by heading.

sector = np.digitize(heading[n_bins // 2 :], edges := np.linspace(0, 2 * np.pi, 37)) - 1
tuning = np.array([Y[sector == s].mean(axis=0) for s in range(36)])
order = np.argsort(tuning.argmax(axis=0))
middle = (edges[:-1] + edges[1:]) / 2

fig = plt.figure(figsize=(9, 4.2), layout="constrained")
ring = fig.add_subplot(1, 2, 1, projection="polar")
for k, unit in enumerate(order):
    ring.plot([*middle, middle[0]], [*tuning[:, unit], tuning[0, unit]], color=f"C{k}")
    ring.fill(middle, tuning[:, unit], color=f"C{k}", alpha=0.2)
ring.set(title="activity of each unit by heading", yticks=[])

decoded = middle[tuning.argmax(axis=0)][Y.argmax(axis=1)]
t = np.arange(len(Y)) / 600
walk = fig.add_subplot(1, 2, 2)
walk.plot(t, np.degrees(heading[n_bins // 2 :]), ".", color="0.75", markersize=2, label="heading")
walk.plot(t, np.degrees(decoded), ".", color="C0", markersize=2, label="strongest unit")
walk.set(xlabel="minutes", ylabel="degrees", xlim=(0, 2), title="two minutes, held out")
walk.legend(loc="upper right", markerscale=5)

error = np.angle(np.exp(1j * (decoded - heading[n_bins // 2 :])))
print(f"median error {np.degrees(np.median(np.abs(error))):.0f} degrees with {len(order)} units")
plt.show()
