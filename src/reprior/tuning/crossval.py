"""Cross-validation of the strength: tune on all folds but one, judge on that one.

Each fold is profiled once. The tuning set is the sum of all folds minus one of them, which is
exact, so a cross-validation costs one pass over the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.checks import column_names
from reprior.exceptions import Argument, LabelsError, OptionError, Setting, quoted
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.merging import merged
from reprior.profile.objective import Best, Constraint, SubjectTo
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Line, Priors, Samples
from reprior.profile.sweep import value_of
from reprior.tuning.resampling import sample_paths
from reprior.tuning.selection import select

__all__ = [
    "CrossValidation",
    "counted_images",
    "cross_validate",
    "cross_validate_samples",
    "fold_numbers",
    "folds_of",
    "has_classes",
    "images_of",
    "nested",
    "own_value",
    "stratified_folds",
    "summed",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Folds of the paper's protocol.
PAPER_FOLDS = 3


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """A strength tuned on all samples, and how well such a strength does on held-out samples.

    Parameters
    ----------
    best : Best
        Chosen on all folds together. Its ``value`` is on the labels it was chosen on.
    profile : StrengthProfile
        Of all folds together.
    strengths : tuple of float
        For each fold, the strength chosen without it.
    scores, baseline : tuple of float
        For each fold, the metric at that strength, and at λ = 0; NaN where the metric is of one
        class and the fold has no label of it.
    score : float
        The metric of all samples, each predicted at the strength that was chosen without its
        fold: the counts of the folds are added first. Where classes are rare that is steadier
        than the mean over folds, which may lack a class.
    baseline_score : float
        The metric of all samples at λ = 0.
    greater_is_better : bool
        Whether the metric is maximised; a cost is not.
    """

    best: Best
    profile: StrengthProfile
    strengths: tuple[float, ...]
    scores: tuple[float, ...]
    baseline: tuple[float, ...]
    score: float
    baseline_score: float
    greater_is_better: bool = True

    @property
    def gain(self) -> float:
        """By how much better the score is than the uncorrected model, on held-out samples."""
        gained = self.score - self.baseline_score
        return gained if self.greater_is_better else -gained

    @property
    def optimism(self) -> float:
        """By how much better the value on the tuning labels is than the held-out score."""
        excess = self.best.value - self.score
        return excess if self.greater_is_better else -excess

    @property
    def mean(self) -> float:
        """The mean score over the folds that have one."""
        from statistics import fmean

        return fmean(self._known)

    @property
    def std(self) -> float:
        """The sample standard deviation of the scores over folds (divided by n − 1).

        NaN where fewer than two folds have one.
        """
        from statistics import stdev

        return stdev(self._known) if len(self._known) > 1 else math.nan

    @property
    def _known(self) -> list[float]:
        return [score for score in self.scores if not math.isnan(score)]

    @property
    def strength_std(self) -> float:
        """The sample standard deviation of the strengths over folds."""
        from statistics import stdev

        return stdev(self.strengths)


def nested(
    folds: Sequence[StrengthProfile],
    metric: str | CountMetric,
    *,
    rule: str = "max",
    subject_to: SubjectTo = None,
    divisions: Sequence[Any] | None = None,
) -> CrossValidation:
    """Tune on the sum of the profiles minus one, and judge on that one; for each in turn.

    Parameters
    ----------
    folds : sequence of StrengthProfile
        Profiles of disjoint samples: folds, files, hospitals.
    metric : str or CountMetric
        What is tuned and judged.
    rule : str, default "max"
        How the strength is chosen, see :func:`reprior.tuning.selection.select`. It must not need
        scores.
    subject_to : str or sequence of str, optional
        Constraints, on the samples tuned on. Where these lack a class that a constraint or the
        metric names, the strength is that of all samples.
    divisions : sequence of length of ``folds``, optional
        Which folds belong together, if the same samples were divided several times, and scored
        each time. The strength for a fold is then tuned on the others of its division, the final
        strength on all folds.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [0.5, 0.0], [3.0, 0.0], [0.5, 0.0]])
    >>> folds = [
    ...     StrengthProfile.from_scores(logits[part], [0, 1], source_prior=[0.8, 0.2])
    ...     for part in (slice(0, 2), slice(2, 4))
    ... ]
    >>> result = nested(folds, "accuracy")
    >>> result.score, result.baseline_score, [round(x, 2) for x in result.strengths]
    (1.0, 0.5, [1.18, 0.9])
    """
    profiles = list(folds)
    names = [0] * len(profiles) if divisions is None else list(divisions)
    if len(names) != len(profiles) or any(names.count(name) < 2 for name in names):
        raise OptionError(
            argument="folds",
            rule=["must be at least two, in each of the ", Argument("divisions")],
            got=f"{len(profiles)} folds and divisions {names}",
            remedy="Pass more folds: something has to be left to tune on.",
        )
    totals = {name: merged(_of(profiles, names, name)) for name in dict.fromkeys(names)}
    whole = merged(totals.values())
    count_metric = whole._metric(metric)
    constraints = [
        each.resolved(n_classes=whole.n_classes)
        for each in Constraint.parse_all(subject_to, count_metric)
    ]
    best = select(whole, count_metric, rule, subject_to=constraints)
    strengths, counts = [], []
    for fold, name in zip(profiles, names, strict=True):
        rest, chosen = totals[name] - fold, best
        if has_classes(rest.baseline.labelled, count_metric, constraints):
            chosen = select(rest, count_metric, rule, subject_to=constraints)
        strengths.append(chosen.strength)
        counts.append(fold.counts(chosen.strength))
    return CrossValidation(
        best=best,
        profile=whole,
        strengths=tuple(strengths),
        scores=tuple(own_value(count, count_metric) for count in counts),
        baseline=tuple(own_value(fold.baseline, count_metric) for fold in profiles),
        score=value_of(summed(counts), count_metric),
        baseline_score=value_of(whole.baseline, count_metric),
        greater_is_better=count_metric.greater_is_better,
    )


def has_classes(labelled: Vector, metric: CountMetric, constraints: Sequence[Constraint]) -> bool:
    """Tell whether a metric and all constraints are of classes that have labels.

    Nothing can be tuned for a class without labels: the strength tuned on all samples replaces it.
    """
    metrics: list[Any] = [metric, *(rule.metric for rule in constraints)]
    return all(each.has_labels(labelled) for each in metrics)


def own_value(counts: ClassCounts, metric: CountMetric) -> float:
    """Return the metric of one fold; NaN if it is of classes without labels in the fold."""
    if not metric.has_labels(counts.labelled):
        return math.nan
    return value_of(counts, metric)


def _of(profiles: Sequence[Any], names: Sequence[Any], name: Any) -> list[Any]:
    return [profile for profile, own in zip(profiles, names, strict=True) if own == name]


def summed(counts: Sequence[ClassCounts]) -> ClassCounts:
    """Return the sum of the counts."""
    total = counts[0]
    for more in counts[1:]:
        total = total + more
    return total


def cross_validate(
    scores: Any,
    labels: Any,
    *,
    source_prior: Any,
    metric: str | CountMetric = "balanced_accuracy",
    cv: Any = PAPER_FOLDS,
    rule: str = "max",
    subject_to: SubjectTo = None,
    target_prior: Any = "uniform",
    kind: str = "logits",
    bounds: tuple[float, float] = (0.0, 2.0),
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    random_state: int | np.random.Generator = 0,
) -> CrossValidation:
    """Cross-validate the strength of labelled scores: stratified 3 folds, as the paper does.

    Parameters
    ----------
    scores, labels, source_prior, target_prior, kind, bounds, class_axis, ignore_index, \
