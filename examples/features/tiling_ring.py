"""
Tiling a ring
=============

With an offset to all similarities, ``x . x' - alpha``, only samples more alike than alpha share a
unit. Units then tile whatever manifold the samples lie on, with localised fields: the narrower, the
larger the offset.
"""

import matplotlib.pyplot as plt
import numpy as np

from hebbnmf import OnlineSNMF

rng = np.random.default_rng(0)
angles = rng.uniform(0, 2 * np.pi, 8000)
X = np.column_stack([np.cos(angles), np.sin(angles)])
probes = np.linspace(0, 2 * np.pi, 361)
ring = np.column_stack([np.cos(probes), np.sin(probes)])

fig, axes = plt.subplots(
    1, 3, figsize=(9, 3.4), layout="constrained", subplot_kw={"projection": "polar"}
)
for ax, offset in zip(axes, (0.0, 0.6, 0.9), strict=True):
    net = OnlineSNMF(12, rank_penalty=0, similarity_offset=offset).partial_fit(X)
    Y = net.transform(ring)
    active = Y.max(axis=0) > 0
    for k, field in enumerate(Y.T[active]):
        ax.fill(probes, field / field.max(), color=f"C{k % 10}", alpha=0.35)
    ax.set(title=f"offset {offset}", xticks=[], yticks=[])
    width = (Y[:, active] > Y.max(axis=0)[active] / 2).mean(axis=0)
    print(f"offset {offset}: {active.sum()} fields, each {360 * np.median(width):.0f} degrees wide")
plt.show()
