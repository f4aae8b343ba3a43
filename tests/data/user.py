"""A user's script: `make dist` checks its types, and runs it, against the installed wheel."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from hebbnmf import OnlineSNMF, SymNMF, snmf_cost
from hebbnmf.datasets import make_three_gaussians


def cluster(X: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the cluster of each sample."""
    net = OnlineSNMF(n_components=3, memory=None).fit(X)
    assert_type(net, OnlineSNMF)
    Y = net.transform(X)
    assert_type(Y, NDArray[np.floating[Any]])
    assert_type(net.n_components_, int)
    cost: float = snmf_cost(X, Y)
    offline = snmf_cost(X, SymNMF(3).fit_transform(X))
    print(f"{net.n_components_} units, cost {cost:.1f}, offline {offline:.1f}")
    return net.predict(X)


if __name__ == "__main__":
    samples, _ = make_three_gaussians(random_state=0)
    print(np.bincount(cluster(samples) + 1))
