"""Which class wins at which strength: the upper envelope of K lines per sample.

A sample's score for class k is a line in the strength λ, ``s_k(λ) = z_k + λ·w_k``; its
prediction is the class on top. As λ grows, the winner changes only to lines of larger
slope, so

* a sample with the same winner at both ends of the range never switches: an arg max at one
  end and a comparison at the other settle most samples;
* where the winners a and b differ, every class that wins in between lies above a and b
  at the point where those two cross. One more pass finds these few candidates, and a walk
  from a over them to b gives the exact switches.

Every step of the walk goes to a strictly larger slope, so it ends after at most K − 1
steps, even with rounding errors. All of it is float64, whatever the dtype of the scores.

The slopes are shared by all samples, (K,), or each sample has its own, (N, K).

The passes over the scores are array-API code, so they run where the scores are; the walk
over the candidates, which are few, is NumPy. The native kernel does the same in one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import Array, Namespace, constant, is_numpy_namespace, to_numpy
from reprior.profile.constants import AFTER_ZERO

__all__ = ["Envelope", "Screen", "envelope", "screen", "walk"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: For rows shorter than this, NumPy's cost per row is larger than that of its elements: such blocks
#: are transposed, and every operation runs along the samples.
SHORT_ROW = 32

#: Below float32's smallest normal number, 1e-38, rounding errors are absolute, or the number
#: becomes 0: the margin for rounding is never less than 2⁻²² of this.
FLOOR = 1e-30


@dataclass(frozen=True, eq=False)
class Screen:
    """Input of the walk, from the passes over one block of N samples.

    ``origin`` and ``start`` (N,) win at λ = 0 and at the lower bound. Sample ``moving[m]`` goes
    from line a to line b, perhaps over candidates: line ``klass[j]`` of moving sample ``row[j]``.
    Lines are given by class, score and slope. ``hopeless`` means that a sample has NaN, +inf or no
    finite score.
    """

    origin: Vector
    start: Vector
    moving: Vector
    a: Vector
    score_a: Vector
    slope_a: Vector
    b: Vector
    score_b: Vector
    slope_b: Vector
    row: Vector
    klass: Vector
    score: Vector
    slope: Vector
    hopeless: bool = False

    @staticmethod
    def refused() -> Screen:
        """The result for a block with a sample that cannot be used."""
        nothing: dict[str, Any] = dict.fromkeys(f.name for f in fields(Screen)[:-1])
        return Screen(**nothing, hopeless=True)

    @staticmethod
    def joined(screens: Sequence[Screen]) -> Screen:
        """Concatenate blocks; samples and moving samples are renumbered."""

        def column(name: str) -> Vector:
            return np.concatenate([getattr(screen, name) for screen in screens])

        samples = np.cumsum([0, *(screen.start.size for screen in screens[:-1])])
        movers = np.cumsum([0, *(screen.moving.size for screen in screens[:-1])])
        columns: dict[str, Any] = {field.name: column(field.name) for field in fields(Screen)[:-1]}
        if all(screen.start is screen.origin for screen in screens):
            columns["start"] = columns["origin"]
        columns["moving"] += np.repeat(samples, [screen.moving.size for screen in screens])
        columns["row"] += np.repeat(movers, [screen.row.size for screen in screens])
        return Screen(**columns)


def screen(
    scores: Array, slopes: Vector | Array, bounds: tuple[float, float], xp: Namespace
) -> Screen:
    """Find the samples of (N, K) ``scores`` that never switch, and prepare the others for the walk.

    The slopes are (K,) or (N, K). The scores must hold no NaN and no +inf, unless rows have at
    least ``SHORT_ROW`` classes: there NumPy's arg max finds them.
    """
    slope = constant(slopes, xp, like=scores) if slopes.ndim == 1 else slopes
    each = xp.arange(scores.shape[0], device=_device(scores, xp))
    turned = None
    if is_numpy_namespace(xp) and scores.shape[1] < SHORT_ROW:
        turned = np.ascontiguousarray(scores.T)
    origin = xp.argmax(scores, axis=1) if turned is None else _first_max(turned)
    if not bool(xp.all(xp.isfinite(scores[each, origin]))):
        return Screen.refused()
    start = origin if bounds[0] == 0.0 else _winners(scores, slope, bounds[0], xp)
    if bounds[1] == 0.0:
        # A line that is no steeper, and on top at 0, was on top all the way: the rest is rounding.
        steeper = _taken(slope, each, origin, xp) > _taken(slope, each, start, xp)
        start = xp.where(steeper, start, origin)
        rivalled = xp.nonzero(start != origin)[0]
    else:
        own = scores[each, start]
        rivalled = _rivalled(scores, turned, slope, own, start, bounds[1], xp)
    moved = xp.astype(xp.take(scores, rivalled, axis=0), slope.dtype)
    slope = _rows(slope, rivalled, xp)
    a, b = xp.take(start, rivalled), xp.take(origin, rivalled)
    if bounds[1] != 0.0:
        b = _winners(moved, slope, bounds[1], xp)
    each = xp.arange(rivalled.shape[0], device=_device(scores, xp))
    goes = xp.nonzero(_taken(slope, each, b, xp) > _taken(slope, each, a, xp))[0]
    moving, moved = xp.take(rivalled, goes), xp.take(moved, goes, axis=0)
    a, b, slope = xp.take(a, goes), xp.take(b, goes), _rows(slope, goes, xp)
    row, klass = _candidates(moved, slope, a, b, bounds, xp)
    each = xp.arange(moving.shape[0], device=_device(scores, xp))
    found = (
        origin,
        start,
        moving,
        a,
        moved[each, a],
        _taken(slope, each, a, xp),
        b,
        moved[each, b],
        _taken(slope, each, b, xp),
        row,
        klass,
        moved[row, klass],
        _taken(slope, row, klass, xp),
    )
    names = (field.name for field in fields(Screen))
    columns: dict[str, Any] = dict(zip(names, map(to_numpy, found), strict=False))
    return Screen(**columns)


def _taken(slope: Array, row: Array, klass: Array, xp: Namespace) -> Array:
    """Return the slopes of some classes of some rows."""
    return xp.take(slope, klass) if slope.ndim == 1 else slope[row, klass]


def _rows(slope: Array, row: Array, xp: Namespace) -> Array:
    """Return the slopes of some rows."""
    return slope if slope.ndim == 1 else xp.take(slope, row, axis=0)


def _first_max(turned: Vector) -> Vector:
    """First arg max of samples along the second axis, as operations on all samples at once."""
    n_classes = turned.shape[0]
    on_top = (turned == turned.max(axis=0)).view(np.uint8)
    places = np.zeros(turned.shape[1], np.uint8)  # K for the first class, 1 for the last
    for k in range(n_classes):
        np.maximum(places, on_top[k] * np.uint8(n_classes - k), out=places)
    return np.asarray(n_classes - places.astype(np.int64))


def _rivalled(
    scores: Array,
    turned: Vector | None,
    slope: Array,
    own: Array,
    start: Array,
    strength: float,
    xp: Namespace,
) -> Array:
    """Return the rows in which another line may reach that of ``start`` at ``strength``.

    Computed in the scores' own precision for speed. In float32 the error of a line is at most
    ``u·(|s| + |λ·w|)``, u = 2⁻²⁴; a margin of twice that on either side misses no row.
    """
    shift = xp.astype(strength * slope, scores.dtype)
    each = xp.arange(scores.shape[0], device=_device(scores, xp))
    level = own + _taken(shift, each, start, xp)
    if scores.dtype != slope.dtype:
        unit = float(xp.finfo(scores.dtype).eps)
        level = level - 2 * unit * (xp.abs(level) + xp.max(xp.abs(shift), axis=-1) + FLOOR)
    if turned is not None:
        lines = turned + (shift[:, None] if shift.ndim == 1 else shift.T)
        return np.flatnonzero(np.count_nonzero(lines >= level, axis=0) > 1)
    reached = xp.nonzero(xp.reshape(scores + shift >= level[:, None], (-1,)))[0]
    if reached.shape[0] == scores.shape[0]:
        return reached[:0]
    row = reached // scores.shape[1]
    again = row[1:][row[1:] == row[:-1]]
    return xp.concat([again[:1], again[1:][again[1:] != again[:-1]]])


def _winners(scores: Array, slope: Array, strength: float, xp: Namespace) -> Array:
    """Return the arg max at one strength; a tie goes to the larger slope, then the larger score."""
    lines = xp.astype(scores, slope.dtype) + strength * slope
    top = xp.max(lines, axis=1, keepdims=True)
    winner = xp.argmax(lines, axis=1)
    tied = lines == top
    if int(xp.count_nonzero(tied)) == tied.shape[0]:
        return winner
    rows = xp.nonzero(xp.sum(xp.astype(tied, xp.int64), axis=1) > 1)[0]
    host_tied, host_scores = (to_numpy(xp.take(x, rows, axis=0)) for x in (tied, scores))
    rank = np.where(host_tied, to_numpy(_rows(slope, rows, xp)), -np.inf)
    steepest = rank == rank.max(axis=1, keepdims=True)
    settled = np.where(steepest, host_scores.astype(np.float64), -np.inf).argmax(axis=1)
    result = to_numpy(winner).copy()
    result[to_numpy(rows)] = settled
    return constant(result, xp, like=scores)


def _candidates(
    moved: Array, slope: Array, a: Array, b: Array, bounds: tuple[float, float], xp: Namespace
) -> tuple[Array, Array]:
    """Return rows and classes of the lines above a and b where these two cross."""
    each = xp.arange(moved.shape[0], device=_device(moved, xp))
    slope_a, slope_b = _taken(slope, each, a, xp), _taken(slope, each, b, xp)
    score_a, score_b = moved[each, a], moved[each, b]
    cross = xp.clip((score_a - score_b) / (slope_b - slope_a), bounds[0], bounds[1])
    lines = moved + cross[:, None] * slope
    level = xp.minimum(lines[each, a], lines[each, b])
    above = xp.nonzero(xp.reshape(lines > level[:, None], (-1,)))[0]
    row, klass = above // moved.shape[1], above % moved.shape[1]
    steepness = _taken(slope, row, klass, xp)
    inside = (steepness > xp.take(slope_a, row)) & (steepness < xp.take(slope_b, row))
    return row[inside], klass[inside]


def _device(array: Array, xp: Namespace) -> Any:
    return None if isinstance(array, np.ndarray) else xp.asarray(array).device


@dataclass(frozen=True, eq=False)
class Envelope:
    """Every switch of N samples, and their winners at λ = 0 and at the lower bound, (N,).

    Switch j takes sample ``row[j]`` at strength ``position[j]`` from class ``loser[j]`` to class
    ``winner[j]``.
    """

    origin: Vector
    start: Vector
    position: Vector
    row: Vector
    loser: Vector
    winner: Vector


def walk(screened: Screen, bounds: tuple[float, float]) -> Envelope:
    """Walk every moving sample from line a to line b: one round for each switch.

    At a switch the larger slope wins, among equal slopes the larger score, then the lower index.
    From λ = 0, which is the first arg max itself, the first switch is right after 0.
    """
    here, level, steepness = screened.a.copy(), screened.score_a.copy(), screened.slope_a.copy()
    at = np.full(here.shape, bounds[0] or AFTER_ZERO)
    straight, row, klass, score, slope = _lines(screened)
    rise = level[straight] - screened.score_b[straight]
    x = rise / (screened.slope_b[straight] - steepness[straight])
    # Rounding must not take a walk back, or past the end.
    x = np.minimum(np.maximum(x, at[straight]), bounds[1])
    found = [(x, straight, here[straight], screened.b[straight])]
    while row.size:
        x = (level[row] - score) / (slope - steepness[row])
        pick = _nearest(row, x, slope, score, klass)
        walker, to = row[pick], klass[pick]
        at[walker] = np.minimum(np.maximum(x[pick], at[walker]), bounds[1])
        found.append((at[walker], walker, here[walker], to))
        here[walker], level[walker], steepness[walker] = to, score[pick], slope[pick]
        steeper = slope > steepness[row]
        row, klass, score, slope = (each[steeper] for each in (row, klass, score, slope))
    position, walker, loser, winner = (np.concatenate(part) for part in zip(*found, strict=True))
    return Envelope(
        screened.origin, screened.start, position, screened.moving[walker], loser, winner
    )


def _lines(screened: Screen) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return the samples without candidates, and the lines of the others, grouped by sample."""
    winding = np.zeros(screened.a.shape, bool)
    winding[screened.row] = True
    goals = np.flatnonzero(winding)
    row = np.concatenate([screened.row, goals])
    order = np.argsort(row, kind="stable")  # two sorted runs: a stable sort merges them
    klass = np.concatenate([screened.klass, screened.b[goals]])[order]
    score = np.concatenate([screened.score, screened.score_b[goals]])[order]
    slope = np.concatenate([screened.slope, screened.slope_b[goals]])[order]
    return np.flatnonzero(~winding), row[order], klass, score, slope


