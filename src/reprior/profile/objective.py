"""What to look for along the strength: the best value, under constraints, or a whole front."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from reprior.exceptions import Argument, InfeasibleError, OptionError, Reference, Setting
from reprior.metrics.count_metrics import CountMetric, find_metric
from reprior.profile.constants import AFTER_ZERO, EQUAL_VALUES, NARROWEST, WIDEST_BOUND
from reprior.profile.sweep import Steps

__all__ = [
    "Best",
    "Constraint",
    "ParetoFront",
    "SubjectTo",
    "best_interval",
    "check_within",
    "feasible_steps",
    "middle",
    "pareto_front",
    "refuse_together",
    "refuse_unlabelled",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: "mean_iou >= baseline - 0.005" must hold for a value of exactly that: thresholds are sums of
#: two rounded numbers, which may miss by a few units in the last place.
THRESHOLD_SLACK = 1e-12

#: No metric that goes by a name is above this.
LARGEST_FRACTION = 1.0

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CONSTRAINT = re.compile(
    rf"\s*(?P<metric>\w+(?:\s*\[[^\]]+\])?)\s*(?P<relation>>=|<=)\s*"
    rf"(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?:(?P<baseline>baseline)\s*"
    rf"(?:\*\s*(?P<times>{_NUMBER})\s*)?"
    rf"(?:(?P<sign>[+-])\s*(?P<offset>{_NUMBER}))?|(?P<number>{_NUMBER}))\s*"
)
_AROUND_BRACKETS = re.compile(r"\s*([\[\]])\s*")
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
        Strengths a ≤ λ < b that are all equally good. (At the upper bound: λ ≤ b.) Of a binned
        profile that is known of those on the grid, and not of others between them.
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
                argument="subject_to",
                rule=(
                    "must read like 'mean_iou >= baseline - 0.005', 'accuracy >= 0.98 * "
                    "baseline' or 'recall[2] >= 0.9'"
                ),
                got=f"{text!r}",
                remedy="Write a metric, >= or <=, and a number or the baseline with an offset.",
            )
        factor, offset = 0.0, float(match["number"] or 0)
        if match["baseline"]:
            factor = float(match["factor"] or match["times"] or 1)
            offset = float(f"{match['sign'] or '+'}1") * float(match["offset"] or 0)
        metric = _AROUND_BRACKETS.sub(r"\1", match["metric"])  # a class's name may have spaces
        return cls(text.strip(), metric, match["relation"], factor, offset)

    @classmethod
    def parse_all(cls, subject_to: SubjectTo) -> list[Constraint]:
        """No, one or several constraints, read already or not."""
        if subject_to is None:
            return []
        several: Any = subject_to
        if isinstance(subject_to, str) or not isinstance(subject_to, Sequence):
            several = [subject_to]
        return [rule if isinstance(rule, Constraint) else cls.parse(rule) for rule in several]

    def resolved(self, *, n_classes: int, classes: Sequence[Any] | None = None) -> Constraint:
        """The same with its metric found, a class by name where ``classes`` are known.

        Examples
        --------
        >>> rule = Constraint.parse("recall[traffic light] >= 0.9")
        >>> rule.resolved(n_classes=2, classes=["road", "traffic light"]).metric.of_class
        1
        """
        found = find_metric(
            self.metric, n_classes=n_classes, classes=classes, argument="subject_to"
        )
        return replace(self, metric=found)

    def threshold(self, baseline: float) -> float:
        """What the metric is compared with."""
        return self.factor * baseline + self.offset

    def holds(self, values: Vector, baseline: float) -> Vector:
        """Where it holds."""
        slack = THRESHOLD_SLACK if self.relation == "<=" else -THRESHOLD_SLACK
        within: Vector = _RELATIONS[self.relation](values, self.threshold(baseline) + slack)
        return within

    def misses(self, values: Any, baseline: float) -> Vector:
        """By how much each value misses the threshold; 0 where the constraint holds."""
        values = np.asarray(values, np.float64)
        short = self.threshold(baseline) - values
        missing = short if self.relation == ">=" else -short
        return np.where(self.holds(values, baseline), 0.0, missing)

    def refuse(self, steps: Steps, baseline: float, high: float | None = None) -> None:
        """Raise what is known where the constraint holds nowhere.

        ``high`` is where the last step ends. Without it the steps are points.
        """
        short = self.misses(steps.value, baseline)
        if not short.all():
            return
        nearest, strength = _nearest(steps.start, short, high)
        raise InfeasibleError(
            argument="subject_to",
            rule="must be possible within the bounds",
            got=(
                f"{self.text!r}, a threshold of {self.threshold(baseline):.6g}; the nearest "
                f"is {steps.value[nearest]:.6g} at strength {strength:.6g}, which misses it "
                f"by {short[nearest]:.3g}"
            ),
            remedy=[self.hint(baseline), *_remedy("the constraint", high)],
            strength=strength,
            shortfall=float(short[nearest]),
        )

    def hint(self, baseline: float) -> str:
        """A sentence for who writes per cent."""
        if self.relation == "<=" or self.threshold(baseline) <= LARGEST_FRACTION:
            return ""
        return "Metrics are fractions: 90 % is 0.9. "


SubjectTo: TypeAlias = str | Constraint | Sequence[str | Constraint] | None
Limit: TypeAlias = tuple[Constraint, Steps, float]
"""A constraint, its metric along the strength, and that of the uncorrected model."""


def feasible_steps(steps: Steps, limits: Sequence[Limit], high: float) -> tuple[Steps, Vector]:
    """The steps, cut where a constraint begins or ceases to hold, and where all of them do.

    Where no step satisfies all of them, what is known is raised.
    """
    start = np.unique(np.concatenate([steps.start, *(limit.start for _, limit, _ in limits)]))
    values = [limit.at(start) for _, limit, _ in limits]
    misses = [
        rule.misses(value, before) for (rule, _, before), value in zip(limits, values, strict=True)
    ]
    feasible = np.max(misses, axis=0) == 0
    if not feasible.any():
        if len(limits) == 1:
            rule, limit, before = limits[0]
            rule.refuse(limit, before, high)
        refuse_together(limits, start, values, misses, high)
    return Steps(start, steps.at(start)), feasible


def refuse_together(
    limits: Sequence[Limit],
    start: Vector,
    values: Sequence[Vector],
    misses: Sequence[Vector],
    high: float,
) -> NoReturn:
    """Raise what is known where no step satisfies all constraints.

    ``values[c][i]`` is the metric of constraint c from ``start[i]`` on, and ``misses[c][i]`` by how
    much it misses. The nearest step is the one whose largest miss is smallest.
    """
    worst = np.max(misses, axis=0)
    nearest, strength = _nearest(start, worst, high)
    there = ", ".join(
        f"{rule.text!r} {f'missed by {short[nearest]:.3g}' if short[nearest] else 'kept'} "
        f"({value[nearest]:.6g})"
        for (rule, _, _), value, short in zip(limits, values, misses, strict=True)
    )
    alone = [rule.text for (rule, _, _), short in zip(limits, misses, strict=True) if short.all()]
    why = ", though each can be satisfied alone"
    if alone:
        why = f", and {' and '.join(map(repr, alone))} not even alone"
    hints = dict.fromkeys(rule.hint(before) for rule, _, before in limits)
    raise InfeasibleError(
        argument="subject_to",
        rule="must be possible within the bounds",
        got=f"constraints that no strength satisfies together{why}",
        remedy=[
            f"The nearest is strength {strength:.6g}, where the largest miss is least: {there}. ",
            *hints,
            *_remedy("what is missed", high),
        ],
        strength=strength,
        shortfall=float(worst[nearest]),
    )


def refuse_unlabelled(metric: CountMetric, name: str, *, ruled_out: bool = False) -> NoReturn:
    """Refuse the metric of a class without labels, which ``name`` asks for."""
    why = f"no sample of class {metric.of_class}"
    remedy = "Add labelled samples, or choose another metric"
    if ruled_out:
        why = f"the target prior of class {metric.of_class} is 0, which rules it out"
        remedy = "Choose another metric, or give the class a positive target prior"
    raise OptionError(
        argument=name,
        rule="must be of a class that has labels",
        got=f"{metric.name!r}, and {why}",
        remedy=f"{remedy}.",
    )


def _remedy(what: str, high: float | None) -> list[str | Reference]:
    if high is None:  # of points that were tried, by who has no biases
        return [f"Loosen {what}, or widen ", Argument("bounds"), "."]
    wider: list[str | Reference] = []
    if high < WIDEST_BOUND:
        wider = [", widen ", Argument("bounds")]
    return [
        f"Loosen {what}",
        *wider,
        ", or tune a bias for every class (",
        Setting("tune", "per_class"),
        "), which may satisfy more.",
    ]


def _nearest(start: Vector, misses: Vector, high: float | None) -> tuple[int, float]:
    """The step that misses by least, the widest of several, and its middle."""
    ends = start if high is None else np.append(start[1:], high)
    least = misses <= misses.min() + EQUAL_VALUES
    step = int(np.argmax(np.where(least, ends - start, -1.0)))
    return step, float(middle(start[step], ends[step]))


def best_interval(
    steps: Steps, high: float, feasible: Vector | None = None, *, spared: float = 0.0
) -> tuple[float, float, float]:
    """Both ends of the best interval, and its value; ``feasible`` tells which steps may be taken.

    Adjacent steps that are equally good are one interval; among intervals the widest is best,
    then the one nearest 0. Steps narrower than rounding do not count, but for those that begin
    at ``spared``, which is λ = 0 itself, and at the upper bound.
    """
    value = steps.value if feasible is None else np.where(feasible, steps.value, -np.inf)
    top = _highest(steps.start, value, high, spared)
    if top == -np.inf:
        raise InfeasibleError(
            argument="subject_to",
            rule="must be possible within the bounds",
            got=(
                "constraints that no strength satisfies together, though each can be "
                "satisfied alone"
            ),
            remedy="Loosen one of them.",
        )
    good = np.flatnonzero(value >= top - EQUAL_VALUES)
    if good.size == 1:
        step = int(good[0])
        end = steps.start[step + 1] if step + 1 < steps.start.size else high
        return float(steps.start[step]), float(end), float(top)
    gap = np.flatnonzero(np.diff(good) > 1)
    first = good[np.concatenate([[0], gap + 1])]
    past = good[np.append(gap, good.size - 1)] + 1
    last = past == steps.start.size
    a, b = steps.start[first], np.where(last, high, steps.start[np.where(last, 0, past)])
    counts = (b - a >= NARROWEST) | ((a <= spared) & (spared < b)) | (steps.start[past - 1] == high)
    if counts.any():
        a, b = a[counts], b[counts]
    distance = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(np.abs(a), np.abs(b)))
    pick = int(np.lexsort((distance, a - b))[0])
    return float(a[pick]), float(b[pick]), float(top)


def _highest(start: Vector, value: Vector, high: float, spared: float) -> float:
    """The largest value of a step that counts; of any, where none does."""

    def broad(step: Vector) -> Vector:
        begins, following = start[step], np.minimum(step + 1, start.size - 1)
        ends = np.where(step + 1 < start.size, start[following], high)
        wide: Vector = (begins == spared) | (begins == high) | (ends - begins >= NARROWEST)
        return wide

    top = value.max()
    if broad(np.flatnonzero(value == top)).any():  # nearly always: not all have to be looked at
        return float(top)
    found = np.max(value, where=broad(np.arange(start.size)), initial=-np.inf)
    return float(top if found == -np.inf else found)


def middle(a: Any, b: Any) -> Any:
    """The middle of [a, b); of two neighbouring floats the first, where their mean rounds up."""
    mean = (a + b) / 2
    return np.where(mean < b, mean, a)[()]


def check_within(strengths: Any, bounds: tuple[float, float]) -> Vector:
    """The strengths, if they lie within the bounds of a profile."""
    low, high = bounds
    at = np.asarray(strengths, dtype=np.float64)
    outside = ~((at >= low) & (at <= high))
    if outside.any():
        raise OptionError(
            argument="strengths",
            rule=(
                "must lie within the bounds of the profile, "
                f"{('above 0' if low == AFTER_ZERO else f'{low:g}')} to {high:g}"
            ),
            got=f"{(at[outside].flat[0] if at.ndim else float(at)):g}",
            remedy=["Make the profile with wider ", Argument("bounds"), "."],
        )
    return at


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
