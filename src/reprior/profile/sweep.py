"""A count metric at every strength at once.

Between two switches all counts are constant, so a metric is a step function of the strength;
one sweep over the sorted class events gives all of its steps.

Sums over classes are kept in fixed point (see :mod:`reprior.metrics.fixed_point`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.metrics.fixed_point import FixedPointMetric
from reprior.profile.binning import BinnedSwitches
from reprior.profile.switches import ClassEvents, Switches

__all__ = ["Steps", "sweep", "value_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Values of classes that are compared at once: some 32 MB.
LEAST_AT_ONCE = 1 << 22

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


def sweep(
    start: ClassCounts, switches: Switches | BinnedSwitches, low: float, metric: CountMetric
) -> Steps:
    """Compute the steps of ``metric`` from the counts at ``low`` and all switches."""
    if isinstance(switches, Switches) and kernels.native is not None:
        # Only hits change the metric: fewer switches to sort.
        spared = metric.by_hits and not switches.is_ordered
        return _native(start, (switches.hits if spared else switches).ordered, low, metric)
    return _arrays(start, (switches.hits if metric.by_hits else switches).events, low, metric)


def value_of(counts: ClassCounts, metric: CountMetric) -> float:
    """Return the metric of these counts, equal to the bit to that of a sweep."""
    return float(sweep(counts, Switches.none(False), 0.0, metric).value[0])


def _native(start: ClassCounts, ordered: Switches, low: float, metric: CountMetric) -> Steps:
    native: Any = kernels.native
    columns = [start.true_positive, start.predicted, _n_predicted(start), start.support]
    if metric.average == "pooled":
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
        metric=FixedPointMetric(metric, start).native(native),
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


def _arrays(start: ClassCounts, events: ClassEvents, low: float, metric: CountMetric) -> Steps:
    terms = FixedPointMetric(metric, start)
    klass = events.klass
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
        addends = zip(terms.addends(*after, k), terms.addends(*before, every), strict=True)
        sums = [_totals(gained, base, order, first, k)[ends] for gained, base in addends]
        value = terms.value(*sums)
    where = np.concatenate([[low], events.position[ends[1:] - 1]])
    if where.size > 1 and where[1] == low:  # switches at the lower bound itself hold there
        where, value = where[1:], value[1:]
    new = np.ones(value.shape, bool)
    new[1:] = value[1:] != value[:-1]
    return Steps(where[new], value[new])


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
