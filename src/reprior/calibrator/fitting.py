"""From a problem and its data to the maps of a calibrator, and how far to trust them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior._warnings import collect_warnings, warn
from reprior.calibrator.sources import Source
from reprior.core.log_loss import (
    LogLossFit,
    no_strength,
    not_converged,
    strength_at_bound,
)
from reprior.core.scaling import SCALINGS, ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.core.temperature import BOUNDS, temperature_at_bound
from reprior.exceptions import Argument, InfeasibleError, LabelsError, RepriorWarning, Setting, Text
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import (
    AFTER_ZERO,
    SMALLEST_STRENGTH,
    WIDEST_BOUND,
    shown_bound,
)
from reprior.profile.objective import Best
from reprior.profile.profile import StrengthProfile
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.crossval import CrossValidation, cross_validate_samples, folds_of, images_of
from reprior.tuning.problem import Problem, _doubled
from reprior.tuning.selection import CURVE_RULES, select
from reprior.tuning.uncertainty import Uncertainty, doubts, uncertainty

if TYPE_CHECKING:
    from reprior.tuning.per_class import PerClassBiases

__all__ = ["CONFIDENCE", "Tuned", "tuned"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: What the intervals of a calibrator cover.
CONFIDENCE = 0.9

#: How far from a switch a rule's strength is kept, where there is room: far more than rounding of
#: single precision moves a switch, and less than a strength is ever known to.
ROOM = 1e-4


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a fit found."""

    decision: ScoreMap
    """The only map, where ``probability`` is None."""
    probability: ScoreMap | None
    value: float
    """Of the metric on the tuning labels."""
    interval: tuple[float, float]
    profile: StrengthProfile
    counts: ClassCounts | None
    log_loss: tuple[float, float] | None = None
    """Before and after, where probabilities were fitted."""
    shrinkage: float | None = None
    cross_validation: CrossValidation | None = None
    uncertainty: Uncertainty | None = None
    warnings: list[Text | RepriorWarning] = field(default_factory=list)
    """What the user should know about it."""

    def warn(self) -> None:
        """Issue the warnings."""
        for each in self.warnings:
            warn(each)


def tuned(problem: Problem, source: Source, *, widen: bool = True) -> Tuned:
    """Tune what the problem asks for; :meth:`Tuned.warn` then says what is to be known of it."""
    if problem.log_loss:
        found = _by_log_loss(problem, source)
        problem.warn_of_absent(found.profile)
        problem.warn_of_ruled_out(found.profile)
        return found
    best, profile = _searched(problem, source, widen)
    found = _decisions(problem, source, best, profile)
    if problem.selection == "balanced_log_loss" and problem.metric.average != "labelled":
        found.warnings.append(
            [
                Setting("selection", "balanced_log_loss"),
                f" knows nothing of {problem.metric.name}: it is made for balanced accuracy. Pass ",
                Setting("selection", "smooth"),
                " or another rule that follows the metric.",
            ]
        )
    found = replace(found, **_trust(problem, source, best, found))
    names = problem.classes.tolist()
    if problem.cv is not None or problem.n_bootstrap:
        found.warnings.extend(
            doubts(
                profile, uncertain=found.uncertainty, validated=found.cross_validation,
                classes=names,
            )
        )  # fmt: skip
    if problem.separate:
        fitted, loss = _probabilities(problem, source, found.warnings)
        found = replace(found, probability=fitted, log_loss=loss)
    elif problem.temperature == "fit":
        found = _with_temperature(problem, source, found)
    problem.warn_of_absent(profile)
    problem.warn_of_ruled_out(profile)
    low, high = found.interval
    return replace(found, interval=(shown_bound(low), high))


def _searched(problem: Problem, source: Source, widen: bool) -> tuple[Best, StrengthProfile]:
    """The strength that the rule chooses, and the profile it was chosen from."""
    try:
        best, profile = problem.search(partial(_profiled, source), widen=widen)
    except InfeasibleError as error:
        if problem.tune != "per_class":
            raise
        return _nearest(problem, source, error)
    if problem.selection != "max" and not problem.flat:
        samples = priors = None
        if problem.selection not in CURVE_RULES:
            samples, priors = source.read(profile.bounds)
            priors = replace(priors, label=problem.label_prior)
        best = select(
            profile,
            problem.metric,
            problem.selection,
            subject_to=problem.constraints,
            samples=samples,
            priors=priors,
        )
        best = _inside(best, profile)
    return _above_zero(best, problem), profile


def _profiled(source: Source, bounds: tuple[float, float]) -> StrengthProfile:
    profile = source.profile(bounds)
    if not profile.n_samples:  # as others are refused before
        raise LabelsError(
            argument="labels",
            rule=[
                "must hold a class of positive ",
                Argument("target_prior"),
                ", or there is nothing to tune",
            ],
            got=f"{int(profile.n_ruled_out.sum())} samples, all of classes that it rules out",
            remedy="Pass labels of the classes that the target has.",
        )
    return profile


