"""Fit a fusion: entropy references, then the strengths, from a stream of labelled chunks.

Where the decisions are those of lines in the strength, it is searched exactly. Elsewhere the
search is on a coarse grid, refined at its best (:class:`Grid`).

A round evaluates all its strengths in one pass over the data; results are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.calibrator.encoding import state_problem
from reprior.core.arrays import constant
from reprior.core.flatten import EntropyReference
from reprior.core.logspace import warn_of_probs
from reprior.core.prior import slopes
from reprior.exceptions import (
    Argument,
    Element,
    InfeasibleError,
    OptionError,
    ScoresError,
)
from reprior.fusion.blocks import Moments, Tally, merged
from reprior.fusion.fused import NoPosteriorError, Recipe, References
from reprior.fusion.stream import ModalityChunk, ModalityStream
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.merging import ProfileSum
from reprior.profile.objective import Best, Constraint, SubjectTo, refuse_unlabelled
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, Samples
from reprior.profile.sweep import Steps, value_of
from reprior.tuning.problem import Problem

__all__ = ["FusionFit", "Grid", "Tuner"]


Vector: TypeAlias = np.ndarray[Any, Any]
Evaluate: TypeAlias = Callable[[Sequence[float]], Sequence[ClassCounts]]

COARSE = 20
"""Steps of the first round: 0.1 wide within the usual bounds."""

FINER = (10, 10)
"""The factors by which later rounds divide a step: to 0.01, then 0.001 within the usual bounds."""


class Grid:
    """Class counts at strengths of a grid that is refined where the metric is best.

    It has those methods of :class:`StrengthProfile` that a search for the best strength needs.

    Parameters
    ----------
    evaluate : callable
        Takes strengths and returns the counts at each, in one pass.
    bounds : (float, float)
        Strengths to search.
    baseline : callable
        Returns the counts without a correction; called after the first pass.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        bounds: tuple[float, float],
        baseline: Callable[[], ClassCounts],
    ) -> None:
        self._evaluate = evaluate
        self.bounds = bounds
        self._baseline = baseline
        self._finest = COARSE * int(np.prod(FINER))
        self._counts: dict[int, ClassCounts] = {}

    @property
    def baseline(self) -> ClassCounts:
        """Counts without a correction, also where a strength of 0 is outside the bounds."""
        return self._baseline()

    def curve(self, metric: CountMetric) -> tuple[Vector, Vector]:
        """Return the strengths evaluated so far, and the metric at each."""
        indices = sorted(self._counts)
        return np.array([self._strength(i) for i in indices]), self._values(indices, metric)

    def best(self, metric: CountMetric, *, subject_to: SubjectTo = None) -> Best:
        """Return the evaluated strength at which the metric is largest.

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
            if last - first <= step:  # the best may lie between two equal neighbours
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
        """Evaluate the strengths that are not known yet."""
        new = [i for i in indices if i not in self._counts]
        self._counts.update(zip(new, self._evaluate([self._strength(i) for i in new]), strict=True))

    def _strength(self, index: int) -> float:
        low, high = self.bounds
        # Multiply first: 300 of 2000 steps from 0 to 2 make 0.3, not 0.30000000000000004.
        return high if index == self._finest else low + (high - low) * index / self._finest

    def _values(self, indices: Sequence[int], metric: CountMetric) -> Vector:
        return np.array([value_of(self._counts[i], metric) for i in indices])

    def _best_run(self, metric: CountMetric, rules: Sequence[Constraint]) -> tuple[int, int]:
        """Return the first and the last index of the best run of neighbours.

        Where no strength is feasible yet, the best ones are those with the least violation: a
        feasible one may lie beside them.
        """
        indices = sorted(self._counts)
        values = self._values(indices, metric)
        missed = self._missed(indices, rules)
        good = missed == missed.min()
        if not missed.min():
            good &= values >= values[good].max() - EQUAL_VALUES
        runs: list[tuple[int, int]] = []
        for is_good, was_good, index in zip(good, [False, *good[:-1]], indices, strict=True):
            if is_good and was_good:
                runs[-1] = (runs[-1][0], index)
            elif is_good:
                runs.append((index, index))
        return max(runs, key=lambda run: (run[1] - run[0], -self._distance(run)))

    def _distance(self, run: tuple[int, int]) -> float:
        """Return the distance of a run of strengths from 0."""
        low = self._strength(run[0])
        high = self._strength(run[1])
        return 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))

    def _missed(self, indices: Sequence[int], rules: Sequence[Constraint]) -> Vector:
        """Return the sum of the constraints' violations; 0 where all hold."""
        total = np.zeros(len(indices))
        for rule in rules:
            values, before = self._limited(indices, rule)
            off = np.abs(values - rule.threshold(before))
            total += np.where(rule.holds(values, before), 0.0, off)
        return total

    def _limited(self, indices: Sequence[int], rule: Constraint) -> tuple[Vector, float]:
        """Return the metric that a constraint limits, and its baseline."""
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
            argument="subject_to",
            rule="must be possible within the bounds",
            got=(
                "constraints that none of the strengths tried satisfies together, though "
                "each can be satisfied alone"
            ),
            remedy="Loosen one of them.",
        )


