"""The samples in doubt while every bias stays within a box around where it was.

While no bias moves by more than a radius r, two classes move against each other by at most 2·r.
A sample whose first class leads by more keeps it, and a class that is further behind never wins
it. Without these, line searches within the box are the same, and cheap.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.tuning.bias_line import tallies_of
from reprior.tuning.sweep import sweep_rule
from reprior.tuning.top_two import TopTwo

__all__ = ["Box"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Leads are rounded: classes are kept that are further behind by this share.
_ROOM = 2.0**-20


class Box:
    """Compiled line searches within ``radius`` of the biases of ``two``."""

    def __init__(self, two: TopTwo, counts: ClassCounts, radius: float) -> None:
        from reprior.tuning.compiled_box import by_class, candidates, count_candidates

        data = two.data
        self.biases, self.centre, self.radius = two.biases.copy(), two.biases.copy(), radius
        self._base, (self._tallies, self._plain) = counts, tallies_of(counts)
        reach = 2 * radius * (1 + _ROOM)
        each = np.empty(data.n_samples, np.int64)
        n = count_candidates(data.rows, self.biases, two.top, two.following, reach, each)
        sample, self._ends = np.empty(n, np.intp), np.zeros(n + 1, np.int64)
        total = int(each.sum())
        self._classes, self._scores = np.empty(total, np.int32), np.empty(total)
        candidates(
            data.rows, self.biases, two.top, reach, each,
            sample, self._ends, self._classes, self._scores,
        )  # fmt: skip
        self._starts = np.empty(data.n_classes + 1, np.int64)
        self._members = np.empty(total, np.int64)
        by_class(self._ends, self._classes, self._starts, self._members)
        self._first, self._labels = two.first[sample], data.labels[sample]
        self._weights = np.empty(0) if data.weights is None else data.weights[sample]

    def climb(
        self, metric: CountMetric, home: Vector, order: Vector, value: float, max_cycles: int
    ) -> tuple[list[float], int]:
        """Go round the classes of ``order`` until no step within the box improves the metric.

        ``value`` is the metric now, ``home`` (K,) where distances are counted from. Returns the
        metric after each step, and the number of rounds.
        """
        from reprior.tuning.compiled_box import climb_in_box

        history = np.empty(1 + order.size * max_cycles)
        history[0] = value
        used, cycles = climb_in_box(
            order, home, self.centre, self.radius, self._starts, self._members, self._ends,
            self._classes, self._scores, self.biases, self._first, self._labels, self._weights,
            self._tallies, self._plain, self._base.support.astype(np.float64),
            sweep_rule(self._base, metric), metric.average == "pooled", max_cycles, history,
        )  # fmt: skip
        return history[1 : used + 1].tolist(), cycles
