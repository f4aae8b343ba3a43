"""Similarities less an offset, ``x'x - alpha``: units tile a manifold with localised fields.

With a further feature ``sqrt(alpha)`` that enters every product with a minus, ``x'x - alpha`` is
the product of two samples [1]_. So nothing changes but that the last feature is read with the
opposite sign, in the products of weights and samples and in those of samples. It is written as it
is: by Eq. (8) its weight b of a unit is ``sqrt(alpha)`` times the sum of the unit's learning steps,
and ``sqrt(alpha) b`` a threshold that the unit has learned.

.. [1] A. Sengupta, M. Tepper, C. Pehlevan, A. Genkin and D. B. Chklovskii, "Manifold-Tiling
   Localized Receptive Fields are Optimal in Similarity-Preserving Neural Networks", NeurIPS, 2018.
"""

import numpy as np
from numpy.typing import NDArray

from hebbnmf.engine._jit import jit, jit_inline
from hebbnmf.engine.plasticity import discount
from hebbnmf.engine.rows import inner
from hebbnmf.engine.state import FloatArray, Rules, Scalar


def with_offset(
    X: FloatArray, n_samples: int, energy: NDArray[np.float64], rules: Rules, *, learning: bool
) -> FloatArray:
    """Return samples with the further feature ``sqrt(alpha)``.

    Where alpha is a share of the mean of ``|x|^2``, that is the mean over the stream up to each
    sample while learning, and the last one after that.
    """
    offsets = np.full(len(X), rules.offset)
    if rules.offset_is_share:
        if learning:
            squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
            offsets *= _running_means(squares, n_samples, energy, rules.memory)
        else:
            offsets *= energy[0] / max(energy[1], 1.0)
    return np.column_stack([X, np.sqrt(offsets).astype(X.dtype)])


@jit
def _running_means(
    squares: FloatArray, n_samples: int, energy: FloatArray, memory: float
) -> FloatArray:
    means = np.empty_like(squares)
    total, count = energy[0], energy[1]
    for t in range(len(squares)):
        gamma = discount(n_samples + t, memory)
        total, count = gamma * total + squares[t], gamma * count + 1
        means[t] = total / count
    return means


@jit
def read_opposite(A: FloatArray, B: FloatArray, products: FloatArray) -> None:
    """Correct ``products = A B'`` for a last column that is read with the opposite sign."""
    for i in range(len(A)):
        for j in range(len(B)):
            products[i, j] -= 2 * A[i, -1] * B[j, -1]


@jit_inline
def read(a: FloatArray, x: FloatArray, rules: Rules) -> Scalar:
    """Return ``a @ x``, the last feature with the opposite sign if it is that of an offset."""
    product = inner(a, x)
    if rules.offset > 0:
        product -= 2 * a[-1] * x[-1]
    return product
