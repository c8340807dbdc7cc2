"""The envelope pass as one compiled loop (numba): the same numbers as ``envelope``, sooner.

A row is read once for the winners at both ends of the range and, only where they
differ, once more for the classes that can win in between. Rows stay in cache
between the two reads, nothing of the size of the scores is allocated, and the
global interpreter lock is released, so that threads share the rows.

``z + λ·w`` is never contracted into a fused multiply-add: the compiled and the
array-API pass then agree to the bit. The scores must hold no NaN and no +inf (the
caller looks; the maxima below are taken in lanes, which presumes it).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reprior.tuning.constants import AFTER_ZERO

__all__ = ["tally_rows"]

#: Up to this many classes a row's winner is tracked class by class; beyond it, maxima of blocks
#: of this size are taken with vector instructions and only the winning block is searched.
_BLOCK = 128

#: Lets a maximum be taken in lanes; none of these flags can change a maximum of numbers.
_LANES = {"nnan", "nsz", "reassoc"}

# Compiled code is invisible to line coverage; tests/tuning/test_compiled.py checks every
# function below against the array-API pass, bit for bit.


@njit(nogil=True, cache=True)
def _beats(scores: Any, i: int, k: int, best: int, slope: Any) -> bool:  # pragma: no cover
    """Whether k wins a tie: larger slope, then larger score; the lower index is met first."""
    if slope[k] != slope[best]:
        return bool(slope[k] > slope[best])
    return bool(scores[i, k] > scores[i, best])


@njit(nogil=True, cache=True)
def _tie_winner(scores: Any, i: int, shift: Any, slope: Any, top: float) -> int:  # pragma: no cover
    best = -1
    for k in range(scores.shape[1]):
        tied = np.float64(scores[i, k]) + shift[k] == top
        if tied and (best < 0 or _beats(scores, i, k, best, slope)):
            best = k
    return best


@njit(nogil=True, cache=True, forceinline=True)
def _ends_of_few(
    scores: Any, i: int, shift: Any, slope: Any
) -> tuple[int, int]:  # pragma: no cover
    """Winner at 0 (first maximum) and at ``shift``; conditional moves, nothing to mispredict."""
    a = b = 0
    v = scores[i, 0]
    top_a, top_b = v, np.float64(v) + shift[0]
    for k in range(1, scores.shape[1]):
        v = scores[i, k]
        s = np.float64(v) + shift[k]
        a = k if v > top_a else a
        top_a = v if v > top_a else top_a
        b = k if s > top_b else b
        top_b = s if s > top_b else top_b
    tied = 0
    for k in range(scores.shape[1]):
        tied += np.float64(scores[i, k]) + shift[k] == top_b
    return a, b if tied == 1 else _tie_winner(scores, i, shift, slope, top_b)


@njit(nogil=True, cache=True, fastmath=_LANES)
def _ends_of_many(
    scores: Any, i: int, shift: Any, slope: Any
) -> tuple[int, int]:  # pragma: no cover
    n = scores.shape[1]
    a = b = 0
    top_a, top_b = scores[i, 0], -np.inf
    for start in range(0, n, _BLOCK):
        block_a, block_b = scores[i, start], -np.inf
        for k in range(start, min(start + _BLOCK, n)):
            v = scores[i, k]
            s = np.float64(v) + shift[k]
            block_b = s if s > block_b else block_b
            block_a = v if v > block_a else block_a
        if block_a > top_a:
            top_a, a = block_a, start
        if block_b > top_b:
            top_b, b = block_b, start
    while scores[i, a] != top_a:
        a += 1
    tied = 0
    for k in range(b, n):
        tied += np.float64(scores[i, k]) + shift[k] == top_b
    if tied > 1:
        return a, _tie_winner(scores, i, shift, slope, top_b)
    while np.float64(scores[i, b]) + shift[b] != top_b:
        b += 1
    return a, b


@njit(nogil=True, cache=True, forceinline=True)
def _ends(
    scores: Any, i: int, slope: Any, low: float, shift_low: Any, shift_high: Any
) -> tuple[int, int, int]:  # pragma: no cover
    """Winners at 0, at ``low`` and at ``high``."""
    few = scores.shape[1] <= _BLOCK
    if few:
        origin, b = _ends_of_few(scores, i, shift_high, slope)
    else:
        origin, b = _ends_of_many(scores, i, shift_high, slope)
    if low == 0.0:
        return origin, origin, b
    if few:
        return origin, _ends_of_few(scores, i, shift_low, slope)[1], b
    return origin, _ends_of_many(scores, i, shift_low, slope)[1], b


@njit(nogil=True, cache=True)
def _candidates(
    scores: Any, i: int, slope: Any, a: int, b: int, x: float, found: Any
) -> int:  # pragma: no cover
    """Classes above lines a and b where those two cross: every winner between is among them."""
    at_a = np.float64(scores[i, a]) + x * slope[a]
    at_b = np.float64(scores[i, b]) + x * slope[b]
    level = min(at_a, at_b)
    count = 0
    for k in range(scores.shape[1]):
        above = np.float64(scores[i, k]) + x * slope[k] > level
        if above and slope[a] < slope[k] < slope[b]:
            found[count] = k
            count += 1
    found[count] = b
    return count + 1


@njit(nogil=True, cache=True)
def _next(
    scores: Any, i: int, slope: Any, here: int, found: Any, count: int
) -> tuple[int, float]:  # pragma: no cover
    """The line that first crosses ``here`` from below, and where."""
    best, at = -1, np.inf
    for j in range(count):
        k = found[j]
        if slope[k] > slope[here]:
            rise = np.float64(scores[i, here]) - np.float64(scores[i, k])
            x = rise / (slope[k] - slope[here])
            if best < 0 or x < at or (x == at and _beats(scores, i, k, best, slope)):
                best, at = k, x
    return best, at


@njit(nogil=True, cache=True)
def _walk(
    scores: Any,
    i: int,
    slope: Any,
    ends: tuple[int, int, int],
    bounds: tuple[float, float],
    found: Any,
    positions: Any,
    parties: Any,
    used: int,
) -> int:  # pragma: no cover
    """Write the switches of row i behind the ``used`` ones; return how many there are then."""
    origin, here, b = ends
    low, high = bounds
    rise = np.float64(scores[i, here]) - np.float64(scores[i, b])
    x = min(max(rise / (slope[b] - slope[here]), low), high)
    count = _candidates(scores, i, slope, here, b, x, found)
    at = low
    while here != b:
        winner, x = _next(scores, i, slope, here, found, count)
        at = min(max(x, at), high)
        if at == 0.0:  # at 0 itself the model's own arg max, right after it the larger slope
            if slope[origin] > slope[here]:
                positions[used] = 0.0
                parties[1, used], parties[2, used] = here, origin
                here = origin
                used += 1
            at = AFTER_ZERO
        if here != winner:
            positions[used] = at
            parties[1, used], parties[2, used] = here, winner
            here = winner
            used += 1
    return used


@njit(nogil=True, cache=True, forceinline=True)
def _count(
    table: Any, label: int, ends: tuple[int, int, int], amount: Any
) -> None:  # pragma: no cover
    origin, a, _ = ends
    table[0, label] += amount
    table[2, a] += amount
    table[4, origin] += amount
    if a == label:
        table[1, label] += amount
    if origin == label:
        table[3, label] += amount


@njit(nogil=True, cache=True)
def tally_rows(
    scores: Any,
    labels: Any,
    weights: Any,
    slope: Any,
    bounds: tuple[float, float],
    first_row: int,
    counts: Any,
    sums: Any,
    used: int,
    positions: Any,
    parties: Any,
    switch_weights: Any,
) -> tuple[int, int, bool]:  # pragma: no cover
    """Tally rows from ``first_row`` until done, the table is full, or a row is bad.

    ``counts`` (5, K) int64 takes support, true positives and predicted at ``low``, true
    positives and predicted at 0; ``sums`` (5, K) float64 the same weighted, where ``weights``
    is not empty. Switches go behind the ``used`` ones in ``positions``, ``parties`` (label,
    loser, winner) and ``switch_weights``. Returns the next row, the number of switches, and
    False where a row has no finite score.
    """
    n_rows, n_classes = scores.shape
    shift_low, shift_high = bounds[0] * slope, bounds[1] * slope
    found = np.empty(n_classes + 1, np.int64)
    weighted = weights.shape[0] > 0
    for i in range(first_row, n_rows):
        if used + n_classes > positions.shape[0]:
            return i, used, True
        ends = _ends(scores, i, slope, bounds[0], shift_low, shift_high)
        if scores[i, ends[0]] == -np.inf:
            return i, used, False
        _count(counts, labels[i], ends, 1)
        if weighted:
            _count(sums, labels[i], ends, weights[i])
        if slope[ends[2]] > slope[ends[1]]:
            before = used
            used = _walk(scores, i, slope, ends, bounds, found, positions, parties, used)
            for j in range(before, used):
                parties[0, j] = labels[i]
                if weighted:
                    switch_weights[j] = weights[i]
    return n_rows, used, True
