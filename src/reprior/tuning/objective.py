"""What to look for along the strength: the best value, under constraints, or a whole front."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import InfeasibleError, OptionError
from reprior.metrics.count_metrics import CountMetric
from reprior.tuning.constants import EQUAL_VALUES, NARROWEST
from reprior.tuning.sweep import Steps

__all__ = [
    "Best",
    "Constraint",
    "ParetoFront",
    "SubjectTo",
    "best_interval",
    "middle",
    "pareto_front",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: "mean_iou >= baseline - 0.005" must hold for a value of exactly that: thresholds are sums of
#: two rounded numbers, which may miss by a few units in the last place.
THRESHOLD_SLACK = 1e-12

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CONSTRAINT = re.compile(
    rf"\s*(?P<metric>\w+(?:\s*\[[^\]]+\])?)\s*(?P<relation>>=|<=)\s*"
    rf"(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?:(?P<baseline>baseline)\s*"
    rf"(?:\*\s*(?P<times>{_NUMBER})\s*)?"
    rf"(?:(?P<sign>[+-])\s*(?P<offset>{_NUMBER}))?|(?P<number>{_NUMBER}))\s*"
)
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Best:
    """The best strength and how well it does.

    Parameters
    ----------
    strength : float
        The middle of ``interval``.
    value : float
        The metric there.
    interval : (float, float)
        Strengths a ≤ λ < b that are all equally good. (At the upper bound: λ ≤ b.)
    at_bound : bool
        Whether the interval ends at a bound of the profile: there may be better beyond it.
    uncertainty : float
        For a binned profile, the share of the samples' weight that switches inside the bin of
        ``strength``: the value is exact at ``strength`` and off by about this within the bin.
        0 for an exact profile.
    """

    strength: float
    value: float
    interval: tuple[float, float]
    at_bound: bool
    uncertainty: float = 0.0


@dataclass(frozen=True, eq=False)
class ParetoFront:
    """Strengths at which neither metric can be had better without the other getting worse.

    ``strengths[i]`` gives ``values_a[i]`` and ``values_b[i]``; ``values_a`` falls and
    ``values_b`` rises along the front.
    """

    strengths: Vector
    values_a: Vector
    values_b: Vector

    def __len__(self) -> int:
        return int(self.strengths.size)


@dataclass(frozen=True)
class Constraint:
    """``metric`` on one side of ``factor·baseline + offset``, or of a number.

    The baseline is the metric of the uncorrected model, at λ = 0.

    Examples
    --------
    >>> rule = Constraint.parse("mean_iou >= baseline - 0.005")
    >>> rule.metric, rule.threshold(baseline=0.5)
    ('mean_iou', 0.495)
    """

    text: str
    metric: str | CountMetric
    relation: str
    factor: float
    offset: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read ``"metric >= baseline - 0.01"``, ``"… >= 0.98 * baseline"``, ``"… <= 0.9"``."""
        match = _CONSTRAINT.fullmatch(str(text))
        if match is None or (match["factor"] and (match["times"] or not match["baseline"])):
            raise OptionError(
                f"`subject_to` must read like 'mean_iou >= baseline - 0.005', "
                f"'accuracy >= 0.98 * baseline' or 'recall[2] >= 0.9'. Got {text!r}. "
                f"Write a metric, >= or <=, and a number or the baseline with an offset."
            )
        factor, offset = 0.0, float(match["number"] or 0)
        if match["baseline"]:
            factor = float(match["factor"] or match["times"] or 1)
            offset = float(f"{match['sign'] or '+'}1") * float(match["offset"] or 0)
        return cls(
            text.strip(), match["metric"].replace(" ", ""), match["relation"], factor, offset
        )

    @classmethod
    def parse_all(cls, subject_to: SubjectTo) -> list[Constraint]:
        """No, one or several constraints, read already or not."""
        if subject_to is None:
            return []
        several: Any = subject_to
        if isinstance(subject_to, str) or not isinstance(subject_to, Sequence):
            several = [subject_to]
        return [rule if isinstance(rule, Constraint) else cls.parse(rule) for rule in several]

    def threshold(self, baseline: float) -> float:
        """What the metric is compared with."""
        return self.factor * baseline + self.offset

    def holds(self, values: Vector, baseline: float) -> Vector:
        """Where it holds."""
        slack = THRESHOLD_SLACK if self.relation == "<=" else -THRESHOLD_SLACK
        within: Vector = _RELATIONS[self.relation](values, self.threshold(baseline) + slack)
        return within

    def refuse(self, steps: Steps, baseline: float) -> None:
        """Raise what is known where the constraint holds nowhere."""
        if self.holds(steps.value, baseline).any():
            return
        nearest = int(np.argmax(steps.value) if self.relation == ">=" else np.argmin(steps.value))
        raise InfeasibleError(
            f"`subject_to` must be possible within the bounds. Got {self.text!r}, a threshold of "
            f"{self.threshold(baseline):.6g}; the nearest is "
            f"{steps.value[nearest]:.6g} at strength {steps.start[nearest]:.6g}. "
            f"Loosen the constraint, or widen `bounds`."
        )


SubjectTo: TypeAlias = str | Constraint | Sequence[str | Constraint] | None


def best_interval(
    steps: Steps, high: float, feasible: Vector | None = None
) -> tuple[float, float, float]:
    """Both ends of the best interval, and its value; ``feasible`` tells which steps may be taken.

    Adjacent steps that are equally good are one interval; among intervals the widest is best,
    then the one nearest 0. Steps narrower than rounding do not count, but for λ = 0 itself
    and the upper bound.
    """
    value = steps.value if feasible is None else np.where(feasible, steps.value, -np.inf)
    width = np.append(steps.start[1:], high) - steps.start
    broad = value[(width >= NARROWEST) | (steps.start == 0.0) | (steps.start == high)]
    top = broad.max(initial=-np.inf)
    if top == -np.inf:
        top = value.max()
    if top == -np.inf:
        raise InfeasibleError(
            "`subject_to` must be possible within the bounds. Got constraints that no strength "
            "satisfies together, though each can be satisfied alone. Loosen one of them."
        )
    good = np.flatnonzero(value >= top - EQUAL_VALUES)
    if good.size == 1:
        step = int(good[0])
        end = steps.start[step + 1] if step + 1 < steps.start.size else high
        return float(steps.start[step]), float(end), float(top)
    gap = np.flatnonzero(np.diff(good) > 1)
    first = good[np.concatenate([[0], gap + 1])]
    past = good[np.append(gap, good.size - 1)] + 1
    a, b = steps.start[first], np.append(steps.start, high)[past]
    distance = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(np.abs(a), np.abs(b)))
    pick = int(np.lexsort((distance, a - b))[0])
    return float(a[pick]), float(b[pick]), float(top)


def middle(a: Any, b: Any) -> Any:
    """The middle of [a, b); of two neighbouring floats the first, where their mean rounds up."""
    mean = (a + b) / 2
    return np.where(mean < b, mean, a)[()]


def pareto_front(a: Steps, b: Steps, high: float) -> ParetoFront:
    """The front of two metrics."""
    start = np.union1d(a.start, b.start)
    value_a, value_b = a.at(start), b.at(start)
    ends = np.append(start[1:], high)
    order = np.lexsort((start - ends, -value_b, -value_a))
    ordered_b = value_b[order]
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(ordered_b)[:-1]])
    kept = order[ordered_b > best_before]
    return ParetoFront(middle(start[kept], ends[kept]), value_a[kept], value_b[kept])
