"""Reliability of a block of posteriors as one compiled loop (numba): the same sums, sooner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["note_rows"]

# Compiled code is invisible to line coverage; tests/metrics/test_reliability.py checks it against
# the array form, bit for bit.


@njit(nogil=True, cache=True, forceinline=True)
def _bin(value: float, edges: Any, bins: int) -> int:  # pragma: no cover
    """Which of the bins of equal width (b/B, (b+1)/B] holds a probability."""
    b = min(max(int(value * bins), 0), bins - 1)
    # Off by one at most: an edge belongs to the bin below it, and the product may have rounded.
    b -= (value <= edges[b]) & (b > 0)
    b += (value > edges[b + 1]) & (b < bins - 1)
    return int(b)


@njit(nogil=True, cache=True)
def note_rows(p: Any, y: Any, w: Any, edges: Any, top: Any, every: Any) -> None:  # pragma: no cover
    """Add rows (n, K) with labels and weights to sums in bins.

    ``top`` (3, B) is of the predicted class: confidence, hits and count; ``every`` (3, K, B) of
    each class by itself.
    """
    bins = edges.shape[0] - 1
    for i in range(p.shape[0]):
        best = 0
        for k in range(p.shape[1]):
            if p[i, k] > p[i, best]:
                best = k
            b = _bin(p[i, k], edges, bins)
            every[0, k, b] += np.float64(p[i, k]) * w[i]
            every[1, k, b] += w[i] if y[i] == k else 0.0
            every[2, k, b] += w[i]
        sure = np.float64(p[i, best])
        b = _bin(sure, edges, bins)
        top[0, b] += w[i] * sure
        top[1, b] += w[i] if best == y[i] else 0.0
        top[2, b] += w[i]
