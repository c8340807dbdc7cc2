"""A count metric at every strength at once.

Between two switches all counts are constant, so a metric is a step function of the strength;
one sweep over the sorted class events gives all of its steps.

The sum over classes is kept in integers: each class's value is rounded to a fixed number of
fractional bits before it is added (see ``constants.fraction_bits``). A value then depends on the
counts alone, not on the path by which they were reached: equal counts give equal values to the
bit, in one piece or merged from parts, and ties between strengths are real ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.tuning.constants import fraction_bits
from reprior.tuning.switches import ClassEvents

__all__ = ["Steps", "sweep"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Steps:
    """A step function: ``value[i]`` holds from ``start[i]`` to just before ``start[i + 1]``.

    Values closer than ``rounding`` are equal but for the rounding of their fixed-point sums.
    """

    start: Vector
    value: Vector
    rounding: float

    def at(self, strengths: Any) -> Vector:
        """The value at each strength."""
        index = np.searchsorted(self.start, strengths, side="right") - 1
        return self.value[np.maximum(index, 0)]


def sweep(start: ClassCounts, events: ClassEvents, low: float, metric: CountMetric) -> Steps:
    """Follow ``metric`` from the counts at ``low`` through all events."""
    klass, support = events.klass, start.support
    if metric.average == "pooled":
        klass, support = np.zeros_like(klass), support.sum(keepdims=True)
        base_tp, base_predicted = (
            getattr(start, name).sum(keepdims=True) for name in ("true_positive", "predicted")
        )
    else:
        base_tp, base_predicted = start.true_positive, start.predicted
    scale = 2.0 ** fraction_bits(support.size)
    order, first = _by_class(klass)
    k = klass[order]
    tp = _running(events.weighted_true_positive[order], first, k, base_tp)
    predicted = _running(events.weighted_predicted[order], first, k, base_predicted)
    after = metric.ratio(tp, predicted, support[k])
    base = metric.ratio(base_tp, base_predicted, support)
    counted_base, counted_after = _counted(start, events, order, first, k, metric)
    fixed = np.rint(after * scale).astype(np.int64) * counted_after
    fixed_base = np.rint(base * scale).astype(np.int64) * counted_base
    ends = _group_ends(events.position)
    total = _totals(fixed, fixed_base, order, first, k)[ends]
    divisor = _totals(counted_after, counted_base, order, first, k)[ends]
    where = np.concatenate([[low], events.position[ends[1:] - 1]])
    value = total / (np.maximum(divisor, 1) * scale)
    if where.size > 1 and where[1] == low:  # switches at the lower bound itself hold there
        where, value = where[1:], value[1:]
    return Steps(where, value, rounding=1.0 / scale)


def _by_class(klass: Vector) -> tuple[Vector, Vector]:
    """Order that groups events by class and keeps strengths in order; where classes begin."""
    small = klass.astype(np.uint16) if klass.size and klass.max() < 1 << 16 else klass
    order = np.argsort(small, kind="stable")
    grouped = klass[order]
    first = np.ones(grouped.shape, bool)
    first[1:] = grouped[1:] != grouped[:-1]
    return order, first


def _running(change: Vector, first: Vector, klass: Vector, base: Vector) -> Vector:
    """A class's count after each of its events."""
    total = np.cumsum(change)
    starts = np.flatnonzero(first)
    before = (total - change)[starts]
    run = np.cumsum(first) - 1
    return base[klass] + (total - before[run])


def _counted(
    start: ClassCounts,
    events: ClassEvents,
    order: Vector,
    first: Vector,
    klass: Vector,
    metric: CountMetric,
) -> tuple[Vector, Vector]:
    """Whether the average is over a class: at the start (K,), and after each event."""
    if metric.average == "pooled":
        return np.ones(1, np.int64), np.ones(klass.shape, np.int64)
    base = metric.counted(start).astype(np.int64)
    if metric.average != "seen":
        return base, base[klass]
    n_predicted = start.predicted if start.n_predicted is None else start.n_predicted
    n = _running(events.predicted[order], first, klass, n_predicted)
    return base, (start.labelled[klass] | (n > 0)).astype(np.int64)


def _totals(after: Vector, base: Vector, order: Vector, first: Vector, klass: Vector) -> Vector:
    """Sum over classes before the first event and after each one, in order of strength."""
    before = np.empty_like(after)
    before[1:] = after[:-1]
    before[first] = base[klass[first]]
    change = np.empty(after.size + 1, np.int64)
    change[0] = base.sum()
    change[1:][order] = after - before
    return np.cumsum(change)


def _group_ends(position: Vector) -> Vector:
    """How many events precede the end of each group of equal positions; 0 for the start."""
    if not position.size:
        return np.zeros(1, np.int64)
    last = np.flatnonzero(position[1:] != position[:-1]) + 1
    return np.concatenate([[0], last, [position.size]])
