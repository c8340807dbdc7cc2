"""The search for per-class biases: coordinate ascent by exact line searches.

Raising the bias b of class k makes a sample change from its best other class to k at exactly one
bias, ``t = max_{j≠k}(z_j + b_j) − z_k``, and never back. So all class counts along b are a sorted
list of switches, and a metric is a step function of b, as it is of the strength.

Most steps are short. So the search of each class is at first within a box around the present
biases, where few samples change. When no class finds a better bias there, each searches its whole
line. The search ends when no class has a better bias on its whole line.

Coordinate ascent stops where no single bias can be improved; two together sometimes can. With few
samples, pairs of classes are tried too. For a given bias of class j the bias of class k is found
along its line. The order of the switches on that line changes only at about N² biases of class j,
so trying one between each two of them is exhaustive. With three classes this finds the best of all
biases, because only differences matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts, PairCounts
from reprior.metrics.fixed_point import FixedPointMetric
from reprior.profile.constants import EQUAL_VALUES, NARROWEST
from reprior.profile.objective import Constraint, best_interval, middle
from reprior.profile.samples import Samples
from reprior.profile.sweep import Steps, sweep, value_of
from reprior.profile.switches import Switches

__all__ = [
    "SAMPLES_AT_ONCE",
    "Ascent",
    "Columns",
    "Goal",
    "Pairs",
    "Stretch",
    "TopTwo",
    "best_pair",
    "climb_box",
    "climb_lines",
    "line_of",
    "pairs_worth_trying",
    "promising_part",
    "tallies_of",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Samples per block, so that their scores stay in the cache.
SAMPLES_AT_ONCE = 256

#: Classes that are read at once: neighbouring scores of a sample share cache lines.
CLASSES_AT_ONCE = 16


class Columns:
    """Samples by row and by column, in the layout of the search's kernels.

    Parameters
    ----------
    samples : Samples
        What :meth:`reprior.profile.samples.Samples.counted` gives.
    paired : bool
        Whether counts have pairs of label and prediction, which some metrics need.

    Attributes
    ----------
    rows : array of shape (N, K)
        The scores, float32 or float64, in C order.
    labels : int32 array of shape (N,)
        Class indices.
    weights : float64 array of shape (N,), or None
        A weight per sample.
    """

    def __init__(self, samples: Samples, *, paired: bool = False) -> None:
        self.samples = samples
        self.paired = paired
        rows = np.require(samples.scores, requirements=["C", "A"]).view()
        rows.flags.writeable = False  # they are the caller's
        self.rows = rows
        self.labels = np.require(samples.labels, np.int32, ["C", "A"])
        self.weights: Vector | None = None
        if samples.weights is not None:
            self.weights = np.require(samples.weights, np.float64, ["C", "A"])
        self._first_column, self._columns = -CLASSES_AT_ONCE, rows[:0]

    @property
    def n_samples(self) -> int:
        """N."""
        return int(self.rows.shape[0])

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.rows.shape[1])

    def column(self, k: int) -> Vector:
        """Return the scores of class ``k``, (N,), contiguous."""
        if not 0 <= k - self._first_column < CLASSES_AT_ONCE:
            self._first_column = k - k % CLASSES_AT_ONCE
            some = self.rows[:, self._first_column : self._first_column + CLASSES_AT_ONCE]
            turned = np.empty(some.shape[::-1], some.dtype)
            for start in range(0, self.n_samples, SAMPLES_AT_ONCE):
                part = slice(start, start + SAMPLES_AT_ONCE)
                turned[:, part] = some[part].T
            self._columns = turned
        column: Vector = self._columns[k - self._first_column]
        return column

    def taken(self, index: Vector) -> Columns:
        """Return some of the samples."""
        return Columns(self.samples.taken(index), paired=self.paired)

    def counts(self, predictions: Vector) -> ClassCounts:
        """Return the class counts of these predictions."""
        plain = self._three(predictions, None)
        sums = plain if self.weights is None else self._three(predictions, self.weights)
        return ClassCounts(
            *sums, n_predicted=plain[1], n_labelled=plain[2], pairs=self.pairs(predictions)
        )

    def pairs(self, predictions: Vector) -> PairCounts | None:
        """Return the pairs of label and prediction, if they are needed."""
        if not self.paired:
            return None
        images = self.samples.images
        return PairCounts.of(self.labels, predictions, self.n_classes, self.weights, images)

    def predictions(self, biases: Vector) -> Vector:
        """Return the class of the largest score z + b, the lowest index among equals."""
        predictions = np.empty(self.n_samples, np.intp)
        for start in range(0, self.n_samples, SAMPLES_AT_ONCE):
            part = slice(start, start + SAMPLES_AT_ONCE)
            (self.rows[part] + biases).argmax(axis=1, out=predictions[part])
        return predictions

    def _three(self, predictions: Vector, weights: Vector | None) -> tuple[Vector, Vector, Vector]:
        y, n_classes = self.labels, self.n_classes
        right = y == predictions
        hits = None if weights is None else weights[right]
        return (
            np.bincount(y[right], hits, minlength=n_classes),
            np.bincount(predictions, weights, minlength=n_classes),
            np.bincount(y, weights, minlength=n_classes),
        )


class TopTwo:
    """The two top classes of every sample of ``data`` at ``biases``, and their scores.

    Parameters
    ----------
    data : Columns
        The log-scores.
    biases : array of shape (K,)
        What is added to them. −inf takes a class out of play.

    Attributes
    ----------
    first, second : int32 array of shape (N,)
        The classes.
    top, following : float64 array of shape (N,)
        Their scores.
    """

    def __init__(self, data: Columns, biases: Vector) -> None:
        self.data, self.biases = data, np.array(biases, np.float64)
        self.first, self.second = np.empty((2, data.n_samples), np.int32)
        self.top, self.following = np.empty((2, data.n_samples))
        self._right = data.counts(data.labels)  # of the labels: the support never changes
        if kernels.native is not None:
            kernels.native.place_rows(data.rows, self.biases, *self.places)
            return
        for start in range(0, data.n_samples, SAMPLES_AT_ONCE):
            self._place(slice(start, start + SAMPLES_AT_ONCE))

    def move(self, k: int, bias: float) -> None:
        """Give class ``k`` another bias."""
        column = self.data.column(k)
        if kernels.native is not None:
            kernels.native.move_class(self.data.rows, column, self.biases, k, bias, *self.places)
            return
        raised = bias > self.biases[k]
        self.biases[k] = bias
        score = column.astype(np.float64) + bias
        if raised:
            self._raise(k, score)
        else:
            self._lower(k, score)

    def counts(self) -> ClassCounts:
        """Return the class counts of the first classes."""
        if kernels.native is None:
            return self.data.counts(self.first)
        data, plain = self.data, np.zeros((2, self.data.n_classes), np.int64)
        sums: Vector = np.zeros((2, data.n_classes))
        kernels.native.count_first(data.labels, data.weights, self.first, sums, plain)
        tp, predicted = plain if data.weights is None else sums
        right, pairs = self._right, data.pairs(self.first)
        return ClassCounts(tp, predicted, right.support, plain[1], right.n_labelled, pairs)

    @property
    def places(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return both classes, then both scores."""
        return self.first, self.second, self.top, self.following

    def _place(self, index: Any) -> None:
        scores = self.data.rows[index] + self.biases
        rows = np.arange(scores.shape[0])
        first = scores.argmax(axis=1)
        self.first[index], self.top[index] = first, scores[rows, first]
        scores[rows, first] = -np.inf
        second = scores.argmax(axis=1)
        # Where every other class is at −inf, the arg max may be the first class once more.
        second = np.where(second == first, np.where(first == 0, 1, 0), second)
        self.second[index], self.following[index] = second, scores[rows, second]

    def _raise(self, k: int, score: Vector) -> None:
        own = self.first == k
        self.top[own] = score[own]
        ahead = ~own & ((score > self.top) | ((score == self.top) & (k < self.first)))
        self.second[ahead], self.following[ahead] = self.first[ahead], self.top[ahead]
        self.first[ahead], self.top[ahead] = k, score[ahead]
        behind = ~own & ~ahead
        closer = score > self.following
        closer |= (score == self.following) & (k <= self.second)
        behind &= closer
        self.second[behind], self.following[behind] = k, score[behind]

    def _lower(self, k: int, score: Vector) -> None:
        own = self.first == k
        stays = score > self.following
        stays |= (score == self.following) & (k < self.second)
        stays &= own
        self.top[stays] = score[stays]
        again = np.flatnonzero((own & ~stays) | (self.second == k))
        for start in range(0, again.size, SAMPLES_AT_ONCE):
            self._place(again[start : start + SAMPLES_AT_ONCE])


