"""Responding on a cluster: transform and predict over Dask collections and files, lazily."""

import copy
import pickle
from importlib import import_module
from itertools import chain
from os import fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf.distributed.shards import Data, are_paths, file_options
from hebbnmf.distributed.steps import divided
from hebbnmf.estimators.online import OnlineEstimator
from hebbnmf.pipeline import StreamPipeline
from hebbnmf.preprocessing import transform_rows
from hebbnmf.streams import ReadOptions, open_stream

__all__ = ["predict", "transform"]

Lazy = Any  # a Dask array, frame or series: Dask carries no types
Responding = OnlineEstimator | StreamPipeline


def transform(model: Responding, data: Data, **reading: Any) -> Lazy:
    """Respond to samples on a cluster with frozen weights, each on its own.

    Parameters
    ----------
    model : OnlineSNMF, OnlinePCA, OnlineDictionary, NonnegativeICA or StreamPipeline
        A fitted model, or a fitted pipeline that ends in one. It enters the graph once, whatever
        the number of chunks.
    data : Dask array, Dask dataframe, or list of paths
        The samples.
    **reading
        For files: how they are read, as in `hebbnmf.distributed.fit`.

    Returns
    -------
    Dask array or dataframe
        What `transform` of the model returns, not yet computed: an array for an array, a frame
        with the same index for a frame. For files, an array with a chunk for each; its number of
        rows is known where the format tells it (``.npy``, HDF5).

    Examples
    --------
    >>> import dask.array as da
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.distributed import predict, transform
    >>> net = OnlineSNMF(2, rank_penalty=0.5).fit([[2.0, 0.0], [0.0, 1.0]])
    >>> X = da.from_array([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0]], chunks=(2, 2))
    >>> Y = transform(net, X)
    >>> Y.shape, Y.dtype.name
    ((3, 2), 'float64')
    >>> predict(net, X).compute().tolist()
    [0, 1, -1]
    """
    return _map(model, data, file_options(data, reading), labels=False)


def predict(model: Responding, data: Data, **reading: Any) -> Lazy:
    """Name the unit that responds to each sample most strongly, on a cluster.

    Parameters
    ----------
    model, data, **reading
        As in `transform`.

    Returns
    -------
    Dask array or series
        The labels of `OnlineSNMF.predict`, not yet computed; a series for a frame.
    """
    return _map(model, data, file_options(data, reading), labels=True)


def _map(model: Responding, data: Data, options: ReadOptions, *, labels: bool) -> Lazy:
    """Let a function respond to every chunk; columns are compared here, once."""
    check_is_fitted(model)
    try:
        delayed: Any = import_module("dask").delayed
        da: Any = import_module("dask.array")
        dd: Any = import_module("dask.dataframe")
    except ImportError as error:
        raise ImportError(
            f"responses on a cluster need {error.name}: install the extra by "
            "pip install 'hebbnmf[dask]'."
        ) from error
    _, network = divided(model)
    if not isinstance(network, OnlineEstimator):
        raise TypeError(
            f"model={model!r} cannot respond on a cluster: give a network of this package, or a "
            "StreamPipeline that ends in one."
        )
    if labels and not hasattr(network, "predict"):
        raise TypeError(f"{type(network).__name__} names no clusters: use transform.")
    packed = _packed(model)
    meta = _respond(np.empty((0, 0)), packed, labels)
    if isinstance(data, dd.DataFrame):
        names = None if labels else network.get_feature_names_out()
        empty = import_module("pandas").DataFrame(columns=data.columns)
        validate_data(_first(model), empty, reset=False, skip_check_array=True)
        return data.map_partitions(
            _respond_frame, delayed(packed), labels, names, meta=_frame(meta, empty, names)
        )
    if isinstance(data, da.Array):
        return _map_array(model, data, delayed(packed), meta)
    if are_paths(data):
        once = delayed(packed)
        blocks = [
            da.from_delayed(
                delayed(_respond_file)(once, labels, fspath(path), options),
                shape=(_checked_length(model, fspath(path), options), *meta.shape[1:]),
                meta=meta,
            )
            for path in data
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    raise TypeError(
        f"data of type {type(data).__name__} cannot be mapped on a cluster: give a Dask array or "
        "dataframe, or a list of paths, at least one."
    )


def _map_array(model: Responding, data: Data, packed: Lazy, meta: NDArray[Any]) -> Lazy:
    if data.ndim != 2:
        raise ValueError(f"data have the shape {data.shape}: give rows of features.")
    validate_data(_first(model), data, reset=False, skip_check_array=True)
    whole = data.rechunk({1: data.shape[1]})
    tail = meta.shape[1:]
    return whole.map_blocks(
        _respond,
        packed=packed,
        labels=not tail,
        dtype=meta.dtype,
        chunks=(whole.chunks[0], *((size,) for size in tail)),
        drop_axis=None if tail else 1,
        meta=meta,
    )


def _packed(model: Responding) -> bytes:
    """Pickle the model without its labels and its cost, which responses do not need.

    Bytes: a model that was loaded by one task is never shared with another. It responds in one
    thread, since the cluster already runs one task per thread.
    """
    head, network = divided(model)
    frozen = copy.copy(network)
    frozen.learner_ = copy.copy(network.learner_)
    frozen.learner_.cost = None
    frozen.n_jobs = 1
    frozen.__dict__.pop("labels_", None)
    return pickle.dumps((_real_steps(head), frozen))


def _real_steps(head: StreamPipeline) -> list[Any]:
    return [step for _, step in head.steps if step not in (None, "passthrough")]


def _first(model: Responding) -> Any:
    """Return what takes the data first: a step, or the network."""
    head, network = divided(model)
    return next(iter(_real_steps(head)), network)


def _respond(X: Any, packed: bytes, labels: bool) -> NDArray[Any]:
    """Return responses or labels."""
    network: OnlineEstimator
    steps, network = pickle.loads(packed)
    # Steps of scikit-learn refuse a chunk without rows.
    passed = transform_rows(steps, X) if len(X) else np.empty((0, network.n_features_in_))
    rows = network.learner_.check_rows(passed)
    responses = network.respond(rows, keep=not labels)
    network.learner_.warn_unconverged(responses.n_unconverged, len(rows))
    return responses.labels if labels else responses.Y


def _respond_frame(part: Any, packed: bytes, labels: bool, names: Any) -> Any:
    return _frame(_respond(part, packed, labels), part, names)


def _frame(values: NDArray[Any], part: Any, names: Any) -> Any:
    """Return responses or labels as a frame or series of pandas, with the index of a part."""
    pandas = import_module("pandas")
    if values.ndim == 1:
        return pandas.Series(values, index=part.index, name="label")
    return pandas.DataFrame(values, index=part.index, columns=names)


def _respond_file(packed: bytes, labels: bool, path: str, options: ReadOptions) -> NDArray[Any]:
    with open_stream(path, allow_empty=True, options=options) as stream:
        nothing = np.empty((0, stream.n_features))
        chunks = chain([nothing], stream)
        return np.concatenate([_respond(chunk, packed, labels) for chunk in chunks])


def _checked_length(model: Responding, path: str, options: ReadOptions) -> float:
    """Return the number of rows that a file will give, NaN where only reading would tell."""
    with open_stream(path, allow_empty=True, options=options) as stream:
        first = _first(model)
        stream.require(first.n_features_in_, getattr(first, "feature_names_in_", None))
        some_left_out = options.on_bad_row == "skip"
        return np.nan if some_left_out or stream.n_rows is None else stream.n_rows
