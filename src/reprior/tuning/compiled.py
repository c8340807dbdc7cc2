"""The envelope pass as one compiled loop (numba): the same numbers as ``envelope``, sooner.

A row is read once for the winners at both ends of the range and, only where they
differ, once more for the classes that can win in between. A block of rows stays in
cache between the two reads, nothing of the size of the scores is allocated, and the
global interpreter lock is released, so that threads share the rows.

``z + λ·w`` is never contracted into a fused multiply-add: the compiled and the
array-API pass then agree to the bit. The scores hold no NaN and no +inf: the caller looks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reprior.tuning.constants import AFTER_ZERO

__all__ = ["own_winners", "settle_rows", "tally_rows", "walk_rows"]

#: Classes that are compared with a level in one go, with vector instructions (numba takes no
#: maximum of floats that way); only where one reaches it are they looked at one by one.
_BLOCK = 32

#: Up to this many classes a whole row is taken in one go.
_FEW = 128

#: Of float32.
_EPSILON = 2.0**-23

#: A winner that is not settled yet.
_OPEN = -1

# Compiled code is invisible to line coverage; tests/tuning/test_compiled.py checks every
# function below against the array-API pass, bit for bit.


@njit(nogil=True, cache=True, forceinline=True)
def _beats(scores: Any, i: int, k: int, best: int, slope: Any) -> bool:  # pragma: no cover
    """Whether k wins a tie: larger slope, then larger score; the lower index is met first."""
    if slope[k] != slope[best]:
        return bool(slope[k] > slope[best])
    return bool(scores[i, k] > scores[i, best])


@njit(nogil=True, cache=True, forceinline=True)
def _winner_of_few(scores: Any, i: int, shift: Any, slope: Any) -> int:  # pragma: no cover
    """Winner at ``shift``: conditional moves, and the rules only where there is a tie."""
    best, top = 0, np.float64(scores[i, 0]) + shift[0]
    for k in range(1, scores.shape[1]):
        s = np.float64(scores[i, k]) + shift[k]
        best = k if s > top else best
        top = s if s > top else top
    tied = 0
    for k in range(scores.shape[1]):
        tied += np.float64(scores[i, k]) + shift[k] == top
    if tied > 1:
        for k in range(best + 1, scores.shape[1]):
            on_top = np.float64(scores[i, k]) + shift[k] == top
            if on_top and _beats(scores, i, k, best, slope):
                best = k
    return best


@njit(nogil=True, cache=True, forceinline=True)
def _winner_of_many(
    scores: Any, i: int, shift: Any, slope: Any, base: int
) -> int:  # pragma: no cover
    """Winner at ``shift``: blocks in which no line reaches that of ``base`` are skipped."""
    n_classes = scores.shape[1]
    level = np.float64(scores[i, base]) + shift[base]
    best, top = base, level
    for start in range(0, n_classes, _BLOCK):
        stop = min(start + _BLOCK, n_classes)
        reached = 0
        for k in range(start, stop):
            reached += np.float64(scores[i, k]) + shift[k] >= level
        if reached:
            for k in range(start, stop):
                s = np.float64(scores[i, k]) + shift[k]
                if s > top or (s == top and _beats(scores, i, k, best, slope)):
                    best, top = k, s
    return best


@njit(nogil=True, cache=True)
def _winners(
    scores: Any, slope: Any, strength: float, base: Any, winner: Any
) -> None:  # pragma: no cover
    """Write the winner at ``strength`` of every row where it is open."""
    shift = strength * slope
    few = scores.shape[1] <= _FEW
    for i in range(scores.shape[0]):
        if winner[i] == _OPEN:
            if few:
                winner[i] = _winner_of_few(scores, i, shift, slope)
            else:
                winner[i] = _winner_of_many(scores, i, shift, slope, base[i])


@njit(nogil=True, cache=True)
def own_winners(scores: Any, origin: Any) -> None:  # pragma: no cover
    """Write the model's own arg max of every row: what NumPy does, sooner for short rows."""
    for i in range(scores.shape[0]):
        a = 0
        top = scores[i, 0]
        for k in range(1, scores.shape[1]):  # conditional moves, nothing to mispredict
            v = scores[i, k]
            a = k if v > top else a
            top = v if v > top else top
        origin[i] = a


