"""The search of a strength where a metric is no sum of lines: a coarse grid, refined at its best.

A round evaluates all its strengths in one pass over the data; what was evaluated is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import InfeasibleError
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.objective import Best, Constraint, SubjectTo
from reprior.profile.sweep import Steps, value_of

__all__ = ["Grid"]

Vector: TypeAlias = np.ndarray[Any, Any]
Evaluate: TypeAlias = Callable[[Sequence[float]], Sequence[ClassCounts]]

COARSE = 20
"""Steps of the first round: 0.1 wide within the usual bounds."""

FINER = (10, 10)
"""By how much each later round divides a step: to 0.01, then to 0.001 within the usual bounds."""


class Grid:
    """Class counts at some strengths, looked at where they are best.

    It has the part of :class:`StrengthProfile` that a search for the best strength needs.

    Parameters
    ----------
    evaluate : callable
        Takes strengths, returns the counts at each, from one pass.
    bounds : (float, float)
        Strengths to search.
    baseline : callable
        Returns the counts without any correction; asked for after the first pass.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        bounds: tuple[float, float],
        baseline: Callable[[], ClassCounts],
    ) -> None:
        self._evaluate, self.bounds, self._baseline = evaluate, bounds, baseline
        self._finest = COARSE * int(np.prod(FINER))
        self._counts: dict[int, ClassCounts] = {}

    @property
    def baseline(self) -> ClassCounts:
        """Counts without a correction, also where a strength of 0 is outside the bounds."""
        return self._baseline()

    def curve(self, metric: CountMetric) -> tuple[Vector, Vector]:
        """The strengths evaluated so far, and the metric at each."""
        indices = sorted(self._counts)
        return np.array([self._strength(i) for i in indices]), self._values(indices, metric)

    def best(self, metric: CountMetric, *, subject_to: SubjectTo = None) -> Best:
        """The strength evaluated at which the metric is largest.

        Of equally good neighbours the middle one; among several such runs the widest, then the
        one nearest 0. ``interval`` is from the first to the last of the run.
        """
        rules = Constraint.parse_all(subject_to)
        step = self._finest // COARSE
        self._look(range(0, self._finest + 1, step))
        first, last = self._best_run(metric, rules)
        for finer in FINER:
            smaller = step // finer
            near = [*range(first - step, first, smaller), *range(last, last + step, smaller)]
            if last - first <= step:  # of two neighbours that are alike, the best may be between
                near += range(first, last, smaller)
            self._look([i for i in near if 0 <= i <= self._finest])
            first, last = self._best_run(metric, rules)
            step = smaller
        self._refuse_if_none(rules)
        inside = [i for i in sorted(self._counts) if first <= i <= last]
        middle = min(inside, key=lambda i: (abs(2 * i - first - last), abs(self._strength(i))))
        value = float(self._values([middle], metric)[0])
        ends = (self._strength(first), self._strength(last))
        return Best(self._strength(middle), value, ends, first == 0 or last == self._finest)

    def _look(self, indices: Sequence[int]) -> None:
        """Evaluate what is not known yet."""
        new = [i for i in indices if i not in self._counts]
        self._counts.update(zip(new, self._evaluate([self._strength(i) for i in new]), strict=True))

    def _strength(self, index: int) -> float:
        low, high = self.bounds
        # The product first: 300 of 2000 steps from 0 to 2 make 0.3 and not 0.30000000000000004.
        return high if index == self._finest else low + (high - low) * index / self._finest

    def _values(self, indices: Sequence[int], metric: CountMetric) -> Vector:
        return np.array([value_of(self._counts[i], metric) for i in indices])

    def _best_run(self, metric: CountMetric, rules: Sequence[Constraint]) -> tuple[int, int]:
        """The first and the last index of the best run of neighbours.

        Where no strength is allowed yet, those that miss by least: there may be one beside them.
        """
        indices = sorted(self._counts)
        values, missed = self._values(indices, metric), self._missed(indices, rules)
        good = missed == missed.min()
        if not missed.min():
            good &= values >= values[good].max() - EQUAL_VALUES
        runs: list[tuple[int, int]] = []
        for here, before, index in zip(good, [False, *good[:-1]], indices, strict=True):
            if here and before:
                runs[-1] = (runs[-1][0], index)
            elif here:
                runs.append((index, index))
        return max(runs, key=lambda run: (run[1] - run[0], -self._distance(run)))

    def _distance(self, run: tuple[int, int]) -> float:
        """Of a run of strengths from 0."""
        low, high = self._strength(run[0]), self._strength(run[1])
        return 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))

    def _missed(self, indices: Sequence[int], rules: Sequence[Constraint]) -> Vector:
        """By how much the constraints are missed, all together; 0 where they hold."""
        total = np.zeros(len(indices))
        for rule in rules:
            values, before = self._limited(indices, rule)
            off = np.abs(values - rule.threshold(before))
            total += np.where(rule.holds(values, before), 0.0, off)
        return total

    def _limited(self, indices: Sequence[int], rule: Constraint) -> tuple[Vector, float]:
        """The metric that a constraint limits, and its baseline."""
        metric: Any = rule.metric  # resolved when the problem was stated
        return self._values(indices, metric), value_of(self.baseline, metric)

    def _refuse_if_none(self, rules: Sequence[Constraint]) -> None:
        indices = sorted(self._counts)
        if not self._missed(indices, rules).min():
            return
        strengths = np.array([self._strength(i) for i in indices])
        for rule in rules:
            values, before = self._limited(indices, rule)
            rule.refuse(Steps(strengths, values), before)
        raise InfeasibleError(
            "`subject_to` must be possible within the bounds. Got constraints that none of the "
            "strengths tried satisfies together, though each can be satisfied alone. Loosen one of "
            "them."
        )
