"""A count metric at every strength at once.

Between two switches all counts are constant, so a metric is a step function of the strength;
one sweep over the sorted class events gives all of its steps.

Sums over classes are kept in fixed point (see :mod:`reprior.metrics.fixed_point`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.core import kernels
from reprior.metrics.cells import Cells
from reprior.metrics.counts import ClassCounts
from reprior.metrics.fixed_point import FixedPointMetric
from reprior.metrics.pair_metrics import ConfusionMetric
from reprior.metrics.ratios import CountMetric
from reprior.profile.binning import BinnedSwitches, grid_index
from reprior.profile.switches import ClassEvents, Switches

__all__ = ["Steps", "sweep", "value_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Values of classes that are compared at once: some 32 MB.
LEAST_AT_ONCE = 1 << 22

#: Numbers in the matrices of all steps, beyond which a function of them is evaluated on a grid.
MOST_NUMBERS = 1 << 31

#: Numbers in the matrices that a function gets at once: 2 MB, which caches hold. Measured: 8 MB is
#: slower by up to a half.
NUMBERS_AT_ONCE = 1 << 18

#: Where a larger share of the pairs changes within a block of steps, all of them are written.
MANY_PAIRS = 0.25

_Runs: TypeAlias = tuple[Vector, Vector, Vector]

#: A buffer whose used share is below this is copied, and freed.
SPACIOUS = 0.8


@dataclass(frozen=True, eq=False)
class Steps:
    """A step function: ``value[i]`` holds from ``start[i]`` to just before ``start[i + 1]``.

    Neighbouring values differ.
    """

    start: Vector
    value: Vector

    def at(self, strengths: Any) -> Vector:
        """The value at each strength."""
        index = np.searchsorted(self.start, strengths, side="right") - 1
        return np.asarray(self.value[np.maximum(index, 0)])

    def utility(self, metric: CountMetric) -> Steps:
        """The steps to maximise: negative where smaller values of ``metric`` are better."""
        return self if metric.greater_is_better else Steps(self.start, -self.value)


def sweep(
    start: ClassCounts, switches: Switches | BinnedSwitches, low: float, metric: CountMetric
) -> Steps:
    """Compute the steps of ``metric`` from the counts at ``low`` and all switches."""
    if metric.needs != "classes":
        assert isinstance(switches, Switches)  # noqa: S101 - profiles refuse these metrics in bins
        return _in_cells(start, switches.ordered, low, metric)
    terms = FixedPointMetric(metric, start)
    if isinstance(switches, Switches) and kernels.native is not None:
        # Only hits change the metric: fewer switches to sort.
        spared = metric.by_hits and not switches.is_ordered
        return _native(start, (switches.hits if spared else switches).ordered, low, terms)
    return _arrays(start, (switches.hits if metric.by_hits else switches).events, low, terms)


def value_of(counts: ClassCounts, metric: CountMetric) -> float:
    """Return the metric of these counts, equal to the bit to that of a sweep."""
    return float(sweep(counts, Switches.none(False), 0.0, metric).value[0])


def _in_cells(start: ClassCounts, ordered: Switches, low: float, metric: CountMetric) -> Steps:
    """Follow the cells of the metric, which are smaller than classes."""
    if isinstance(metric, ConfusionMetric):
        ordered = _on_grid(ordered, metric, start.n_classes)
    group = ordered.label if metric.needs == "pairs" else ordered.image
    if group is None:  # switches without images: there are none, or the counts have none either
        group = np.zeros(len(ordered), np.int64)
    cells = Cells.of(metric, start, group, ordered.label, ordered.winner)
    moved = Switches(
        ordered.position,
        cells.places(group, ordered.label),
        cells.places(group, ordered.loser),
        cells.places(group, ordered.winner),
        count=ordered.count,
        weight=ordered.weight,
    )
    if isinstance(metric, ConfusionMetric):
        return _of_matrices(start, cells, moved, low, metric)
    terms = FixedPointMetric(metric, start, cells)
    if kernels.native is not None:
        return _native(cells.counts, moved, low, terms)
    return _arrays(cells.counts, moved.events, low, terms)


def _native(start: ClassCounts, ordered: Switches, low: float, terms: FixedPointMetric) -> Steps:
    native: Any = kernels.native
    columns = [start.true_positive, start.predicted, _n_predicted(start), start.support]
    if terms.pooled:
        columns = [column.sum(keepdims=True) for column in columns]
    tp, predicted, n_predicted, support = columns
    where, value = np.empty(len(ordered) + 1), np.empty(len(ordered) + 1)
    used = native.sweep(
        **ordered.native_columns(),
        count=_as(ordered.count, np.int64),
        weight=_as(ordered.weight, np.float64),
        tallies=np.array([tp, predicted], np.float64),
        plain=_as(n_predicted, np.int64),
        support=_as(support, np.float64),
        metric=terms.native(native),
        low=float(low),
        start=where,
        value=value,
    )
    if used < SPACIOUS * where.size:
        where, value = where[:used].copy(), value[:used].copy()
    return Steps(where[:used], value[:used])


def _as(column: Vector | None, dtype: Any) -> Vector | None:
    return None if column is None else np.require(column, dtype, ["C", "A"])


def _n_predicted(counts: ClassCounts) -> Vector:
    return counts.predicted if counts.n_predicted is None else counts.n_predicted


def _arrays(start: ClassCounts, events: ClassEvents, low: float, terms: FixedPointMetric) -> Steps:
    metric, klass = terms.metric, events.klass
    before = (start.true_positive, start.predicted, _n_predicted(start))
    if terms.pooled:
        klass = np.zeros_like(klass)
        before = _pooled(before)
    order, first = _by_class(klass)
    k = klass[order]
    after = (
        _running(events.weighted_true_positive[order], first, k, before[0]),
        _running(events.weighted_predicted[order], first, k, before[1]),
        _running(events.predicted[order], first, k, before[2]),
    )
    ends = _group_ends(events.position)
    every = np.arange(before[0].size)
    if metric.mean == "least":
        values = np.empty(order.size)
        values[order] = terms.values(*after, k)
        value = _least(klass, values, terms.values(*before, every))[ends]
    else:
        addends = list(zip(terms.addends(*after, k), terms.addends(*before, every), strict=True))
        if terms.klass.size:
            addends, (order, first, k) = _over_images(terms, addends, (order, first, k))
        sums = [_totals(gained, base, order, first, k)[ends] for gained, base in addends]
        value = terms.value(*sums)
    return _steps(low, events.position, ends, value)


def _over_images(
    terms: FixedPointMetric, addends: Sequence[tuple[Vector, Vector]], cells: _Runs
) -> tuple[list[tuple[Vector, Vector]], _Runs]:
    """Sum the addends of every class over its images; return what the means of classes add."""
    order, first, cell = cells
    klass = np.empty(order.size, np.int64)
    klass[order] = terms.klass[cell]
    by_class, starts = _by_class(klass)
    k = klass[by_class]
    after, before = [], []
    for gained, base in addends:
        change = np.empty(order.size, np.int64)
        previous = np.empty_like(gained)
        previous[1:] = gained[:-1]
        previous[first] = base[cell[first]]
        change[order] = gained - previous
        total = np.zeros(terms.n_classes, np.int64)
        np.add.at(total, terms.klass, base)
        before.append(total)
        after.append(_running(change[by_class], starts, k, total))
    pairs = zip(terms.of_images(*after), terms.of_images(*before), strict=True)
    return list(pairs), (by_class, starts, k)


def _steps(low: float, position: Vector, ends: Vector, value: Vector) -> Steps:
    """Return the steps of values before the first event, and after each group of events."""
    where = np.concatenate([[low], position[ends[1:] - 1]])
    if where.size > 1 and where[1] == low:  # switches at the lower bound itself hold there
        where, value = where[1:], value[1:]
    new = np.ones(value.shape, bool)
    new[1:] = value[1:] != value[:-1]
    return Steps(where[new], value[new])


def _on_grid(ordered: Switches, metric: ConfusionMetric, n_classes: int) -> Switches:
    """Return the switches, moved up to the points of a grid where they need too many matrices."""
    most = max(MOST_NUMBERS // n_classes**2, 1)
    if metric.most_steps is not None:
        most = min(most, metric.most_steps)
    if len(ordered) <= most:
        return ordered
    low, high = float(ordered.position[0]), float(ordered.position[-1])
    width = max(high - low, np.finfo(float).tiny) / most
    warn(
        f"{metric.name} is a function of a {n_classes} × {n_classes} matrix, and there are "
        f"{len(ordered):,} switches: it is only evaluated on a grid of {width:.2g}."
    )
    position = np.minimum(grid_index(ordered.position, width) * width, high)
    return replace(ordered, position=position)


def _of_matrices(
    start: ClassCounts, cells: Cells, moved: Switches, low: float, metric: ConfusionMetric
) -> Steps:
    """Call the function of a metric with the confusion matrix of every step."""
    n = start.n_classes
    place = cells.group * n + cells.klass
    number, amount = np.zeros(n * n, np.int64), np.zeros(n * n)
    number[place] = np.asarray(cells.counts.n_predicted)
    amount[place] = cells.counts.predicted
    ends = _group_ends(moved.position)
    matrices = _Matrices(number, amount, min(max(1, NUMBERS_AT_ONCE // n**2), ends.size))
    at_once = len(matrices.table)
    group = np.repeat(np.arange(1, ends.size), np.diff(ends))  # the step of every switch
    count = moved.counts()
    values = [metric.values(matrices.table[:1].reshape(-1, n, n))]
    for begin in range(1, ends.size, at_once):
        stop = min(begin + at_once, ends.size)
        some = slice(ends[begin - 1], ends[stop - 1])
        losers, winners = place[moved.loser[some]], place[moved.winner[some]]
        weight = None if moved.weight is None else moved.weight[some]
        matrices.advance(group[some] - begin, losers, winners, count[some], weight)
        values.append(metric.values(matrices.table[: stop - begin].reshape(-1, n, n)))
    return _steps(low, moved.position, ends, np.concatenate(values))


class _Matrices:
    """Confusion matrices after each of some steps, in one table that is used again.

    Few of the K² pairs change within a block of steps: only these are written.
    """

    def __init__(self, number: Vector, amount: Vector, n_steps: int) -> None:
        self.number, self.amount = number, amount
        self.table = np.empty((n_steps, number.size))
        """The matrices; all rows hold the last step's outside the pairs that changed."""
        self.table[:] = np.where(number > 0, amount, 0.0)
        self._changed = np.empty(0, np.int64)

    def advance(
        self, step: Vector, losers: Vector, winners: Vector, count: Vector, weight: Vector | None
    ) -> None:
        """Go on to the next block: ``step`` is that of each switch, from 0 on."""
        moved = np.zeros(self.number.size, bool)
        moved[losers] = moved[winners] = True
        changed = np.flatnonzero(moved)
        if changed.size > MANY_PAIRS * moved.size:
            changed = np.arange(moved.size)
        column = np.zeros(moved.size, np.int64)
        column[changed] = np.arange(changed.size)
        row = step * changed.size
        n_steps = int(step[-1]) + 1

        def running(gained: Vector, before: Vector) -> Vector:
            total = np.zeros((n_steps, changed.size), gained.dtype)
            np.add.at(total.reshape(-1), row + column[winners], gained)
            np.subtract.at(total.reshape(-1), row + column[losers], gained)
            total[0] += before[changed]
            return np.cumsum(total, axis=0, out=total)

        numbers = running(count, self.number)
        amounts = shown = numbers
        if weight is not None:
            amounts = running(weight, self.amount)
            shown = np.where(numbers > 0, amounts, 0.0)
        if changed.size == moved.size:
            self.table[:n_steps] = shown
        else:
            last = self._changed
            self.table[:, last] = np.where(self.number[last] > 0, self.amount[last], 0.0)
            self.table[:n_steps, changed] = shown
        self.number[changed], self.amount[changed] = numbers[-1], amounts[-1]
        self._changed = changed


