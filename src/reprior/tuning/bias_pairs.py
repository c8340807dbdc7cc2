"""The best biases of two classes at once, exactly, for few samples.

Coordinate ascent stops where no single bias can be improved; two together sometimes can. For a
given bias of class j the bias of class k is found along its line. The order of the switches on
that line changes only at some N² biases of class j, so trying one between each two of them is
exhaustive. With three classes this is the best of all biases, for only differences matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import EQUAL_VALUES, NARROWEST
from reprior.tuning.bias_goal import Goal
from reprior.tuning.bias_line import OUTSIDE
from reprior.tuning.columns import Columns

__all__ = ["Pairs", "best_pair", "pairs_worth_trying"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Pairs are tried as long as all of them together take this many counts to look at.
PAIR_WORK = 1 << 22

#: Counts that are looked at together.
AT_ONCE = 1 << 20


#: Under constraints a class alone is soon stuck: where two are to move together, one comes up
#: against a constraint. Pairs are tried then at some places of the first of them, as many as take
#: this many counts to look at, of all pairs together.
SOME_WORK = 1 << 20

#: But no more than this many, and none where there would be fewer than these.
MOST_PLACES = 128
FEWEST_PLACES = 8

#: Samples whose switches say where these places are.
PLACED_BY = 256


class Pairs(NamedTuple):
    """Which pairs of classes are tried, and at how many places; None for all there are."""

    pairs: list[tuple[int, int]]
    places: int | None = None


class _Best(NamedTuple):
    rank: float
    room: float
    biases: tuple[float, float]


class _Pair(NamedTuple):
    """Two classes: where each comes to beat the rest, and how far they are apart."""

    j: int
    k: int
    beats: Vector
    """Bias of k from which on it beats all but j, (N,)."""
    apart: Vector
    """Score of j less that of k, without biases, (N,)."""
    joins: Vector
    """Bias of j from which on it beats all but k, (N,)."""
    rest: Vector
    """Best class but for these two, (N,)."""


def pairs_worth_trying(data: Columns, movable: list[int], *, some: bool = False) -> Pairs:
    """The pairs of classes to try; none where there are too many samples.

    With ``some``, where they are too many for all places, they are tried at some of them.
    """
    if data.n_classes == 2:  # one line is everything
        return Pairs([])
    pairs = list(combinations(movable, 2))
    if data.n_classes == 3:  # each pair is everything
        pairs = pairs[:1]
    one = len(pairs) * data.n_samples * data.n_classes
    if one * data.n_samples**2 <= PAIR_WORK:
        return Pairs(pairs)
    places = min(MOST_PLACES, SOME_WORK // one)
    if not some or places < FEWEST_PLACES:
        return Pairs([])
    return Pairs(pairs, places)


def best_pair(
    data: Columns,
    goal: Goal,
    biases: Vector,
    pair: tuple[int, int],
    rank: float,
    places: int | None = None,
) -> dict[int, float] | None:
    """Biases of two classes that are better than ``rank``, or None.

    The best there are, or those at some ``places`` of the first.
    """
    here = _pair(data, biases, *pair)
    counts = data.counts(data.labels)  # of the right answers: who has labels
    best = _Best(rank, 0.0, (0.0, 0.0))
    for low, high in _cells(here, max(1, AT_ONCE // (data.n_samples * data.n_classes)), places):
        best = _better(best, *_along(data, goal, counts, here, low, high))
    if not best.rank > rank + EQUAL_VALUES:
        return None
    return dict(zip(pair, best.biases, strict=True))


def _pair(data: Columns, biases: Vector, j: int, k: int) -> _Pair:
    scores = data.rows + biases
    scores[:, [j, k]] = -np.inf
    rest = scores.argmax(axis=1)
    top = scores.max(axis=1)
    of_j, of_k = (data.rows[:, c].astype(np.float64) for c in (j, k))
    never_j, never_k = np.isinf(of_j), np.isinf(of_k)
    with np.errstate(invalid="ignore"):
        beats = np.where(never_k, np.inf, top - of_k)
        apart = np.where(never_k, np.inf, of_j - of_k)
        joins = np.where(never_j, np.inf, top - of_j)
    return _Pair(j, k, beats, apart, joins, rest)


def _cells(pair: _Pair, at_once: int, places: int | None = None) -> Iterator[tuple[Vector, Vector]]:
    """Intervals of the bias of j in which no two switches of k change places.

    Of these, ``places`` that lie as densely as all of them do, if so many are asked for.
    """
    some = slice(None, None, None if places is None else -(-pair.joins.size // PLACED_BY))
    with np.errstate(invalid="ignore"):
        edges = (pair.beats[some, None] - pair.apart[some]).reshape(-1)
    edges = np.unique(np.concatenate([edges, pair.joins]))
    edges = edges[np.isfinite(edges)]
    if not edges.size:
        edges = np.zeros(1)
    edges = np.concatenate([[edges[0] - OUTSIDE], edges, [edges[-1] + OUTSIDE]])
    wide = np.flatnonzero(np.diff(edges) >= NARROWEST)
    if places is not None and wide.size > places:
        wide = wide[np.linspace(0, wide.size - 1, places).astype(np.int64)]
    for start in range(0, wide.size, at_once):
        taken = wide[start : start + at_once]
        yield edges[taken], edges[taken + 1]


def _along(
    data: Columns, goal: Goal, labelled: ClassCounts, pair: _Pair, low: Vector, high: Vector
) -> tuple[Vector, Vector, Vector, Vector]:
    """Ranks (C, N + 1) on the lines of k, room there, and biases of j and k."""
    bias = (low + high) / 2
    place = np.maximum(pair.beats, bias[:, None] + pair.apart)
    rival = np.where(bias[:, None] >= pair.joins, pair.j, pair.rest)
    by = np.argsort(place, axis=1)
    place, rival = np.take_along_axis(place, by, 1), np.take_along_axis(rival, by, 1)
    labels = data.labels[by]
    weights = np.ones(by.shape) if data.weights is None else data.weights[by]
    classes = np.arange(data.n_classes)

    def tally(amount: Vector) -> Vector:
        """Of each class, what is left with the rivals, (C, N + 1, K)."""
        each = np.where(rival[..., None] == classes, amount[..., None], 0.0)
        left = np.zeros((by.shape[0], by.shape[1] + 1, classes.size))
        left[:, :-1] = np.cumsum(each[:, ::-1], axis=1)[:, ::-1]
        return left

    def won(amount: Vector) -> Vector:
        taken = np.zeros((by.shape[0], by.shape[1] + 1))
        np.cumsum(amount, axis=1, out=taken[:, 1:])
        return taken

    plain, predicted = tally(np.ones(by.shape)), tally(weights)
    hits = tally(weights * (labels == rival))
    plain[..., pair.k], predicted[..., pair.k] = won(np.ones(by.shape)), won(weights)
    hits[..., pair.k] = won(weights * (labels == pair.k))
    rank = _ranks(goal, labelled, hits, predicted, plain)
    left = np.pad(place, ((0, 0), (1, 0)), constant_values=-np.inf)
    right = np.pad(place, ((0, 0), (0, 1)), constant_values=np.inf)
    lower = np.where(np.isinf(left), np.where(np.isinf(right), 0.0, right) - OUTSIDE, left)
    upper = np.where(np.isinf(right), np.where(np.isinf(left), 0.0, left) + OUTSIDE, right)
    there = (left < right) & (upper - lower >= NARROWEST)
    room = np.minimum(upper - lower, (high - low)[:, None])
    return np.where(there, rank, -np.inf), room, bias, (lower + upper) / 2


def _ranks(
    goal: Goal, labelled: ClassCounts, hits: Vector, predicted: Vector, plain: Vector
) -> Vector:
    """Ranks of many class counts, of shape (..., K)."""
    value = _values(labelled, goal.metric, hits, predicted, plain)
    missing = np.zeros(value.shape)
    for rule, metric, before in goal.rules():
        missing += rule.misses(_values(labelled, metric, hits, predicted, plain), before)
    return np.where(missing > 0, -missing, value)


def _values(
    base: ClassCounts, metric: CountMetric, hits: Vector, predicted: Vector, plain: Vector
) -> Vector:
    if metric.average == "pooled":
        return metric.ratio(hits.sum(-1), predicted.sum(-1), base.support.sum())
    counted = np.broadcast_to(metric.counted(base), plain.shape)
    if metric.average == "seen":
        counted = base.labelled | (plain > 0)
    ratio = metric.ratio(hits, predicted, base.support) * (counted & (plain > 0))
    value: Vector = ratio.sum(-1) / np.maximum(counted.sum(-1), 1)
    return value


def _better(best: _Best, rank: Vector, room: Vector, of_j: Vector, of_k: Vector) -> _Best:
    """The best of the cells, and of equally good ones the roomiest, if it is better."""
    top = rank.max()
    if top < best.rank - EQUAL_VALUES:
        return best
    good = np.where(rank >= top - EQUAL_VALUES, room, -np.inf)
    cell, step = np.unravel_index(int(good.argmax()), good.shape)
    if top <= best.rank + EQUAL_VALUES and good[cell, step] <= best.room:
        return best
    return _Best(float(top), float(good[cell, step]), (float(of_j[cell]), float(of_k[cell, step])))
