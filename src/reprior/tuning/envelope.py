"""Which class wins at which strength: the upper envelope of K lines per sample.

A sample's score for class k is a line in the strength λ, ``s_k(λ) = z_k + λ·w_k``; its
prediction is the class on top. Going right, the winner only ever changes to a line of
larger slope, so

* a sample with the same winner at both ends of the range never switches: an arg max at one
  end and a comparison at the other settle most samples;
* where the winners a and b differ, every class that wins in between lies above a and b
  at the point where those two cross. One more pass finds these few candidates, and a walk
  from a over them to b gives the exact switches.

Every step of the walk goes to a strictly larger slope, so it ends after at most K − 1
steps whatever rounding does. All of it is float64, whatever the scores are.

The passes over the scores are array-API code, so they run where the scores are; the walk
over the candidates, which are few, is NumPy. ``compiled`` does the same in one loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import Array, Namespace, constant, to_numpy
from reprior.tuning.constants import AFTER_ZERO

__all__ = ["Envelope", "envelope"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Envelope:
    """Winners of N samples and every switch between two of them.

    ``origin`` and ``start`` (N,) win at λ = 0 and at the lower bound; switch j takes sample
    ``row[j]`` at strength ``position[j]`` from class ``loser[j]`` to class ``winner[j]``.
    """

    origin: Vector
    start: Vector
    position: Vector
    row: Vector
    loser: Vector
    winner: Vector


def envelope(
    scores: Array, slopes: Vector, bounds: tuple[float, float], xp: Namespace
) -> Envelope:
    """Find the switches of (N, K) ``scores`` with the given slopes on ``bounds``.

    The scores hold no NaN and no +inf, and every row a finite score. At a switch the larger
    slope wins, among equal slopes the larger score, then the lower index; λ = 0 itself is
    the first arg max. A class of slope −inf takes part at λ = 0 alone.
    """
    active = np.isfinite(slopes)
    if active.all():
        return _envelope(scores, slopes, bounds, xp)
    column = np.flatnonzero(active)
    inner = _envelope(
        xp.take(scores, constant(column, xp, like=scores), axis=1), slopes[active], bounds, xp
    )
    start, loser, winner = column[inner.start], column[inner.loser], column[inner.winner]
    origin = to_numpy(xp.argmax(scores, axis=1))
    if bounds[0] > 0.0:
        return Envelope(origin, start, inner.position, inner.row, loser, winner)
    leaving = np.flatnonzero(~active[origin])
    return Envelope(
        origin,
        origin,
        np.concatenate([np.full(leaving.shape, AFTER_ZERO), inner.position]),
        np.concatenate([leaving, inner.row]),
        np.concatenate([origin[leaving], loser]),
        np.concatenate([start[leaving], winner]),
    )


def _envelope(
    scores: Array, slopes: Vector, bounds: tuple[float, float], xp: Namespace
) -> Envelope:
    slope = constant(slopes, xp, like=scores)
    origin = xp.argmax(scores, axis=1)
    start = origin if bounds[0] == 0.0 else _winners(scores, slope, bounds[0], xp)
    rivalled = _rivalled(scores, slope, start, bounds[1], xp)
    moved = xp.astype(xp.take(scores, rivalled, axis=0), slope.dtype)
    a, b = xp.take(start, rivalled), _winners(moved, slope, bounds[1], xp)
    goes = xp.nonzero(xp.take(slope, b) > xp.take(slope, a))[0]
    moving, moved = xp.take(rivalled, goes), xp.take(moved, goes, axis=0)
    a, b = xp.take(a, goes), xp.take(b, goes)
    rows, classes = _candidates(moved, slope, a, b, bounds, xp)
    row, klass = to_numpy(rows), to_numpy(classes)
    picked = to_numpy(moved[rows, classes]) if row.size else np.empty(0)
    walk = _Walk(
        slopes=slopes,
        bounds=bounds,
        origin=_with_scores(moved, xp.take(origin, moving), xp),
        a=_with_scores(moved, a, xp),
        b=_with_scores(moved, b, xp),
        row=row,
        klass=klass,
        score=picked,
    )
    position, walker, loser, winner = walk.switches()
    sample = to_numpy(moving)[walker]
    return Envelope(to_numpy(origin), to_numpy(start), position, sample, loser, winner)


def _rivalled(
    scores: Array, slope: Array, start: Array, strength: float, xp: Namespace
) -> Array:
    """Rows in which another line reaches that of ``start`` at ``strength``, or might.

    Computed in the scores' own precision for speed. In float32 a line is off by at most
    ``u·(|s| + |λ·w|)``, u = 2⁻²⁴; with twice that allowed on either side no row is missed.
    """
    n_rows, n_classes = scores.shape
    shift = xp.astype(strength * slope, scores.dtype)
    lines = scores + shift
    own = lines[xp.arange(n_rows, device=_device(scores, xp)), start]
    if scores.dtype != slope.dtype:
        unit = float(xp.finfo(scores.dtype).eps)
        own = own - 2 * unit * (xp.abs(own) + xp.max(xp.abs(shift)))
    reached = xp.nonzero(xp.reshape(lines >= own[:, None], (-1,)))[0]
    if reached.shape[0] == n_rows:
        return reached[:0]
    row = reached // n_classes
    again = row[1:][row[1:] == row[:-1]]
    return xp.concat([again[:1], again[1:][again[1:] != again[:-1]]])


def _winners(scores: Array, slope: Array, strength: float, xp: Namespace) -> Array:
    """Arg max at one strength; a tie goes to the larger slope, then the larger score."""
    lines = xp.astype(scores, slope.dtype) + strength * slope
    top = xp.max(lines, axis=1, keepdims=True)
    winner = xp.argmax(lines, axis=1)
    tied = lines == top
    if int(xp.count_nonzero(tied)) == tied.shape[0]:
        return winner
    rows = xp.nonzero(xp.sum(xp.astype(tied, xp.int64), axis=1) > 1)[0]
    host_tied, host_scores = to_numpy(tied[rows, :]), to_numpy(scores[rows, :])
    rank = np.where(host_tied, to_numpy(slope), -np.inf)
    steepest = rank == rank.max(axis=1, keepdims=True)
    settled = np.where(steepest, host_scores.astype(np.float64), -np.inf).argmax(axis=1)
    result = to_numpy(winner).copy()
    result[to_numpy(rows)] = settled
    return constant(result, xp, like=scores)


def _candidates(
    moved: Array, slope: Array, a: Array, b: Array, bounds: tuple[float, float], xp: Namespace
) -> tuple[Array, Array]:
    """Rows and classes of the lines above a and b where those two cross."""
    each = xp.arange(moved.shape[0], device=_device(moved, xp))
    slope_a, slope_b = xp.take(slope, a), xp.take(slope, b)
    score_a, score_b = moved[each, a], moved[each, b]
    cross = xp.clip((score_a - score_b) / (slope_b - slope_a), bounds[0], bounds[1])
    lines = moved + cross[:, None] * slope
    level = xp.minimum(lines[each, a], lines[each, b])
    above = xp.nonzero(xp.reshape(lines > level[:, None], (-1,)))[0]
    row, klass = above // moved.shape[1], above % moved.shape[1]
    steepness = xp.take(slope, klass)
    inside = (steepness > xp.take(slope_a, row)) & (steepness < xp.take(slope_b, row))
    return row[inside], klass[inside]


def _device(array: Array, xp: Namespace) -> Any:
    return None if isinstance(array, np.ndarray) else xp.asarray(array).device


def _with_scores(moved: Array, classes: Array, xp: Namespace) -> tuple[Vector, Vector]:
    each = xp.arange(moved.shape[0], device=_device(moved, xp))
    return to_numpy(classes), to_numpy(moved[each, classes])


@dataclass
class _Walk:
    """The walk of every moving sample at once: one round per switch."""

    slopes: Vector
    bounds: tuple[float, float]
    origin: tuple[Vector, Vector]
    a: tuple[Vector, Vector]
    b: tuple[Vector, Vector]
    row: Vector
    klass: Vector
    score: Vector

    def switches(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Position, walking sample, loser and winner of every switch."""
        here, level = self.a[0].copy(), self.a[1].copy()
        at = np.full(here.shape, self.bounds[0])
        winding = np.zeros(here.shape, bool)
        winding[self.row] = True
        straight = np.flatnonzero(~winding)
        goal, goal_level = self.b[0][straight], self.b[1][straight]
        x = (level[straight] - goal_level) / (self.slopes[goal] - self.slopes[here[straight]])
        found = self._steps(self._clamp(x, at[straight]), straight, here, goal)
        row, klass, score = self._lines(np.flatnonzero(winding))
        while row.size:
            first = np.empty(row.shape, bool)
            first[0], first[1:] = True, row[1:] != row[:-1]
            starts = np.flatnonzero(first)
            walker = row[starts]
            x = (level[row] - score) / (self.slopes[klass] - self.slopes[here[row]])
            nearest = np.minimum.reduceat(x, starts)
            tied = x == nearest[np.cumsum(first) - 1]
            pick = np.maximum.reduceat(np.where(tied, np.arange(row.size), -1), starts)
            moved_at = self._clamp(nearest, at[walker])
            found += self._steps(moved_at, walker, here, klass[pick])
            at[walker] = np.where(moved_at == 0.0, AFTER_ZERO, moved_at)
            here[walker], level[walker] = klass[pick], score[pick]
            steeper = self.slopes[klass] > self.slopes[here[row]]
            row, klass, score = row[steeper], klass[steeper], score[steeper]
        position, sample, loser, winner = (np.concatenate(part) for part in zip(*found, strict=True))
        return position, sample, loser, winner

    def _clamp(self, x: Vector, at: Vector) -> Vector:
        """Rounding must not take a walk back, or past the end."""
        return np.minimum(np.maximum(x, at), self.bounds[1])

    def _lines(self, winding: Vector) -> tuple[Vector, Vector, Vector]:
        """Candidates and goals, by sample; within it the winner of a tie comes last."""
        row = np.concatenate([self.row, winding])
        klass = np.concatenate([self.klass, self.b[0][winding]])
        score = np.concatenate([self.score, self.b[1][winding]])
        order = np.lexsort((-klass, score, self.slopes[klass], row))
        return row[order], klass[order], score[order]

    def _steps(
        self, at: Vector, walker: Vector, here: Vector, winner: Vector
    ) -> list[tuple[Vector, Vector, Vector, Vector]]:
        """One switch each; at λ = 0 by way of the model's own arg max."""
        loser = here[walker]
        own = self.origin[0][walker]
        detour = (at == 0.0) & (self.slopes[own] > self.slopes[loser])
        first = (at[detour], walker[detour], loser[detour], own[detour])
        loser = np.where(detour, own, loser)
        left = loser != winner
        later = np.where(at == 0.0, AFTER_ZERO, at)
        return [first, (later[left], walker[left], loser[left], winner[left])]