Curve: TypeAlias = tuple[Vector, Vector]
Setting: TypeAlias = tuple[float, ...]

MOST_SWITCHES = 10**7
RESOLUTION = 1e-4
"""An exact profile keeps this many switches one by one, and sums more in bins of this width."""

LINES_AT_ONCE = 1 << 22
"""Scores in one part of an exact profile."""

SWEEPS = 3
"""The largest number of sweeps over the modalities in a search of their strengths."""

IGNORED = -1
"""Label of pixels to leave out of a profile."""

NO_INFORMATION = 1e-5
"""Passes whose mutual information is less than this share of their entropy differ only by the
rounding of float32."""


class FusionFit(NamedTuple):
    """Strengths, and how they were chosen."""

    strengths: Setting
    value: float
    search: str
    """How the strengths were found: "exact", "grid" or "fixed"."""
    curves: tuple[Curve, ...]
    """One curve, or one per modality."""
    before: ClassCounts | None
    """None without labels."""
    after: ClassCounts | None


@dataclass(frozen=True)
class _Stated:
    """The options of a fusion as those of a calibrator."""

    metric: Any
    subject_to: Any
    bounds: Any
    class_groups: Any = None
    temperature: None = None
    label_prior: None = None


#: A positive strength that changes no score, even in float32, but excludes classes of target
#: prior 0.
BARELY = 1e-30


def _above_zero(problem: Problem) -> Problem:
    """Start the bounds just above 0 where the target prior excludes a class.

    At 0 the models are uncorrected, and may predict that class.
    """
    low, high = problem.bounds
    if low == 0.0 and not problem.target_prior.all():
        return replace(problem, bounds=(BARELY, high))
    return problem


def _refuse_pairs(problem: Problem) -> None:
    """Refuse metrics of which label was predicted as which class: fusions count by class."""
    named: list[tuple[str, Any]] = [("metric", problem.metric)]
    named += [("subject_to", rule.metric) for rule in problem.constraints]
    for argument, metric in named:
        if metric.needs != "classes":
            raise OptionError(
                argument=argument,
                rule="must be a metric of class counts for a fusion of modalities",
                got=f"{metric.name!r}, which needs labels and predictions in pairs",
                remedy="Pass for example 'mean_iou', or tune a PosteriorCalibrator for one model.",
            )


