"""Executors: run a round on local workers or a Dask cluster; the only module that knows which."""

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np

Result = TypeVar("Result")
# Times that a round is sent out. Dask itself reruns the tasks of a worker that is lost; data that
# were sent from here, with their only copy on that worker, must be sent again.
_ATTEMPTS = 4


class Executor(Protocol):
    """What training asks of an executor: those of `concurrent.futures`, and Dask's Client."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function on a worker; return its future."""


def run(
    executor: Executor,
    function: Callable[..., Result],
    shared: bytes,
    arguments: Sequence[tuple[Any, ...]],
) -> list[Result]:
    """Call ``function(shared, part, ...)`` for all parts of a round, and gather the results.

    ``shared`` reaches every worker once. Parts may be lazy arrays, which a cluster computes where
    they lie. Results come in the order of the arguments.
    """
    lost: list[type[Exception]] = [CancelledError]
    if _is_cluster(executor):
        lost.append(import_module("distributed.comm").CommClosedError)
    for _ in range(_ATTEMPTS - 1):
        with suppress(*lost):
            return _run_once(executor, function, shared, arguments)
    return _run_once(executor, function, shared, arguments)


def compute(executor: Any, part: Any) -> Any:
    """Return the rows of a part on this machine, computed by the executor if they are lazy."""
    if not hasattr(part, "compute"):
        return part
    return executor.compute(part).result() if _is_cluster(executor) else part.compute()


def check_executor(executor: Any) -> None:
    """Refuse what cannot run functions."""
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor={executor!r} cannot run rounds: give one of concurrent.futures, such as "
            "ThreadPoolExecutor(2), or a distributed.Client."
        )


def _is_cluster(executor: Any) -> bool:
    return hasattr(executor, "scatter")


def _run_once(executor: Any, function: Any, shared: bytes, arguments: Any) -> list[Any]:
    futures: list[Any] = []
    try:
        if _is_cluster(executor):
            _start_on_cluster(executor, function, shared, arguments, futures)
        else:
            for part, *rest in arguments:
                futures.append(executor.submit(function, shared, compute(executor, part), *rest))
        return [future.result() for future in futures]
    except BrokenExecutor as error:
        error.add_note("A pool does not replace a dead worker: call resume with a new pool.")
        raise
    finally:
        for future in futures:  # after a failure, cancel the rest of the round
            future.cancel()


def _start_on_cluster(
    client: Any, function: Any, shared: bytes, arguments: Any, futures: list[Any]
) -> None:
    delayed: Any = import_module("dask").delayed
    everywhere = client.scatter(shared, broadcast=True, hash=False)
    for part, *rest in arguments:
        if hasattr(part, "compute"):
            # One graph for rows and learning: the scheduler is asked once.
            task = delayed(function, pure=False)(everywhere, part, *rest)
            futures.append(client.compute(task))
        else:
            held = client.scatter(part, hash=False) if isinstance(part, np.ndarray) else part
            futures.append(client.submit(function, everywhere, held, *rest, pure=False))
