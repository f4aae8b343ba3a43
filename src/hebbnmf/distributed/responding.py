"""Answering: transform and predict over Dask collections and files, lazily, frozen weights."""

import pickle
from importlib import import_module
from itertools import chain
from os import fspath
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from hebbnmf.distributed.shards import are_paths, checked_reading
from hebbnmf.estimators import OnlineSNMF
from hebbnmf.streams import Stream, open_stream


def transform(model: OnlineSNMF, data: Any, **reading: Any) -> Any:
    """Answer samples on a cluster with frozen weights, each on its own.

    Parameters
    ----------
    model : OnlineSNMF
        A fitted model. It enters the graph once, whatever the number of chunks.
    data : Dask array, Dask dataframe, or list of paths
        The samples.
    **reading
        For files: how they are read, as in `hebbnmf.distributed.fit`.

    Returns
    -------
    Dask array or dataframe
        The answers of `OnlineSNMF.transform`, not yet computed: an array for an array, a frame with
        the same index for a frame. For files, an array with a chunk for each; its number of rows
        is known where the format tells it (``.npy``, HDF5).

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
    return _map(model, data, _transform, checked_reading(data, reading))


def predict(model: OnlineSNMF, data: Any, **reading: Any) -> Any:
    """Name the unit that answers each sample most strongly, on a cluster.

    Parameters
    ----------
    model, data, **reading
        As in `transform`.

    Returns
    -------
    Dask array or series
        The labels of `OnlineSNMF.predict`, not yet computed; a series for a frame.
    """
    return _map(model, data, _predict, checked_reading(data, reading))


def _map(model: OnlineSNMF, data: Any, answer: Any, reading: dict[str, Any]) -> Any:
    check_is_fitted(model)
    try:
        delayed: Any = import_module("dask").delayed
        da: Any = import_module("dask.array")
        dd: Any = import_module("dask.dataframe")
    except ImportError as error:
        raise ImportError(
            f"answers on a cluster need {error.name}: install the extra by "
            "pip install 'hebbnmf[dask]'."
        ) from error
    if isinstance(data, dd.DataFrame):
        validate_data(model, data._meta, reset=False, skip_check_array=True)
        packed = _packed(model)
        meta = _answer_frame(data._meta[:0], packed, answer)
        return data.map_partitions(_answer_frame, delayed(packed), answer, meta=meta)
    # Columns are compared here, once: chunks are bare arrays.
    packed = _packed(model, named=False)
    meta = answer(np.empty((0, model.n_features_in_), model._network.dtype), packed)
    tail = meta.shape[1:]
    if isinstance(data, da.Array):
        if data.ndim != 2:
            raise ValueError(f"data have the shape {data.shape}: give rows of features.")
        validate_data(model, data, reset=False, skip_check_array=True)
        whole = data.rechunk({1: data.shape[1]})
        return whole.map_blocks(
            answer,
            packed=delayed(packed),
            dtype=meta.dtype,
            chunks=(whole.chunks[0], *((size,) for size in tail)),
            drop_axis=None if tail else 1,
            meta=meta,
        )
    if are_paths(data):
        once = delayed(packed)
        blocks = [
            da.from_delayed(
                delayed(_answer_file)(once, answer, fspath(path), reading),
                shape=(_checked_length(model, fspath(path), reading), *tail),
                meta=meta,
            )
            for path in data
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    raise TypeError(
        f"data of type {type(data).__name__} cannot be answered on a cluster: give a Dask array or "
        "dataframe, or a list of paths, at least one."
    )


def _packed(model: OnlineSNMF, *, named: bool = True) -> bytes:
    """Pickle the model without what answers do not need.

    Bytes: a model that was loaded by one task is never shared with another.
    """
    copy = pickle.loads(pickle.dumps(model))
    copy._running_cost = None
    copy.labels_ = np.empty(0, np.intp)
    if not named:
        copy.__dict__.pop("feature_names_in_", None)
    return pickle.dumps(copy.set_output(transform="default"))


# Chunks may have no rows, which a model refuses.
def _transform(X: Any, packed: bytes) -> Any:
    model = pickle.loads(packed)
    if not len(X):
        return np.empty((0, model.n_components_), model._network.dtype)
    return model.transform(X)


def _predict(X: Any, packed: bytes) -> Any:
    return pickle.loads(packed).predict(X) if len(X) else np.empty(0, np.intp)


def _answer_frame(part: Any, packed: bytes, answer: Any) -> Any:
    import pandas as pd

    values = answer(part, packed)
    if values.ndim == 1:
        return pd.Series(values, index=part.index, name="label")
    names = pickle.loads(packed).get_feature_names_out()
    return pd.DataFrame(values, index=part.index, columns=names)


def _open(path: str, reading: dict[str, Any]) -> Stream:
    stream = open_stream(path, **reading)
    stream.may_be_empty = True
    return stream


def _answer_file(packed: bytes, answer: Any, path: str, reading: dict[str, Any]) -> Any:
    with _open(path, reading) as stream:
        nothing = np.empty((0, stream.n_features))
        return np.concatenate([answer(chunk, packed) for chunk in chain([nothing], stream)])


def _checked_length(model: OnlineSNMF, path: str, reading: dict[str, Any]) -> float:
    """Return the number of rows, NaN where only reading would tell."""
    with _open(path, reading) as stream:
        stream.require(model.n_features_in_, getattr(model, "feature_names_in_", None))
        some_left_out = reading.get("on_bad_row") == "skip"
        return np.nan if some_left_out else getattr(stream._reader, "n_rows", np.nan)
