"""The only place that sets the number of BLAS threads."""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from threading import Lock

from threadpoolctl import ThreadpoolController


class _OneBlasThread:
    """Keep BLAS to one thread in a with block, also where several threads enter it.

    Next to another busy process a second BLAS thread makes learning three times slower, and alone
    it gains nothing. The number of threads also decides the last bits of a product, and belongs to
    the whole process: the first to enter sets it, the last to leave restores it.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset the lock and the count of threads inside."""
        self.lock = Lock()
        self._n_inside = 0

    def __enter__(self) -> None:
        with self.lock:
            if self._n_inside == 0:
                _free_control()
                self._limit = _blas().limit(limits=1)
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                _free_control()
                self._limit.restore_original_limits()
                _free_control()


ONE_BLAS_THREAD = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    # A thread that held the lock when the process was forked is not there to release it.
    os.register_at_fork(after_in_child=ONE_BLAS_THREAD.reset)
# Multiplications up to which BLAS is single-threaded anyway; setting the limit costs 10 us.
_SMALL_PRODUCT = 2**18


def one_blas_thread(*sizes: int) -> AbstractContextManager[None]:
    """Keep BLAS to one thread if a product of these sizes is large enough to be threaded."""
    return nullcontext() if prod(sizes) <= _SMALL_PRODUCT else ONE_BLAS_THREAD


@cache
def _blas() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401  (loads numba's BLAS, for threadpoolctl to find)

    return ThreadpoolController().select(user_api="blas")


def _free_control() -> None:
    """Let any thread set the number of BLAS threads.

    From its version 3.8 on, threadpoolctl ignores limits set by any thread but the first.
    """
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
