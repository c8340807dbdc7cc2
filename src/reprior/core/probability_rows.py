"""Checks, decisions and sums of rows of scores, in cache-sized blocks shared among the cores.

Compiled loops (numba) where they are in memory, else array code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reprior.core.row_passes import read_only, shares
from reprior.core.threads import compiles, in_threads

__all__ = [
    "by_blocks",
    "class_sums",
    "has_loops",
    "largest_logits",
    "largest_probs",
    "normalised_sum",
    "row_sums",
    "totals",
    "weighted_sum",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Found = TypeVar("Found")

BLOCK_ITEMS = 1 << 17
"""Numbers that are gone through at a time: they are read twice or more, and stay in a cache."""

WORTH_COMPILING = 1 << 20
"""Numbers from which on loops are compiled, where numba is in memory. That takes about a second,
once per installation for each loop and type, and saves ten milliseconds per ten million: none is
worth loading numba for."""

SHORT = 1 << 16
"""Up to so many classes labels are short integers, which NumPy sorts by counting."""


def has_loops(rows: NDArray[Any]) -> bool:
    """Whether passes over rows are compiled."""
    return (
        rows.dtype in (np.float64, np.float32)
        and bool(rows.flags.c_contiguous)
        and compiles(rows.size, worth=WORTH_COMPILING, worth_loading=sys.maxsize)
    )


def by_blocks(work: Callable[[slice], Found], shape: tuple[int, ...]) -> list[Found]:
    """Return ``work`` of blocks of the rows of an array (N, K), in their order.

    Examples
    --------
    >>> by_blocks(lambda part: part.stop, (5, 2))
    [5]
    """
    n_rows, n_classes = shape
    step = max(1, BLOCK_ITEMS // n_classes)
    blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    return in_threads(work, blocks, len(shares(n_rows, n_classes)))


def row_sums(block: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums of rows in float64; sooner than `sum` on rows of tens or hundreds."""
    found: NDArray[np.float64] = np.einsum("nk->n", block, dtype=np.float64, casting="unsafe")
    return found


def totals(
    block: NDArray[Any], tolerance: float, *, compiled: bool = False
) -> NDArray[np.float64] | None:
    """Return the sums of rows in float64, or None if one of them is no distribution.

    Examples
    --------
    >>> totals(np.array([[0.2, 0.8]]), 1e-3)
    array([1.])
    >>> totals(np.array([[1.2, -0.2]]), 1e-3)
    """
    if compiled:
        from reprior.core.compiled_predictions import row_totals

        found = np.empty(len(block))
        return found if row_totals(read_only(block), tolerance, found) else None
    with np.errstate(invalid="ignore", over="ignore"):
        if not block.min() >= 0:  # first: no other pass is as soon through memory
            return None
        found = row_sums(block)
        good = (np.abs(found - 1.0) <= tolerance).all()
    return found if good else None


def largest_logits(block: NDArray[Any], *, compiled: bool = False) -> NDArray[np.intp] | None:
    """Return the class of the largest logit of every row, or None if a row has none.

    Examples
    --------
    >>> largest_logits(np.array([[-1.0, 2.0]]))
    array([1])
    >>> largest_logits(np.array([[0.0, np.nan]]))
    """
    if not compiled:
        found: NDArray[np.intp] = block.argmax(axis=1)
        # NaN and +inf come first: the largest tells of every bad score.
        return found if np.isfinite(block[np.arange(len(block)), found]).all() else None
    from reprior.core.compiled_peaks import bits_of, places_in
    from reprior.core.compiled_predictions import logit_classes

    rows, classes = read_only(block), np.empty(len(block), np.intp)
    bits = bits_of(rows)
    return classes if logit_classes(rows, bits, places_in(bits), classes) else None


def largest_probs(
    block: NDArray[Any], tolerance: float, *, compiled: bool = False
) -> NDArray[np.intp] | None:
    """Return the class of the largest of every row, or None if one of them is no distribution.

    Examples
    --------
    >>> largest_probs(np.array([[0.2, 0.8]]), 1e-3)
    array([1])
    >>> largest_probs(np.array([[0.2, 0.9]]), 1e-3)
    """
    if not compiled:
        return None if totals(block, tolerance) is None else block.argmax(axis=1)
    from reprior.core.compiled_peaks import bits_of, places_in
    from reprior.core.compiled_predictions import prob_classes

    rows, classes = read_only(block), np.empty(len(block), np.intp)
    bits = bits_of(rows)
    return classes if prob_classes(rows, bits, places_in(bits), tolerance, classes) else None


def normalised_sum(
    block: NDArray[Any], tolerance: float, *, compiled: bool = False
) -> tuple[NDArray[np.float64], Vector] | None:
    """Return what makes every row sum to 1, and the sum of such rows, in float64.

    None if one of the rows is no distribution.

    Examples
    --------
    >>> normalised_sum(np.array([[0.5, 0.5], [0.25, 0.75]]), 1e-3)
    (array([1., 1.]), array([0.75, 1.25]))
    >>> normalised_sum(np.array([[np.nan, 0.5]]), 1e-3)
    """
    if not compiled:
        found = totals(block, tolerance)
        return None if found is None else (1.0 / found, block_sum(1.0 / found, block))
    from reprior.core.compiled_predictions import add_normalised

    factors, sums = np.empty(len(block)), np.zeros(block.shape[1])
    good = add_normalised(read_only(block), tolerance, factors, sums)
    return (factors, sums) if good else None


def block_sum(
    weights: NDArray[np.float64], block: NDArray[Any], *, compiled: bool = False
) -> Vector:
    """Return the sum of the rows of a block, each times its weight, in float64."""
    if not compiled:
        found: Vector = np.einsum("n,nk->k", weights, block)
        return found
    from reprior.core.compiled_predictions import add_weighted

    sums = np.zeros(block.shape[1])
    add_weighted(read_only(weights), read_only(block), sums)
    return sums


def weighted_sum(weights: NDArray[np.float64], rows: NDArray[Any]) -> Vector:
    """Return the sum of rows (N, K), each times its weight, in float64."""
    compiled = has_loops(rows)
    parts = by_blocks(
        lambda part: block_sum(weights[part], rows[part], compiled=compiled), rows.shape
    )
    found: Vector = np.sum(parts, axis=0)
    return found


def class_sums(
    weights: NDArray[np.float64], rows: NDArray[Any], labels: NDArray[np.int64]
) -> Vector:
    """Return the sum (K, K) of the rows of each label, each times its weight, in float64."""
    if has_loops(rows):
        from reprior.core.compiled_predictions import add_by_class

        total = np.zeros((rows.shape[1],) * 2)
        add_by_class(read_only(weights), read_only(rows), read_only(labels), total)
        return total
    narrow = labels.astype(np.uint16) if rows.shape[1] <= SHORT else labels
    order = np.argsort(narrow, kind="stable")

    def work(part: slice) -> tuple[Vector, Vector]:
        at = order[part]
        block, own, classes = rows.take(at, axis=0), weights[at], labels[at]
        ends = np.flatnonzero(np.diff(classes, append=-1)) + 1
        starts = [0, *ends[:-1]]
        runs = zip(starts, ends, strict=True)
        return classes[starts], np.array([block_sum(own[a:b], block[a:b]) for a, b in runs])

    found = np.zeros((rows.shape[1],) * 2)
    for classes, sums in by_blocks(work, rows.shape):
        found[classes] += sums
    return found
