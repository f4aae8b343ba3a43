"""How well the rows of W align with the sparse directions of the data (Fig. 5)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from hebbnmf.engine.state import FloatArray

__all__ = ["DirectionAlignment", "direction_alignment"]


class DirectionAlignment(NamedTuple):
    """What `direction_alignment` measures."""

    direction_cosines: FloatArray  # of each sparse direction with the nearest component
    component_cosines: FloatArray  # of each component with the nearest sparse direction
    found: float  # share of the directions whose cosine reaches the threshold


def direction_alignment(
    components: ArrayLike,
    directions: ArrayLike,
    *,
    both_signs: bool = True,
    threshold: float = 0.95,
) -> DirectionAlignment:
    """Compare learned weights with the sparse directions of the data (Fig. 5).

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Feedforward weights W; their lengths do not matter.
    directions : array-like of shape (n_directions, n_features)
        Sparse directions: ``A.T`` for a mixing matrix A.
    both_signs : bool, default=True
        Whether to look for their negatives too, which come last in the result: the 2n directions
        of section III.C.
    threshold : float, default=0.95
        Least cosine with some component at which a direction is found.

    Returns
    -------
    DirectionAlignment
        Without any component the cosines of the directions are -1.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf.metrics import direction_alignment
    >>> alignment = direction_alignment([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]], np.eye(2))
    >>> alignment.direction_cosines, alignment.found
    (array([1., 1., 1., 0.]), 0.75)
    """
    W = check_array(components, dtype=np.float64, ensure_min_samples=0)
    wanted = check_array(directions, dtype=np.float64)
    if W.shape[1] != wanted.shape[1]:
        raise ValueError(
            f"components have {W.shape[1]} features and directions {wanted.shape[1]}, but must "
            "have the same number: give one direction a row."
        )
    if both_signs:
        wanted = np.vstack([wanted, -wanted])
    cosines = _unit_rows(wanted) @ _unit_rows(W).T
    nearest = cosines.max(axis=1, initial=-1.0)
    return DirectionAlignment(nearest, cosines.max(axis=0), float(np.mean(nearest >= threshold)))


def _unit_rows(rows: FloatArray) -> FloatArray:
    # A zero row stays zero: its cosine with every direction is 0.
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, np.finfo(np.float64).tiny))
