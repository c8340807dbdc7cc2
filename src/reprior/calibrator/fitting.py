"""The steps of a fit: from a problem and its data to the maps, folds and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior._warnings import collect_warnings, warn
from reprior.calibrator.forecast import MOST_CONFUSED, Confusions
from reprior.core.checks import few
from reprior.core.log_loss import (
    JointLoss,
    LogLossFit,
    best_jointly,
    minimise_jointly,
    no_strength,
    not_converged,
    refuse_lone_class,
    refuse_negative,
    strength_at_bound,
    with_labels,
)
from reprior.core.prior import slopes
from reprior.core.scaling import SCALINGS, ScalingFit, best_scaling
from reprior.core.score_map import ScoreMap
from reprior.core.temperature import BOUNDS, best_temperature, temperature_at_bound
from reprior.core.weighted_rows import LossRows, WeightedRows
from reprior.exceptions import (
    Argument,
    InfeasibleError,
    LabelsError,
    RepriorWarning,
    Setting,
    Text,
    WidenedBoundsWarning,
)
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import (
    AFTER_ZERO,
    SMALLEST_STRENGTH,
    WIDEST_BOUND,
    shown_bound,
)
from reprior.profile.objective import Best
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, Samples, refuse_nothing
from reprior.profile.source import (
    EXACT,
    Bins,
    CountPass,
    ProfilePass,
    RowReader,
    Source,
    collected,
    loss_rows,
)
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.crossval import CrossValidation, cross_validate_samples, folds_of, images_of
from reprior.tuning.problem import Problem, _doubled
from reprior.tuning.selection import CURVE_RULES, select
from reprior.tuning.uncertainty import Uncertainty, doubts, uncertainty

if TYPE_CHECKING:
    from reprior.tuning.per_class import PerClassBiases

__all__ = ["CONFIDENCE", "Tuned", "inside", "tuned"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The confidence of a calibrator's intervals.
CONFIDENCE = 0.9

#: The distance from a switch that a selected strength keeps, if its interval is wide enough.
#: Larger than float32 rounding of a switch, smaller than any meaningful difference of λ.
MARGIN = 1e-4

#: Warn if Cohen's κ is this many standard errors below 0. One in 30,000 guessing models is.
BELOW_CHANCE = 4.0


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of a fit."""

    decision: ScoreMap
    """The map for decisions; the only map where ``probability`` is None."""
    probability: ScoreMap | None
    value: float
    """The metric on the tuning labels."""
    interval: tuple[float, float]
    profile: StrengthProfile
    counts: ClassCounts | None
    log_loss: tuple[float, float] | None = None
    """Before and after, where probabilities were fitted."""
    shrinkage: float | None = None
    cross_validation: CrossValidation | None = None
    uncertainty: Uncertainty | None = None
    certified: bool = False
    """Whether the constraints are promised on new data."""
    confusions: Confusions | None = None
    """Samples by class and decision, before and after."""
    warnings: list[Text | RepriorWarning] = field(default_factory=list)
    """Warnings about the result, which :meth:`warn` issues."""

    def warn(self) -> None:
        """Issue the warnings."""
        for each in self.warnings:
            warn(each)