class Tuner:
    """Fit the references to a stream, and then the strengths."""

    def __init__(self, options: Any, stream: ModalityStream) -> None:
        self.options = options
        self.stream = stream
        terms = stream.terms
        stated = _Stated(options.metric, options.subject_to, options.bounds, options.class_groups)
        self.problem = _above_zero(state_problem(stated, terms))
        _refuse_pairs(self.problem)
        next(stream.parts())  # settles the modalities
        self.fixed = fixed_strengths(options.strength, stream.modalities)
        lowest = min(self.fixed) if self.fixed else self.problem.bounds[0]
        refuse_negative(lowest, terms.target_prior)
        self.recipe = Recipe(
            names=stream.modalities,
            references=(References(),) * len(stream.modalities),
            slopes=slopes(terms.source_prior, terms.target_prior),
            rule=options.rule,
            order=options.order,
            flatten_by=options.flatten_by,
            kind=options.kind,
            passes=options.uncertainty != "entropy",
        )
        if options.flatten:
            self.recipe = replace(self.recipe, references=self._references())
        self._known: dict[Setting, ClassCounts] = {}

    @property
    def exact(self) -> bool:
        """Whether the decisions are those of lines in the strength."""
        one = len(self.recipe.names) == 1
        return one or (self.recipe.rule == "product" and not self.per_modality)

    @property
    def per_modality(self) -> bool:
        """Whether every modality has its own strength."""
        named = isinstance(self.options.strength, Mapping)
        return named or self.options.strengths == "per_modality"

    def profile(self, bounds: tuple[float, float]) -> Any:
        """Return the profile, or the grid, of a shared strength within ``bounds``."""
        if self.exact:
            return self._profile(bounds)
        return Grid(self._shared, bounds, self._baseline)

    def search(self) -> tuple[Best, Any] | None:
        """Return the given strengths as the best; None where they are searched."""
        if self.fixed is None:
            return None
        if not self.stream.labelled:
            return Best(self.fixed[0], math.nan, (self.fixed[0], self.fixed[0]), False), None
        counts = self._evaluate([self.fixed])[0]
        value = value_of(counts, self.problem.metric)
        grid = Grid(self._shared, self.problem.bounds, self._baseline)
        return Best(self.fixed[0], value, (self.fixed[0], self.fixed[0]), False), grid

    def finish(self, best: Best, profile: Any) -> FusionFit:
        """Return the result; search strengths per modality from the best shared one if asked."""
        metric = self.problem.metric
        n = len(self.recipe.names)
        if self.fixed is not None and profile is None:
            return FusionFit(self.fixed, best.value, "fixed", (), None, None)
        if self.fixed is not None:
            curves = tuple((np.array([each]), np.array([best.value])) for each in self.fixed)
            curves = curves if self.per_modality else curves[:1]
            after = self._known[self.fixed]
            return FusionFit(self.fixed, best.value, "fixed", curves, profile.baseline, after)
        setting = (best.strength,) * n
        if self.exact:
            within = profile.bounds[0] <= best.strength <= profile.bounds[1]
            after = profile.counts(best.strength) if within else profile.baseline
            curves = (profile.curve(metric),)
            return FusionFit(setting, best.value, "exact", curves, profile.baseline, after)
        value = best.value
        curves = (profile.curve(metric),)
        if self.per_modality:
            setting, value, curves = self._ascend(setting, value, profile.bounds)
        after = self._evaluate([setting])[0]
        return FusionFit(setting, value, "grid", curves, profile.baseline, after)

    def warn(self, profile: Any) -> None:
        """Warn of classes without labels, likely probabilities, and binned switches."""
        if profile is not None:
            self.problem.warn_of_absent(profile)
        if self.stream.looks_like_probabilities:
            warn_of_probs(single_score=False)
        if getattr(profile, "resolution", None) is not None:
            warn(
                f"There are more than {MOST_SWITCHES:,} switches, too many to keep: they are "
                f"summed in bins of {RESOLUTION:g}, and the strength is known to one of them."
            )

    # ---------------------------------------------------------------------------------- references

    def _references(self) -> tuple[References, ...]:
        """Return the reference uncertainties of every modality on the images of the stream."""
        totals: list[list[Moments | None]] = [[None, None] for _ in self.recipe.names]
        # The recipe measures where it has any reference; this one is not used.
        measuring = replace(
            self.recipe, references=(References(EntropyReference(1.0, 0.0)),) * len(totals)
        )
        for part in self.stream.parts():
            with part.refusing(measuring):
                measured = part.batch(measuring).moments(part.keep)
            for total, new in zip(totals, measured, strict=True):
                for i, moments in enumerate(new):
                    total[i] = merged([total[i], moments])
        return tuple(
            self._reference(name, *total)
            for name, total in zip(self.recipe.names, totals, strict=True)
        )

    def _reference(
        self, name: str, entropy: Moments | None, information: Moments | None
    ) -> References:
        used = self.options.uncertainty
        if information is not None and entropy is not None:
            least = NO_INFORMATION * entropy.mean
            information = information if information.mean > least else None
        return References(
            None if used == "mutual_information" else _as_reference(name, "entropy", entropy),
            None if used == "entropy" else _as_reference(name, "mutual information", information),
        )

    # ------------------------------------------------------------------------------------ by lines

    def _profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        problem = self.problem
        priors = Priors.between(problem.source_prior, problem.target_prior, bounds)
        total = ProfileSum(exact_up_to=MOST_SWITCHES, resolution=RESOLUTION)
        for part in self.stream.parts():
            with part.refusing(self.recipe):
                for samples in self._lines(part, priors):
                    try:
                        total.add(StrengthProfile.of(samples, priors))
                    except ScoresError as error:
                        raise NoPosteriorError(None) from error
        return total.total()

    def _lines(self, part: ModalityChunk, priors: Priors) -> Iterator[Samples]:
        """Samples whose scores are lines in the strength."""
        labels = np.where(part.keep, part.labels, IGNORED)
        recipe = self.recipe
        inputs = part.inputs
        of_priors = partial(
            Samples.of,
            n_classes=priors.n_classes,
            ignore_index=IGNORED,
            excluded=priors.excluded,
            part=True,
        )
        flattened = recipe.flattens and recipe.order == "flatten_first"
        if len(recipe.names) == 1 and not recipe.passes and not flattened:
            # δ > 0 changes no arg max of one modality alone.
            (z,), shape = inputs.arrays.values(), inputs.labels_shape
            y = constant(labels.reshape(shape), inputs.xp, like=z)
            v = part.weights
            v = None if v is None else constant(v.reshape(shape), inputs.xp, like=z)
            yield of_priors(z, y, v, kind=recipe.kind, class_axis=inputs.axis)
            return
        for images, z in part.batch(recipe).lines(LINES_AT_ONCE):
            v = None if part.weights is None else part.weights[images]
            yield of_priors(z, labels[images], v, kind="logits", class_axis=1)

    # -------------------------------------------------------------------------------- by evaluation

    def _evaluate(self, settings: Sequence[Setting]) -> list[ClassCounts]:
        """Return the counts at every setting; unknown ones, and the baseline, take one pass."""
        zero = (0.0,) * len(self.recipe.names)
        new = [each for each in dict.fromkeys([zero, *settings]) if each not in self._known]
        if new and set(settings) - self._known.keys():
            self._known.update(zip(new, self._pass(new), strict=True))
        return [self._known[each] for each in settings]

    def _pass(self, settings: Sequence[Setting]) -> list[ClassCounts]:
        n_classes = self.problem.classes.size
        total: Tally | None = None
        support = np.zeros(n_classes, np.int64)
        weighted = np.zeros(n_classes)
        for part in self.stream.parts():
            with part.refusing(self.recipe):
                tally = part.batch(self.recipe).tally(
                    settings, part.labels, part.weights, part.keep, part.inputs.dtype
                )
            if total is not None and (total.sums is None) != (tally.sums is None):
                raise OptionError(
                    argument="sample_weight",
                    rule="must be given for all chunks or for none",
                    got="chunks with and chunks without weights",
                    remedy="Give the others weights of 1.",
                )
            total = tally if total is None else total.merged(tally)
            y = part.labels[part.keep]
            support += np.bincount(y, minlength=n_classes)
            if part.weights is not None:
                weighted += np.bincount(y, part.weights[part.keep], minlength=n_classes)
        self._refuse_absent(support)
        if total is None:  # the stream refuses to be empty
            return []
        return [_counts(total, i, support, weighted) for i in range(len(settings))]

    def _refuse_absent(self, support: Vector) -> None:
        """Refuse a metric of classes that have no labels, as a profile does."""
        limited: list[Any] = [rule.metric for rule in self.problem.constraints]
        for metric in (self.problem.metric, *limited):
            if not metric.has_labels(support > 0):
                refuse_unlabelled(metric, "metric")

    def _shared(self, strengths: Sequence[float]) -> list[ClassCounts]:
        return self._evaluate([(each,) * len(self.recipe.names) for each in strengths])

    def _baseline(self) -> ClassCounts:
        return self._shared([0.0])[0]

    def _ascend(
        self, setting: Setting, value: float, bounds: tuple[float, float]
    ) -> tuple[Setting, float, tuple[Curve, ...]]:
        """Search one modality's strength after the other, until none improves the metric."""
        metric = self.problem.metric
        rules = self.problem.constraints
        curves: list[Curve] = [(np.empty(0), np.empty(0))] * len(setting)
        for _ in range(SWEEPS):
            before = setting
            for m in range(len(setting)):
                grid = Grid(partial(self._along, m, setting), bounds, self._baseline)
                try:
                    best = grid.best(metric, subject_to=rules)
                except InfeasibleError:  # the current strength is feasible and stays
                    best = Best(setting[m], value, (setting[m], setting[m]), False)
                curves[m] = grid.curve(metric)
                if best.value > value + EQUAL_VALUES:
                    setting = _replaced(setting, m, best.strength)
                    value = best.value
            if setting == before:
                break
        return setting, value, tuple(curves)

    def _along(self, m: int, setting: Setting, strengths: Sequence[float]) -> list[ClassCounts]:
        return self._evaluate([_replaced(setting, m, each) for each in strengths])


