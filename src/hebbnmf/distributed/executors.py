"""Executors: run a round on local workers or a Dask cluster; the only module that knows which."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
# Times that a round is sent out.
_ATTEMPTS = 4
# Seconds that a cluster may be without a worker, or without an answer, before that is an error; and
# seconds between two looks at it.
_PATIENCE, _POLL = 300.0, 1.0
# Seconds in which what a worker learned must have come from it, once it is known to be there.
_TRANSFER = 600.0


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

    Parts may be lazy arrays, which a cluster computes where they lie. Results come in the order of
    the arguments. A round that was lost is sent out again.
    """
    if not _is_cluster(executor):
        return _attempted(lambda: _run_on_pool(executor, function, shared, arguments))
    return _attempted(lambda: _run_on_cluster(executor, function, shared, arguments))


def compute(executor: Any, part: Any) -> Any:
    """Return the rows of a part on this machine, computed by the executor if they are lazy."""
    if not hasattr(part, "compute"):
        return part
    if not _is_cluster(executor):
        return part.compute()
    return _attempted(lambda: _results(executor, [executor.compute(part)])[0])


def check_executor(executor: Any) -> None:
    """Refuse what cannot run functions."""
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor={executor!r} cannot run rounds: give one of concurrent.futures, such as "
            "ThreadPoolExecutor(2), or a distributed.Client."
        )


def _is_cluster(executor: Any) -> bool:
    return hasattr(executor, "scatter")


def _attempted(attempt: Callable[[], Result]) -> Result:
    """Try several times, after losses that are not the fault of what was tried."""
    lost: tuple[type[Exception], ...] = (CancelledError,)
    if "distributed" in sys.modules:
        distributed = import_module("distributed")
        lost += (distributed.comm.CommClosedError, distributed.KilledWorker, TimeoutError)
    for _ in range(_ATTEMPTS - 1):
        with suppress(*lost):
            return attempt()
    return attempt()


def _run_on_pool(executor: Executor, function: Any, shared: bytes, arguments: Any) -> list[Any]:
    futures: list[Any] = []
    try:
        for part, *rest in arguments:
            futures.append(executor.submit(function, shared, compute(executor, part), *rest))
        return [future.result() for future in futures]
    except BrokenExecutor as error:
        error.add_note("A pool does not replace a dead worker: call resume with a new pool.")
        raise
    finally:
        for future in futures:  # after a failure, cancel the rest of the round
            future.cancel()


def _run_on_cluster(client: Any, function: Any, shared: bytes, arguments: Any) -> list[Any]:
    """Run a round as one graph, which holds all that is sent from here.

    So the scheduler itself runs again whatever was lost with a worker. Scattered data would be on
    that worker alone, and `scatter` waits without end for a worker that dies meanwhile.
    """
    dask: Any = import_module("dask")
    delayed = dask.delayed
    everywhere = delayed(shared)
    tasks = [delayed(function, pure=False)(everywhere, part, *rest) for part, *rest in arguments]
    # The weights are as large as they are.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        return _results(client, client.compute(tasks))


def _results(client: Any, futures: list[Any]) -> list[Any]:
    """Return the results of futures, or raise an error if the cluster has no worker for them."""
    try:
        _wait(client, futures)
        return [future.result(timeout=_TRANSFER) for future in futures]
    finally:
        for future in futures:  # what nobody waits for is not run; this waits for no answer
            future.release()


def _wait(client: Any, futures: list[Any]) -> None:
    """Wait for futures for as long as the cluster has workers."""
    wait: Any = import_module("distributed").wait
    deadline = monotonic() + _PATIENCE
    while True:
        with suppress(TimeoutError), client.as_current():
            wait(futures, timeout=_POLL)
            return
        if _has_workers(client):
            deadline = monotonic() + _PATIENCE
        elif monotonic() > deadline:
            raise RuntimeError(
                f"the cluster has had no worker for {_PATIENCE:g} seconds: start some, and call "
                "resume if there is a checkpoint."
            )


def _has_workers(client: Any) -> bool:
    with suppress(OSError, TimeoutError):
        return bool(client.sync(client.scheduler.ncores, callback_timeout=_PATIENCE / 10))
    return False