Box: TypeAlias = tuple[float, float]

#: Beyond the outermost switch nothing changes, however far: an interval there ends this far out,
#: one unit of log-odds, so that it has a middle.
OUTSIDE = 1.0

EVERYWHERE: Box = (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of a line: its switches, and the class counts before the first of them.

    The step before the first switch starts at ``low``; the one after the last ends at ``high``.
    """

    switches: Switches
    counts: ClassCounts
    low: float
    high: float


def line_of(two: TopTwo, counts: ClassCounts, k: int, box: Box = EVERYWHERE) -> Stretch | None:
    """Return the line of class ``k``'s bias within ``box``; None if nothing changes there.

    ``counts`` are those of the first classes of ``two``.
    """
    data = two.data
    holds = two.first == k
    place = np.where(holds, two.following, two.top) - data.column(k)
    wins = place <= box[0]  # −inf: no other class takes this sample from class k
    moved = np.flatnonzero(holds != wins)
    tallies, plain = tallies_of(counts)
    other = np.where(holds[moved], two.second[moved], two.first[moved])
    weight = None if data.weights is None else data.weights[moved]
    for party, sign in ((np.where(wins[moved], k, other), 1), (two.first[moved], -1)):
        right = data.labels[moved] == party
        hits = None if weight is None else weight[right]
        tallies[0] += sign * np.bincount(party[right], hits, minlength=plain.size)
        tallies[1] += sign * np.bincount(party, weight, minlength=plain.size)
        plain += sign * np.bincount(party, minlength=plain.size)
    chosen = np.flatnonzero((place > box[0]) & (place <= box[1]) & np.isfinite(place))
    pairs = None
    if data.paired:
        before = two.first.copy()
        before[moved] = np.where(wins[moved], k, other)
        pairs = data.pairs(before)
    return _of_samples(two, counts, k, (place, chosen, *box), tallies, plain, pairs)


def promising_part(
    two: TopTwo, counts: ClassCounts, k: int, metric: CountMetric, value: float
) -> Stretch | None:
    """Return the part of the line on which ``metric`` may be above ``value``, its present value.

    None if there is none. A kernel only: array code would need all switches to find it.
    """
    native: Any = kernels.native
    data = two.data
    tallies, plain = tallies_of(counts)
    place, chosen = np.empty(data.n_samples), np.empty(data.n_samples, np.int64)
    used, before, after = native.promising_part(
        data.rows,
        data.labels,
        data.weights,
        data.column(k),
        k,
        float(two.biases[k]),
        *two.places,
        counts.support.astype(np.float64),
        FixedPointMetric(metric, counts).native(native),
        value,
        tallies,
        plain,
        place,
        chosen,
    )
    return _of_samples(two, counts, k, (place, chosen[:used], before, after), tallies, plain)


def climb_lines(
    two: TopTwo,
    counts: ClassCounts,
    metric: CountMetric,
    home: Vector,
    order: Vector,
    value: float,
) -> list[float]:
    """Move each class of ``order`` to the best place on its line; return the metric after each.

    ``value`` is the present metric; distances are measured from ``home`` (K,). A kernel that does
    the steps along :func:`promising_part` in one call.
    """
    native: Any = kernels.native
    steps: list[float] = native.climb_lines(
        *_search(two, counts, two.biases),
        FixedPointMetric(metric, counts).native(native),
        home,
        order,
        value,
    )
    return steps


def climb_box(
    two: TopTwo,
    counts: ClassCounts,
    metric: CountMetric,
    home: Vector,
    order: Vector,
    value: float,
    radius: float,
    max_cycles: int,
) -> tuple[Vector, list[float], int]:
    """Step through the classes of ``order`` until no step within ``radius`` improves.

    While no bias moves by more than a radius r, two classes move against each other by at most
    2·r. A sample whose first class leads by more keeps it, and a class that is further behind
    never wins it. Line searches without these samples are the same, and cheap. A kernel. Returns
    the biases, the metric after each step, and the number of rounds; ``two`` does not change.
    """
    native: Any = kernels.native
    biases = two.biases.copy()
    steps, cycles = native.climb_box(
        *_search(two, counts, biases),
        FixedPointMetric(metric, counts).native(native),
        home,
        order,
        value,
        radius,
        max_cycles,
    )
    return biases, steps, cycles


def _search(two: TopTwo, counts: ClassCounts, biases: Vector) -> tuple[Any, ...]:
    """Return the arguments of the searches over all classes; they move ``biases``."""
    data = two.data
    support = counts.support.astype(np.float64)
    return (data.rows, data.labels, data.weights, biases, *two.places, *tallies_of(counts), support)


def tallies_of(counts: ClassCounts) -> tuple[Vector, Vector]:
    """Copy true positives and predicted (2, K), and the plain number predicted (K,)."""
    plain = counts.predicted if counts.n_predicted is None else counts.n_predicted
    both = np.array([counts.true_positive, counts.predicted], np.float64)
    return both, np.array(plain, np.int64)


def _of_samples(
    two: TopTwo,
    counts: ClassCounts,
    k: int,
    part: tuple[Vector, Vector, float, float],
    tallies: Vector,
    plain: Vector,
    pairs: PairCounts | None = None,
) -> Stretch | None:
    """Return the switches of some samples, and the counts before them."""
    everywhere, chosen, low, high = part
    if not chosen.size:
        return None
    data, place = two.data, everywhere[chosen]
    holds = two.first[chosen] == k
    switches = Switches(
        place,
        data.labels[chosen],
        np.where(holds, two.second[chosen], two.first[chosen]),
        np.full(chosen.size, k, np.int32),
        weight=None if data.weights is None else data.weights[chosen],
        image=None if data.samples.images is None else data.samples.images[chosen],
    )
    tallies *= plain > 0  # where no sample is left, sums of weights leave rounding errors
    tp, predicted = tallies
    start = ClassCounts(tp, predicted, counts.support, plain, counts.n_labelled, pairs)
    low = low if np.isfinite(low) else float(place.min()) - OUTSIDE
    high = high if np.isfinite(high) else float(place.max()) + OUTSIDE
    return Stretch(switches, start, low, high)


@dataclass(frozen=True, eq=False)
class Goal:
    """A metric to maximise under constraints.

    The *rank* of class counts is the metric where all constraints hold (rescaled so that it is
    never below 0, and a higher rank is better), and below 0 where one does not: minus the sum of
    the misses. So the ascent leads to where the constraints hold, and from there to the best
    metric.

    Parameters
    ----------
    metric : CountMetric
        What is maximised.
    constraints : sequence of Constraint
        What must hold; their metrics are looked up, not names.
    baseline : ClassCounts, optional
        Counts of the uncorrected model on the same samples. Only constraints need them.
    """

    metric: CountMetric
    constraints: Sequence[Constraint] = ()
    baseline: ClassCounts | None = None

    def rank(self, counts: ClassCounts) -> float:
        """Return the rank of class counts."""
        missing = sum(self.misses(counts))
        return -missing if missing else float(self.metric.rank(value_of(counts, self.metric)))

    @property
    def by_classes(self) -> bool:
        """Whether counts per class determine the metric and all limits."""
        limited: list[Any] = [rule.metric for rule in self.constraints]
        return all(metric.needs == "classes" for metric in (self.metric, *limited))

    def misses(self, counts: ClassCounts) -> list[float]:
        """Return by how much each constraint is missed."""
        return [
            float(rule.misses(value_of(counts, metric), before))
            for rule, metric, before in self.rules()
        ]

    def along(self, stretch: Stretch, home: float) -> Steps:
        """Return the rank along a line, as a function of the distance from ``home``."""
        there = stretch.switches
        switches = Switches(
            there.position - home,
            there.label,
            there.loser,
            there.winner,
            weight=there.weight,
            image=there.image,
        ).ordered
        low = stretch.low - home
        steps = sweep(stretch.counts, switches, low, self.metric)
        steps = Steps(steps.start, np.asarray(self.metric.rank(steps.value)))
        if not self.constraints:
            return steps
        limits = []
        for rule, metric, before in self.rules():
            limited = sweep(stretch.counts, switches, low, metric)
            limits.append(Steps(limited.start, rule.misses(limited.value, before)))
        start = np.unique(np.concatenate([steps.start, *(limit.start for limit in limits)]))
        missing = np.sum([limit.at(start) for limit in limits], axis=0)
        return Steps(start, np.where(missing > 0, -missing, steps.at(start)))

    def rules(self) -> Iterator[tuple[Constraint, CountMetric, float]]:
        """Yield every constraint with its metric and the value of the uncorrected model."""
        for rule in self.constraints:
            metric: Any = rule.metric
            baseline: Any = self.baseline
            yield rule, metric, value_of(baseline, metric)


#: Pairs are tried if all of them together need at most this many counts.
PAIR_WORK = 1 << 22

#: Counts that are computed at once.
AT_ONCE = 1 << 20


#: Under constraints a single class is soon stuck: where two would have to move together, one alone
#: breaks a constraint. Pairs are then tried at some places of their first class: as many as need
#: this many counts, over all pairs.
SOME_WORK = 1 << 20

#: At most this many places, and none if there would be fewer than these.
MOST_PLACES = 128
FEWEST_PLACES = 8

#: Samples whose switches determine these places.
PLACED_BY = 256


class Pairs(NamedTuple):
    """The pairs of classes to try, and at how many biases of the first; None for all."""

    pairs: list[tuple[int, int]]
    places: int | None = None


class _Best(NamedTuple):
    rank: float
    width: float
    biases: tuple[float, float]


class _Pair(NamedTuple):
    """Two classes: the biases above which each beats the others, and their scores' difference."""

    j: int
    k: int
    beats: Vector
    """The bias of k above which it beats all but j, (N,)."""
    apart: Vector
    """The score of j minus that of k, without biases, (N,)."""
    joins: Vector
    """The bias of j above which it beats all but k, (N,)."""
    rest: Vector
    """The best of the other classes, (N,)."""


def pairs_worth_trying(data: Columns, movable: list[int], *, some: bool = False) -> Pairs:
    """Return the pairs of classes to try; none if there are too many samples.

    With ``some``, pairs with too many places are tried at some of them.
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
    """Return biases of two classes that are better than ``rank``, or None.

    They are the best of all, or the best at ``places`` biases of the first class.
    """
    here = _pair(data, biases, *pair)
    counts = data.counts(data.labels)  # of the labels: which classes have any
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
    """Yield intervals of the bias of j in which the order of the switches of k does not change.

    With ``places``, only that many, distributed like all of them.
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
    """Return ranks (C, N + 1) on the lines of k, widths, and biases of j and k."""
    bias = (low + high) / 2
    place = np.maximum(pair.beats, bias[:, None] + pair.apart)
    rival = np.where(bias[:, None] >= pair.joins, pair.j, pair.rest)
    by = np.argsort(place, axis=1)
    place, rival = np.take_along_axis(place, by, 1), np.take_along_axis(rival, by, 1)
    labels = data.labels[by]
    weights = np.ones(by.shape) if data.weights is None else data.weights[by]
    classes = np.arange(data.n_classes)

    def tally(amount: Vector) -> Vector:
        """Sum ``amount`` per class over the samples that the other classes keep, (C, N + 1, K)."""
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
    width = np.minimum(upper - lower, (high - low)[:, None])
    return np.where(there, rank, -np.inf), width, bias, (lower + upper) / 2


def _ranks(
    goal: Goal, labelled: ClassCounts, hits: Vector, predicted: Vector, plain: Vector
) -> Vector:
    """Return the ranks of many class counts, of shape (..., K)."""
    value = goal.metric.rank(goal.metric.of_tables(labelled, hits, predicted, plain))
    missing = np.zeros(value.shape)
    for rule, metric, before in goal.rules():
        missing += rule.misses(metric.of_tables(labelled, hits, predicted, plain), before)
    return np.where(missing > 0, -missing, value)


def _better(best: _Best, rank: Vector, width: Vector, of_j: Vector, of_k: Vector) -> _Best:
    """Return the best cell, the widest of equally good ones, or ``best`` if that is better."""
    top = rank.max()
    if top < best.rank - EQUAL_VALUES:
        return best
    good = np.where(rank >= top - EQUAL_VALUES, width, -np.inf)
    cell, step = np.unravel_index(int(good.argmax()), good.shape)
    if top <= best.rank + EQUAL_VALUES and good[cell, step] <= best.width:
        return best
    return _Best(float(top), float(good[cell, step]), (float(of_j[cell]), float(of_k[cell, step])))


#: The box is so large that this share of the samples can change within it. In a smaller one biases
#: soon reach the edge; a larger one is not much cheaper than the whole line.
DOUBTFUL = 0.15


@dataclass(eq=False)
class Ascent:
    """The coordinate ascent: biases that are moved until none improves.

    Parameters
    ----------
    data : Columns
        The labelled log-scores.
    goal : Goal
        What is maximised.
    start : array of shape (K,)
        The start of the biases, −inf for an excluded class. Of equally good intervals of a bias
        the widest is taken, then the one nearest to this start.
    movable : bool array of shape (K,)
        The classes whose biases may move.
    begin : array of shape (K,), optional
        Another start of the ascent, −inf as in ``start``.
    thorough : bool
        Whether, under constraints, pairs of classes with too many places are tried at some of
        them.

    Attributes
    ----------
    counts : ClassCounts
        Class counts at the biases.
    history : list of float
        The goal's rank at the start and after every step; it rises.
    n_cycles : int
        Number of rounds over all classes, within the box or along the whole line.
    converged : bool
        Whether no step along any class's bias improves the rank.
    """

    data: Columns
    goal: Goal
    start: Vector
    movable: Vector
    begin: Vector | None = None
    thorough: bool = False
    history: list[float] = field(default_factory=list)
    n_cycles: int = 0
    converged: bool = False

    def __post_init__(self) -> None:
        begin = self.start if self.begin is None else self.begin
        self._two = TopTwo(self.data, begin)
        self.counts = self._two.counts()
        self.history.append(self.goal.rank(self.counts))
        self._order = np.flatnonzero(self.movable & np.isfinite(self.start))

    @property
    def biases(self) -> Vector:
        """The present biases, (K,)."""
        return self._two.biases.copy()

    @property
    def rank(self) -> float:
        """The goal's rank at the present biases."""
        return self.history[-1]

    def run(self, max_cycles: int) -> None:
        """Step through the classes until none improves, at most ``max_cycles`` times."""
        some = self.thorough and bool(self.goal.constraints)
        movable = self._order.tolist() if self.goal.by_classes else []
        pairs, places = pairs_worth_trying(self.data, movable, some=some)
        while not self.converged and self.n_cycles < max_cycles:
            self._near(max_cycles)
            if self.n_cycles < max_cycles:
                self.n_cycles += 1
                moved = self._far()
                tried = (self._try_pair(pair, places) for pair in pairs)
                self.converged = not moved and not any(tried)

    def _near(self, max_cycles: int) -> None:
        """Step through the classes until none improves within a box around the biases."""
        radius = self._radius()
        if self.goal.constraints or not 0 < radius < np.inf:
            return  # it would be no cheaper
        if kernels.native is not None and self.goal.by_classes:
            self._climb(radius, max_cycles - self.n_cycles)
            return
        centre, still = self.biases, 0
        while self.n_cycles < max_cycles and still < len(self._order):
            self.n_cycles += 1
            for k in self._order.tolist():
                ends = (centre[k] - radius, centre[k] + radius)
                still += 1
                if self._step(k, line_of(self._two, self.counts, k, ends)):
                    still = 0
                if still == len(self._order):
                    break

    def _far(self) -> bool:
        """Move every class to the best place on its line; return whether any moved."""
        if kernels.native is not None and not self.goal.constraints and self.goal.by_classes:
            metric = self.goal.metric
            value = metric.of_rank(self.rank)
            steps = climb_lines(self._two, self.counts, metric, self.start, self._order, value)
            self.history += [float(metric.rank(step)) for step in steps]
            self.counts = self._two.counts()
            return bool(steps)
        # A list, not a generator: every class moves.
        moved = [self._step(k, self._along_line(k)) for k in self._order.tolist()]
        return any(moved)

    def _climb(self, radius: float, max_cycles: int) -> None:
        """Step through the classes within the box, by a kernel."""
        biases, steps, cycles = climb_box(
            self._two,
            self.counts,
            self.goal.metric,
            self.start,
            self._order,
            self.goal.metric.of_rank(self.rank),
            radius,
            max_cycles,
        )
        self.n_cycles += cycles
        if steps:
            self.history += [float(self.goal.metric.rank(step)) for step in steps]
            self._two = TopTwo(self.data, biases)
            self.counts = self._two.counts()

    def _step(self, k: int, stretch: Stretch | None) -> bool:
        """Move the bias of class ``k`` to its best place; return whether that is better."""
        if stretch is None:
            return False
        home = float(self.start[k])
        steps = self.goal.along(stretch, home)
        low, high, rank = best_interval(steps, stretch.high - home, spared=np.nan)
        if not rank > self.rank + EQUAL_VALUES:
            return False
        return self._jump({k: home + float(middle(low, high))})

    def _try_pair(self, pair: tuple[int, int], places: int | None) -> bool:
        """Move the biases of two classes to their best place, if that is better."""
        pair_biases = best_pair(self.data, self.goal, self._two.biases, pair, self.rank, places)
        return pair_biases is not None and self._jump(pair_biases)

    def _jump(self, biases: dict[int, float]) -> bool:
        """Give some classes other biases if that is better; return whether it is.

        The places of switches are rounded: the predictions at the biases themselves decide.
        """
        before = {k: float(self._two.biases[k]) for k in biases}
        for k, bias in biases.items():
            self._two.move(k, bias)
        counts = self._two.counts()
        rank = self.goal.rank(counts)
        if rank > self.rank + EQUAL_VALUES:
            self.counts = counts
            self.history.append(rank)
            return True
        for k, bias in before.items():
            self._two.move(k, bias)
        return False

    def _along_line(self, k: int) -> Stretch | None:
        """Return the line of class ``k``, without parts that are known to be worse."""
        if self.rank < 0 or kernels.native is None or not self.goal.by_classes:
            return line_of(self._two, self.counts, k)
        value = self.goal.metric.of_rank(self.rank)
        return promising_part(self._two, self.counts, k, self.goal.metric, value)

    def _radius(self) -> float:
        """Return half the ``DOUBTFUL`` quantile of the first classes' lead over the second."""
        lead = self._two.top - self._two.following
        rank = int(DOUBTFUL * lead.size)
        return float(np.partition(lead, rank)[rank]) / 2
