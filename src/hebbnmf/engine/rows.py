"""Linear combinations of the rows of a matrix: the inner loops of all kernels."""

import numpy as np

from hebbnmf.engine._jit import jit_inline, jit_inner
from hebbnmf.engine.state import FloatArray, IndexArray, Scalar


@jit_inline
def add_row(c: Scalar, row: FloatArray, first: int, stop: int, out: FloatArray) -> None:
    """out[first:stop] += c * row[first:stop]."""
    for j in range(np.uint64(first), np.uint64(stop)):
        out[j] += c * row[j]


@jit_inner
def add_rows(
    n_rows: int,
    rows: IndexArray,
    c: FloatArray,
    A: FloatArray,
    first: int,
    stop: int,
    out: FloatArray,
) -> None:
    """out[first:stop] += c[:n_rows] @ A[rows[:n_rows], first:stop].

    Eight rows at a time, then four, so that ``out`` is read and written once for all of them.
    """
    eights, fours = n_rows - n_rows % 8, n_rows - n_rows % 4
    for a in range(0, eights, 8):
        i_0, i_1, i_2, i_3 = rows[a], rows[a + 1], rows[a + 2], rows[a + 3]
        i_4, i_5, i_6, i_7 = rows[a + 4], rows[a + 5], rows[a + 6], rows[a + 7]
        c_0, c_1, c_2, c_3 = c[a], c[a + 1], c[a + 2], c[a + 3]
        c_4, c_5, c_6, c_7 = c[a + 4], c[a + 5], c[a + 6], c[a + 7]
        for j in range(np.uint64(first), np.uint64(stop)):
            out[j] += (
                (c_0 * A[i_0, j] + c_1 * A[i_1, j]) + (c_2 * A[i_2, j] + c_3 * A[i_3, j])
            ) + ((c_4 * A[i_4, j] + c_5 * A[i_5, j]) + (c_6 * A[i_6, j] + c_7 * A[i_7, j]))
    for a in range(eights, fours, 4):
        i_0, i_1, i_2, i_3 = rows[a], rows[a + 1], rows[a + 2], rows[a + 3]
        c_0, c_1, c_2, c_3 = c[a], c[a + 1], c[a + 2], c[a + 3]
        for j in range(np.uint64(first), np.uint64(stop)):
            out[j] += (c_0 * A[i_0, j] + c_1 * A[i_1, j]) + (c_2 * A[i_2, j] + c_3 * A[i_3, j])
    for a in range(fours, n_rows):
        add_row(c[a], A[rows[a]], first, stop, out)


@jit_inner
def scale_row(c: float, row: FloatArray, size: int) -> None:
    """row[:size] *= c, without the temporary array that numba would allocate."""
    for j in range(size):
        row[j] *= c


@jit_inline
def inner(a: FloatArray, b: FloatArray) -> Scalar:
    """Return ``a @ b``."""
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total
