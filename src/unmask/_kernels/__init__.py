"""Compiled loops over raw arrays, one file per room that uses them; nobody else imports numba.

A kernel takes plain numpy arrays that `_validation` has already vetted and trusts them (`pattern`
is how it vets them). Kernels are serial and release the GIL; `in_chunks` runs one on all cores.
Chunks depend on the work alone and never on the number of threads, so results do not either
(docs/decisions/0001).
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_chosen_threads: int | None = None
_threads_here: ContextVar[int | None] = ContextVar("threads", default=None)


def set_threads(count: int | None) -> None:
    """Choose how many threads this process uses from now on.

    Parameters
    ----------
    count : int or None
        At least 1; None for one per available core, or what UNMASK_THREADS says.

    Raises
    ------
    ValueError
        If `count` is below 1.

    Examples
    --------
    >>> import unmask
    >>> unmask.set_threads(1)
    >>> unmask.set_threads(None)  # one per core again
    """
    global _chosen_threads
    _chosen_threads = _counted(count)


def threads() -> int:
    """The threads in use: as set by `set_threads`, else UNMASK_THREADS, else one per core."""
    chosen = _threads_here.get() or _chosen_threads
    if chosen is not None:
        return chosen
    named = os.environ.get("UNMASK_THREADS", "")
    return max(1, int(named)) if named.isdigit() else len(os.sched_getaffinity(0))


@contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """`count` threads inside the block, for this thread only; `None` leaves the setting alone."""
    token = _threads_here.set(_threads_here.get() if count is None else _counted(count))
    try:
        yield
    finally:
        _threads_here.reset(token)


def _counted(count: int | None) -> int | None:
    if count is not None and count < 1:
        raise ValueError(f"threads must be at least 1; got {count}.")
    return count


def in_chunks(bounds: NDArray[np.int64], work: Callable[[int, int], T]) -> list[T]:
    """`work(start, stop)` for consecutive pairs of `bounds`, on all threads, results in order."""
    pairs = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    if len(pairs) <= 1 or threads() == 1:
        return [work(start, stop) for start, stop in pairs]
    with ThreadPoolExecutor(threads()) as pool:
        return list(pool.map(lambda pair: work(*pair), pairs))


def row_bounds(indptr: NDArray[np.integer], entries: int = 1 << 18) -> NDArray[np.int64]:
    """Row numbers that cut a CSR matrix into chunks of roughly `entries` stored values and rows.

    >>> row_bounds(np.array([0, 5, 5, 9]), entries=4)
    array([0, 1, 3])
    """
    n = len(indptr) - 1
    if n == 0:
        return np.zeros(1, dtype=np.int64)

    def cost(row: int) -> int:
        return row + int(indptr[row])  # a row costs something even when empty

    targets = range(0, cost(n), entries)
    cuts = {bisect_left(range(n), target, key=cost) for target in targets}
    return np.array(sorted(cuts | {n}), dtype=np.int64)


def even_bounds(n: int, width: int, entries: int = 1 << 18) -> NDArray[np.int64]:
    """Row numbers that cut n rows of equal width into chunks of at most `entries` values, or a row.

    >>> even_bounds(7, 4, entries=12)
    array([0, 3, 6, 7])
    """
    starts = np.arange(0, n, max(1, entries // max(1, width)), dtype=np.int64)
    return np.append(starts, n)