class _Tuning:
    """The problem and the samples of one fit, with the passes that its steps need."""

    def __init__(
        self, problem: Problem, source: Source, bins: Bins, loss_source: Source | None
    ) -> None:
        self.problem = problem
        self.source = source
        self.bins = bins
        self.loss_source = loss_source or source
        self._first_profile: StrengthProfile | None = None

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``.

        The first time, warn if the scores look like probabilities.
        """
        priors = self.problem.priors(bounds)
        profiled = self.source.run(ProfilePass(priors, self.bins))
        profile = profiled.required()
        if self._first_profile is None:
            self._first_profile = profile
            profiled.detector.warn()
        if not profile.n_samples:  # all are of classes with target prior 0
            raise LabelsError(
                argument="labels",
                rule=[
                    "must hold a class of positive ",
                    Argument("target_prior"),
                    ", or there is nothing to tune",
                ],
                got=f"{int(profile.n_ruled_out.sum())} samples, all of classes that it rules out",
                remedy="Pass labels of classes with a positive target prior.",
            )
        return profile

    @cached_property
    def all_samples(self) -> Samples:
        """All samples in memory; an error if they are too many."""
        return collected(self.source)

    def samples(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """Return all samples of classes that are not ruled out, in memory, and the priors."""
        priors = self.problem.priors(bounds)
        return self.all_samples.excluding(priors.excluded), priors

    @cached_property
    def loss_rows(self) -> LossRows:
        """The rows for fits by log-loss, the labels weighted to the target prior."""
        profile = self._first_profile or self.profile(self.problem.bounds)
        return loss_rows(self.loss_source, self._row_reader(profile), profile)

    def weighted_rows(self) -> WeightedRows:
        """Return these rows in memory; an error if they are too many."""
        rows = self.loss_rows
        if isinstance(rows, WeightedRows):
            return rows
        profile = self._first_profile or self.profile(self.problem.bounds)
        return self._row_reader(profile).read_all(collected(self.loss_source))

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """Return the counts of a map's decisions on the samples."""
        problem = self.problem
        # The bounds of a fit begin just above 0 where a class is ruled out.
        low = 0.0 if problem.target_prior.all() else AFTER_ZERO
        few = problem.source_prior.size <= MOST_CONFUSED
        paired = few or problem.metric.needs != "classes"
        counts = self.source.run(CountPass(decisions, problem.priors((low, 1.0)), paired))
        if counts is None:
            refuse_nothing(0)
        return counts

    def confusions(self, result: Tuned) -> Confusions | None:
        """Return the samples by class and decision, before and after; None where not known."""
        n_classes, before = result.profile.n_classes, result.profile.baseline.pairs
        after = None if result.counts is None else result.counts.pairs
        if before is None or after is None or n_classes > MOST_CONFUSED or result.profile.weighted:
            return None
        if not self.problem.target_prior.all():
            return None
        return Confusions(
            before.matrix(n_classes).astype(np.int64), after.matrix(n_classes).astype(np.int64)
        )

    def _row_reader(self, profile: StrengthProfile) -> RowReader:
        support = np.asarray(profile.baseline.support, np.float64)
        return RowReader.of(support, self.problem.target_prior, self.problem.label_prior)


def tuned(
    problem: Problem,
    source: Source,
    *,
    bins: Bins = EXACT,
    widen: bool = True,
    loss_source: Source | None = None,
) -> Tuned:
    """Solve a tuning problem; :meth:`Tuned.warn` then issues the warnings.

    Parameters
    ----------
    problem : Problem
        The problem.
    source : Source
        The labelled samples.
    bins : Bins
        When profiles are binned, and how.
    widen : bool
        Whether the bounds may be widened, which needs another pass.
    loss_source : Source, optional
        The samples for fits by log-loss, if they differ from ``source``.
    """
    tuning = _Tuning(problem, source, bins, loss_source)
    if problem.log_loss:
        result = _by_log_loss(tuning)
        result = replace(result, confusions=tuning.confusions(result))
        _warn_of_class_order(problem, result.profile)
        problem.warn_of_absent(result.profile)
        problem.warn_of_ruled_out(result.profile)
        return result
    best, profile = _searched(tuning, widen)
    result = replace(_decisions(tuning, best, profile), certified=best.certified)
    if problem.selection == "balanced_log_loss" and problem.metric.average != "labelled":
        result.warnings.append(
            [
                Setting("selection", "balanced_log_loss"),
                f" does not consider {problem.metric.name}: it suits balanced accuracy. Pass ",
                Setting("selection", "smooth"),
                " or another rule that follows the metric.",
            ]
        )
    result = replace(result, **_trust(tuning, best, result))
    names = problem.classes.tolist()
    if problem.cv is not None or problem.n_bootstrap:
        result.warnings.extend(
            doubts(
                profile,
                uncertain=result.uncertainty,
                validated=result.cross_validation,
                classes=names,
            )
        )
    if problem.separate:
        probability, log_loss = _probabilities(tuning, result.warnings)
        result = replace(result, probability=probability, log_loss=log_loss)
    elif problem.temperature == "fit":
        result = _with_temperature(tuning, result)
    _warn_of_class_order(problem, profile)
    problem.warn_of_absent(profile)
    problem.warn_of_ruled_out(profile)
    low, high = result.interval
    confusions = tuning.confusions(result)
    return replace(result, interval=(shown_bound(low), high), confusions=confusions)


