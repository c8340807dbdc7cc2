"""A count metric at every strength at once.

Between two switches all counts are constant, so a metric is a step function of the strength;
one sweep over the sorted class events gives all of its steps.

The sum over classes is kept in integers: each class's value is rounded to a fixed number of
fractional bits before it is added (see ``constants.fraction_bits``). A value then depends on the
counts alone, not on the path by which they were reached: equal counts give equal values to the
bit, in one piece or merged from parts, and ties between strengths are real ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.binning import BinnedSwitches
from reprior.profile.constants import fraction_bits
from reprior.profile.switches import ClassEvents, Switches

__all__ = ["Steps", "native_metric", "sweep", "value_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The share of the room for steps below which they are copied, and the room let go.
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
    """Follow ``metric`` from the counts at ``low`` through all switches."""
    if isinstance(switches, Switches) and kernels.native is not None:
        # The others change nothing. Leaving them out is for sorting fewer.
        spared = metric.by_hits and not switches.is_ordered
        return _native(start, (switches.hits if spared else switches).ordered, low, metric)
    return _arrays(start, (switches.hits if metric.by_hits else switches).events, low, metric)


def value_of(counts: ClassCounts, metric: CountMetric) -> float:
    """The metric of these counts, to the bit as a sweep has it."""
    return float(sweep(counts, Switches.none(False), 0.0, metric).value[0])


def native_metric(counts: ClassCounts, metric: CountMetric) -> Any:
    """``metric`` as the kernels take it; ``counts`` say which classes have labels."""
    native: Any = kernels.native
    pooled = metric.average == "pooled"
    always = _always(counts, metric)
    scale = _scale(1 if pooled else always.size, metric)
    return native.Metric(always, metric.average == "seen", pooled, *metric.form, scale)


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
        metric=native_metric(start, metric),
        low=float(low),
        start=where,
        value=value,
    )
    if used < SPACIOUS * where.size:
        where, value = where[:used].copy(), value[:used].copy()
    return Steps(where[:used], value[:used])


def _as(column: Vector | None, dtype: Any) -> Vector | None:
    return None if column is None else np.require(column, dtype, ["C", "A"])


def _scale(n_classes: int, metric: CountMetric) -> float:
    """What a ratio is multiplied with before it is rounded: the sum over classes has to fit."""
    return math.ldexp(
        1.0, fraction_bits(n_classes) - math.ceil(math.log2(max(1.0, metric.largest)))
    )


def _n_predicted(counts: ClassCounts) -> Vector:
    return counts.predicted if counts.n_predicted is None else counts.n_predicted


def _always(start: ClassCounts, metric: CountMetric) -> Vector:
    """Classes that the average is over whatever is predicted."""
    return start.labelled if metric.average == "seen" else metric.counted(start)


def _arrays(start: ClassCounts, events: ClassEvents, low: float, metric: CountMetric) -> Steps:
    klass, support = events.klass, start.support
    if metric.average == "pooled":
        klass, support = np.zeros_like(klass), support.sum(keepdims=True)
        base_tp, base_predicted = (
            getattr(start, name).sum(keepdims=True) for name in ("true_positive", "predicted")
        )
    else:
        base_tp, base_predicted = start.true_positive, start.predicted
    scale = _scale(support.size, metric)
    order, first = _by_class(klass)
    k = klass[order]
    tp = _running(events.weighted_true_positive[order], first, k, base_tp)
    predicted = _running(events.weighted_predicted[order], first, k, base_predicted)
    after = metric.ratio(tp, predicted, support[k])
    base = metric.ratio(base_tp, base_predicted, support)
    counted_base, counted_after = _counted(start, events, order, first, k, metric)
    fixed = np.rint(after * scale).astype(np.int64) * counted_after
    if metric.average != "pooled" and events.weighted_predicted.dtype.kind == "f":
        # Weights that cancel leave rounding behind: the plain number says who is predicted.
        fixed *= _running(events.predicted[order], first, k, _n_predicted(start)) > 0
    fixed_base = np.rint(base * scale).astype(np.int64) * counted_base
    ends = _group_ends(events.position)
    total = _totals(fixed, fixed_base, order, first, k)[ends]
    divisor = _totals(counted_after, counted_base, order, first, k)[ends]
    where = np.concatenate([[low], events.position[ends[1:] - 1]])
    value = total / (np.maximum(divisor, 1) * scale)
    if where.size > 1 and where[1] == low:  # switches at the lower bound itself hold there
        where, value = where[1:], value[1:]
    new = np.ones(value.shape, bool)
    new[1:] = value[1:] != value[:-1]
    return Steps(where[new], value[new])


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
    return np.asarray(base[klass] + (total - before[run]))


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
    n = _running(events.predicted[order], first, klass, _n_predicted(start))
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
