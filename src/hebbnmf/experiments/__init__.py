"""The paper's figures, one module each: what `hebbnmf reproduce` runs.

Each module has a function ``run(quick) -> Report``, which measures and draws.
"""

FIGURES = {
    "fig3": "clustering three Gaussians, online against offline",
    "fig4": "Gabor filters and sparse activity on natural images",
    "fig5": "sparse directions and rotations of Laplace data",
}
