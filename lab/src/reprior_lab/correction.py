"""Correct a trained model, and judge it three ways: on other samples, as in the paper, untuned."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior import StrengthProfile
from reprior.core import as_prior, as_target_prior, check_labels, slopes
from reprior.exceptions import FileFormatError, OptionError, Setting, WidenedBoundsWarning
from reprior.metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.tuning import best_widened

if TYPE_CHECKING:
    from reprior_lab.training.scores import RunScores

__all__ = ["Correction", "Folded", "Judged", "correct", "correct_folds"]

Array: TypeAlias = np.ndarray[Any, Any]
Bounds: TypeAlias = tuple[float, float]

#: The first bounds of the search; the upper bound is doubled if the best strength lies at it.
BOUNDS: Bounds = (0.0, 2.0)

#: Coverage of an interval.
CONFIDENCE = 0.95

#: How many scores are corrected at once, so that 8,142 classes need no second copy of all scores.
BLOCK = 1 << 22


@dataclass(frozen=True)
class Judged:
    """The error of a set of samples after the correction.

    Parameters
    ----------
    error : float
        Share of wrong predictions after the correction.
    gain : float
        The error before minus the error after, of the same samples.
    interval : (float, float)
        95 % interval of the gain for given strengths: exact (Clopper and Pearson) in the share of
        improvements among the samples whose decision became right or wrong, so it holds even if
        these are few.
    strengths : tuple of float
        The strength for each part, in the order of the parts it was tuned on.
    same_labels : bool
        Whether the strength was tuned on the same labels that it is judged on.
    """

    error: float
    gain: float
    interval: tuple[float, float]
    strengths: tuple[float, ...]
    same_labels: bool


@dataclass(frozen=True)
class Correction:
    """A model before and after the correction of its prior.

    Parameters
    ----------
    error : float
        Share of wrong predictions of the uncorrected model, over all test samples.
    honest : Judged
        Tuned and judged on different samples. If the test set was halved: tuned on each half and
        judged on the other, pooled.
    paper : Judged
        Tuned and judged on the same test labels, as the paper did for its CIFAR tables.
    bayes : Judged
        Strength 1, the plain rule of Bayes: nothing is tuned.
    """

    error: float
    honest: Judged
    paper: Judged
    bayes: Judged

    def to_dict(self) -> dict[str, Any]:
        """Return the correction as a document for JSON.

        Examples
        --------
        >>> judged = Judged(0.25, 0.5, (0.1, 0.9), (1.0,), same_labels=False)
        >>> made = Correction(0.75, judged, judged, judged)
        >>> Correction.from_dict(made.to_dict()) == made
        True
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Correction:
        """Return the correction from the result of :meth:`to_dict`, before or after JSON."""
        try:
            judged = [_judged_of(document[name]) for name in ("honest", "paper", "bayes")]
            return cls(float(document["error"]), *judged)
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"A correction must have error, honest, paper and bayes. Got "
                f"{type(error).__name__}: {error}. Correct the run's scores again."
            ) from error


