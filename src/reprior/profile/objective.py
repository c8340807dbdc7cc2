"""The best strength for a metric, under constraints, and Pareto fronts of two metrics."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from reprior import _html
from reprior.core.rebalance import strength_text
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
    "best_of_steps",
    "check_within",
    "feasible_steps",
    "middle",
    "pareto_front",
    "refuse_together",
    "refuse_unlabelled",
    "widest_best",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: "mean_iou >= baseline - 0.005" must hold for a value of exactly that: thresholds are sums of
#: two rounded numbers, which may miss by a few units in the last place.
THRESHOLD_SLACK = 1e-12

#: A strength is kept at least this far from switches where it can be: a prediction made at a switch
#: is a tie in floating point, which may go either way.
CLEARANCE = 1e-9

#: No named metric is above this.
LARGEST_FRACTION = 1.0

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CONSTRAINT = re.compile(
    rf"\s*(?P<metric>\w+(?:\s*\([^)]*\))?(?:\s*\[[^\]]+\])?)\s*(?P<relation>>=|<=)\s*"
    rf"(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?:(?P<baseline>baseline)\s*"
    rf"(?:\*\s*(?P<times>{_NUMBER})\s*)?"
    rf"(?:(?P<sign>[+-])\s*(?P<offset>{_NUMBER}))?|(?P<number>{_NUMBER}))\s*"
)
_AROUND_BRACKETS = re.compile(r"\s*([\[\]()])\s*")
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Best:
    """The best strength and how well it does.

    Parameters
    ----------
    strength : float
        0 where no strength does better than the model as it is. Else the middle of ``interval``;
        where a switch lies within 1e-9 of that, the middle of the widest gap between neighbouring
        switches of the interval, because a prediction made at a switch is a tie.
    value : float
        The metric there.
    interval : (float, float)
        Strengths a ≤ λ < b that are all equally good. (At the upper bound: λ ≤ b.) Of a binned
        profile that is known of those on the grid, and not of others between them.
    at_bound : bool
        Whether the interval ends at a bound of the profile: there may be better beyond it. False
        at strength 0, which is not chosen for its place.
    uncertainty : float
        For a binned profile, the share of the samples' weight that switches inside the bin of
        ``strength``: the value is exact at ``strength`` and off by about this within the bin.
        0 for an exact profile.
    certified : bool
        Whether every constraint is promised on new data, as ``certify`` asks. The interval is then
        closed, and of strengths that were tested: multiples of 0.01.
    """

    strength: float
    value: float
    interval: tuple[float, float]
    at_bound: bool
    uncertainty: float = 0.0
    certified: bool = False


@dataclass(frozen=True, eq=False)
class ParetoFront:
    """Strengths at which neither metric can improve without the other getting worse.

    ``strengths[i]`` gives ``values_a[i]`` and ``values_b[i]``; ``values_a`` falls and
    ``values_b`` rises along the front.
    """

    strengths: Vector
    values_a: Vector
    values_b: Vector

    def __len__(self) -> int:
        return int(self.strengths.size)

    def _repr_html_(self) -> str:
        """Return the front as HTML, for notebooks: a curve and a few of its points."""
        if not len(self):
            return _html.view("ParetoFront", "<p>No strength.</p>")
        order = np.argsort(self.values_a, kind="stable")
        figure = _html.curve(
            self.values_a[order],
            self.values_b[order],
            labels=("metric a", "metric b"),
            steps=False,
        )
        kept = np.unique(np.linspace(0, len(self) - 1, min(len(self), 7)).round().astype(int))
        rows = [
            (strength_text(self.strengths[i]), f"{self.values_a[i]:.4f}", f"{self.values_b[i]:.4f}")
            for i in kept
        ]
        some = "" if len(self) == kept.size else f"<p>{kept.size} of {len(self):,} strengths.</p>"
        heads = ("strength λ", "metric a", "metric b")
        return _html.view("ParetoFront", figure, _html.table(heads, rows), some)


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
    def parse_all(cls, subject_to: SubjectTo, metric: Any = None) -> list[Constraint]:
        """Return no, one or several constraints as a list; parse those given as text.

        Text may name ``metric``, the tuned one, also where this is no metric that has a name of
        its own. A pair (metric, text) is a constraint on a metric without one.
        """
        if subject_to is None:
            return []
        several: Any = subject_to
        if isinstance(subject_to, str) or not isinstance(subject_to, Sequence) or _is_pair(several):
            several = [subject_to]
        return [cls._parsed(rule, metric) for rule in several]

    @classmethod
    def _parsed(cls, rule: Any, tuned: Any) -> Constraint:
        if _is_pair(rule):
            limited, text = rule
            return replace(
                cls.parse(f"metric {text}"), text=f"{limited.name} {text}", metric=limited
            )
        parsed = rule if isinstance(rule, Constraint) else cls.parse(rule)
        if isinstance(tuned, CountMetric) and parsed.metric == tuned.name:
            parsed = replace(parsed, metric=tuned)
        return parsed

    def resolved(
        self,
        *,
        n_classes: int,
        classes: Sequence[Any] | None = None,
        class_groups: Mapping[str, Any] | None = None,
    ) -> Constraint:
        """Return the same with its metric looked up, a class by name if ``classes`` are given.

        Examples
        --------
        >>> rule = Constraint.parse("recall[traffic light] >= 0.9")
        >>> rule.resolved(n_classes=2, classes=["road", "traffic light"]).metric.of_class
        1
        """
        found = find_metric(
            self.metric,
            n_classes=n_classes,
            classes=classes,
            class_groups=class_groups,
            argument="subject_to",
        )
        return replace(self, metric=found)

    def threshold(self, baseline: float) -> float:
        """Return the value that the metric is compared with."""
        return self.factor * baseline + self.offset

    def holds(self, values: Vector, baseline: float) -> Vector:
        """Return where the constraint holds."""
        slack = THRESHOLD_SLACK if self.relation == "<=" else -THRESHOLD_SLACK
        within: Vector = _RELATIONS[self.relation](values, self.threshold(baseline) + slack)
        return within

    def misses(self, values: Any, baseline: float) -> Vector:
        """Return by how much each value misses the threshold; 0 where the constraint holds."""
        values = np.asarray(values, np.float64)
        short = self.threshold(baseline) - values
        missing = short if self.relation == ">=" else -short
        return np.where(self.holds(values, baseline), 0.0, missing)

    def refuse(self, steps: Steps, baseline: float, high: float | None = None) -> None:
        """Raise an error that names the nearest step if the constraint holds nowhere.

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
        """Return a hint for a threshold written in per cent."""
        if self.relation == "<=" or self.threshold(baseline) <= LARGEST_FRACTION:
            return ""
        return "Metrics are fractions: 90 % is 0.9. "