sample_weight
        As :meth:`reprior.StrengthProfile.from_scores` takes them.
    metric : str or CountMetric, default "balanced_accuracy"
        What is tuned and judged. The paper's tables have the error, 1 − ``"accuracy"``.
    cv : int or integer array of the labels' shape, default 3
        Number of folds, or the fold of every sample. A number makes stratified folds, which differ
        by at most one sample per class. Dense labels are divided along their first axis, by image.
    rule, subject_to
        See :func:`nested`.
    groups : array of the labels' shape, optional
        Samples that must be in one fold because they are not independent.
    random_state : int or numpy Generator, default 0
        Which samples go into which fold.

    Returns
    -------
    CrossValidation
        The strength tuned on all samples, and what to expect of it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1, 2], [300, 60, 30])
    >>> prior = np.bincount(labels) / labels.size
    >>> logits = 2 * np.eye(3)[labels] + rng.normal(size=(390, 3)) + np.log(prior)
    >>> result = cross_validate(logits, labels, source_prior=prior)
    >>> result.baseline_score, result.score, result.best.value
    (0.68, 0.89, 0.91)
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
    )
    rng = np.random.default_rng(random_state)
    folds = fold_numbers(samples, cv, groups, rng)
    return cross_validate_samples(samples, priors, metric, folds, rule=rule, subject_to=subject_to)


