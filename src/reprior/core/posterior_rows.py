"""Posteriors and decisions of host arrays by the kernels, shared among the cores where large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.checks import KINDS
from reprior.core.row_passes import n_shares
from reprior.core.threads import in_threads, shares_out

__all__ = ["decide_rows", "posterior_rows"]

BLOCK_SCORES = 1 << 20
"""Scores of one call of a kernel: about a millisecond, so that Ctrl-C is answered at once."""


def posterior_rows(
    scores: NDArray[Any],
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    kind: str,
    axis: int,
    tolerance: float,
    log: bool,
) -> NDArray[Any] | None:
    """Return softmax(scale·z + bias) or its logarithm, or None if a row has none.

    ``scores`` are what :func:`reprior.core.kernels.host_view` gives, the classes on ``axis``;
    the result has their dtype, and their layout where it can be. ``kind`` and ``tolerance`` say
    what they are and how far from 1 a row of probabilities may sum.

    Examples
    --------
    >>> posterior_rows(
    ...     np.array([[0.0, 1.0]]), np.ones(2), np.array([1.0, 0.0]),
    ...     kind="logits", axis=1, tolerance=1e-3, log=False,
    ... )
    array([[0.5, 0.5]])
    """  # fmt: skip
    native: Any = kernels.native
    number = KINDS.index(kind)
    z = _classes_last(scores, axis)
    rows = kernels.strided_rows(z)
    result = np.empty_like(z, subok=False)
    try:
        out = kernels.strided_rows(result, writable=True)
    except ValueError:  # more than two axes of samples that do not follow each other
        result = np.empty(z.shape, z.dtype)
        out = kernels.strided_rows(result, writable=True)

    def work(part: tuple[int, int]) -> bool:
        good: bool = native.posterior(rows, number, tolerance, scale, bias, log, *part, out)
        return good

    if not _all_good(work, rows):
        return None
    return result if z is scores else np.moveaxis(result, -1, axis)


def decide_rows(
    scores: NDArray[Any],
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    *,
    kind: str,
    axis: int,
    tolerance: float,
) -> NDArray[np.int64] | None:
    """Return the first class of the largest scale·z + bias of every row, or None if one has none.

    The arguments are those of :func:`posterior_rows`. Nothing is rounded to the scores' dtype.

    Examples
    --------
    >>> decide_rows(
    ...     np.array([[0.0, 1.0]]), np.ones(2), np.array([2.0, 0.0]),
    ...     kind="logits", axis=1, tolerance=1e-3,
    ... )
    array([0])
    """  # fmt: skip
    native: Any = kernels.native
    number = KINDS.index(kind)
    z = _classes_last(scores, axis)
    rows = kernels.strided_rows(z)
    classes = np.empty(z.shape[:-1], np.int64)
    flat = classes.reshape(-1)

    def work(part: tuple[int, int]) -> bool:
        good: bool = native.decisions(rows, number, tolerance, scale, bias, *part, flat)
        return good

    return classes if _all_good(work, rows) else None


def _classes_last(scores: NDArray[Any], axis: int) -> NDArray[Any]:
    return scores if axis == scores.ndim - 1 else np.moveaxis(scores, axis, -1)


def _all_good(work: Callable[[tuple[int, int]], bool], rows: NDArray[Any]) -> bool:
    """Do some samples after the others, by as many threads as they are worth."""
    outer, inner, n_classes = rows.shape
    n, step = outer * inner, max(1, BLOCK_SCORES // n_classes)
    n_threads = n_shares(n, rows.size) if shares_out() else 1
    if n_threads == 1 and n <= step:
        return work((0, n))
    step = min(step, -(-n // n_threads))
    parts = [(start, min(start + step, n)) for start in range(0, n, step)]
    return all(in_threads(work, parts, n_threads))
