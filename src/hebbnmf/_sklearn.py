"""The only place that imports private names of scikit-learn.

`TransformerMixin` wraps what ``transform`` and ``fit_transform`` return in the container that
``set_output`` asks for. It offers nothing public for a further method that transforms.
"""

from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._set_output import _wrap_data_with_container


def in_chosen_container(estimator: BaseEstimator, Y: NDArray[Any], X: ArrayLike) -> Any:
    """Return Y in the container set for ``transform``, with the index of X where X is a frame."""
    return _wrap_data_with_container("transform", Y, X, estimator)