def _pooled(columns: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector]:
    hits, predicted, plain = (column.sum(keepdims=True) for column in columns)
    return hits, predicted, plain


def _least(klass: Vector, value: Vector, current: Vector) -> Vector:
    """The smallest value of the classes before the first event, and after each one.

    ``value[j]`` is that of class ``klass[j]`` after event j, ``current`` (K,) those before the
    first; infinite where the mean is not over the class.
    """
    least = np.empty(value.size + 1)
    least[0] = current.min()
    at_once = max(1, LEAST_AT_ONCE // current.size)
    for start in range(0, value.size, at_once):
        some = slice(start, start + at_once)
        n = klass[some].size
        latest = np.zeros((n, current.size), np.intp)  # the last event of each class, from 1 on
        latest[np.arange(n), klass[some]] = np.arange(1, n + 1)
        np.maximum.accumulate(latest, axis=0, out=latest)
        values = np.where(latest > 0, value[some][latest - 1], current)
        least[start + 1 : start + n + 1] = values.min(axis=1)
        current = values[-1]
    return np.where(np.isinf(least), 0.0, least)


def _by_class(klass: Vector) -> tuple[Vector, Vector]:
    """Return the order by class, then strength, and where each class begins."""
    small = klass.astype(np.uint16) if klass.size and klass.max() < 1 << 16 else klass
    order = np.argsort(small, kind="stable")
    grouped = klass[order]
    first = np.ones(grouped.shape, bool)
    first[1:] = grouped[1:] != grouped[:-1]
    return order, first


def _running(change: Vector, first: Vector, klass: Vector, base: Vector) -> Vector:
    """Return a class's count after each of its events."""
    total = np.cumsum(change)
    starts = np.flatnonzero(first)
    before = (total - change)[starts]
    run = np.cumsum(first) - 1
    return np.asarray(base[klass] + (total - before[run]))


def _totals(after: Vector, base: Vector, order: Vector, first: Vector, klass: Vector) -> Vector:
    """Return the sum over classes before the first event and after each, by strength."""
    before = np.empty_like(after)
    before[1:] = after[:-1]
    before[first] = base[klass[first]]
    change = np.empty(after.size + 1, np.int64)
    change[0] = base.sum()
    change[1:][order] = after - before
    return np.cumsum(change)


def _group_ends(position: Vector) -> Vector:
    """Return the number of events up to the end of each group of equal positions, from 0 on."""
    if not position.size:
        return np.zeros(1, np.int64)
    last = np.flatnonzero(position[1:] != position[:-1]) + 1
    return np.concatenate([[0], last, [position.size]])
