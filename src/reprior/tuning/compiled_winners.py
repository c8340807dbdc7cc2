"""Who is on top of a row of scores, compiled (numba).

Lines are compared in the scores' own precision first; only those that come within its rounding
of each other are looked at again in float64. NaN is in nobody's order, and so never "below": it
counts as near, and is found where near lines are looked at.

Loops run over unsigned indices, as in ``core.compiled_peaks``. Lines are counted in 32 bits: as
many fit into a vector as there are scores in one, where 64 bits would take two or four.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reprior.core.compiled_peaks import BLOCK, ONE, WIDTH, ZERO, Index, place_of, top_of
from reprior.tuning.compiled_lanes import Lanes, row_ends
from reprior.tuning.envelope import FLOOR

__all__ = [
    "beats",
    "ends_of_few",
    "margin_of",
    "winners",
]

#: What stands for a winner where a row has NaN.
_HOPELESS = -1

#: And where lines are too near each other to tell in the scores' own precision.
_UNDECIDED = -2

#: Of float32.
_EPSILON = 2.0**-23

# Compiled code is invisible to line coverage; tests/tuning/test_compiled.py checks all of it
# against the array-API pass, bit for bit.


@njit(nogil=True, cache=True)
def margin_of(scores: Any, shift: Any) -> tuple[float, float]:  # pragma: no cover
    """How far, relatively, lines in the scores' own precision may be off, and of what.

    Of a line, that is, and of the largest shift besides. In float32 a line s = z + x·w, x and w
    rounded too, is off by at most ``u·(|s| + 3·|x·w|)``, u = 2⁻²⁴. A line of the level that is
    compared with, or above it, is therefore less than 4·u of both below it.
    """
    return (2 * _EPSILON if scores.itemsize == 4 else 0.0), np.abs(shift).max() + FLOOR


@njit(nogil=True, cache=True, forceinline=True)
def beats(scores: Any, i: Index, k: Index, best: Index, slope: Any) -> bool:  # pragma: no cover
    """Whether k wins a tie: larger slope, then larger score; the lower index is met first."""
    if slope[k] != slope[best]:
        return bool(slope[k] > slope[best])
    return bool(scores[i, k] > scores[i, best])


@njit(nogil=True, cache=True)
def _settled_of_few(
    scores: Any, i: Index, n_classes: Index, exact: Any, slope: Any
) -> Index:  # pragma: no cover
    """Winner at a shift in float64: conditional moves, and the rules only where there is a tie."""
    best, top = ZERO, np.float64(scores[i, ZERO]) + exact[ZERO]
    for k in range(ONE, n_classes):
        s = np.float64(scores[i, k]) + exact[k]
        best = k if s > top else best
        top = s if s > top else top
    tied = np.int32(0)
    for k in range(n_classes):
        tied = np.int32(tied + (not np.float64(scores[i, k]) + exact[k] < top))
    if tied > 1:
        for k in range(n_classes):
            if scores[i, k] != scores[i, k]:
                return _HOPELESS
            on_top = k > best and np.float64(scores[i, k]) + exact[k] == top
            if on_top and beats(scores, i, k, best, slope):
                best = k
    return np.int64(best)


@njit(nogil=True, cache=True)
def ends_of_few(
    scores: Any,
    shift: Any,
    exact: Any,
    margin: tuple[float, float],
    slope: Any,
    lanes: Lanes,
    origin: Any,
    found: Any,
) -> bool:  # pragma: no cover
    """As ``peaks`` and ``winners``, of short rows, in one go.

    In the scores' own precision where one line is clearly on top. The other rows are left for a
    loop of their own: with a call to settle them in its midst, the first would take twice as long.
    If it returns False, what is written may be no class at all.
    """
    n_rows: Index = np.uintp(found.shape[0])
    n_classes: Index = np.uintp(scores.shape[1])
    # Half as wide again: the level itself is rounded here too.
    own, most = scores.dtype.type(1.5 * margin[0]), scores.dtype.type(margin[1])
    well = True
    for i in range(n_rows):
        first, peak, best, near = row_ends(
            scores, i * n_classes, n_classes, shift, own, most, lanes
        )
        origin[i] = first
        well &= -np.inf < peak < np.inf
        found[i] = best if near == 1 else _UNDECIDED
    for i in range(n_rows):
        if found[i] == _UNDECIDED:
            found[i] = _settled_of_few(scores, i, n_classes, exact, slope)
            well &= found[i] >= 0
    return well


@njit(nogil=True, cache=True, forceinline=True)
def _settled(
    scores: Any,
    i: Index,
    exact: Any,
    slope: Any,
    line: Any,
    level: Any,
    blocks: Any,
    n_blocks: Index,
) -> Index:  # pragma: no cover
    """Winner among the lines that are near, in float64."""
    best, top = np.int64(_HOPELESS), -np.inf
    for j in range(n_blocks):
        for k in range(blocks[j], min(blocks[j] + BLOCK, np.uintp(scores.shape[1]))):
            if not line[ZERO, k] < level:
                if scores[i, k] != scores[i, k]:
                    return _HOPELESS
                s = np.float64(scores[i, k]) + exact[k]
                if best < 0 or s > top or (s == top and beats(scores, i, k, best, slope)):
                    best, top = np.int64(k), s
    return best


@njit(nogil=True, cache=True, forceinline=True)
def _winner(
    scores: Any,
    i: Index,
    shift: Any,
    exact: Any,
    margin: tuple[float, float],
    slope: Any,
    blocks: Any,
    n_blocks: Index,
    line: Any,
    bits: Any,
    places: Any,
) -> Index:  # pragma: no cover
    """Winner at a shift among the classes of some blocks; ``line`` and ``bits`` are (1, K)."""
    n_classes: Index = np.uintp(scores.shape[1])
    best, first = np.iinfo(bits.dtype).min, blocks[ZERO]
    for j in range(n_blocks):
        start, stop = blocks[j], min(blocks[j] + BLOCK, n_classes)
        for k in range(start, stop):
            line[ZERO, k] = scores[i, k] + shift[k]
        here = top_of(bits, ZERO, start, stop)
        if here > best:
            best, first = here, start
    at = place_of(bits, ZERO, first, min(first + BLOCK, n_classes), best, places)
    top = line[ZERO, at]
    level = scores.dtype.type(top - margin[0] * (abs(top) + margin[1]))
    near = np.int32(0)
    for j in range(n_blocks):
        for k in range(blocks[j], min(blocks[j] + BLOCK, n_classes)):
            near = np.int32(near + (not line[ZERO, k] < level))
    if near == 1:
        return at
    return _settled(scores, i, exact, slope, line, level, blocks, n_blocks)


@njit(nogil=True, cache=True, forceinline=True)
def _reached(
    scores: Any, i: Index, shift: Any, level: Any, blocks: Any
) -> tuple[int, Index]:  # pragma: no cover
    """How many lines are not below ``level``, and in how many blocks, which are written down."""
    n_classes: Index = np.uintp(scores.shape[1])
    total, n_blocks = 0, ZERO
    for start in range(ZERO, n_classes, BLOCK):
        here = np.int32(0)
        for k in range(start, min(start + BLOCK, n_classes)):
            here = np.int32(here + (not scores[i, k] + shift[k] < level))
        blocks[n_blocks] = start
        n_blocks += ONE if here else ZERO
        total += int(here)
    return total, n_blocks


@njit(nogil=True, cache=True)
def winners(
    scores: Any,
    shift: Any,
    exact: Any,
    margin: tuple[float, float],
    slope: Any,
    base: Any,
    line: Any,
    bits: Any,
    places: Any,
    found: Any,
) -> bool:  # pragma: no cover
    """Write the winner at one strength of every row; False if a row has NaN.

    Where ``base`` is not empty it won before, and wins still where nobody reaches it. ``shift``
    and ``exact`` are λ·w in the scores' own precision and in float64, ``line`` is room for
    (1, K) scores, ``bits`` the same as integers.
    """
    n_rows: Index = np.uintp(scores.shape[0])
    blocks = np.arange(0, scores.shape[1], WIDTH).astype(np.uintp)
    n_blocks = np.uintp(blocks.shape[0])
    for i in range(n_rows):
        if base.shape[0]:
            before: Index = np.uintp(base[i])
            own = scores[i, before] + shift[before]
            level = scores.dtype.type(own - margin[0] * (abs(own) + margin[1]))
            total, n_blocks = _reached(scores, i, shift, level, blocks)
            if total == 1:
                found[i] = base[i]
                continue
        found[i] = _winner(
            scores, i, shift, exact, margin, slope, blocks, n_blocks, line, bits, places
        )
        if found[i] < 0:
            return False
    return True