def _above_zero(best: Best, problem: Problem) -> Best:
    """A strength that rules out what the target prior does, also when it is divided."""
    if problem.bounds[0] != AFTER_ZERO:
        return best
    return replace(best, strength=max(best.strength, SMALLEST_STRENGTH))


def _nearest(
    problem: Problem, source: Source, error: InfeasibleError
) -> tuple[Best, StrengthProfile]:
    """Where the least is missing of the constraints: biases, which may do more, begin there."""
    (low, high), nearest = problem.bounds, error.strength
    at = 1.0 if problem.flat or nearest is None else nearest
    if at > high and not problem.flat:
        while high < at:
            high = _doubled(high)
        warn(
            [
                f"No strength up to {WIDEST_BOUND:g} satisfies ",
                Argument("subject_to"),
                f": biases begin at the nearest, {at:.3g}, beyond the upper bound "
                f"{problem.bounds[1]:g}.",
            ]
        )
    profile = _profiled(source, (low, high))
    value = profile.evaluate(problem.metric, min(max(at, low), high))
    return _above_zero(Best(at, value, (at, at), False), problem), profile


def _inside(best: Best, profile: StrengthProfile) -> Best:
    """A little away from where decisions change, so that rounding does not decide there."""
    low, high = best.interval
    room = min((high - low) / 2, ROOM)
    if best.strength == 0.0 or profile.resolution is not None:
        return best  # the model as it is; a point of the grid, where counts are exact
    return replace(best, strength=min(max(best.strength, low + room), high - room))


def _decisions(problem: Problem, source: Source, best: Best, profile: StrengthProfile) -> Tuned:
    """The map for decisions, at the temperature that was given, and what it does."""
    temperature = 1.0
    if not problem.separate and not isinstance(problem.temperature, str):
        temperature = float(problem.temperature)
    if problem.tune == "per_class":
        biased = _biases(problem, source, best, profile)
        at = ScoreMap(best.strength, temperature, biases=biased.biases)
        return Tuned(
            at, None, biased.value, best.interval, profile, source.counts(at),
            shrinkage=biased.shrinkage,
        )  # fmt: skip
    low, high = profile.bounds
    inside = low <= best.strength <= high  # if not, no strength changes a decision
    counts = profile.counts(best.strength) if inside else profile.baseline
    at = ScoreMap(best.strength, temperature)
    return Tuned(at, None, best.value, best.interval, profile, counts)


def _biases(
    problem: Problem, source: Source, best: Best, profile: StrengthProfile
) -> PerClassBiases:
    from reprior.tuning.per_class import tune_biases

    samples, priors = source.read(profile.bounds)
    return tune_biases(
        samples,
        priors,
        best.strength,
        metric=problem.metric,
        constraints=problem.constraints,
        seed=problem.seed,
        rule=problem.selection if problem.selection in CURVE_RULES else "max",
    )


def _trust(problem: Problem, source: Source, best: Best, found: Tuned) -> dict[str, Any]:
    """What folds and bootstrap say, where they are asked."""
    known: dict[str, Any] = {}
    if problem.cv is None and not problem.n_bootstrap:
        return known
    samples, priors = source.read(found.profile.bounds)
    if problem.cv is not None:
        folds = folds_of(samples, problem.cv, np.random.default_rng(problem.seed))
        with _named_fold():
            if problem.tune == "per_class":
                value = replace(best, value=found.value)
                from reprior.tuning.per_class import nested_biases

                known["cross_validation"] = nested_biases(
                    samples, priors, folds, problem, best=value, profile=found.profile
                )
            else:
                known["cross_validation"] = cross_validate_samples(
                    samples, priors, problem.metric, folds, rule=problem.selection,
                    subject_to=problem.constraints,
                )  # fmt: skip
    if problem.n_bootstrap:
        bootstrap = StrengthBootstrap.of(
            samples, priors, groups=images_of(samples), n_replicates=problem.n_bootstrap,
            random_state=problem.seed,
        )  # fmt: skip
        known["uncertainty"] = _uncertainty(problem, bootstrap, best)
    return known


def _uncertainty(problem: Problem, bootstrap: StrengthBootstrap, best: Best) -> Uncertainty:
    """Of the rule, where the replicates can follow it; otherwise of the strength as it is."""
    rule, at = problem.selection, None
    if rule not in CURVE_RULES or problem.flat:
        low, high = bootstrap.profile.bounds
        rule, at = "max", min(max(best.strength, low), high)
    return uncertainty(
        bootstrap, problem.metric, rule=rule, subject_to=problem.constraints, strength=at,
        confidence=CONFIDENCE,
    )  # fmt: skip


