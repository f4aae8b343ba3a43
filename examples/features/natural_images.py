"""
Natural images
==============

Patches of two photographs, whitened as by the retina: units become Gabor filters, like those of
simple cells, and fire sparsely. A short run of the paper's Fig. 4, which ``hebbnmf
reproduce fig4`` makes in full.
"""

import matplotlib.pyplot as plt
import numpy as np

from hebbnmf import OnlineSNMF
from hebbnmf.datasets import extract_patches, load_natural_images
from hebbnmf.plots import plot_activity_density, plot_filters
from hebbnmf.preprocessing import PatchNormalizer, ZCAWhitener, image_filters

patches = extract_patches(load_natural_images(), 20_000, patch_size=12, random_state=0)
normalised = PatchNormalizer().fit_transform(patches)
whitener = ZCAWhitener().fit(normalised)
X = whitener.transform(normalised)

# %%
# Each patch is presented ten times, in random order. `memory` lets the first responses fade, which
# came from a network that knew nothing.

net = OnlineSNMF(100, memory=0.03, n_epochs=10, shuffle=True, random_state=0).fit(X)
plot_filters(image_filters(net.components_, whitener))

# %%
# Most units are silent most of the time.

Y = net.transform(X)
plot_activity_density(Y)
print(f"{np.count_nonzero(Y, axis=1).mean():.0f} of {Y.shape[1]} units respond to a patch")
plt.show()