def _warn_of_class_order(problem: Problem, profile: StrengthProfile) -> None:
    """Warn where the uncorrected model is below chance by more than noise."""
    counts = profile.baseline
    if counts.kappa_z > -BELOW_CHANCE:
        return
    share = counts.true_positive.sum() / counts.support.sum()
    names = problem.classes.tolist()
    labelled = counts.labelled
    from_1 = ""
    if names == list(range(len(names))) and not labelled[0] and labelled[-1]:
        from_1 = " No label is 0: if labels count from 1, subtract 1."
    warn(
        f"The uncorrected model is worse than chance: it is right on {share:.1%} of the tuning "
        f"samples. The likely cause is the order of the classes: the columns of the scores must be "
        f"those of {few(names)}, in this order.{from_1}"
    )


def _searched(tuning: _Tuning, widen: bool) -> tuple[Best, StrengthProfile]:
    """Return the strength that the selection rule chooses, and its profile."""
    problem = tuning.problem
    try:
        best, profile = problem.search(tuning.profile, widen=widen)
    except InfeasibleError as error:
        if problem.tune != "per_class":
            raise
        return _nearest(tuning, error)
    if problem.selection != "max" and not problem.flat:
        samples = priors = None
        if problem.selection not in CURVE_RULES:
            samples, priors = tuning.samples(profile.bounds)
        best = select(
            profile,
            problem.metric,
            problem.selection,
            subject_to=problem.constraints,
            samples=samples,
            priors=priors,
        )
        best = inside(best, profile)
    return _above_zero(best, problem), profile


def _above_zero(best: Best, problem: Problem) -> Best:
    """Return the best with a strength above 0 where a class is ruled out.

    It stays above 0 when a temperature divides it.
    """
    if problem.bounds[0] != AFTER_ZERO:
        return best
    return replace(best, strength=max(best.strength, SMALLEST_STRENGTH))


def _nearest(tuning: _Tuning, error: InfeasibleError) -> tuple[Best, StrengthProfile]:
    """Return the strength with the smallest shortfall of the constraints: biases start from it.

    Biases may satisfy constraints that no strength satisfies.
    """
    problem = tuning.problem
    (low, high), nearest = problem.bounds, error.strength
    start = 1.0 if problem.flat or nearest is None else nearest
    if start > high and not problem.flat:
        while high < start:
            high = _doubled(high)
        warn(
            [
                f"No strength up to {WIDEST_BOUND:g} satisfies ",
                Argument("subject_to"),
                f": biases start from the nearest, {start:.3g}, beyond the upper bound "
                f"{problem.bounds[1]:g}.",
            ]
        )
    profile = tuning.profile((low, high))
    value = profile.evaluate(problem.metric, min(max(start, low), high))
    return _above_zero(Best(start, value, (start, start), False), problem), profile


def inside(best: Best, profile: StrengthProfile) -> Best:
    """Move the best strength away from switches, so that rounding cannot change a prediction.

    Strength 0 stays, and so does the strength of a binned profile, whose counts are exact at the
    points of the grid.
    """
    if best.strength == 0.0 or profile.resolution is not None:
        return best
    low, high = best.interval
    margin = min((high - low) / 2, MARGIN)
    return replace(best, strength=min(max(best.strength, low + margin), high - margin))


def _decisions(tuning: _Tuning, best: Best, profile: StrengthProfile) -> Tuned:
    """Return the map for decisions, at the given temperature, and its counts."""
    problem = tuning.problem
    temperature = 1.0
    if not problem.separate and not isinstance(problem.temperature, str):
        temperature = float(problem.temperature)
    if problem.tune == "per_class":
        biased = _biases(tuning, best, profile)
        decision = ScoreMap(best.strength, temperature, biases=biased.biases)
        return Tuned(
            decision,
            None,
            biased.value,
            best.interval,
            profile,
            tuning.counts(decision),
            shrinkage=biased.shrinkage,
        )
    low, high = profile.bounds
    # Outside only if all slopes are equal: strength is 1 then, and none changes a decision.
    is_inside = low <= best.strength <= high
    counts = profile.counts(best.strength) if is_inside else profile.baseline
    decision = ScoreMap(best.strength, temperature)
    return Tuned(decision, None, best.value, best.interval, profile, counts)


def _biases(tuning: _Tuning, best: Best, profile: StrengthProfile) -> PerClassBiases:
    from reprior.tuning.per_class import tune_biases

    problem = tuning.problem
    samples, priors = tuning.samples(profile.bounds)
    return tune_biases(
        samples,
        priors,
        best.strength,
        metric=problem.metric,
        constraints=problem.constraints,
        seed=problem.seed,
        rule=problem.selection if problem.selection in CURVE_RULES else "max",
    )


