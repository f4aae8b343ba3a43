"""
A photograph in sixteen numbers a tile
======================================

`OnlinePCA` is the network with linear units: it finds the principal subspace of a stream. Here it
compresses a photograph, tile by tile, after one pass over the tiles of another.
"""

import matplotlib.pyplot as plt
import numpy as np

from hebbnmf import OnlinePCA
from hebbnmf.datasets import extract_patches, load_natural_images

first, second = load_natural_images()
size = 16
pca = OnlinePCA(n_components=64)
pca.partial_fit(extract_patches([first], 20_000, size, random_state=0))

# %%
# The principal axes of natural images look like the waves of JPEG.

fig, axes = plt.subplots(2, 8, figsize=(7, 2), layout="constrained")
for ax, axis in zip(axes.flat, pca.components_, strict=False):
    ax.imshow(axis.reshape(size, size), cmap="gray")
    ax.set_axis_off()

# %%
# The other photograph, cut into tiles, by its first 4, 16 and 64 coordinates of 256.

height, width = (side // size * size for side in second.shape)
cropped = second[:height, :width]
tiles = cropped.reshape(height // size, size, width // size, size).swapaxes(1, 2)
X = tiles.reshape(-1, size**2)
Y = pca.transform(X)

fig, axes = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained")
for ax, k in zip(axes.flat, (256, 64, 16, 4), strict=True):
    shown = X if k == 256 else Y[:, :k] @ pca.components_[:k] + pca.mean_
    error = np.sqrt(np.mean((shown - X) ** 2))
    picture = shown.reshape(height // size, width // size, size, size).swapaxes(1, 2)
    ax.imshow(picture.reshape(height, width), cmap="gray", vmin=0, vmax=255)
    ax.set_title("original" if k == 256 else f"{k} of 256: error {error:.0f} of 255 greys")
    ax.set_axis_off()
plt.show()

# sphinx_gallery_thumbnail_number = 2
