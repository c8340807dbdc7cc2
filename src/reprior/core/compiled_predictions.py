"""Sums over rows of probabilities as compiled loops (numba).

A row is checked and summed while it is in the innermost cache, in float64 whatever it is stored
in, and the global interpreter lock is released.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_by_class", "add_weighted", "row_totals"]

# Compiled code is invisible to line coverage; tests/core/test_shift_predictions.py checks every
# function below against array code.


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def row_totals(rows: Any, tolerance: float, totals: Any) -> bool:  # pragma: no cover
    """Leave the sums of rows in ``totals``; tell whether every row is a distribution."""
    good = True
    for i in range(rows.shape[0]):
        total, negative = 0.0, 0
        for k in range(rows.shape[1]):
            x = np.float64(rows[i, k])
            total += x
            negative += int(x < 0.0)  # counted, as a minimum is not taken of several at once
        totals[i] = total  # NaN where one of the row is
        good &= abs(total - 1.0) <= tolerance and negative == 0
    return good


@njit(nogil=True, cache=True)
def add_weighted(weights: Any, rows: Any, sums: Any) -> None:  # pragma: no cover
    """Add every row, times its weight, to ``sums``."""
    for i in range(rows.shape[0]):
        weight, row = weights[i], rows[i]
        for k in range(row.size):
            sums[k] += weight * np.float64(row[k])


@njit(nogil=True, cache=True)
def add_by_class(weights: Any, rows: Any, labels: Any, sums: Any) -> None:  # pragma: no cover
    """Add every row, times its weight, to the row of ``sums`` that is its label's."""
    for i in range(rows.shape[0]):
        weight, row, own = weights[i], rows[i], sums[labels[i]]
        for k in range(row.size):
            own[k] += weight * np.float64(row[k])