def _with_temperature(problem: Problem, source: Source, found: Tuned) -> Tuned:
    shifts = found.decision.shifts(problem.source_prior, problem.target_prior)
    fit = source.temperature(problem, shifts)
    if fit.at_bound:
        found.warnings.append(_at_temperature(fit.temperature))
    if not fit.converged:
        found.warnings.append(not_converged(fit.n_iterations))
    return replace(
        found,
        decision=replace(found.decision, temperature=fit.temperature),
        log_loss=(source.log_loss(problem), fit.log_loss),
    )


def _by_log_loss(problem: Problem, source: Source) -> Tuned:
    """One map, fitted by log-loss."""
    sentences: list[Text | RepriorWarning] = []
    profile = _profiled(source, problem.bounds)
    fitted, loss = _probabilities(problem, source, sentences)
    at, (low, high) = fitted.strength, problem.bounds
    if not shown_bound(low) <= at <= high:
        profile = source.profile((min(low, at), max(high, at)))
    counts: ClassCounts | None = None
    if not fitted.plain:
        counts = source.counts(fitted)
    elif profile.bounds[0] <= at <= profile.bounds[1]:  # or it could not be made wider
        counts = profile.counts(at)
    return Tuned(
        fitted, None, loss[1], (at, at), profile, counts, log_loss=loss, warnings=sentences
    )


def _probabilities(
    problem: Problem, source: Source, sentences: list[Text | RepriorWarning]
) -> tuple[ScoreMap, tuple[float, float]]:
    """The map of least log-loss, and the log-loss before and after."""
    before = source.log_loss(problem)
    fit = _by_log_loss_widened(problem, source, sentences)
    if isinstance(fit, LogLossFit):
        return _plain_map(fit, problem.target_prior), (before, fit.log_loss)
    at, t = fit.joint.decision_strength, fit.joint.temperature
    if fit.joint.at_bound:  # it was held near the rule of Bayes then
        at = t = 1.0
    if problem.temperature == "bcts" and fit.scale[0] > 0:
        t = 1.0 / float(fit.scale[0])
        return ScoreMap(at, t, biases=fit.bias * t), (before, fit.log_loss)
    return ScoreMap(at, t, biases=fit.bias * t, scales=fit.scale * t), (before, fit.log_loss)


def _plain_map(fit: LogLossFit, target_prior: Vector) -> ScoreMap:
    """Strength and temperature; what the target prior says is impossible is so at strength 0 too.

    It does not exist in the fit, and a strength of 0 alone would leave it as the model has it.
    """
    biases = None
    if fit.strength == 0.0 and not target_prior.all():
        biases = np.where(target_prior > 0, 0.0, -np.inf)
    return ScoreMap(fit.decision_strength, fit.temperature, biases)


def _by_log_loss_widened(
    problem: Problem, source: Source, sentences: list[Text | RepriorWarning]
) -> LogLossFit | ScalingFit:
    """Fit with λ within the bounds, and again with the upper one doubled while λ is at it."""
    fitted = source.scaling if problem.temperature in SCALINGS else source.joint
    low, high = shown_bound(problem.bounds[0]), problem.bounds[1]
    while True:
        collected: list[RepriorWarning] = []
        with collect_warnings(collected):
            fit = fitted(replace(problem, bounds=(low, high)))
        joint = fit.joint if isinstance(fit, ScalingFit) else fit
        at_bound = joint.at_bound and not problem.flat and joint.strength in (low, high)
        if not at_bound or joint.strength < high or high >= WIDEST_BOUND:
            break
        wider = _doubled(high)
        sentences.append(
            f"The best strength λ of softmax(z/T + λ·w) lay at the upper bound {high:g}: searching "
            f"up to {wider:g}. (`strength_` is T·λ.)"
        )
        high = wider
    sentences.extend(collected)
    if isinstance(fit, LogLossFit):
        _say_of_joint(problem, fit, sentences)
    if at_bound:
        sentences.append(strength_at_bound(joint.strength))
    return fit


def _say_of_joint(
    problem: Problem, fit: LogLossFit, sentences: list[Text | RepriorWarning]
) -> None:
    """Say where the strength says nothing, T is at a bound, or the fit did not come to rest."""
    if problem.flat and problem.log_loss:
        sentences.append(no_strength())
    if fit.at_bound and fit.temperature in BOUNDS:
        sentences.append(_at_temperature(fit.temperature))
    if not fit.converged:
        sentences.append(not_converged(fit.n_iterations))


def _at_temperature(end: float) -> RepriorWarning:
    return temperature_at_bound(
        end, BOUNDS, of="the temperature", remedy=["a number as ", Argument("temperature")]
    )


@contextmanager
def _named_fold() -> Iterator[None]:
    """Let an error in a fold say that it was there."""
    try:
        yield
    except InfeasibleError as error:
        raise error.with_sentence(
            [
                "That was without one of the folds of ",
                Argument("cv"),
                "; on all labels it is possible.",
            ]
        ) from error
