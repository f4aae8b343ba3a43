"""Answering: transform and predict over Dask collections and files, lazily, frozen weights."""

import pickle
from importlib import import_module
from os import PathLike, fspath
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hebbnmf.estimator import OnlineSNMF
from hebbnmf.streams import open_stream


def transform(model: OnlineSNMF, data: Any) -> Any:
    """Answer samples on a cluster with frozen weights, each on its own.

    Parameters
    ----------
    model : OnlineSNMF
        A fitted model. It enters the graph once, whatever the number of chunks.
    data : Dask array, Dask dataframe, or list of paths
        The samples.

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
    return _map(model, data, _transform, (model.n_components_,), model._network.dtype)


def predict(model: OnlineSNMF, data: Any) -> Any:
    """Name the unit that answers each sample most strongly, on a cluster.

    Parameters
    ----------
    model, data
        As in `transform`.

    Returns
    -------
    Dask array or series
        The labels of `OnlineSNMF.predict`, not yet computed; a series for a frame.
    """
    return _map(model, data, _predict, (), np.dtype(np.intp))


def _map(
    model: OnlineSNMF, data: Any, answer: Any, tail: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
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
    # Bytes: a model that was loaded by one task is never shared with another.
    packed = delayed(pickle.dumps(_plain(model)))
    meta = np.empty((0,) * (1 + len(tail)), dtype)
    if isinstance(data, da.Array):
        whole = data.rechunk({1: data.shape[1]})
        chunks = (whole.chunks[0], *((size,) for size in tail))
        drop = None if tail else 1
        return whole.map_blocks(
            answer, packed=packed, dtype=dtype, chunks=chunks, drop_axis=drop, meta=meta
        )
    if isinstance(data, dd.DataFrame):
        frame = data._meta[:0]
        shape = _frame(np.empty((0, *tail), dtype), frame, model)
        return data.map_partitions(_answer_frame, packed, answer, meta=shape)
    if isinstance(data, list | tuple) and all(isinstance(p, str | PathLike) for p in data):
        blocks = [
            da.from_delayed(
                delayed(_answer_file)(packed, answer, fspath(path)),
                shape=(_n_rows(fspath(path)), *tail),
                meta=meta,
            )
            for path in data
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)
    raise TypeError(
        f"data of type {type(data).__name__} cannot be answered on a cluster: give a Dask array or "
        "dataframe, or a list of paths."
    )


def _plain(model: OnlineSNMF) -> OnlineSNMF:
    """Copy the model without what answers do not need."""
    copy = pickle.loads(pickle.dumps(model))
    copy._running_cost = None
    copy.labels_ = np.empty(0, np.intp)
    return copy.set_output(transform="default")


def _transform(X: Any, packed: bytes) -> Any:
    return pickle.loads(packed).transform(X)


def _predict(X: Any, packed: bytes) -> Any:
    return pickle.loads(packed).predict(X)


def _answer_frame(part: Any, packed: bytes, answer: Any) -> Any:
    model = pickle.loads(packed)
    # Dask may try a function on no rows, which a model refuses.
    tail = (model.n_components_,) if answer is _transform else ()
    empty = np.empty((0, *tail), model._network.dtype if tail else np.intp)
    return _frame(answer(part, packed) if len(part) else empty, part, model)


def _frame(values: Any, like: Any, model: OnlineSNMF) -> Any:
    import pandas as pd

    if values.ndim == 1:
        return pd.Series(values, index=like.index, name="label")
    return pd.DataFrame(values, index=like.index, columns=model.get_feature_names_out())


def _answer_file(packed: bytes, answer: Any, path: str) -> Any:
    with open_stream(path) as stream:
        return np.concatenate([answer(chunk, packed) for chunk in stream])


def _n_rows(path: str) -> float:
    with open_stream(path) as stream:
        return getattr(stream._reader, "n_rows", np.nan)
