"""The paper's figures and those of the family, one module each: what `hebbnmf reproduce` runs.

Each module has a function ``run(quick) -> Report``, which measures and draws.
"""

FIGURES = {
    "fig3": "clustering three Gaussians, online against offline",
    "fig4": "Gabor filters and sparse activity on natural images",
    "fig5": "sparse directions and rotations of Laplace data",
    "family": "principal subspace, sparse dictionary, non-negative sources, tiling: one engine",
    "tiling": "localised fields on a ring and on a sphere, by an offset of the similarities",
}
