"""Intervals of a tuned strength, of its value and of its gain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from reprior import _html
from reprior.core.checks import check_choice, check_finite_number
from reprior.core.rebalance import strength_text
from reprior.exceptions import LabelsError, OptionError
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.objective import Constraint, SubjectTo, check_within
from reprior.profile.profile import StrengthProfile
from reprior.profile.sweep import Steps, value_of
from reprior.tuning.bootstrap import FEWEST_REPLICATES, Replicates, StrengthBootstrap
from reprior.tuning.crossval import CrossValidation
from reprior.tuning.selection import CURVE_RULES, Curve, select

__all__ = ["FEW_LABELS", "Uncertainty", "doubts", "uncertainty"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: With fewer labels the recall of a class is known to worse than a tenth.
FEW_LABELS = 10

#: A maximum profits from the noise of its samples. A replicate's maximum profits from that noise
#: and its own, together √2 times as large, and half of the profit is its own. The profit grows with
#: the power 4/3 of the noise (cube-root asymptotics): the truth is 2^(1/3) of the replicates'.
OPTIMISM_FACTOR = 2.0 ** (1.0 / 3.0)


@dataclass(frozen=True)
class Uncertainty:
    """A chosen strength, with intervals of the strength and of its effect on other samples.

    Parameters
    ----------
    strength : float
        The chosen one.
    value, gain : float
        The metric there on the tuning labels, and by how much it is better than at λ = 0.
    optimism : float
        By how much both are too good, because the strength was chosen, and constraints were met,
        on the same labels.
    standard_error : float
        Of the value, at this strength.
    confidence : float
        What the intervals cover.
    strength_interval : (float, float)
        Of the strength that is best for all samples there are, of those that keep the constraints
        if there are any. It is where replicates have their raw maximum, whatever the rule: one
        that is cautious by design is below the best, and need not lie in it. Where the gain is
        not distinguishable from 0 it reaches as far towards 0 as the bounds do. It covers less
        where the best lies at the limit of a constraint and the metric is flat there (in a
        simulation of 600 samples three quarters instead of nine tenths).
    value_interval, gain_interval : (float, float)
        Of what the chosen strength does on other samples. Their middles are the value and the gain
        less the optimism. Of the rule "smooth" they cover a little less (83 of 100 instead of 90 in
        a simulation of 1,000 samples).
    """

    strength: float
    value: float
    gain: float
    optimism: float
    standard_error: float
    confidence: float
    strength_interval: tuple[float, float]
    value_interval: tuple[float, float]
    gain_interval: tuple[float, float]

    @property
    def distinguishable(self) -> bool:
        """Whether the gain is above 0 with the given confidence."""
        return self.gain_interval[0] > 0.0

    def _repr_html_(self) -> str:
        """Return the intervals as HTML, for notebooks."""

        def row(name: str, value: str, ends: tuple[float, float], form: str) -> tuple[str, ...]:
            return name, value, f"{ends[0]:{form}}", f"{ends[1]:{form}}"

        rows = [
            row("strength λ", strength_text(self.strength), self.strength_interval, ".4f"),
            row("value", f"{self.value:.4f}", self.value_interval, ".4f"),
            row("gain", f"{self.gain:+.4f}", self.gain_interval, "+.4f"),
        ]
        heads = ("", "on the tuning labels", f"{self.confidence:.0%} from", "to")
        words = "distinguishable from 0" if self.distinguishable else "not distinguishable from 0"
        note = (
            f"<p>The intervals are those on other samples; they take off the optimism, "
            f"{self.optimism:.4f}. The gain is {words}.</p>"
        )
        return _html.view("Uncertainty", _html.table(heads, rows), note)


def uncertainty(
    bootstrap: StrengthBootstrap,
    metric: str | CountMetric,
    *,
    rule: str = "max",
    subject_to: SubjectTo = None,
    strength: float | None = None,
    confidence: float = 0.9,
) -> Uncertainty:
    r"""Return intervals of a tuned strength, of the metric there, and of its gain over λ = 0.

    Each replicate chooses its own strength λ*, as the tuning samples do. The excess of its metric
    at λ* over that of the tuning samples at λ* estimates the excess of the tuning samples' metric
    over the population's. The mean excess o and the standard deviation s of the replicates' metric
    at the chosen strength make the intervals

    .. math:: M(\hat λ) - 2^{1/3}\,o \pm z\,s

    with the normal quantile z; the factor is for the noise that the tuning samples already have.
    The interval of the strength is between quantiles of the replicates' best strengths.

    Parameters
    ----------
    bootstrap : StrengthBootstrap
        Of the tuning samples.
    metric : str or CountMetric
        What was tuned.
    rule : {"max", "smooth", "bagged", "one_se", "shrunk"}, default "max"
        How the strength was chosen: a rule that looks at the curve alone.
    subject_to : str or sequence of str, optional
        Constraints that it was chosen under. Each replicate keeps them on its own samples, on a
        grid of strengths, or has the smallest miss if it cannot.
    strength : float, optional
        A strength that was chosen on other samples, or not by a rule and constraints: its value is
        taken to have no optimism.
    confidence : float, default 0.9
        The coverage of the intervals.

    References
    ----------
    .. [1] Efron. "Estimating the Error Rate of a Prediction Rule", JASA 78, 1983.
    .. [2] Kim, Pollard. "Cube Root Asymptotics", Annals of Statistics 18, 1990.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> labels = (rng.random(2000) < 0.1).astype(int)
    >>> margin = 2.0 * rng.normal(2.0 * labels - 1.0) + np.log(0.1 / 0.9)
    >>> logits = np.stack([np.zeros(2000), margin], axis=1)
    >>> bootstrap = StrengthBootstrap.from_scores(logits, labels, source_prior=[0.9, 0.1])
    >>> count_metric = uncertainty(bootstrap, "balanced_accuracy")
    >>> count_metric.strength, np.round(count_metric.strength_interval, 2)
    (0.99, array([0.89, 1.19]))
    >>> count_metric.value, np.round(count_metric.value_interval, 2), count_metric.distinguishable
    (0.86, array([0.83, 0.87]), True)
    """
    share, profile = _check_confidence(confidence), bootstrap.profile
    count_metric = profile._metric(metric)
    replicates = bootstrap.replicates(count_metric)
    kept = _Kept.of(bootstrap, count_metric, subject_to)
    chosen, optimism = _chosen(bootstrap.profile, kept, count_metric, rule, subject_to, strength)
    low, high = kept.best()
    value, base = profile.evaluate(count_metric, chosen), value_of(profile.baseline, count_metric)
    # What is better is larger from here on.
    value, base = count_metric.utility(value), count_metric.utility(base)
    there = count_metric.utility(replicates.values[:, _column(replicates, chosen)])
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + share) / 2)
    least, most = (
        count_metric.utility(count_metric.worst),
        count_metric.utility(count_metric.best_possible),
    )

    def around(centre: float, drawn: Vector, least: float, most: float) -> tuple[float, float]:
        reach = z * float(drawn.std(ddof=1))
        low, high = centre - optimism - reach, centre - optimism + reach
        return max(low, least), min(high, most)

    gained = there - count_metric.utility(replicates.baseline)
    gains = around(value - base, gained, least - most, most - least)
    ends = np.quantile(low, (1 - share) / 2), np.quantile(high, (1 + share) / 2)
    if gains[0] <= 0.0:
        nearest = min(max(0.0, profile.bounds[0]), profile.bounds[1])
        ends = min(ends[0], nearest), max(ends[1], nearest)
    return Uncertainty(
        strength=chosen,
        value=count_metric.utility(value),
        gain=value - base,
        optimism=optimism,
        standard_error=float(there.std(ddof=1)),
        confidence=share,
        strength_interval=(float(ends[0]), float(ends[1])),
        value_interval=_ordered(
            count_metric.utility(end) for end in around(value, there, least, most)
        ),
        gain_interval=gains,
    )


def _ordered(ends: Iterable[float]) -> tuple[float, float]:
    low, high = sorted(ends)
    return low, high


@dataclass(frozen=True, eq=False)
class _Kept:
    """Replicates of a metric, and by how much each misses the constraints along the grid.

    Where smaller values are better, the replicates hold their negatives.
    """

    replicates: Replicates
    missing: Vector | None

    @classmethod
    def of(cls, bootstrap: StrengthBootstrap, metric: CountMetric, subject_to: SubjectTo) -> _Kept:
        """Keep the replicates in which the metric and those of all constraints are defined."""
        replicates = bootstrap.replicates(metric).utility(metric)
        n_classes = bootstrap.profile.n_classes
        parsed = Constraint.parse_all(subject_to, metric)
        rules = [rule.resolved(n_classes=n_classes) for rule in parsed]
        if not rules:
            return cls(replicates, None)
        limits = [bootstrap.replicates(rule.metric) for rule in rules]
        shared = reduce(np.intersect1d, (each.number for each in (replicates, *limits)))
        if shared.size < FEWEST_REPLICATES:
            names = ", ".join(dict.fromkeys([metric.name, *(rule.text for rule in rules)]))
            raise LabelsError(
                argument="labels",
                rule="must be enough to draw from",
                got=(
                    f"so few that {names} are defined together in {shared.size} of "
                    f"{bootstrap.n_replicates} replicates"
                ),
                remedy="Add labelled samples, or draw more replicates.",
            )
        missing = np.zeros((shared.size, replicates.strengths.size))
        for rule, limit in zip(rules, limits, strict=True):
            own = limit.taken(np.searchsorted(limit.number, shared))
            before: Any = own.baseline[:, None]  # each replicate's own
            missing += rule.misses(own.values, before)
        return cls(replicates.taken(np.searchsorted(replicates.number, shared)), missing)

    def best(self) -> tuple[Vector, Vector]:
        """Return both ends of each replicate's best interval."""
        if self.missing is None:
            low, high = self.replicates.best_interval.T
            return low, high
        value = np.where(self._allowed(), self.replicates.values, -np.inf)
        first, last = value.argmax(axis=1), value[:, ::-1].argmax(axis=1)
        return self.replicates.strengths[first], self.replicates.strengths[::-1][last]

    def nearest(self, drawn: Vector) -> Vector:
        """Return the nearest strengths that keep the constraints."""
        if self.missing is None:
            return drawn
        away = np.abs(self.replicates.strengths - drawn[:, None])
        return np.asarray(
            self.replicates.strengths[np.where(self._allowed(), away, np.inf).argmin(axis=1)]
        )

    def _allowed(self) -> Vector:
        """Return where the constraints hold; if nowhere, where the miss is smallest."""
        assert self.missing is not None  # noqa: S101 - asked for with constraints only
        return np.asarray(self.missing <= self.missing.min(axis=1, keepdims=True).clip(min=0.0))