def _trust(tuning: _Tuning, best: Best, result: Tuned) -> dict[str, Any]:
    """Return the results of folds and bootstrap, where the problem asks for them."""
    problem = tuning.problem
    trust: dict[str, Any] = {}
    if problem.cv is None and not problem.n_bootstrap:
        return trust
    samples, priors = tuning.samples(result.profile.bounds)
    if problem.cv is not None:
        folds = folds_of(samples, problem.cv, np.random.default_rng(problem.seed))
        with _named_fold():
            if problem.tune == "per_class":
                from reprior.tuning.per_class import nested_biases

                trust["cross_validation"] = nested_biases(
                    samples,
                    priors,
                    folds,
                    problem,
                    best=replace(best, value=result.value),
                    profile=result.profile,
                )
            else:
                trust["cross_validation"] = cross_validate_samples(
                    samples,
                    priors,
                    problem.metric,
                    folds,
                    rule=problem.selection,
                    subject_to=problem.constraints,
                )
    if problem.n_bootstrap:
        bootstrap = StrengthBootstrap.of(
            samples,
            priors,
            groups=images_of(samples),
            n_replicates=problem.n_bootstrap,
            random_state=problem.seed,
        )
        trust["uncertainty"] = _uncertainty(problem, bootstrap, best)
    return trust


def _uncertainty(problem: Problem, bootstrap: StrengthBootstrap, best: Best) -> Uncertainty:
    """Return intervals of the rule if replicates can apply it, else of the fixed strength."""
    rule = problem.selection
    strength = None
    if rule not in CURVE_RULES or problem.flat or problem.certify is not None:
        low, high = bootstrap.profile.bounds
        rule = "max"
        strength = min(max(best.strength, low), high)
    return uncertainty(
        bootstrap,
        problem.metric,
        rule=rule,
        subject_to=problem.constraints,
        strength=strength,
        confidence=CONFIDENCE,
    )


def _with_temperature(tuning: _Tuning, result: Tuned) -> Tuned:
    """Return the result with the temperature of the least log-loss."""
    problem = tuning.problem
    shifts = result.decision.shifts(problem.source_prior, problem.target_prior)
    exists = np.isfinite(shifts)
    rows = tuning.loss_rows.of_classes(exists).shifted(shifts[exists])
    fit = best_temperature(rows, BOUNDS)
    if fit.at_bound:
        result.warnings.append(_at_temperature(fit.temperature))
    if not fit.converged:
        result.warnings.append(not_converged(fit.n_iterations))
    return replace(
        result,
        decision=replace(result.decision, temperature=fit.temperature),
        log_loss=(_uncorrected_log_loss(tuning), fit.log_loss),
    )


def _uncorrected_log_loss(tuning: _Tuning) -> float:
    """Return the log-loss of the uncorrected model, the labels weighted to the target prior."""
    rows = tuning.loss_rows
    return JointLoss(rows, np.zeros(rows.n_classes))(1.0, 0.0).value


def _by_log_loss(tuning: _Tuning) -> Tuned:
    """Return the result with one map, fitted by log-loss."""
    problem = tuning.problem
    sentences: list[Text | RepriorWarning] = []
    profile = tuning.profile(problem.bounds)
    fitted, log_loss = _probabilities(tuning, sentences)
    strength, (low, high) = fitted.strength, problem.bounds
    if not shown_bound(low) <= strength <= high:
        profile = tuning.profile((min(low, strength), max(high, strength)))
    counts: ClassCounts | None = None
    if not fitted.plain:
        counts = tuning.counts(fitted)
    elif profile.bounds[0] <= strength <= profile.bounds[1]:  # else the bounds are the widest
        counts = profile.counts(strength)
    return Tuned(
        fitted,
        None,
        log_loss[1],
        (strength, strength),
        profile,
        counts,
        log_loss=log_loss,
        warnings=sentences,
    )


def _probabilities(
    tuning: _Tuning, sentences: list[Text | RepriorWarning]
) -> tuple[ScoreMap, tuple[float, float]]:
    """Return the map of the least log-loss, and the log-loss before and after."""
    problem = tuning.problem
    before = _uncorrected_log_loss(tuning)
    fit = _by_log_loss_widened(tuning, sentences)
    if isinstance(fit, LogLossFit):
        return _plain_map(fit, problem.target_prior), (before, fit.log_loss)
    strength, t = fit.joint.decision_strength, fit.joint.temperature
    if fit.joint.at_bound:  # the fit then starts from Bayes' rule: strength and temperature 1
        strength = t = 1.0
    if problem.temperature == "bcts" and fit.scale[0] > 0:
        t = 1.0 / float(fit.scale[0])
        return ScoreMap(strength, t, biases=fit.bias * t), (before, fit.log_loss)
    fitted = ScoreMap(strength, t, biases=fit.bias * t, scales=fit.scale * t)
    return fitted, (before, fit.log_loss)


