"""The envelope pass as one compiled loop (numba): the same numbers as ``envelope``, sooner.

A row is read for its winners at both ends of the range and, only where they differ, once more
for the classes that can win in between. It stays in the innermost cache meanwhile, nothing of
the size of the scores is allocated, and the global interpreter lock is released, so that threads
share the rows.

``z + λ·w`` in float64 is never contracted into a fused multiply-add: the compiled and the
array-API pass then agree to the bit.

Short rows are taken whole, as one vector, long ones in blocks. ``places`` is what the latter need,
and None for the former: of the steps that ask ``is None``, numba compiles the one that is needed.
``lanes`` say how long that vector is.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

from reprior.core.compiled_peaks import BLOCK, ZERO, Index, bits_of, peaks, places_in
from reprior.core.row_passes import read_only
from reprior.tuning.compiled_lanes import Lanes, fits_lanes, lanes_for, near_lines
from reprior.tuning.compiled_winners import beats, ends_of_few, margin_of, winners
from reprior.tuning.constants import AFTER_ZERO

__all__ = ["count_rows", "ways_of", "with_room"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores that are taken through all steps together: they stay in the innermost cache meanwhile.
TILE = 1 << 13

# Compiled code is invisible to line coverage; tests/tuning/test_compiled.py checks every
# function below against the array-API pass, bit for bit.


@njit(nogil=True, cache=True)
def _candidates_of_few(
    scores: Any, i: Index, slope: Any, a: Index, b: Index, x: float, level: float, found: Any
) -> int:  # pragma: no cover
    """List the classes above lines a and b where those two cross, at ``level``.

    Every winner between is among them.
    """
    above = 0
    for k in range(np.uintp(scores.shape[1])):
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
    scores: Any,
    i: Index,
    slope: Any,
    own: Any,
    a: Index,
    b: Index,
    x: float,
    level: float,
    least: Any,
    found: Any,
) -> int:  # pragma: no cover
    """The same of many classes, of which few are not below ``least`` in their own precision."""
    at = scores.dtype.type(x)
    n_classes: Index = np.uintp(scores.shape[1])
    count = 0
    for start in range(ZERO, n_classes, BLOCK):
        stop = min(start + BLOCK, n_classes)
        near = np.int32(0)
        for k in range(start, stop):
            near = np.int32(near + (not scores[i, k] + at * own[k] < least))
        if near > (start <= a < stop) + (start <= b < stop):
            end = count
            for k in range(start, stop):  # a list of those near, without a branch
                found[end] = k
                end += not scores[i, k] + at * own[k] < least
            for j in range(count, end):
                k = found[j]
                above = np.float64(scores[i, k]) + x * slope[k] > level
                if above and slope[a] < slope[k] < slope[b]:
                    found[count] = k
                    count += 1
    return count


@njit(nogil=True, cache=True, forceinline=True)
def _next(
    scores: Any, i: Index, slope: Any, here: Index, found: Any, count: int
) -> tuple[int, float]:  # pragma: no cover
    """The line that first crosses ``here`` from below, and where."""
    best, at = -1, np.inf
    for j in range(count):
        k = found[j]
        if slope[k] > slope[here]:
            rise = np.float64(scores[i, here]) - np.float64(scores[i, k])
            x = rise / (slope[k] - slope[here])
            if best < 0 or x < at or (x == at and beats(scores, i, k, best, slope)):
                best, at = k, x
    return best, at


@njit(nogil=True, cache=True)
def _list_switching(slope: Any, start: Any, end: Any, rows: Any) -> Index:  # pragma: no cover
    """List the rows that switch, without a branch; return how many they are."""
    n_switching = ZERO
    for i in range(np.uintp(rows.shape[0])):
        rows[n_switching] = i
        n_switching += np.uintp(slope[end[i]] > slope[start[i]])
    return n_switching


@njit(nogil=True, cache=True)
def _walk_rows(
    scores: Any,
    labels: Any,
    weights: Any,
    slope: Any,
    own: Any,
    margin: tuple[float, float],
    bounds: tuple[float, float],
    start: Any,
    end: Any,
    found: Any,
    places: Any,
    lanes: Lanes,
    position: Any,
    parties: Any,
    switch_weights: Any,
    used: int,
) -> int:  # pragma: no cover
    """Write the switches of the rows behind the ``used`` ones; return how many there are then."""
    low, high = bounds
    n_classes: Index = np.uintp(scores.shape[1])
    rows = np.empty(labels.shape[0], np.uintp)
    for j in range(_list_switching(slope, start, end, rows)):
        i = rows[j]
        here: Index = np.int64(start[i])
        b: Index = np.int64(end[i])
        at_here, at_b = np.float64(scores[i, here]), np.float64(scores[i, b])
        cross = (at_here - at_b) / (slope[b] - slope[here])
        x = min(max(cross, low), high)
        level = min(at_here + x * slope[here], at_b + x * slope[b])
        least = scores.dtype.type(level - margin[0] * (abs(level) + max(abs(x), 1.0) * margin[1]))
        count, at = 0, scores.dtype.type(x)
        if places is not None:
            count = _candidates_of_many(scores, i, slope, own, here, b, x, level, least, found)
        elif near_lines(scores, i * n_classes, n_classes, own, at, least, lanes) > 2:
            count = _candidates_of_few(scores, i, slope, here, b, x, level, found)
        found[count] = b
        last = AFTER_ZERO if low == 0.0 else low
        while here != b:
            # Most rows switch once, where the two lines cross.
            to, x = (b, cross) if count == 0 else _next(scores, i, slope, here, found, count + 1)
            last = min(max(x, last), high)
            position[used] = last
            parties[0, used], parties[1, used], parties[2, used] = labels[i], here, to
            if weights.shape[0]:
                switch_weights[used] = weights[i]
            here = to
            used += 1
    return used


@njit(nogil=True, cache=True)
def _tally(
    labels: Any, weights: Any, origin: Any, start: Any, counts: Any, sums: Any
) -> None:  # pragma: no cover
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
def _lines(scores: Any, strength: float, slope: Any, lanes: Lanes) -> Any:  # pragma: no cover
    """λ·w in the scores' own precision, of every lane, and in float64; the former's margin."""
    exact = strength * slope
    shift = np.zeros(max(len(lanes), slope.shape[0]), scores.dtype)
    _copy(exact, shift)
    return shift, exact, margin_of(scores, exact)


@njit(nogil=True, cache=True)
def _copy(given: Any, room: Any) -> None:  # pragma: no cover
    # For an assignment of slices numba compiles the words of an error too, which takes seconds.
    for i in range(given.shape[0]):
        room[i] = given[i]


@njit(nogil=True, cache=True)
def _settle_few(
    scores: Any,
    slope: Any,
    at_low: Any,
    at_high: Any,
    bounds: tuple[float, float],
    lanes: Lanes,
    origin: Any,
    start: Any,
    end: Any,
) -> bool:  # pragma: no cover
    """Write each short row's winners at 0, ``low`` and ``high``; False if a row cannot be used."""
    if bounds[0] == 0.0:
        shift, exact, margin = at_high
        well = ends_of_few(scores, shift, exact, margin, slope, lanes, origin, end)
        _copy(origin, start)
        return bool(well)
    shift, exact, margin = at_low
    if not ends_of_few(scores, shift, exact, margin, slope, lanes, origin, start):
        return False
    if bounds[1] != 0.0:
        shift, exact, margin = at_high
        return bool(ends_of_few(scores, shift, exact, margin, slope, lanes, origin, end))
    _copy(origin, end)
    _level(slope, start, end)
    return True


