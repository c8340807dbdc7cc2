"""The envelope pass as one compiled loop (numba): the same numbers as ``envelope``, sooner.

A row is read once for the winners at both ends of the range and, only where they
differ, once more for the classes that can win in between. A block of rows stays in
cache between the two reads, nothing of the size of the scores is allocated, and the
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

__all__ = ["settle_rows", "tally_rows", "walk_rows"]

#: Up to this many classes a row's winners are tracked class by class; beyond it, a maximum and a
#: comparison are taken with vector instructions, which settles most rows.
FEW = 24

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


@njit(nogil=True, cache=True, fastmath=_LANES)
def _top(scores: Any, i: int, shift: Any) -> float:  # pragma: no cover
    """Height of the envelope at ``shift``, found in lanes."""
    top = -np.inf
    for k in range(scores.shape[1]):
        s = np.float64(scores[i, k]) + shift[k]
        top = s if s > top else top
    return top


@njit(nogil=True, cache=True)
def _winner(scores: Any, i: int, shift: Any, slope: Any) -> int:  # pragma: no cover
    """Winner at ``shift``, ties broken by the rules."""
    top = _top(scores, i, shift)
    best = -1
    for k in range(scores.shape[1]):
        on_top = np.float64(scores[i, k]) + shift[k] == top
        if on_top and (best < 0 or _beats(scores, i, k, best, slope)):
            best = k
    return best


@njit(nogil=True, cache=True, forceinline=True)
def _ends_of_few(scores: Any, i: int, shift: Any) -> tuple[int, int, int]:  # pragma: no cover
    """First maximum, a winner at ``shift``, and how many share its place.

    Conditional moves, nothing to mispredict.
    """
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
    return a, b, tied


@njit(nogil=True, cache=True, forceinline=True, fastmath=_LANES)
def _first_of_many(scores: Any, i: int) -> int:  # pragma: no cover
    """First maximum, found in lanes."""
    top = scores[i, 0]
    for k in range(1, scores.shape[1]):
        v = scores[i, k]
        top = v if v > top else top
    a = 0
    while scores[i, a] != top:
        a += 1
    return a


@njit(nogil=True, cache=True, forceinline=True)
def _alone(scores: Any, i: int, a: int, shift: Any) -> bool:  # pragma: no cover
    """Whether no other line reaches that of a at ``shift``."""
    own = np.float64(scores[i, a]) + shift[a]
    reached = 0
    for k in range(scores.shape[1]):
        reached += np.float64(scores[i, k]) + shift[k] >= own
    return reached == 1


@njit(nogil=True, cache=True, forceinline=True)
def _ends(
    scores: Any, i: int, slope: Any, bounds: tuple[float, float], shift_low: Any, shift_high: Any
) -> tuple[int, int, int]:  # pragma: no cover
    """Winners at 0, at ``low`` and at ``high``. At 0 it is the first maximum, whatever ties."""
    low, high = bounds
    if low == 0.0 and scores.shape[1] <= FEW:
        a, b, tied = _ends_of_few(scores, i, shift_high)
        return a, a, b if tied == 1 else _winner(scores, i, shift_high, slope)
    origin = _first_of_many(scores, i)
    a = origin if low == 0.0 else _winner(scores, i, shift_low, slope)
    if high == 0.0:
        # A line that is no steeper, and on top at 0, was on top all the way: the rest is rounding.
        return origin, a if slope[origin] > slope[a] else origin, origin
    b = a if _alone(scores, i, a, shift_high) else _winner(scores, i, shift_high, slope)
    return origin, a, b


@njit(nogil=True, cache=True)
def _candidates(
    scores: Any, i: int, slope: Any, a: int, b: int, x: float, found: Any
) -> int:  # pragma: no cover
    """Classes above lines a and b where those two cross: every winner between is among them."""
    at_a = np.float64(scores[i, a]) + x * slope[a]
    at_b = np.float64(scores[i, b]) + x * slope[b]
    level = min(at_a, at_b)
    above = 0
    for k in range(scores.shape[1]):
        above += np.float64(scores[i, k]) + x * slope[k] > level
    above -= (at_a > level) + (at_b > level)
    count = k = 0
    while above > 0:
        if np.float64(scores[i, k]) + x * slope[k] > level and k not in (a, b):
            above -= 1
            if slope[a] < slope[k] < slope[b]:
                found[count] = k
                count += 1
        k += 1
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
    ends: tuple[int, int],
    bounds: tuple[float, float],
    found: Any,
    positions: Any,
    parties: Any,
    used: int,
) -> int:  # pragma: no cover
    """Write the switches of row i behind the ``used`` ones; return how many there are then."""
    here, b = ends
    low, high = bounds
    rise = np.float64(scores[i, here]) - np.float64(scores[i, b])
    x = min(max(rise / (slope[b] - slope[here]), low), high)
    count = _candidates(scores, i, slope, here, b, x, found)
    at = AFTER_ZERO if low == 0.0 else low
    while here != b:
        winner, x = _next(scores, i, slope, here, found, count)
        at = min(max(x, at), high)
        positions[used] = at
        parties[1, used], parties[2, used] = here, winner
        here = winner
        used += 1
    return used


@njit(nogil=True, cache=True)
def settle_rows(
    scores: Any, slope: Any, bounds: tuple[float, float], origin: Any, start: Any, end: Any
) -> bool:  # pragma: no cover
    """Write each row's winners at 0, at ``low`` and at ``high``; False if one has no score."""
    shift_low, shift_high = bounds[0] * slope, bounds[1] * slope
    well = True
    for i in range(scores.shape[0]):
        origin[i], start[i], end[i] = _ends(scores, i, slope, bounds, shift_low, shift_high)
        well &= scores[i, origin[i]] > -np.inf
    return well