def _chosen(
    profile: StrengthProfile,
    kept: _Kept,
    metric: CountMetric,
    rule: str,
    subject_to: SubjectTo,
    strength: float | None,
) -> tuple[float, float]:
    """Return the chosen strength, and the optimism of that choice."""
    if strength is not None:
        return float(check_within(strength, profile.bounds)), 0.0
    check_choice("rule", rule, CURVE_RULES, hint="For another one, pass the strength it gave.")
    chosen = select(profile, metric, rule, subject_to=subject_to).strength
    replicates = kept.replicates
    if rule == "max" and kept.missing is None:
        there = metric.utility(profile.evaluate(metric, replicates.best_strength))
        excess = replicates.best_value - there
    elif rule == "max":
        excess = _excess(profile, metric, replicates, kept.best()[0])
    else:
        drawn = np.array(
            [
                CURVE_RULES[rule](Curve(_steps(replicates.strengths, row), profile.bounds[1], best))
                for row, best in zip(replicates.values, replicates.best_strength, strict=True)
            ]
        ).clip(*profile.bounds)
        excess = _excess(profile, metric, replicates, kept.nearest(drawn))
    return chosen, OPTIMISM_FACTOR * float(excess.mean())


def _steps(strengths: Vector, values: Vector) -> Steps:
    """Return a curve on a grid as steps: neighbours differ."""
    new = np.append(True, values[1:] != values[:-1])
    return Steps(strengths[new], values[new])


