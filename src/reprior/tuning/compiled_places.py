"""The first two classes of every sample as compiled loops (numba): ``top_two``, sooner.

Every comparison is of the same float64 numbers ``z + b``: the places are equal to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["lower_class", "place_rows", "raise_class"]

# Compiled code is invisible to line coverage; tests/tuning/test_compiled_places.py checks every
# function below against the array code.


@njit(nogil=True, cache=True, forceinline=True)
def _place(
    rows: Any, biases: Any, i: int, first: Any, second: Any, top: Any, following: Any
) -> None:  # pragma: no cover
    """Find the first two classes of one sample: higher score, then lower index."""
    a, b = 0, 1
    high, low = np.float64(rows[i, 0]) + biases[0], np.float64(rows[i, 1]) + biases[1]
    if low > high:
        a, b, high, low = 1, 0, low, high
    for k in range(2, rows.shape[1]):
        score = np.float64(rows[i, k]) + biases[k]
        if score > low:
            if score > high:
                a, b, high, low = k, a, score, high
            else:
                b, low = k, score
    first[i], second[i], top[i], following[i] = a, b, high, low


@njit(nogil=True, cache=True)
def place_rows(
    rows: Any, biases: Any, index: Any, first: Any, second: Any, top: Any, following: Any
) -> None:  # pragma: no cover
    """Find the first two classes of the samples of ``index``."""
    for i in index:
        _place(rows, biases, i, first, second, top, following)


@njit(nogil=True, cache=True)
def raise_class(
    column: Any,
    bias: float,
    k: int,
    first: Any,
    second: Any,
    top: Any,
    following: Any,
) -> None:  # pragma: no cover
    """Mend the places after the bias of class k went up to ``bias``."""
    for i in range(column.shape[0]):
        score = np.float64(column[i]) + bias
        if score < following[i]:
            continue
        if first[i] == k:
            top[i] = score
        elif score > top[i] or (score == top[i] and k < first[i]):
            second[i], following[i] = first[i], top[i]
            first[i], top[i] = k, score
        elif score > following[i] or k <= second[i]:
            second[i], following[i] = k, score


@njit(nogil=True, cache=True)
def lower_class(
    rows: Any,
    column: Any,
    biases: Any,
    k: int,
    first: Any,
    second: Any,
    top: Any,
    following: Any,
) -> None:  # pragma: no cover
    """Mend the places after the bias of class k went down."""
    bias = biases[k]
    for i in range(column.shape[0]):
        if first[i] == k:
            score = np.float64(column[i]) + bias
            if score > following[i] or (score == following[i] and k < second[i]):
                top[i] = score
            else:
                _place(rows, biases, i, first, second, top, following)
        elif second[i] == k:
            _place(rows, biases, i, first, second, top, following)