@njit(nogil=True, cache=True)
def tally_rows(
    labels: Any, weights: Any, origin: Any, start: Any, counts: Any, sums: Any
) -> None:  # pragma: no cover
    """Add to (5, K) ``counts``, and where ``weights`` is not empty to ``sums``.

    The rows of the tables are support, true positives and predicted at ``low``, true positives
    and predicted at 0.
    """
    for i in range(labels.shape[0]):
        label = labels[i]
        counts[0, label] += 1
        counts[1, label] += start[i] == label
        counts[2, start[i]] += 1
        counts[3, label] += origin[i] == label
        counts[4, origin[i]] += 1
    for i in range(weights.shape[0]):
        label, weight = labels[i], weights[i]
        sums[0, label] += weight
        sums[1, label] += weight * (start[i] == label)
        sums[2, start[i]] += weight
        sums[3, label] += weight * (origin[i] == label)
        sums[4, origin[i]] += weight


@njit(nogil=True, cache=True)
def walk_rows(
    scores: Any,
    labels: Any,
    weights: Any,
    slope: Any,
    bounds: tuple[float, float],
    ends: tuple[Any, Any],
    first_row: int,
    used: int,
    positions: Any,
    parties: Any,
    switch_weights: Any,
) -> tuple[int, int]:  # pragma: no cover
    """Write the switches of the rows from ``first_row`` until done, or the table is full.

    ``ends`` are the winners at ``low`` and at ``high``. Switches go behind the ``used`` ones in
    ``positions``, ``parties`` (label, loser, winner) and ``switch_weights``. Returns the next row
    and the number of switches.
    """
    start, end = ends
    n_rows, n_classes = scores.shape
    found = np.empty(n_classes + 1, np.int64)
    for i in range(first_row, n_rows):
        if not slope[end[i]] > slope[start[i]]:
            continue
        if used + n_classes > positions.shape[0]:
            return i, used
        before = used
        both = (start[i], end[i])
        used = _walk(scores, i, slope, both, bounds, found, positions, parties, used)
        for j in range(before, used):
            parties[0, j] = labels[i]
            if weights.shape[0] > 0:
                switch_weights[j] = weights[i]
    return n_rows, used
