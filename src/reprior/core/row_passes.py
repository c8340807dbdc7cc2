"""Sums over labelled rows: compiled or in cache-sized blocks, shared among the cores."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.labelled import Labelled
from reprior.core.threads import compiles, in_threads, n_cores

__all__ = [
    "cut",
    "n_shares",
    "read_only",
    "shares",
    "sum_blocks",
    "sum_compiled",
    "takes_compiled",
]

WORTH_COMPILING = 1 << 16
"""Scores from which on a compiled pass is the faster one."""

WORTH_LOADING = 1 << 22
"""And from which on the passes of a fit save the second that loading takes."""

SCORES_PER_THREAD = 1 << 18
"""Fewer scores than this are done before a second thread is awake."""


def takes_compiled(data: Labelled) -> bool:
    """Whether a pass over the data is compiled: long NumPy rows without impossible classes."""
    return (
        data.on_numpy
        and bool(data.rows.flags.c_contiguous)
        and compiles(data.rows.size, worth=WORTH_COMPILING, worth_loading=WORTH_LOADING)
        and not data.has_impossible
    )


def sum_compiled(
    data: Labelled, work: Callable[[tuple[NDArray[Any], ...]], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the sum of a compiled ``work`` on (rows, labels, weights) of shares of the rows."""
    arrays = [read_only(array) for array in (data.rows, data.labels, data.weights)]
    parts = [tuple(array[share] for array in arrays) for share in _shares(data)]
    total: NDArray[np.float64] = np.sum(in_threads(work, parts), axis=0)
    return total


def sum_blocks(data: Labelled, work: Callable[[slice], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the sum of ``work`` over blocks of rows."""

    def sum_of(share: slice) -> NDArray[np.float64]:
        first, *others = data.blocks(share)
        found = work(first)
        for part in others:
            found += work(part)
        return found

    total: NDArray[np.float64] = np.sum(in_threads(sum_of, _shares(data)), axis=0)
    return total


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous view that cannot be written: the one type that functions are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def shares(n_rows: int, n_classes: int) -> list[slice]:
    """Cut rows of scores in equal parts, one per core where there are many.

    Examples
    --------
    >>> shares(1000, 10)
    [slice(0, 1000, None)]
    """
    return cut(n_rows, n_shares(n_rows, n_rows * n_classes))


def n_shares(n_items: int, n_scores: int) -> int:
    """In how many parts items are shared out that hold so many scores: one per core, if many.

    Examples
    --------
    >>> n_shares(1000, 10_000)
    1
    """
    return max(1, min(n_cores(), n_items, n_scores // SCORES_PER_THREAD))


def cut(n_items: int, n_parts: int) -> list[slice]:
    """Cut items in equal parts.

    Examples
    --------
    >>> cut(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    edges = [n_items * i // n_parts for i in range(n_parts + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _shares(data: Labelled) -> list[slice]:
    n = data.labels.size
    return shares(n, data.n_classes) if data.on_numpy else [slice(0, n)]
