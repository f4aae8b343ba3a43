"""The records that kernels pass around, and the types of their arrays.

A kernel takes few records instead of many arrays; numba compiles a NamedTuple of arrays as if each
had been passed by itself. This module does not import numba, since `hebbnmf.streams` needs BLOCK.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

FloatArray = NDArray[np.floating[Any]]
IndexArray = NDArray[np.unsignedinteger[Any]]
LabelArray = NDArray[np.intp]
Scalar = np.floating[Any]

# Samples a block. Odd numbers of cache lines a row: a column of ``V X'``, which the response
# reads, then spreads over the whole cache instead of evicting itself.
BLOCK = 72

# |x|^2 of a sample at most: Eq. (5) and (6) live on the scale of |x|^4, taken in float64.
LARGEST_NORM2 = {
    np.dtype(np.float32): float(np.finfo(np.float32).max),
    np.dtype(np.float64): float(np.sqrt(np.finfo(np.float64).max)),
}


class Rules(NamedTuple):
    """Settings of a network, as the kernels take them."""

    max_units: int  # m
    threshold: float  # sqrt(lambda), or the constant c of a relative one
    relative: bool  # the threshold is c times a mean of |x|^2 of the sample and of the stream
    floor: float  # share of |x|^2 that is never a reason to recruit
    initial_activity: float  # Yhat of a new unit, or 0 for y_new^2
    gain: float  # share of y_i^2 added to Yhat_i
    memory: float  # 0 for all samples; below 1 a share of the stream, else a number of samples
    recycle: bool  # a full network replaces weak units
    quartic: bool  # Eq. (6) instead of Eq. (7)
    alpha: float  # threshold of a unit
    signed: bool  # units respond to negative inputs too
    offset: float  # alpha of similarities x'x - alpha, or a share of the mean of |x|^2
    offset_is_share: bool
    tol: float  # of a response
    tight_tol: float  # of one that takes direct solves
    rounding: float  # of a net input, as a share of the sums it comes from
    max_sweeps: int


class Weights(NamedTuple):
    """What the network has learned; the first K units are recruited, the rest zeros."""

    V: FloatArray  # (m, n) feedforward weights, W_i = s_i V_i
    N_T: FloatArray  # (m, >= m) lateral weights, M_ij = s_i N_T[j, i]
    s: NDArray[np.float64]  # (m,) row scales
    Yhat: NDArray[np.float64]  # (m,) cumulative activity
    born: NDArray[np.int64]  # (m,) number of samples before the one that recruited the unit
    energy: NDArray[np.float64]  # (2,) sums of |x|^2 and of 1 over the samples, discounted alike


class Block(NamedTuple):
    """A block of B samples on its way through the network."""

    X: FloatArray  # (B, n) the samples
    P: FloatArray  # (m, B) V X', up to date for the samples still to come only
    G: FloatArray  # (B, B) X X'
    C: FloatArray  # (m, >= B) row i: the steps of unit i still to be added to V_i, in order of time
    when: IndexArray  # (m, >= B) the sample of each step
    n_steps: IndexArray  # (m,) number of steps of each unit


class Workspace(NamedTuple):
    """Scratch arrays of a response, and its result."""

    s: FloatArray  # (m,) row scales, in the type of the weights
    row_sums: FloatArray  # (m,) sum of each row of N
    p: FloatArray  # (m,) V x
    g: FloatArray  # (m,) V x - N y: what is left of it once the units inhibit each other
    u: FloatArray  # (m,) mean lateral weight of each unit
    active: IndexArray  # (m,) result: the active units
    y: FloatArray  # (m,) result: their activities
    c: FloatArray  # (m,) their learning steps
    members: IndexArray  # (m + 1,) the working set
    outside: FloatArray  # (m,) 0 for its members, 1 for all other units
    scale: FloatArray  # (m,) row scales of the members
    h: FloatArray  # (m,) net inputs of the members
    z: FloatArray  # (m,) activities of the members
    move: FloatArray  # (m,) how far these fell in the last step
    lateral: FloatArray  # (m, > m) row a: how member a inhibits each member
    system: FloatArray  # (m + 3, > m) the linear system of a direct solve, up to a multiple of four
    order: IndexArray  # (m + 3,) 0, 1, 2, ...


def row_length(m: int, itemsize: int) -> int:
    """Return the least length of at least m that is an odd number of cache lines.

    A column of a matrix with such rows spreads over the whole cache instead of evicting itself.
    """
    line = 64 // itemsize
    return (-(-m // line) | 1) * line


def empty_weights(m: int, n: int, dtype: DTypeLike) -> Weights:
    """Make room for m units of n features."""
    N_T = np.zeros((m, row_length(m, np.dtype(dtype).itemsize)), dtype)
    V, s, Yhat = np.zeros((m, n), dtype), np.zeros(m), np.zeros(m)
    return Weights(V, N_T, s, Yhat, np.zeros(m, np.int64), np.zeros(2))