def _excess(
    profile: StrengthProfile, metric: CountMetric, replicates: Replicates, drawn: Vector
) -> Vector:
    """Return the metric of each replicate minus that of the tuning samples, near λ*."""
    column = _column(replicates, drawn)
    there = metric.utility(profile.evaluate(metric, replicates.strengths[column]))
    return np.asarray(replicates.values[np.arange(column.size), column] - there)


def _column(replicates: Replicates, strength: Any) -> Any:
    """Return the grid point at or below a strength."""
    return np.searchsorted(replicates.strengths, strength, side="right") - 1


def doubts(
    profile: StrengthProfile,
    *,
    uncertain: Uncertainty | None = None,
    validated: CrossValidation | None = None,
    classes: Sequence[Any] | None = None,
) -> list[str]:
    """Return warnings: classes of few labels, and a gain that may be 0.

    Parameters
    ----------
    profile : StrengthProfile
        Of the tuning samples.
    uncertain : Uncertainty, optional
        The result of the bootstrap.
    validated : CrossValidation, optional
        The result of the cross-validation.
    classes : sequence, optional
        The classes' names.

    Examples
    --------
    >>> import numpy as np
    >>> profile = StrengthProfile.from_scores(
    ...     np.array([[2.0, 0.0], [1.0, 0.0]]), [0, 1], source_prior=[0.8, 0.2]
    ... )
    >>> print(doubts(profile)[0])
    2 of 2 classes have fewer than 10 tuning labels (0 has 1): a strength tuned on them depends on
    which samples these are. Add labels; strength 1, the rule of Bayes, needs none.
    """
    said = []
    labelled = profile.baseline.n_labelled
    number = profile.baseline.support if labelled is None else labelled
    few = np.flatnonzero((number > 0) & (number < FEW_LABELS))
    if few.size:
        fewest = int(few[np.argmin(number[few])])
        name = fewest if classes is None else classes[fewest]
        said.append(
            f"{few.size} of {profile.n_classes} classes have fewer than {FEW_LABELS} tuning labels "
            f"({name!r} has {int(number[fewest])}): a strength tuned on them depends on which "
            f"samples these are. Add labels; strength 1, the rule of Bayes, needs none."
        )
    if uncertain is not None and not uncertain.distinguishable:
        low, high = uncertain.gain_interval
        said.append(
            f"The gain of strength {strength_text(uncertain.strength)} over the uncorrected model "
            f"is not distinguishable from 0: its {uncertain.confidence:.0%} interval on other "
            f"samples is {low:+.3g} to {high:+.3g}. Add labels, or leave the model as it is."
        )
    if validated is not None and validated.gain <= 0.0:
        said.append(
            f"On samples that were not tuned on, the strength does no better than the uncorrected "
            f"model: {validated.score:.4g} instead of {validated.baseline_score:.4g}. Add labels, "
            f"or leave the model as it is."
        )
    return said


def _check_confidence(confidence: Any) -> float:
    share = check_finite_number("confidence", confidence, positive=True, hint="Pass 0.9.")
    if share >= 1.0:
        raise OptionError(
            argument="confidence",
            rule="must be below 1",
            got=f"{confidence!r}",
            remedy="Pass 0.9 for nine in ten.",
        )
    return share