def cross_validate_samples(
    samples: Samples,
    priors: Priors | Line,
    metric: str | CountMetric,
    fold_of: Vector,
    *,
    rule: str = "max",
    subject_to: SubjectTo = None,
) -> CrossValidation:
    """Cross-validate checked samples with the given fold of each."""
    paths = sample_paths(samples, priors, fold_of)
    each = np.eye(paths.n_units, dtype=np.int64)
    return nested([paths.profile(own) for own in each], metric, rule=rule, subject_to=subject_to)


def fold_numbers(samples: Samples, cv: Any, groups: Any, rng: np.random.Generator) -> Vector:
    """Return the fold of every sample, of the labels' shape.

    Parameters
    ----------
    samples : Samples
        The samples to divide.
    cv : int or integer array of the labels' shape
        Number of folds, or the fold of every sample.
    groups : array of the labels' shape, or None
        Samples of one group stay in one fold.
    rng : numpy Generator
        Shuffles the samples.
    """
    labels = samples.labels
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        return _given_folds(cv, labels.shape)
    if groups is not None:
        together = to_numpy(groups)
        if together.shape != labels.shape:
            raise LabelsError(
                argument="groups",
                rule="must have one entry per sample",
                got=f"shape {together.shape} for labels of shape {labels.shape}",
                remedy="Repeat an image's number for each of its pixels.",
            )
        number = np.unique(together, return_inverse=True)[1].reshape(labels.shape)
        return stratified_folds(np.zeros(int(number.max()) + 1, int), int(cv), rng)[number]
    if labels.ndim > 1:
        images = stratified_folds(np.zeros(len(labels), int), int(cv), rng)
        return np.broadcast_to(images.reshape(-1, *(1,) * (labels.ndim - 1)), labels.shape)
    return stratified_folds(labels, int(cv), rng)


def stratified_folds(labels: Vector, n_folds: int, rng: np.random.Generator) -> Vector:
    """Return the fold of each sample: shuffled, sorted by class, and assigned in turn.

    The sizes of folds differ by at most one sample, and so do their numbers of each class.

    Examples
    --------
    >>> labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
    >>> folds = stratified_folds(labels, 3, np.random.default_rng(0))
    >>> [labels[folds == k].tolist() for k in range(3)]
    [[0, 0, 1], [0, 0, 1], [0, 0, 1]]
    """
    if not 2 <= n_folds <= labels.size:
        raise OptionError(
            argument="cv",
            rule=f"must be from 2 to the number of samples to divide, {labels.size}",
            got=f"{n_folds}",
            remedy=["Pass ", Setting("cv", PAPER_FOLDS), ", as the paper."],
        )
    order = rng.permutation(labels.size)
    order = order[np.argsort(labels[order], kind="stable")]
    fold_of = np.empty(labels.size, np.int64)
    fold_of[order] = np.arange(labels.size) % n_folds
    return fold_of


def _given_folds(cv: Any, shape: tuple[int, ...]) -> Vector:
    given = np.asarray(cv)
    if given.dtype.kind not in "iu" or given.shape != shape:
        raise OptionError(
            argument="cv",
            rule="must be a number of folds, or the fold of every sample",
            got=f"{given.dtype} of shape {given.shape} for labels of shape {shape}",
            remedy=[
                "Pass ",
                Setting("cv", PAPER_FOLDS),
                ", or integers of the labels' shape.",
            ],
        )
    return given