@njit(nogil=True, cache=True)
def _settle(
    scores: Any,
    bits: Any,
    slope: Any,
    at_low: Any,
    at_high: Any,
    bounds: tuple[float, float],
    line: Any,
    places: Any,
    origin: Any,
    start: Any,
    end: Any,
) -> bool:  # pragma: no cover
    """Write each row's winners at 0, ``low`` and ``high``; False if a row cannot be used."""
    line_bits = line.view(bits.dtype)
    if not peaks(scores, bits, places, origin):
        return False
    _copy(origin, start)
    _copy(origin, end)
    if bounds[0] != 0.0:
        shift, exact, margin = at_low
        if not winners(
            scores, shift, exact, margin, slope, start[:0], line, line_bits, places, start
        ):
            return False
    if bounds[1] != 0.0:
        shift, exact, margin = at_high
        return bool(
            winners(scores, shift, exact, margin, slope, start, line, line_bits, places, end)
        )
    _level(slope, start, end)
    return True


@njit(nogil=True, cache=True)
def _level(slope: Any, start: Any, end: Any) -> None:  # pragma: no cover
    """Let rows stay where they end at 0 unless they rise towards it.

    A line that is no steeper, and on top at 0, was on top all the way but for rounding.
    """
    for i in range(start.shape[0]):
        if not slope[end[i]] > slope[start[i]]:
            start[i] = end[i]