@dataclass(frozen=True)
class Folded:
    """Cross-validated correction: one entry for each test fold.

    Parameters
    ----------
    errors : tuple of float
        Share of wrong predictions in the fold, with the strength tuned on the other folds.
    strengths : tuple of float
        The strength of each fold.
    baseline : tuple of float
        Share of wrong predictions in the fold without the correction.
    """

    errors: tuple[float, ...]
    strengths: tuple[float, ...]
    baseline: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean error over folds."""
        return fmean(self.errors)

    @property
    def std(self) -> float:
        """The sample standard deviation of the errors over folds (divided by n − 1)."""
        return stdev(self.errors)


def correct(
    scores: RunScores, source_prior: Any, *, metric: str = "accuracy", bounds: Bounds = BOUNDS
) -> Correction:
    """Correct the scores of a run towards a uniform prior, and judge it three ways.

    Parameters
    ----------
    scores : RunScores
        The scores of a run: a part to tune on and a part to judge on.
    source_prior : array-like of shape (K,)
        P_s: shares of the training classes, or the prior that the network has learnt.
    metric : str, default "accuracy"
        The metric that the strength is tuned for, by exact search. Errors are always shares of
        wrong predictions.
    bounds : (float, float), default (0, 2)
        Strengths to search; widened up to 8 if the best lies at the upper bound.

    Examples
    --------
    >>> from reprior_lab.training import RunScores
    >>> logits, labels = np.array([[2.0, 0.0], [0.5, 0.0]]), np.array([0, 1])
    >>> found = correct(RunScores(logits, labels, logits, labels, halved=True), [0.8, 0.2])
    >>> found.error, found.honest.error, found.bayes.error
    (0.5, 0.0, 0.0)
    """
    source = as_prior(source_prior, name="source_prior", n_classes=scores.test_scores.shape[1])
    tuned_for = find_metric(metric, n_classes=source.size)
    tuning = _Part(scores.validation_scores, scores.validation_labels, source)
    judging = _Part(scores.test_scores, scores.test_labels, source)
    parts: tuple[_Part, ...] = (judging,)
    honest: tuple[float, ...] = (_best(tuning.profile, tuned_for, bounds)[0],)
    if scores.halved:
        parts = (judging, tuning)
        honest = (*honest, _best(judging.profile, tuned_for, bounds)[0])
    paper = _best(lambda within: _sum(p.profile(within) for p in parts), tuned_for, bounds)[0]
    return Correction(
        error=float(np.concatenate([part.wrong(0.0) for part in parts]).mean()),
        honest=_judge(parts, honest, same_labels=False),
        paper=_judge(parts, (paper,), same_labels=True),
        bayes=_judge(parts, (1.0,), same_labels=False),
    )


def correct_folds(
    scores: Any,
    labels: Any,
    source_prior: Any,
    *,
    n_folds: int = 3,
    seed: int = 0,
    metric: str = "accuracy",
) -> Folded:
    """Cross-validate the strength: tune on all folds but one, and test on that one.

    Each fold is profiled once. The tuning profile is the sum of all profiles minus the test fold's.

    Parameters
    ----------
    scores : array of shape (N, K)
        Logits.
    labels : integer array of shape (N,)
        Class indices.
    source_prior : array-like of shape (K,)
        P_s.
    n_folds : int, default 3
        Number of folds; their sizes, and their numbers of each class, differ by at most one.
    seed : int, default 0
        The seed of the assignment of samples to folds.
    metric : str, default "accuracy"
        The metric that the strength is tuned for; see :func:`correct`.

    Examples
    --------
    >>> logits = np.array([[2.0, 0.0], [0.5, 0.0], [3.0, 0.0], [0.5, 0.0]])
    >>> found = correct_folds(logits, [0, 1, 0, 1], [0.8, 0.2], n_folds=2)
    >>> found.mean, found.std, found.baseline
    (0.0, 0.0, (0.5, 0.5))
    """
    logits, known = np.asarray(scores), np.asarray(labels)
    source = as_prior(source_prior, name="source_prior", n_classes=logits.shape[-1])
    check_labels(known, n_classes=source.size, shape=logits.shape[:-1])
    tuned_for = find_metric(metric, n_classes=source.size)
    fold_of = _folds(known, n_folds, seed)
    folds = [_Part(logits, known, source, np.flatnonzero(fold_of == k)) for k in range(n_folds)]

    @cache
    def total(bounds: Bounds) -> StrengthProfile:
        return _sum(fold.profile(bounds) for fold in folds)

    errors, strengths, baseline = [], [], []
    for fold in folds:
        strength, bounds = _best(_without(total, fold), tuned_for)
        tested = fold.profile(bounds)
        errors.append(1 - tested.evaluate("accuracy", strength))
        baseline.append(1 - COUNT_METRICS["accuracy"](tested.baseline))
        strengths.append(strength)
    return Folded(tuple(errors), tuple(strengths), tuple(baseline))


@dataclass(frozen=True, eq=False)
class _Part:
    """Samples, all or only ``rows`` of an array, profiled once for each bounds."""

    scores: Array
    labels: Array
    source_prior: Array
    rows: Array | None = None
    _profiles: dict[Bounds, StrengthProfile] = field(default_factory=dict)

    def samples(self) -> tuple[Array, Array]:
        """Return scores and labels; a part of an array is copied only while it is used."""
        if self.rows is None:
            return self.scores, self.labels
        return self.scores[self.rows], self.labels[self.rows]

    def profile(self, bounds: Bounds) -> StrengthProfile:
        """Return the profile within bounds."""
        if bounds not in self._profiles:
            self._profiles[bounds] = StrengthProfile.from_scores(
                *self.samples(), source_prior=self.source_prior, bounds=bounds
            )
        return self._profiles[bounds]

    def wrong(self, strength: float) -> Array:
        """Return which samples are wrong at a strength, (N,) bool."""
        uniform = as_target_prior("uniform", n_classes=self.source_prior.size)
        shift = strength * slopes(self.source_prior, uniform)
        scores, labels = self.samples()
        step = max(1, BLOCK // shift.size)
        is_wrong = np.empty(labels.size, bool)
        for start in range(0, is_wrong.size, step):
            some = slice(start, start + step)
            is_wrong[some] = (scores[some] + shift).argmax(axis=1) != labels[some]
        return is_wrong


def _best(
    profile_of: Callable[[Bounds], StrengthProfile], metric: CountMetric, bounds: Bounds = BOUNDS
) -> tuple[float, Bounds]:
    """Return the best strength, and the bounds within which it was found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WidenedBoundsWarning)  # the recorded strength shows it
        best, profile = best_widened(profile_of, bounds, metric, (), prefer_model=False)
    return best.strength, profile.bounds