def _nearest(row: Vector, x: Vector, slope: Vector, score: Vector, klass: Vector) -> Vector:
    """Return the index of the line that each sample meets first; ties follow the rules above."""
    first = np.empty(row.shape, bool)
    first[0], first[1:] = True, row[1:] != row[:-1]
    starts = np.flatnonzero(first)
    run = np.cumsum(first) - 1
    tied = np.flatnonzero(x == np.minimum.reduceat(x, starts)[run])
    if tied.size == starts.size:
        return tied
    order = np.lexsort((-klass[tied], score[tied], slope[tied], row[tied]))
    tied = tied[order]
    last = np.append(row[tied[1:]] != row[tied[:-1]], True)
    return np.asarray(tied[last])


def envelope(
    scores: Array, slopes: Vector | Array, bounds: tuple[float, float], xp: Namespace
) -> Envelope | None:
    """Find the switches of (N, K) ``scores`` with slopes (K,) or (N, K) on ``bounds``.

    Bounds on both sides of 0 need two walks. A class of slope −inf takes part only at λ = 0. Return
    None if a sample has no finite score, or a slope of −inf below λ = 0.
    """
    if bounds[0] < 0.0 < bounds[1]:
        before = envelope(scores, slopes, (bounds[0], 0.0), xp)
        after = envelope(scores, slopes, (0.0, bounds[1]), xp)
        if before is None or after is None:
            return None
        return Envelope(
            before.origin,
            before.start,
            *(
                np.concatenate([getattr(before, name), getattr(after, name)])
                for name in ("position", "row", "loser", "winner")
            ),
        )
    shared = slopes.ndim == 1
    active = np.isfinite(slopes) if shared else xp.isfinite(slopes)
    if active.all() if shared else bool(xp.all(active)):
        screened = screen(scores, slopes, bounds, xp)
        return None if screened.hopeless else walk(screened, bounds)
    origin = to_numpy(xp.argmax(scores, axis=1))
    if shared:
        column = np.flatnonzero(active)
        kept = xp.take(scores, constant(column, xp, like=scores), axis=1)
        inner = envelope(kept, slopes[active], bounds, xp)
        stays = active[origin]
    else:
        column = np.arange(scores.shape[1])
        kept = xp.where(active, scores, xp.full_like(scores, -xp.inf))
        slopes = xp.where(active, slopes, xp.zeros_like(slopes))
        inner = None if bounds[0] < 0.0 else envelope(kept, slopes, bounds, xp)
        stays = to_numpy(active)[np.arange(origin.size), origin]
    if inner is None:
        return None
    start, loser, winner = column[inner.start], column[inner.loser], column[inner.winner]
    if bounds[0] > 0.0:
        return Envelope(origin, start, inner.position, inner.row, loser, winner)
    leaving = np.flatnonzero(~stays)
    return Envelope(
        origin,
        origin,
        np.concatenate([np.full(leaving.shape, AFTER_ZERO), inner.position]),
        np.concatenate([leaving, inner.row]),
        np.concatenate([origin[leaving], loser]),
        np.concatenate([start[leaving], winner]),
    )