def ways_of(scores: Vector) -> tuple[Vector | None, Lanes]:
    """The ``places`` that long rows need, or None for short ones, and the ``lanes`` of these."""
    n_classes = scores.shape[1]
    if fits_lanes(n_classes, scores.itemsize):
        return None, lanes_for(n_classes)
    return places_in(bits_of(scores)), lanes_for(1)  # no row is loaded into


def with_room(scores: Vector, lanes: Lanes) -> list[tuple[Vector, slice]]:
    """Cut rows in those behind which there is room for all lanes, and a copy that has such room."""
    n_rows, n_classes = scores.shape
    spare = -(-len(lanes) // n_classes)
    ready = max(0, n_rows - spare + 1)
    if ready == n_rows:
        return [(scores, slice(0, n_rows))]
    rest = np.zeros((n_rows - ready + spare, n_classes), scores.dtype)
    rest[: n_rows - ready] = scores[ready:]
    before = [(scores, slice(0, ready))] if ready else []
    return [*before, (read_only(rest), slice(ready, n_rows))]


@njit(nogil=True, cache=True)
def count_rows(
    scores: Any,
    bits: Any,
    labels: Any,
    weights: Any,
    slope: Any,
    bounds: tuple[float, float],
    places: Any,
    lanes: Lanes,
    counts: Any,
    sums: Any,
    position: Any,
    parties: Any,
    switch_weights: Any,
    first_row: int,
    used: int,
) -> tuple[int, int]:  # pragma: no cover
    """Count the rows from ``first_row`` until done, or the table of switches is full.

    There are as many rows as labels; behind the last, the scores have room for all lanes.
    ``bits`` are theirs, as integers, ``places`` and ``lanes`` those of :func:`ways_of`.
    ``counts`` (5, K) and, where ``weights`` is not empty, ``sums`` are added to: support, true
    positives and predicted at ``low``, true positives and predicted at 0. Switches go behind the
    ``used`` ones in ``position``, ``parties`` (label, loser, winner) and ``switch_weights``.
    Returns the next row, or −1 if one has NaN, +inf or no finite score, and the number of switches.
    """
    n_rows, n_classes = labels.shape[0], scores.shape[1]
    step = max(1, TILE // n_classes)
    line, found = np.empty((1, n_classes), scores.dtype), np.empty(n_classes + 1, np.int64)
    at_low = _lines(scores, bounds[0], slope, lanes)
    at_high = _lines(scores, bounds[1], slope, lanes)
    own, _, margin = _lines(scores, 1.0, slope, lanes)
    winning = np.empty((3, step), np.int32)
    for first in range(first_row, n_rows, step):
        last = min(first + step, n_rows)
        if used + (last - first) * n_classes > position.shape[0]:
            return first, used
        tile, y, weight = scores[first:last], labels[first:last], weights[first:last]
        origin, start, end = winning[:, : last - first]
        if places is None:
            well = _settle_few(tile, slope, at_low, at_high, bounds, lanes, origin, start, end)
        else:
            own_bits = bits[first:last]
            well = _settle(
                tile, own_bits, slope, at_low, at_high, bounds, line, places, origin, start, end
            )
        if not well:
            return -1, used
        _tally(y, weight, origin, start, counts, sums)
        used = _walk_rows(
            tile, y, weight, slope, own, margin, bounds, start, end, found, places, lanes,
            position, parties, switch_weights, used,
        )  # fmt: skip
    return n_rows, used