def _joint_fit(tuning: _Tuning, bounds: tuple[float, float]) -> LogLossFit | ScalingFit:
    """Return the best temperature and strength; with a bias, or scale and bias, per class."""
    problem = tuning.problem
    temperature = problem.temperature
    target = problem.target_prior
    refuse_lone_class(target)
    w = slopes(problem.source_prior, target)
    possible = target > 0
    if isinstance(temperature, str) and temperature in SCALINGS:
        refuse_negative(target, bounds)
        return best_scaling(tuning.weighted_rows(), w, possible, scaling=temperature, bounds=bounds)
    rows = tuning.loss_rows.of_classes(possible)
    if isinstance(temperature, str):
        return best_jointly(rows, w[possible], bounds)
    return _best_at_temperature(rows, w[possible], float(temperature), bounds, flat=problem.flat)


def _best_at_temperature(
    rows: LossRows, w: Vector, temperature: float, bounds: tuple[float, float], *, flat: bool
) -> LogLossFit:
    """Return the best λ at a given temperature; strength 1 where no strength matters."""
    labelled_rows, labelled_slopes = with_labels(rows, w)
    loss = JointLoss(labelled_rows, labelled_slopes)
    inverse = 1.0 / temperature
    if flat:
        return LogLossFit(
            temperature, inverse, JointLoss(rows, w)(inverse, inverse).value, True, 1, False
        )
    fixed = temperature, temperature
    fit = minimise_jointly(loss, bounds, fixed, start=(inverse, 1.0), noise=loss.noise)
    fit = replace(fit, at_bound=fit.strength in bounds)
    if labelled_rows is rows:
        return fit
    # A class without labels does not change the fit, but has a share of the probability.
    full_loss = JointLoss(rows, w)
    return replace(fit, log_loss=full_loss(1.0 / fit.temperature, fit.strength).value)


def _plain_map(fit: LogLossFit, target_prior: Vector) -> ScoreMap:
    """Return the map of strength and temperature; classes of target prior 0 stay impossible.

    They have no part in the fit, and at strength 0 the model could still predict them.
    """
    biases = None
    if fit.strength == 0.0 and not target_prior.all():
        biases = np.where(target_prior > 0, 0.0, -np.inf)
    return ScoreMap(fit.decision_strength, fit.temperature, biases)


def _by_log_loss_widened(
    tuning: _Tuning, sentences: list[Text | RepriorWarning]
) -> LogLossFit | ScalingFit:
    """Fit with λ within the bounds, and double the upper bound while λ is at it."""
    problem = tuning.problem
    low, high = shown_bound(problem.bounds[0]), problem.bounds[1]
    while True:
        collected: list[RepriorWarning] = []
        with collect_warnings(collected):
            fit = _joint_fit(tuning, (low, high))
        joint = fit.joint if isinstance(fit, ScalingFit) else fit
        at_bound = joint.at_bound and not problem.flat and joint.strength in (low, high)
        if not at_bound or joint.strength < high or high >= WIDEST_BOUND:
            break
        wider = _doubled(high)
        sentences.append(
            WidenedBoundsWarning(
                f"The best strength λ of softmax(z/T + λ·w) lay at the upper bound {high:g}: "
                f"searching up to {wider:g}. (`strength_` is T·λ.)"
            )
        )
        high = wider
    sentences.extend(collected)
    if isinstance(fit, LogLossFit):
        _add_warnings_of_joint_fit(problem, fit, sentences)
    if at_bound:
        sentences.append(strength_at_bound(joint.strength))
    return fit


def _add_warnings_of_joint_fit(
    problem: Problem, fit: LogLossFit, sentences: list[Text | RepriorWarning]
) -> None:
    """Add warnings: no strength matters, T is at a bound, or the fit did not converge."""
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
    """Add to an error inside a fold that it arose there."""
    try:
        yield
    except InfeasibleError as error:
        raise error.with_sentence(
            [
                "This happened without one of the folds of ",
                Argument("cv"),
                "; with all labels it is possible.",
            ]
        ) from error
