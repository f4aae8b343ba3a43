"""The demo: patches of natural images, on which units become edge detectors."""

import numpy as np

from hebbnmf.datasets import extract_patches, load_natural_images
from hebbnmf.engine.state import FloatArray
from hebbnmf.persistence.steps import Step
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener

__all__ = ["SHAPE", "natural_patches"]

SHAPE = (16, 16)
_N_PATCHES = 50_000
# Patches that the whitening is fitted to.
_N_WHITENED = 20_000


def natural_patches(seed: int = 0) -> tuple[FloatArray, list[Step]]:
    """Cut patches from the photographs of scikit-learn, and fit their preprocessing."""
    patches = extract_patches(load_natural_images(), _N_PATCHES, SHAPE[0], random_state=seed)
    normalizer = PatchNormalizer().fit(patches[:1])
    # Stronger smoothing than that of the paper: filters without noise, ten times sooner.
    whitener = ZCAWhitener(eps=0.3).fit(normalizer.transform(patches[:_N_WHITENED]))
    return patches.astype(np.float32, copy=False), [normalizer, whitener]