@njit(nogil=True, cache=True)
def _last_winners(
    scores: Any, slope: Any, high: float, start: Any, end: Any
) -> None:  # pragma: no cover
    """Winners at ``high``: a comparison settles the rows in which nobody reaches ``start``."""
    # In the scores' own precision, with room for its rounding (see ``envelope._rivalled``):
    # what might be reached is looked at again in float64.
    shift, level = np.empty(slope.size, scores.dtype), np.empty(1, scores.dtype)
    shift[:] = high * slope
    room = 2 * _EPSILON if scores.itemsize == 4 else 0.0
    steepest = np.abs(shift).max()
    for i in range(scores.shape[0]):
        own = scores[i, start[i]] + shift[start[i]]
        level[0] = own - room * (abs(own) + steepest)
        least = level[0]
        reached = 0
        for k in range(scores.shape[1]):
            reached += scores[i, k] + shift[k] >= least
        end[i] = start[i] if reached == 1 else _OPEN
    _winners(scores, slope, high, start, end)


@njit(nogil=True, cache=True, forceinline=True)
def _candidates_of_few(
    scores: Any, i: int, slope: Any, a: int, b: int, x: float, level: float, found: Any
) -> int:  # pragma: no cover
    above = 0
    for k in range(scores.shape[1]):
        above += np.float64(scores[i, k]) + x * slope[k] > level
    for k in (a, b):
        above -= np.float64(scores[i, k]) + x * slope[k] > level
    count = k = 0
    while above > 0:
        if np.float64(scores[i, k]) + x * slope[k] > level and k not in (a, b):
            above -= 1
            if slope[a] < slope[k] < slope[b]:
                found[count] = k
                count += 1
        k += 1
    return count


@njit(nogil=True, cache=True, forceinline=True)
def _candidates_of_many(
    scores: Any, i: int, slope: Any, a: int, b: int, x: float, level: float, found: Any
) -> int:  # pragma: no cover
    n_classes = scores.shape[1]
    count = 0
    for start in range(0, n_classes, _BLOCK):
        stop = min(start + _BLOCK, n_classes)
        above = 0
        for k in range(start, stop):
            above += np.float64(scores[i, k]) + x * slope[k] > level
        if above:
            for k in range(start, stop):
                higher = np.float64(scores[i, k]) + x * slope[k] > level
                if higher and slope[a] < slope[k] < slope[b]:
                    found[count] = k
                    count += 1
    return count


@njit(nogil=True, cache=True, forceinline=True)
def _candidates(
    scores: Any, i: int, slope: Any, a: int, b: int, x: float, found: Any
) -> int:  # pragma: no cover
    """Classes above lines a and b where those two cross: every winner between is among them."""
    at_a = np.float64(scores[i, a]) + x * slope[a]
    at_b = np.float64(scores[i, b]) + x * slope[b]
    level = min(at_a, at_b)
    if scores.shape[1] <= _FEW:
        count = _candidates_of_few(scores, i, slope, a, b, x, level, found)
    else:
        count = _candidates_of_many(scores, i, slope, a, b, x, level, found)
    found[count] = b
    return count + 1


@njit(nogil=True, cache=True, forceinline=True)
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


@njit(nogil=True, cache=True, forceinline=True)
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
    """Write each row's winners at ``low`` and at ``high``, given those at 0.

    False if a row has no winner at 0, or one that is NaN or +inf.
    """
    low, high = bounds
    well = True
    for i in range(scores.shape[0]):
        well &= -np.inf < scores[i, origin[i]] < np.inf
    start[:] = origin
    if low != 0.0:
        start[:] = _OPEN
        _winners(scores, slope, low, origin, start)
    if high != 0.0:
        _last_winners(scores, slope, high, start, end)
        return well
    end[:] = origin
    for i in range(scores.shape[0]):
        if not slope[origin[i]] > slope[start[i]]:
            # A line that is no steeper, and on top at 0, was on top all the way but for rounding.
            start[i] = origin[i]
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
