"""Checks, decisions and sums of rows of scores, in cache-sized blocks shared among the cores.

By the kernels where they serve the rows, else array code.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.row_passes import shares
from reprior.core.threads import in_threads

__all__ = [
    "by_blocks",
    "class_sums",
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

ANY_SUM = -1.0
"""The tolerance with which a kernel takes rows that are no distributions."""


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


def totals(block: NDArray[Any], tolerance: float) -> NDArray[np.float64] | None:
    """Return the sums of rows in float64, or None if one of them is no distribution.

    Examples
    --------
    >>> totals(np.array([[0.2, 0.8]]), 1e-3)
    array([1.])
    >>> totals(np.array([[1.2, -0.2]]), 1e-3)
    """
    if kernels.serves(block):
        found = np.empty(len(block))
        good = kernels.native.row_totals(kernels.strided_rows(block), tolerance, found)
        return found if good else None
    with np.errstate(invalid="ignore", over="ignore"):
        if not block.min() >= 0:  # first: no other pass is as soon through memory
            return None
        found = row_sums(block)
        good = (np.abs(found - 1.0) <= tolerance).all()
    return found if good else None


def largest_logits(block: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the class of the largest logit of every row, or None if a row has none.

    Examples
    --------
    >>> largest_logits(np.array([[-1.0, 2.0]]))
    array([1])
    >>> largest_logits(np.array([[0.0, np.nan]]))
    """
    if kernels.serves(block):
        return _largest(kernels.native, block, ANY_SUM)
    found: NDArray[np.int64] = block.argmax(axis=1)
    # NaN and +inf come first: the largest tells of every bad score.
    return found if np.isfinite(block[np.arange(len(block)), found]).all() else None


def largest_probs(block: NDArray[Any], tolerance: float) -> NDArray[np.int64] | None:
    """Return the class of the largest of every row, or None if one of them is no distribution.

    Examples
    --------
    >>> largest_probs(np.array([[0.2, 0.8]]), 1e-3)
    array([1])
    >>> largest_probs(np.array([[0.2, 0.9]]), 1e-3)
    """
    if kernels.serves(block):
        return _largest(kernels.native, block, tolerance)
    return None if totals(block, tolerance) is None else block.argmax(axis=1)


def _largest(native: ModuleType, block: NDArray[Any], tolerance: float) -> NDArray[np.int64] | None:
    classes = np.empty(len(block), np.int64)
    rows = kernels.strided_rows(block)
    return classes if native.largest_classes(rows, tolerance, classes) else None


def normalised_sum(
    block: NDArray[Any], tolerance: float
) -> tuple[NDArray[np.float64], Vector] | None:
    """Return what makes every row sum to 1, and the sum of such rows, in float64.

    None if one of the rows is no distribution.

    Examples
    --------
    >>> normalised_sum(np.array([[0.5, 0.5], [0.25, 0.75]]), 1e-3)
    (array([1., 1.]), array([0.75, 1.25]))
    >>> normalised_sum(np.array([[np.nan, 0.5]]), 1e-3)
    """
    if kernels.serves(block):
        factors, sums = np.empty(len(block)), np.zeros(block.shape[1])
        rows = kernels.strided_rows(block)
        good = kernels.native.add_normalised(rows, tolerance, factors, sums)
        return (factors, sums) if good else None
    found = totals(block, tolerance)
    return None if found is None else (1.0 / found, _block_sum(1.0 / found, block))


def _block_sum(weights: NDArray[np.float64], block: NDArray[Any]) -> Vector:
    """Return the sum of the rows of a block, each times its weight, in float64."""
    if kernels.serves(block):
        sums = np.zeros((1, block.shape[1]))
        rows = kernels.strided_rows(block)
        kernels.native.add_rows(rows, kernels.contiguous(weights), None, sums)
        total: Vector = sums[0]
        return total
    found: Vector = np.einsum("n,nk->k", weights, block)
    return found


def weighted_sum(weights: NDArray[np.float64], rows: NDArray[Any]) -> Vector:
    """Return the sum of rows (N, K), each times its weight, in float64."""
    parts = by_blocks(lambda part: _block_sum(weights[part], rows[part]), rows.shape)
    found: Vector = np.sum(parts, axis=0)
    return found


def class_sums(
    weights: NDArray[np.float64], rows: NDArray[Any], labels: NDArray[np.int64]
) -> Vector:
    """Return the sum (K, K) of the rows of each label, each times its weight, in float64."""
    total: Vector = np.zeros((rows.shape[1],) * 2)
    if kernels.serves(rows):
        kernels.native.add_rows(
            kernels.strided_rows(rows),
            kernels.contiguous(weights),
            kernels.contiguous(labels, np.int64),
            total,
        )
        return total
    for label in np.unique(labels):
        some = labels == label
        total[label] = weighted_sum(weights[some], rows[some])
    return total
