"""The data that every benchmark runs on, made outside the timed part."""

from functools import cache

import numpy as np

from hebbnmf import Network, Settings
from hebbnmf.datasets import (
    extract_patches,
    load_natural_images,
    make_sparse_sources,
    make_three_gaussians,
)
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener

# The schedule of the paper's own run.
SECTION_III_C = {"initial_activity": 1000.0, "activity_gain": 0.01}
SCHEDULES = {"plain": {}, "III.C": SECTION_III_C}


@cache
def raw_patches(n_samples, size=16, seed=0):
    images = load_natural_images()
    patches = extract_patches(images, n_samples, size, dtype=float, random_state=seed)
    return PatchNormalizer().fit_transform(patches)


@cache
def whitened_patches(n_samples, size=16):
    return ZCAWhitener().fit_transform(raw_patches(n_samples, size))


@cache
def laplace(n_samples, n):
    return make_sparse_sources(n_samples, n, random_state=0)


@cache
def three_gaussians(n_samples):
    return make_three_gaussians(n_samples, random_state=0)[0]


def grown_network(X, m, rank_penalty, *, dtype=np.float64, tol=1e-4, n_passes=2, **settings):
    """Return a network that has recruited its units and learned for a while."""
    settings = {"memory": None, **settings}  # the paper's, unless the benchmark says otherwise
    rules = Settings(m, rank_penalty=rank_penalty, tol=tol, **settings).rules(dtype)
    net = Network(X.shape[1], rules, dtype)
    for _ in range(n_passes):
        net.learn(np.ascontiguousarray(X, dtype))
    return net
