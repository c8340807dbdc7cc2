"""Sums over labelled rows: by a kernel or in cache-sized blocks, shared among the cores."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.threads import in_threads, n_cores
from reprior.core.weighted_rows import Labelled

__all__ = [
    "cut",
    "n_shares",
    "shares",
    "sum_blocks",
    "sum_native",
    "takes_native",
]

SCORES_PER_THREAD = 1 << 18
"""Fewer scores than this are done before a second thread is awake."""


def takes_native(data: Labelled) -> bool:
    """Whether the kernels take the rows."""
    return data.on_numpy and kernels.serves(data.rows)


def sum_native(
    data: Labelled, kernel: str, parameters: tuple[NDArray[np.float64], ...], *, n_sums: int
) -> NDArray[np.float64]:
    """Return the sums that a kernel of the log-loss writes, over shares of the rows."""
    add = getattr(kernels.native, kernel)
    rows, affine = kernels.strided_rows(data.rows), [kernels.contiguous(p) for p in parameters]
    labels, weights = kernels.contiguous(data.labels), kernels.contiguous(data.weights)

    def work(share: slice) -> NDArray[np.float64]:
        sums = np.empty(n_sums)
        add(rows[:, share], labels[share], weights[share], *affine, sums)
        return sums

    total: NDArray[np.float64] = np.sum(in_threads(work, _shares(data)), axis=0)
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
    worth = min(n_items, n_scores // SCORES_PER_THREAD)
    return 1 if worth <= 1 else max(1, min(n_cores(), worth))


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