def _is_pair(rule: Any) -> bool:
    """Tell whether a constraint is given as (metric, text)."""
    return isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], CountMetric)


SubjectTo: TypeAlias = (
    str
    | Constraint
    | tuple[CountMetric, str]
    | Sequence[str | Constraint | tuple[CountMetric, str]]
    | None
)
Limit: TypeAlias = tuple[Constraint, Steps, float]
"""A constraint, its metric along the strength, and that of the uncorrected model."""


def feasible_steps(steps: Steps, limits: Sequence[Limit], high: float) -> tuple[Steps, Vector]:
    """Return the steps, cut where a constraint starts or stops to hold, and where all hold.

    An error names the nearest step where no step satisfies all of them.
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
    """Raise an error that names the nearest step where no step satisfies all constraints.

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
    """Refuse the metric of a class, or of a group, without labels, which ``name`` asks for."""
    if metric.of_class is not None:
        whose, subject = "a class that has labels", f"class {metric.of_class}"
    else:
        whose = "classes of which one at least has labels"
        subject = f"classes {', '.join(map(str, metric.classes or ()))}"
    why, remedy = f"no sample of {subject}", "Add labelled samples, or choose another metric"
    if ruled_out:
        why = f"the target prior of {subject} is 0, which rules it out"
        remedy = "Choose another metric, or give the class a positive target prior"
    raise OptionError(
        argument=name,
        rule=f"must be of {whose}",
        got=f"{metric.name!r}, and {why}",
        remedy=f"{remedy}.",
    )


def _remedy(what: str, high: float | None) -> list[str | Reference]:
    if high is None:  # of a search over points, which has no biases
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
    """Return the step with the smallest miss, the widest of several, and its middle."""
    ends = start if high is None else np.append(start[1:], high)
    least = misses <= misses.min() + EQUAL_VALUES
    step = int(np.argmax(np.where(least, ends - start, -1.0)))
    return step, float(middle(start[step], ends[step]))