def _sum(profiles: Iterable[StrengthProfile]) -> StrengthProfile:
    return functools.reduce(operator.add, profiles)


def _without(
    total: Callable[[Bounds], StrengthProfile], fold: _Part
) -> Callable[[Bounds], StrengthProfile]:
    return lambda bounds: total(bounds) - fold.profile(bounds)


def _judge(parts: Sequence[_Part], strengths: tuple[float, ...], *, same_labels: bool) -> Judged:
    """Judge a strength for each part, or one for all of them; the samples are pooled."""
    each = strengths if len(strengths) == len(parts) else strengths * len(parts)
    before = np.concatenate([part.wrong(0.0) for part in parts])
    after = np.concatenate([p.wrong(strength) for p, strength in zip(parts, each, strict=True)])
    gained = before.astype(np.float64) - after
    better, worse = int((gained > 0).sum()), int((gained < 0).sum())
    return Judged(
        float(after.mean()),
        float(gained.mean()),
        _interval(better, worse, gained.size),
        strengths,
        same_labels,
    )


def _interval(better: int, worse: int, n: int) -> tuple[float, float]:
    """Return the interval of (better − worse) / n, exact in the share of better among changed."""
    if better + worse == 0:
        return 0.0, 0.0
    from scipy import special

    tail = (1 - CONFIDENCE) / 2
    low = float(special.betaincinv(better, worse + 1, tail)) if better else 0.0
    high = float(special.betaincinv(better + 1, worse, 1 - tail)) if worse else 1.0
    changed = (better + worse) / n
    return changed * (2 * low - 1), changed * (2 * high - 1)


def _judged_of(document: Mapping[str, Any]) -> Judged:
    low, high = document["interval"]
    fields = {**document, "interval": (low, high), "strengths": tuple(document["strengths"])}
    return Judged(**fields)


def _folds(labels: Array, n_folds: int, seed: int) -> Array:
    """Return the fold of each sample: shuffled, sorted by class, and assigned cyclically."""
    if not 2 <= n_folds <= labels.size:
        raise OptionError(
            argument="n_folds",
            rule=f"must be from 2 to the number of samples, {labels.size}",
            got=str(n_folds),
            remedy=["Pass ", Setting("n_folds", 3), ", as the paper."],
        )
    order = np.random.default_rng(seed).permutation(labels.size)
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(labels.size, np.int64)
    folds[order] = np.arange(labels.size) % n_folds
    return folds
