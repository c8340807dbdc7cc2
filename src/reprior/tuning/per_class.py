r"""Per-class biases: multi-class threshold tuning that starts at the best strength.

The biases that the search finds are shrunk towards their start, the more the fewer labels a class
has:

.. math:: b_k = s_k + \frac{n_k}{n_k + κ}\,(d_k - \bar d), \qquad
    \bar d = \frac{\sum_j d_j\,n_j / (n_j + κ)}{\sum_j n_j / (n_j + κ)}

with the start s, the tuned biases s + d, the number of labels n and the shrinkage κ, in labels: a
class with κ labels goes half the way. Adding a constant to all biases changes nothing, so the
differences from :math:`\bar d` are shrunk. This is the estimator of random effects: d_k has an
error whose variance falls with n_k, and varies among the classes by an unknown amount, which κ
stands for and cross-validation finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from reprior.core.checks import check_finite_number, column_names
from reprior.exceptions import InfeasibleError, OptionError
from reprior.metrics.count_metrics import CountMetric, find_metric
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.objective import Best, Constraint, SubjectTo
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, Samples
from reprior.profile.sweep import value_of
from reprior.tuning.bias_search import Ascent, Columns, Goal
from reprior.tuning.crossval import (
    CrossValidation,
    counted_images,
    has_classes,
    own_value,
    stratified_folds,
    summed,
)
from reprior.tuning.problem import Problem
from reprior.tuning.selection import select

__all__ = [
    "SHRINKAGES",
    "PerClassBiases",
    "fold_counts",
    "label_numbers",
    "nested_biases",
    "shrinkage_folds",
    "shrunk",
    "start_strength",
    "tune_biases",
    "tune_per_class",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Shrinkages that cross-validation tries, from none to full: thirds of a power of ten, because the
#: held-out metric changes little in between.
SHRINKAGES = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)


def shrunk(start: Vector, biases: Vector, labels: Vector, shrinkage: float) -> Vector:
    """Move ``biases`` towards ``start``: not at all for a shrinkage of 0, all the way for inf.

    Parameters
    ----------
    start, biases : array of shape (K,)
        The start of the biases, and their tuned values. A class at −inf stays there.
    labels : array of shape (K,)
        The number of labels of each class. One without labels returns to its start.
    shrinkage : float
        κ, of at least 0.

    Examples
    --------
    >>> shrunk(np.zeros(3), np.array([0.0, 1.0, 2.0]), np.array([1e9, 90, 10]), 10.0).round(2)
    array([-0.79,  0.19,  0.6 ])
    """
    if shrinkage == 0:
        return biases.copy()
    kept = np.zeros_like(start)
    if np.isfinite(shrinkage):
        kept = labels / (labels + shrinkage)
    there = np.isfinite(start)
    moved = np.where(there, biases - np.where(there, start, 0.0), 0.0)
    weight = kept * there
    centre = weight @ moved / weight.sum() if weight.any() else 0.0
    return np.where(there, start + kept * (moved - centre), start)


def label_numbers(data: Columns) -> Vector:
    """Return the number of labels of each class, (K,); with weights the effective number.

    That is Kish's (Σv)² / Σv²: so many labels of equal weight would vary as much.
    """
    k = data.n_classes
    if data.weights is None:
        return np.bincount(data.labels, minlength=k).astype(np.float64)
    total = np.bincount(data.labels, data.weights, minlength=k)
    squares = np.bincount(data.labels, data.weights**2, minlength=k)
    return np.divide(total**2, squares, out=np.zeros(k), where=squares > 0)


def shrinkage_folds(
    labels: Vector, groups: Vector | None, n_folds: int, rng: np.random.Generator
) -> Vector | None:
    """Return the fold of every sample, with as many folds as possible; None if there is no way.

    Samples of one group are in one fold. Without groups, folds are stratified.

    Examples
    --------
    >>> groups = np.array([7, 7, 7, 9, 9, 4])
    >>> folds = shrinkage_folds(np.zeros(6, int), groups, 5, np.random.default_rng(0))
    >>> [len(set(folds[groups == group].tolist())) for group in (4, 7, 9)], int(folds.max())
    ([1, 1, 1], 2)
    """
    number, unit_labels = np.arange(labels.size), labels
    if groups is not None:
        number = np.unique(groups, return_inverse=True)[1].reshape(-1)
        unit_labels = np.zeros(int(number.max()) + 1, np.int64)
    if unit_labels.size < 2:
        return None
    folds: Vector = stratified_folds(unit_labels, min(n_folds, unit_labels.size), rng)[number]
    return folds


def fold_counts(
    data: Columns, folds: Vector, tuned: Callable[[Columns], tuple[Vector, Vector]]
) -> list[ClassCounts]:
    """Return held-out class counts of all folds together, for each of :data:`SHRINKAGES`.

    ``tuned`` returns start and biases for the samples of the other folds.
    """
    return [summed(each) for each in zip(*_held_out(data, folds, tuned), strict=True)]


def _held_out(
    data: Columns, folds: Vector, tuned: Callable[[Columns], tuple[Vector, Vector]]
) -> Iterator[list[ClassCounts]]:
    for fold in range(int(folds.max()) + 1):
        rest, test = (
            data.taken(np.flatnonzero(folds != fold)),
            data.taken(np.flatnonzero(folds == fold)),
        )
        start, biases = tuned(rest)
        labels = label_numbers(rest)
        yield [
            test.counts(test.predictions(shrunk(start, biases, labels, shrinkage)))
            for shrinkage in SHRINKAGES
        ]


Shrinkage: TypeAlias = float | Literal["cv"]

#: Largest number of samples in the cross-validation; of more, a stratified part is used. The
#: shrinkage is in labels, and so does not depend on their number.
CROSS_VALIDATED = 20_000

#: Rounds after which the ascent stops. On 100,000 samples of 100 classes some 20 are needed.
MAX_CYCLES = 100

#: Number of random starts, if no other start leads to where the constraints hold, and their spread
#: around the first in units of log-odds: priors are off by about as much.
DRAWN_STARTS = 6
DRAWN_SPREAD = 1.5


@dataclass(frozen=True, eq=False)
class PerClassBiases:
    """Biases that are added to the log-scores before the largest is predicted.

    Parameters
    ----------
    biases : ndarray of shape (K,)
        b; −inf for a class of target prior 0. A constant added to all changes nothing.
    value : float
        The metric at ``biases``, *on the tuning labels*.
    strength : float
        The strength λ of the start.
    start : ndarray of shape (K,)
        λ·w, where the biases started.
    start_value : float
        The metric there.
    shrinkage : float
        κ, in labels: a class with κ labels goes half the way from ``start`` to its tuned bias. 0
        is all of the way, inf none.
    validated : dict of float to float
        The cross-validated metric of every shrinkage that was tried; empty if it was given, or if
        the samples cannot be divided. Where constraints are missed: minus the sum of the misses.
    history : ndarray
        The metric at the start and after each step of the ascent, before shrinkage; it rises. If
        another start led further, its result is the last step. Below 0 while a constraint is
        missed.
    converged : bool
        Whether no other bias of any class would be better, over its whole line. Otherwise the
        ascent was stopped.
    n_cycles : int
        Number of rounds over all classes.
    """

    biases: Vector
    value: float
    strength: float
    start: Vector
    start_value: float
    shrinkage: float
    validated: dict[float, float] = field(repr=False)
    history: Vector = field(repr=False)
    converged: bool
    n_cycles: int


def tune_per_class(
    scores: Any,
    labels: Any,
    *,
    source_prior: Any,
    target_prior: Any = "uniform",
    metric: str | CountMetric = "balanced_accuracy",
    subject_to: SubjectTo = None,
    kind: str = "logits",
    bounds: tuple[float, float] = (0.0, 2.0),
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
    image_ids: Any = None,
    shrinkage: Shrinkage = "cv",
    n_folds: int = 5,
    seed: int = 0,
    max_cycles: int = MAX_CYCLES,
) -> PerClassBiases:
    r"""Tune a bias for every class, by coordinate ascent from the best strength.

    .. math:: \hat y(x) = \arg\max_k\; z_k(x) + b_k, \qquad
        b^{(0)}_k = λ\,w_k, \quad w_k = \log P_t(k) - \log P_s(k)

    with the model's log-scores z and the strength λ that is best for the metric. Each step moves
    one class's bias to where the metric is largest, over the continuum: raising it takes every
    sample at exactly one bias, so the metric along it is a step function whose steps are known.
    Among equally good intervals the widest is taken, then the one nearest to the start, and of it
    the middle. The steps end when no bias can be improved by more than rounding (2⁻⁴⁸).

    K biases fit the tuning labels better than one strength, but perhaps not other labels: with few
    labels a class's bias is mostly noise. So the biases are shrunk towards the start, see
    :mod:`reprior.tuning.per_class`, by an amount that cross-validation chooses.

    Parameters
    ----------
    scores, labels, source_prior, target_prior
        As in :meth:`reprior.StrengthProfile.from_scores`.
    metric : str or CountMetric, default "balanced_accuracy"
        What to maximise.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[2] >= 0.9"``. Where no strength satisfies them, biases may.
        Under constraints the ascent is tried from several starts, and with few samples two biases
        are moved at once; it stays a local search, that may miss what is better, or possible.
    kind, bounds, class_axis, ignore_index, sample_weight, image_ids
        As in :meth:`reprior.StrengthProfile.from_scores`.
    shrinkage : "cv" or float, default "cv"
        κ, in labels: chosen by cross-validation, or given; 0 for the raw maximum. The choice never
        makes the biases worse than the best strength on the tuning labels, or miss a constraint
        there. Unless it is 0, a class without labels stays at its start.
    n_folds : int, default 5
        Stratified folds of the cross-validation. Strength and biases are tuned for each. Images
        stay whole: dense labels are divided along the first axis. A single image cannot be divided:
        its biases stay at their start then, or as near to it as keeps the constraints, unless a
        number is given as ``shrinkage``.
    seed : int, default 0
        Seed of the folds.
    max_cycles : int, default 100
        Rounds over all classes after which the ascent stops.

    Returns
    -------
    PerClassBiases

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=600)
    >>> logits = rng.normal(size=(600, 3)) + 2 * np.eye(3)[labels] + [0.0, 1.0, -1.0]
    >>> result = tune_per_class(logits, labels, source_prior=[0.2, 0.3, 0.5], metric="macro_f1")
    >>> result.value >= result.start_value
    True
    >>> (result.biases - result.biases[0]).round()
    array([ 0., -1.,  1.])
    """
    priors = Priors.of(source_prior, target_prior, bounds, classes=column_names(scores))
    samples = Samples.of(
        scores,
        labels,
        sample_weight,
        n_classes=priors.n_classes,
        kind=kind,
        class_axis=class_axis,
        ignore_index=ignore_index,
        excluded=priors.excluded,
        image_ids=image_ids,
    )
    n_classes = priors.n_classes
    count_metric = find_metric(metric, n_classes=n_classes)
    rules = Constraint.parse_all(subject_to, count_metric)
    constraints = [rule.resolved(n_classes=n_classes) for rule in rules]
    profile = StrengthProfile.of(samples, priors)
    return tune_biases(
        samples,
        priors,
        start_strength(profile, count_metric, constraints),
        metric=count_metric,
        constraints=constraints,
        shrinkage=shrinkage,
        n_folds=n_folds,
        seed=seed,
        max_cycles=max_cycles,
    )


def tune_biases(
    samples: Samples,
    priors: Priors,
    strength: float,
    *,
    metric: CountMetric,
    constraints: Sequence[Constraint] = (),
    shrinkage: Shrinkage = "cv",
    n_folds: int = 5,
    seed: int = 0,
    max_cycles: int = MAX_CYCLES,
    groups: Vector | None = None,
    rule: str = "max",
) -> PerClassBiases:
    """Tune biases from a known strength, on checked samples.

    ``metric`` and those of the ``constraints`` are looked up already. ``groups`` is the group of
    every sample that counts, (N,), which no fold divides; without it pixels are grouped by image.
    ``rule`` is how folds choose the strength that their biases start from. Everything else is as in
    :func:`tune_per_class`.
    """
    _check_options(shrinkage, n_folds, max_cycles)
    data = Columns(samples.counted(), paired=needs_pairs(metric, constraints))
    work = _Work(priors, strength, metric, constraints, shrinkage, max_cycles, rule)
    ascent, steps = work.searched(data, np.random.default_rng(seed))
    at_start = steps[0]
    if constraints and ascent.rank < 0:
        raise _infeasible(ascent, constraints, strength)
    tried: dict[float, float] = {}
    if isinstance(shrinkage, str):
        together = counted_images(samples) if groups is None else groups
        tried = work.validated(data, together, n_folds, np.random.default_rng(seed))
        # Without folds all shrinkages are equally good.
        order = sorted(SHRINKAGES, key=lambda kappa: (tried.get(kappa, 0.0), kappa), reverse=True)
    else:
        order = [float(shrinkage), np.inf, 0.0]
    kappa, biases, value = _chosen(data, ascent, order, at_start)
    rescaled = metric.needs == "pairs"
    if at_start < 0 or rescaled:  # by how much a constraint is missed there
        at_start = value_of(data.counts(data.predictions(ascent.start)), metric)
    if rescaled:
        value = value_of(data.counts(data.predictions(biases)), metric)
        steps = [step if step < 0 else metric.of_rank(step) for step in steps]
        tried = {each: rank if rank < 0 else metric.of_rank(rank) for each, rank in tried.items()}
    return PerClassBiases(
        biases,
        value,
        strength,
        ascent.start,
        at_start,
        kappa,
        tried,
        np.array(steps),
        ascent.converged,
        ascent.n_cycles,
    )


@dataclass(frozen=True, eq=False)
class _Work:
    """The options of a search, on all samples or on those of some folds."""

    priors: Priors
    strength: float
    metric: CountMetric
    constraints: Sequence[Constraint]
    shrinkage: Shrinkage
    max_cycles: int
    rule: str

    def searched(self, data: Columns, rng: np.random.Generator) -> tuple[Ascent, list[float]]:
        """Return the best of the ascents from several starts, and its history.

        Without constraints one start is enough. With them the ascent may be stuck where one is
        barely kept: so it also starts from the best biases without constraints, and, while no
        biases satisfy all of them, from random starts around the first.
        """
        best = self.ascent(data, self.strength, thorough=True)
        steps = best.history
        if not self.constraints:
            return best, steps
        free = replace(self, constraints=()).ascent(data, self.strength)
        begins = iter([free.biases, *self._drawn(best, rng)])
        for tried, begin in enumerate(begins):
            if tried and best.rank >= 0:
                break
            other = self.ascent(data, self.strength, begin=begin, thorough=True)
            if other.rank > best.rank + EQUAL_VALUES:
                best, steps = other, [*steps, other.rank]
        return best, steps

    def _drawn(self, first: Ascent, rng: np.random.Generator) -> list[Vector]:
        spread = DRAWN_SPREAD * rng.normal(size=(DRAWN_STARTS, first.start.size))
        return [first.start + each for each in np.where(first.movable, spread, 0.0)]

    def ascent(
        self,
        data: Columns,
        strength: float,
        *,
        begin: Vector | None = None,
        thorough: bool = False,
    ) -> Ascent:
        """Tune biases from a strength, or from ``begin``, without shrinkage."""
        slopes = self.priors.slopes
        start = np.zeros_like(slopes) if strength == 0 else strength * slopes
        baseline = None
        if self.constraints:
            baseline = data.counts(data.predictions(np.zeros_like(slopes)))
        movable = np.isfinite(slopes)
        if self.shrinkage != 0:
            movable &= label_numbers(data) > 0
        goal = Goal(self.metric, self.constraints, baseline)
        ascent = Ascent(data, goal, start, movable, begin, thorough)
        ascent.run(self.max_cycles)
        return ascent

    def validated(
        self, data: Columns, groups: Vector | None, n_folds: int, rng: np.random.Generator
    ) -> dict[float, float]:
        """Return the goal's rank for every shrinkage on held-out samples.

        Empty if the samples cannot be divided.
        """
        parts = -(-data.n_samples // CROSS_VALIDATED)
        if parts > 1:
            some = np.flatnonzero(stratified_folds(data.labels, parts, rng) == 0)
            data, groups = data.taken(some), None if groups is None else groups[some]
        folds = shrinkage_folds(data.labels, groups, n_folds, rng)
        if folds is None:
            return {}
        baseline = data.counts(data.predictions(np.zeros(data.n_classes)))
        goal = Goal(self.metric, self.constraints, baseline)
        ranks = map(goal.rank, fold_counts(data, folds, self._tuned))
        return dict(zip(SHRINKAGES, ranks, strict=True))

    def _tuned(self, data: Columns) -> tuple[Vector, Vector]:
        ascent = self.ascent(data, self._best_strength(data))
        return ascent.start, ascent.biases

    def _best_strength(self, data: Columns) -> float:
        """Return the strength of some folds; of all samples if these lack a named class."""
        metrics: list[Any] = [self.metric, *(rule.metric for rule in self.constraints)]
        labelled = np.bincount(data.labels, minlength=data.n_classes) > 0
        if not all(metric.has_labels(labelled) for metric in metrics):
            return self.strength
        profile = StrengthProfile.of(data.samples, self.priors)
        return start_strength(profile, self.metric, self.constraints, rule=self.rule)


def start_strength(
    profile: StrengthProfile,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    *,
    rule: str = "max",
) -> float:
    """Return the strength that biases start from: a rule's choice.

    Where the constraints hold nowhere, it is the one with the smallest miss. ``rule`` is one of
    :func:`reprior.tuning.selection.select` that needs no scores; "max" has no preference for 0.
    """
    rules = list(constraints)
    try:
        if rule == "max":
            return profile._widest_best(metric, subject_to=rules).strength
        return select(profile, metric, rule, subject_to=rules).strength
    except InfeasibleError as error:
        nearest: Any = error.strength  # a profile always names one
        return float(nearest)


def _chosen(
    data: Columns, ascent: Ascent, order: Sequence[float], at_start: float
) -> tuple[float, Vector, float]:
    """Return the first shrinkage that is no worse than the start, its biases and their value.

    ``order`` holds 0, the result of the ascent itself, which is never worse.
    """
    labels = label_numbers(data)
    for kappa in order:
        biases = shrunk(ascent.start, ascent.biases, labels, kappa)
        if kappa == 0:
            rank = ascent.rank
        else:
            rank = ascent.goal.rank(data.counts(data.predictions(biases)))
        if rank >= max(at_start, 0.0):
            break
    return kappa, biases, rank


def _infeasible(
    ascent: Ascent, constraints: Sequence[Constraint], strength: float
) -> InfeasibleError:
    missed = zip(constraints, ascent.goal.misses(ascent.counts), strict=True)
    named = " and ".join(f"{rule.text!r} by {short:.3g}" for rule, short in missed if short)
    return InfeasibleError(
        argument="subject_to",
        rule="must be possible",
        got=(
            "constraints that no biases were found to satisfy; the nearest ones, from "
            f"strength {strength:.6g} on, miss {named}"
        ),
        remedy="Loosen the constraint.",
        strength=strength,
        shortfall=max(ascent.goal.misses(ascent.counts)),
        biases=ascent.biases,
    )


def needs_pairs(metric: CountMetric, constraints: Sequence[Constraint]) -> bool:
    """Tell whether a metric or a constraint needs more than counts per class."""
    limited: list[Any] = [rule.metric for rule in constraints]
    return any(each.needs != "classes" for each in (metric, *limited))


def _check_options(shrinkage: Any, n_folds: Any, max_cycles: Any) -> None:
    known = isinstance(shrinkage, str) and shrinkage == "cv"
    if not known and shrinkage != np.inf:
        check_finite_number("shrinkage", shrinkage, minimum=0, hint="Or pass 'cv', or inf.")
    for name, value, least in (("n_folds", n_folds, 2), ("max_cycles", max_cycles, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise OptionError(
                argument=name,
                rule=f"must be an integer of at least {least}",
                got=f"{value!r}",
                remedy="Leave it out for the default.",
            )


def nested_biases(
    samples: Samples,
    priors: Priors,
    fold_of: Vector,
    problem: Problem,
    *,
    best: Best,
    profile: StrengthProfile,
) -> CrossValidation:
    """Tune strength, biases and shrinkage without each fold in turn, and judge them on it.

    Parameters
    ----------
    samples, priors : Samples, Priors
        All samples.
    fold_of : integer array of the labels' shape
        The fold of every sample.
    problem : Problem
        Metric, constraints, selection and seed.
    best, profile : Best, StrengthProfile
        The result on all samples.

    Returns
    -------
    CrossValidation
        Its strengths are the starts of the biases.
    """
    counted = samples.counted()
    left_out = samples.left_out()
    folds = fold_of.reshape(-1) if left_out is None else fold_of[~left_out]
    images = counted_images(samples)
    numbers = np.unique(folds)
    if numbers.size < 2:
        raise OptionError(
            argument="cv",
            rule="must have at least two folds with samples",
            got=f"{numbers.size}",
            remedy="Something has to be left to tune on.",
        )
    paired = needs_pairs(problem.metric, ())
    strengths, counts, plain = [], [], []
    for number in numbers:
        rest = folds != number
        own = None if images is None else images[rest]
        strength, biases = _tuned(counted.taken(rest), priors, own, problem, best.strength)
        judged = Columns(counted.taken(folds == number), paired=paired)
        strengths.append(strength)
        counts.append(judged.counts(judged.predictions(biases)))
        plain.append(judged.counts(judged.predictions(np.zeros(samples.n_classes))))
    return CrossValidation(
        best=best,
        profile=profile,
        strengths=tuple(strengths),
        scores=tuple(own_value(each, problem.metric) for each in counts),
        baseline=tuple(own_value(each, problem.metric) for each in plain),
        score=value_of(summed(counts), problem.metric),
        baseline_score=value_of(summed(plain), problem.metric),
        greater_is_better=problem.metric.greater_is_better,
    )


def _tuned(
    samples: Samples, priors: Priors, images: Vector | None, problem: Problem, of_all: float
) -> tuple[float, Vector]:
    """Return the strength and the biases of some of the samples.

    If these lack a class that is named, the strength is that ``of_all``, and constraints on that
    class are left out: nothing here can keep or break them.
    """
    strength = of_all
    labelled = np.bincount(samples.labels, minlength=samples.n_classes) > 0
    limits = [rule for rule in problem.constraints if has_classes(labelled, problem.metric, [rule])]
    if problem.flat:
        strength = 1.0
    elif len(limits) == len(problem.constraints) and has_classes(labelled, problem.metric, []):
        strength = start_strength(
            StrengthProfile.of(samples, priors), problem.metric, limits, rule=problem.selection
        )
    biases = tune_biases(
        samples,
        priors,
        strength,
        metric=problem.metric,
        constraints=limits,
        seed=problem.seed,
        groups=images,
        rule=problem.selection,
    ).biases
    return strength, biases