def _replaced(setting: Setting, m: int, strength: float) -> Setting:
    return (*setting[:m], strength, *setting[m + 1 :])


def _as_reference(name: str, what: str, moments: Moments | None) -> EntropyReference:
    if moments is None or not moments.mean > 0:
        hint = "Pass scores of a calibrated model, or flatten=False."
        if what != "entropy":
            hint = "Pass several passes with dropout switched on, or uncertainty='entropy'."
        raise ScoresError(
            argument=Argument("scores", (repr(name),)),
            rule=(
                f"must have some {what} on the images it is fitted on, or there is nothing "
                "to refer to"
            ),
            got=f"a mean {what} of 0",
            remedy=hint,
        )
    return EntropyReference(moments.mean, moments.std)


def _counts(total: Tally, i: int, support: Vector, weighted: Vector) -> ClassCounts:
    true_positive, predicted = total.counts[:, i]
    if total.sums is None:
        return ClassCounts(true_positive, predicted, support)
    sums = total.sums[:, i]
    return ClassCounts(sums[0], sums[1], weighted, n_predicted=predicted, n_labelled=support)


def fixed_strengths(strength: Any, names: tuple[str, ...]) -> tuple[float, ...] | None:
    """Return the given strength of every modality; None where it is tuned."""
    if strength is None:
        return None
    if not isinstance(strength, Mapping):
        return (float(strength),) * len(names)
    if set(strength) != set(names):
        raise OptionError(
            argument="strength",
            rule=f"must have one number for every modality, {', '.join(map(repr, names))}",
            got=f"{', '.join(map(repr, strength)) or 'none'}",
            remedy="Name the modalities as in the scores.",
        )
    return tuple(float(strength[name]) for name in names)


def refuse_negative(lowest: float, target_prior: np.ndarray[Any, Any]) -> None:
    """Refuse strengths below 0 where a class of target prior 0 would be divided by 0."""
    if lowest < 0 and (target_prior == 0).any():
        where = int(np.argmax(target_prior == 0))
        raise OptionError(
            [
                "Strengths must not reach below 0 where ",
                Argument("target_prior"),
                f" has a 0. Got {lowest:g} and ",
                Element("target_prior", (where,), 0),
                ". Start ",
                Argument("bounds"),
                " at 0, or give the class a small prior.",
            ],
        )
