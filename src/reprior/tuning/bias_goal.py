"""What biases are tuned for: a metric under constraints, as one number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.objective import Constraint
from reprior.profile.sweep import Steps, sweep, value_of
from reprior.profile.switches import Switches
from reprior.tuning.bias_line import Stretch

__all__ = ["Goal"]


@dataclass(frozen=True, eq=False)
class Goal:
    """A metric to maximise under constraints.

    The *rank* of class counts is the metric where all constraints hold, and below 0 where one
    does not: minus the sum of what is missing. So whatever has a higher rank is better, and
    ascending leads to where the constraints hold, and from there to the best metric.

    Parameters
    ----------
    metric : CountMetric
        What is maximised.
    constraints : sequence of Constraint
        What must hold; their metrics are found already, not names.
    baseline : ClassCounts, optional
        Counts of the uncorrected model on the same samples. Only constraints need them.
    """

    metric: CountMetric
    constraints: Sequence[Constraint] = ()
    baseline: ClassCounts | None = None

    def rank(self, counts: ClassCounts) -> float:
        """Of class counts."""
        missing = sum(self.misses(counts))
        return -missing if missing else value_of(counts, self.metric)

    def misses(self, counts: ClassCounts) -> list[float]:
        """By how much each constraint is missed."""
        return [
            float(rule.misses(value_of(counts, metric), before))
            for rule, metric, before in self.rules()
        ]

    def along(self, stretch: Stretch, home: float) -> Steps:
        """The rank along a line, as a function of the distance from ``home``."""
        there = stretch.switches
        switches = Switches(
            there.position - home, there.label, there.loser, there.winner, weight=there.weight
        ).ordered
        low = stretch.low - home
        steps = sweep(stretch.counts, switches, low, self.metric)
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
        """Every constraint with its metric and the metric of the uncorrected model."""
        for rule in self.constraints:
            metric: Any = rule.metric
            baseline: Any = self.baseline
            yield rule, metric, value_of(baseline, metric)
