"""
How many units?
===============

Two ways to find out. Where clusters are well separated, recruitment finds their number by itself.
In any case, held-out data show how many units are worth having.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import make_changing_clusters

n_clusters = 6
X, _ = make_changing_clusters(3000, n_clusters, 20, change="recur", period=3000, random_state=0)

# %%
# `score` is the explained similarity of held-out samples, so `GridSearchCV` needs no other score.

numbers = list(range(1, 13))
search = GridSearchCV(OnlineSNMF(rank_penalty=0), {"n_components": numbers}, cv=3).fit(X)
mean, std = (search.cv_results_[f"{what}_test_score"] for what in ("mean", "std"))

# %%
# With a price for units, an upper bound is enough, whatever it is.

recruited = [OnlineSNMF(n_components=m).fit(X).n_components_ for m in numbers]

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.errorbar(numbers, mean, std, fmt="o-", capsize=3)
left.set(xlabel="n_components", ylabel="explained similarity, held out", ylim=(0, 1))
right.plot(numbers, recruited, "s-", color="C1")
right.plot(numbers, numbers, ":", color="0.5")
right.set(xlabel="n_components", ylabel="units recruited", ylim=(0, 13))
for ax in (left, right):
    ax.axvline(n_clusters, color="k", linestyle="--", linewidth=1)
plt.show()

# %%
# The score grows up to the true number (dashed) and no further; recruitment stops there.

print("knee of the score at", numbers[np.flatnonzero(np.diff(mean) < 0.02)[0]])