def best_interval(
    steps: Steps, high: float, feasible: Vector | None = None, *, spared: float = 0.0
) -> tuple[float, float, float]:
    """Return both ends of the best interval, and its value; only ``feasible`` steps may be taken.

    Adjacent steps that are equally good are one interval; among intervals the widest is best,
    then the one nearest 0. Steps narrower than rounding do not count, except those that begin at
    ``spared``, which is λ = 0 itself, and at the upper bound.
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


def best_of_steps(
    steps: Steps,
    bounds: tuple[float, float],
    feasible: Vector | None = None,
    *,
    switches: Vector | None = None,
) -> Best:
    """Return strength 0 where no strength is better, else the widest best.

    Parameters
    ----------
    steps : Steps
        The metric along the strength.
    bounds : (float, float)
        Where the first step starts and the last one ends.
    feasible : bool ndarray, optional
        Which steps satisfy the constraints.
    switches : ndarray, optional
        The strengths at which a prediction changes, in any order; None where a profile keeps sums
        per bin only.

    Examples
    --------
    >>> steps = Steps(np.array([0.0, 0.5, 1.0]), np.array([0.8, 0.7, 0.8]))
    >>> best_of_steps(steps, (0.0, 3.0)).interval
    (0.0, 0.5)
    >>> widest_best(steps, (0.0, 3.0)).strength
    2.0
    """
    return _model_itself(steps, bounds, feasible) or widest_best(
        steps, bounds, feasible, switches=switches
    )


def widest_best(
    steps: Steps,
    bounds: tuple[float, float],
    feasible: Vector | None = None,
    *,
    switches: Vector | None = None,
) -> Best:
    """Return the middle of the best interval, at a distance from switches.

    Strength 0 has no preference. The parameters are those of :func:`best_of_steps`.
    """
    low, high = bounds
    a, b, value = best_interval(steps, high, feasible)
    return Best(_between_switches(a, b, switches), value, (a, b), a <= low or b >= high)


def _model_itself(
    steps: Steps, bounds: tuple[float, float], feasible: Vector | None
) -> Best | None:
    """Return strength 0 with the equally good ones around it, if none in the bounds is better."""
    low, high = bounds
    if not low <= 0.0 <= high:
        return None
    value = steps.value if feasible is None else np.where(feasible, steps.value, -np.inf)
    model = int(np.searchsorted(steps.start, 0.0, side="right")) - 1
    top = _highest(steps.start, value, high, 0.0)
    if value[model] == -np.inf or value[model] < top - EQUAL_VALUES:
        return None
    worse = np.flatnonzero(value < top - EQUAL_VALUES)
    after = int(np.searchsorted(worse, model))
    first = int(worse[after - 1]) + 1 if after else 0
    end = float(steps.start[worse[after]]) if after < worse.size else high
    return Best(0.0, float(value[model]), (float(steps.start[first]), end), at_bound=False)


def _between_switches(a: float, b: float, switches: Vector | None) -> float:
    """Return the middle of [a, b), or of its widest gap if a switch is too near the middle."""
    centre = float(middle(a, b))
    if switches is None or not (np.abs(switches - centre) <= CLEARANCE).any():
        return centre
    edges = np.unique(np.concatenate([[a, b], switches[(switches > a) & (switches < b)]]))
    if edges.size == 1:  # the upper bound alone
        return centre
    widths = np.diff(edges)
    widest = np.flatnonzero(widths >= widths.max() - CLEARANCE)
    centres = middle(edges[widest], edges[widest + 1])
    return float(centres[np.argmin(np.abs(centres))])


def _highest(start: Vector, value: Vector, high: float, spared: float) -> float:
    """Return the largest value of the steps that count, or of all if none counts."""

    def broad(step: Vector) -> Vector:
        begins, following = start[step], np.minimum(step + 1, start.size - 1)
        ends = np.where(step + 1 < start.size, start[following], high)
        wide: Vector = (begins == spared) | (begins == high) | (ends - begins >= NARROWEST)
        return wide

    top = value.max()
    if broad(np.flatnonzero(value == top)).any():  # nearly always: saves a pass over all steps
        return float(top)
    found = np.max(value, where=broad(np.arange(start.size)), initial=-np.inf)
    return float(top if found == -np.inf else found)


def middle(a: Any, b: Any) -> Any:
    """Return the middle of [a, b); the first of two neighbouring floats if their mean rounds up."""
    mean = (a + b) / 2
    return np.where(mean < b, mean, a)[()]


def check_within(strengths: Any, bounds: tuple[float, float]) -> Vector:
    """Return strengths as an array; refuse those outside the bounds of a profile."""
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
    """Return the Pareto front of two metrics."""
    start = np.union1d(a.start, b.start)
    value_a, value_b = a.at(start), b.at(start)
    ends = np.append(start[1:], high)
    order = np.lexsort((start - ends, -value_b, -value_a))
    ordered_b = value_b[order]
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(ordered_b)[:-1]])
    kept = order[ordered_b > best_before]
    return ParetoFront(middle(start[kept], ends[kept]), value_a[kept], value_b[kept])