def folds_of(samples: Samples, cv: Any, rng: np.random.Generator) -> Vector:
    """Return the fold of every sample, of the labels' shape.

    Parameters
    ----------
    samples : Samples
        The samples to divide.
    cv : int, integer array of the labels' shape, splitter, or pairs of (train, test) indices
        How to divide. Splitters (``cv.split(X, y)``) and pairs divide dense labels along their
        first axis. Train must be the complement of test.
    rng : numpy Generator
        Shuffles the samples, for a number of folds.

    Examples
    --------
    >>> samples = Samples.of(
    ...     2 * np.eye(2)[[0, 1, 0, 1]], np.array([0, 1, 0, 1]), n_classes=2, kind="logits"
    ... )
    >>> folds_of(samples, [([0, 1], [2, 3]), ([2, 3], [0, 1])], np.random.default_rng(0))
    array([1, 1, 0, 0])
    """
    whole = isinstance(cv, int | np.integer)
    if whole or hasattr(cv, "__array__") or _are_numbers(cv):
        return fold_numbers(samples, cv, None, rng)
    labels = samples.labels
    n = labels.shape[0]
    pairs = cv
    if hasattr(cv, "split"):
        pairs = _asked(cv, labels if labels.ndim == 1 else np.zeros(n, np.int64))
    fold_of = np.full(n, -1, np.int64)
    times = np.zeros(n, np.int64)
    for fold, pair in enumerate(pairs):
        train, test = (_marked(part, n, fold) for part in _checked(pair))
        _check_rest(train, test, fold)
        fold_of[test] = fold
        times += test
    if not (times == 1).all():
        where = int(np.argmax(times != 1))
        raise OptionError(
            argument="cv",
            rule="must put every sample into the test part of one fold",
            got=f"sample {where} in {int(times[where])} of them",
            remedy="Pass a splitter such as StratifiedKFold, or a number of folds.",
        )
    return np.broadcast_to(fold_of.reshape(-1, *(1,) * (labels.ndim - 1)), labels.shape)


def images_of(samples: Samples) -> Vector | None:
    """Return the image of every pixel, or None for samples that are no pixels."""
    shape = samples.labels.shape
    if len(shape) == 1:
        return None
    return np.broadcast_to(np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)), shape)


def counted_images(samples: Samples) -> Vector | None:
    """Return the image of every pixel that counts, (N,), in reading order."""
    images, left_out = images_of(samples), samples.left_out()
    if images is None:
        return None
    return images.reshape(-1) if left_out is None else images[~left_out]


def _are_numbers(cv: Any) -> bool:
    """Tell whether ``cv`` is a list of the samples' folds."""
    return isinstance(cv, list | tuple) and all(isinstance(each, int | np.integer) for each in cv)


def _asked(splitter: Any, labels: Vector) -> list[Any]:
    """Return the pairs of a splitter, which gets labels but no groups."""
    try:
        return list(splitter.split(np.zeros((labels.size, 1)), labels))
    except ValueError as error:
        raise OptionError(
            argument="cv",
            rule="must be able to divide these samples by their labels alone",
            got=f"{splitter!r}, which answers: {quoted(error)}",
            remedy=(
                "Pass what it gives, list(splitter.split(X, y, groups)), or the fold of "
                "every sample."
            ),
        ) from error


def _checked(pair: Any) -> Any:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise OptionError(
            argument="cv",
            rule=(
                "must be a number of folds, a splitter, the fold of every sample, or pairs "
                "of (train, test) indices"
            ),
            got=f"an entry {pair!r}",
            remedy=["Pass ", Setting("cv", 5), "."],
        )
    return pair


def _marked(part: Any, n: int, fold: int) -> Vector:
    """Return which of n samples are selected, from indices or a mask."""
    named, marked = np.asarray(part), np.zeros(n, bool)
    if named.dtype == bool and named.shape == (n,):
        return named
    whole = named.dtype.kind in "iu" and named.ndim == 1
    if not whole or (named.size and not (-n <= named.min() and named.max() < n)):
        raise OptionError(
            argument="cv",
            rule=f"must have indices of {n} samples in every pair of (train, test)",
            got=f"{part!r} in pair {fold}",
            remedy="Pass a splitter such as StratifiedKFold, or a number of folds.",
        )
    marked[named] = True
    return marked


def _check_rest(train: Vector, test: Vector, fold: int) -> None:
    """Refuse a train part that is not the complement of test: profiles subtract whole folds."""
    rest = ~test
    if not np.array_equal(train, rest):
        both, left = int((train & test).sum()), int((rest & ~train).sum())
        raise OptionError(
            argument="cv",
            rule="must train on all samples that it does not test on",
            got=(
                f"pair {fold} with {left} of {int(rest.sum())} others left out of its train "
                f"part, and {both} samples in both parts"
            ),
            remedy="Pass train as the complement of test, or the fold of every sample.",
        )
