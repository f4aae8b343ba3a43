"""
Unmixing sources
================

Three detectors see three sources, each detector its own mixture of them. Sources that are never
negative and often near zero, such as brightness or concentrations, can be told apart without
knowing the mixture: `NonnegativeICA`, rectified units behind a whitener.
"""

import matplotlib.pyplot as plt
import numpy as np

from hebbnmf import NonnegativeICA

rng = np.random.default_rng(0)
t = np.arange(12_000)
events = rng.random((len(t), 3)) < [0.02, 0.01, 0.015]
sources = np.column_stack(
    [
        np.convolve(events[:, k] * rng.exponential(1, len(t)), np.exp(-t[:200] / tau))[: len(t)]
        for k, tau in enumerate((10, 30, 18))
    ]
)
mixing = np.array([[1.0, 0.6, -0.4], [-0.5, 1.0, 0.7], [0.6, -0.3, 1.0]])
X = sources @ mixing.T

# %%
# One pass over the stream. The sources come out in any order, each on a scale of its own.

found = NonnegativeICA(3).fit_transform(X)
correlation = np.corrcoef(found.T, sources.T)[:3, 3:]
order = correlation.argmax(axis=0)
print("correlation with the true sources:", correlation.max(axis=0).round(3))

fig, axes = plt.subplots(3, 3, figsize=(9, 4.2), layout="constrained", sharex=True)
window = slice(11_000, 11_600)
for column, (title, signals) in zip(
    axes.T, (("detectors", X), ("found", found[:, order]), ("sources", sources)), strict=True
):
    column[0].set_title(title)
    for k, ax in enumerate(column):
        ax.plot(t[window], signals[window, k], color="0.3" if title == "detectors" else f"C{k}")
        ax.set_yticks([])
        ax.spines[["top", "right", "left"]].set_visible(False)
plt.show()
