"""Checks, decisions and sums over rows of scores as compiled loops (numba).

A row is gone through while it is in the innermost cache, sums are in float64 whatever it is
stored in, and the global interpreter lock is released.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reprior.core.compiled_peaks import Index, peak_of
from reprior.core.compiled_posterior import ANY_ORDER
from reprior.core.prefetching import ask_ahead

__all__ = [
    "add_by_class",
    "add_normalised",
    "add_weighted",
    "logit_classes",
    "prob_classes",
    "row_totals",
]

# Compiled code is invisible to line coverage; tests/core/test_shift_predictions.py checks every
# function below against array code.


@njit(nogil=True, cache=True, forceinline=True, fastmath=ANY_ORDER)
def _total(rows: Any, i: Index, tolerance: float) -> tuple[float, bool]:  # pragma: no cover
    """The sum of a row, NaN where one of it is, and whether it is a distribution."""
    total, negative = 0.0, 0
    for k in range(np.uintp(rows.shape[1])):
        x = np.float64(rows[i, k])
        total += x
        negative += int(x < 0.0)  # counted, as a minimum is not taken of several at once
    return total, abs(total - 1.0) <= tolerance and negative == 0


@njit(nogil=True, cache=True)
def row_totals(rows: Any, tolerance: float, totals: Any) -> bool:  # pragma: no cover
    """Leave the sums of rows in ``totals``; tell whether every row is a distribution."""
    good = True
    for i in range(np.uintp(rows.shape[0])):
        ask_ahead(rows, i)
        totals[i], well = _total(rows, i, tolerance)
        good &= well
    return good


@njit(nogil=True, cache=True)
def logit_classes(rows: Any, bits: Any, places: Any, classes: Any) -> bool:  # pragma: no cover
    """Leave the first of the largest of every row; tell whether every row can be used.

    One cannot that has NaN, +inf or no finite score. ``bits`` are those of the rows, as integers,
    and ``places`` those of :func:`reprior.core.compiled_peaks.places_in`.
    """
    good = True
    for i in range(np.uintp(rows.shape[0])):
        ask_ahead(rows, i)
        classes[i] = peak_of(rows, bits, i, places)
        unordered = np.int32(0)
        for k in range(np.uintp(rows.shape[1])):
            unordered = np.int32(unordered + (rows[i, k] != rows[i, k]))
        good &= unordered == 0 and -np.inf < rows[i, classes[i]] < np.inf
    return good


@njit(nogil=True, cache=True)
def prob_classes(
    rows: Any, bits: Any, places: Any, tolerance: float, classes: Any
) -> bool:  # pragma: no cover
    """As :func:`logit_classes`; tell whether every row is a distribution."""
    good = True
    for i in range(np.uintp(rows.shape[0])):
        ask_ahead(rows, i)
        _, well = _total(rows, i, tolerance)
        classes[i] = peak_of(rows, bits, i, places)
        good &= well
    return good


@njit(nogil=True, cache=True)
def add_normalised(
    rows: Any, tolerance: float, factors: Any, sums: Any
) -> bool:  # pragma: no cover
    """Leave what makes every row sum to 1, and add it, times that, to ``sums``.

    Tells whether every row is a distribution.
    """
    good = True
    for i in range(np.uintp(rows.shape[0])):
        ask_ahead(rows, i)
        total, well = _total(rows, i, tolerance)
        good &= well
        factor = 1.0 / total if well else np.nan
        factors[i] = factor
        for k in range(np.uintp(rows.shape[1])):
            sums[k] += factor * np.float64(rows[i, k])
    return good


@njit(nogil=True, cache=True)
def add_weighted(weights: Any, rows: Any, sums: Any) -> None:  # pragma: no cover
    """Add every row, times its weight, to ``sums``."""
    for i in range(np.uintp(rows.shape[0])):
        ask_ahead(rows, i)
        weight = weights[i]
        for k in range(np.uintp(rows.shape[1])):
            sums[k] += weight * np.float64(rows[i, k])


@njit(nogil=True, cache=True)
def add_by_class(weights: Any, rows: Any, labels: Any, sums: Any) -> None:  # pragma: no cover
    """Add every row, times its weight, to the row of ``sums`` that is its label's."""
    for i in range(np.uintp(rows.shape[0])):
        ask_ahead(rows, i)
        weight, own = weights[i], np.uintp(labels[i])
        for k in range(np.uintp(rows.shape[1])):
            sums[own, k] += weight * np.float64(rows[i, k])
