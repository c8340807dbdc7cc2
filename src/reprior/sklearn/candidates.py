"""Tune a calibrator on the out-of-fold scores of every training, and choose the better training."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior._warnings import collect_warnings, warn
from reprior.calibrator.encoding import is_range
from reprior.calibrator.options import is_log_loss
from reprior.core.importance import class_importance, class_support
from reprior.exceptions import Setting
from reprior.metrics import evaluate, find_metric
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.objective import Constraint
from reprior.sklearn.cross_validation import OutOfFold, explain_refusals
from reprior.sklearn.scorers import metric_of
from reprior.sklearn.training import Training

__all__ = [
    "Candidate",
    "best_of",
    "constraints_of_the_model",
    "cv_results",
    "metric_list",
    "metric_scores",
    "refuse_zeros",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Metric: TypeAlias = str | rp.CountMetric


def metric_list(metric: Any, classes: Vector) -> list[Any]:
    """Return the metrics that were asked for; the first one is tuned."""
    if not isinstance(metric, list | tuple):
        return [metric_of(metric, classes)]
    if not metric:
        raise rp.OptionError(
            argument="metric",
            rule="must be a metric, or a list that begins with the one to tune",
            got="an empty list",
            remedy="Pass for example ['balanced_accuracy', 'macro_f1'].",
        )
    if any(is_log_loss(each) for each in metric[1:]):
        raise rp.OptionError(
            argument="metric",
            rule="must be metrics of decisions after the first one",
            got=repr(list(metric)),
            remedy="Put 'log_loss' first, to fit the probabilities, or leave it out.",
        )
    return [metric_of(each, classes) for each in metric]


@dataclass(frozen=True, eq=False)
class Candidate:
    """The out-of-fold scores of one training, and the calibrator that is tuned on them.

    Parameters
    ----------
    training : Training
        How the folds were trained.
    tuning : OutOfFold
        Their scores, and models.
    scores : ndarray of shape (N, K)
        The scores, not below the floor.
    labels : integer ndarray of shape (N,)
        Class indices.
    weight : ndarray of shape (N,) or None
        Sample weights.
    calibrator : PosteriorCalibrator
        Not fitted before :meth:`fit`.
    classes : ndarray of shape (K,)
        The class labels as the calibrator has them.
    floor : float or None
        The smallest probability that counts.
    """

    training: Training
    tuning: OutOfFold
    scores: Vector
    labels: Vector
    weight: Vector | None
    calibrator: rp.PosteriorCalibrator
    classes: Vector
    floor: float | None

    def fit(self, method: str) -> list[rp.RepriorWarning]:
        """Tune the calibrator; return its warnings."""
        collected: list[rp.RepriorWarning] = []
        with (
            collect_warnings(collected),
            explain_refusals(self.training.estimator, method, self.scores),
        ):
            self.calibrator.fit(self.scores, self.classes[self.labels], sample_weight=self.weight)
        return collected

    @property
    def gain(self) -> float:
        """The value of the metric, with a sign that makes the larger one better."""
        value, metric = float(self.calibrator.best_score_), self.calibrator.metric
        if is_log_loss(metric) or not getattr(self.named(metric), "greater_is_better", True):
            return -value
        return value

    @cached_property
    def decided(self) -> Vector:
        """The class index that is decided for every sample."""
        return _decisions(self.calibrator, self.scores, self.classes)

    @cached_property
    def undecided(self) -> Vector:
        """The class index that the uncorrected model decides."""
        return np.asarray(self.scores.argmax(axis=1))

    def named(self, metric: Metric) -> Any:
        """Return the metric of that name, for these classes and groups of classes."""
        return find_metric(
            metric,
            n_classes=self.classes.size,
            classes=None if is_range(self.classes) else self.classes.tolist(),
            class_groups=self.calibrator.class_groups,
        )

    def value(self, metric: Metric, decisions: Vector, rows: slice = slice(None)) -> float:
        """Return a metric of decisions on some of the samples; not for the log-loss."""
        found = self.named(metric)
        weight = None if self.weight is None else self.weight[rows]
        return float(
            evaluate(
                found,
                self.labels[rows],
                decisions[rows],
                n_classes=self.classes.size,
                sample_weight=weight,
            )
        )

    def warn_of_constant(self) -> None:
        """Warn if the tuned classifier decides for one class only."""
        found = np.unique(self.decided)
        if found.size > 1:
            return
        name = self.classes.tolist()[int(found[0])]
        folds = np.split(self.scores, np.cumsum(self.tuning.sizes)[:-1])
        if all((part == part[:1]).all() for part in folds):
            cause = "The estimator scores all of them equally, so that no strength tells classes "
            cause += "apart: check its features and its training."
        else:
            cause = "No strength within the bounds does better by the metric."
        warn(f"The tuned classifier decides {name!r} for every sample that it is tuned on. {cause}")


def best_of(candidates: Sequence[Candidate], method: str) -> Candidate:
    """Tune the candidates; return the best, the first among equals, and issue its warnings.

    The baseline of constraints is that of the first candidate, the model as given. A candidate that
    cannot satisfy the constraints loses to one that can.
    """
    best: tuple[Candidate, list[rp.RepriorWarning]] | None = None
    failure: rp.InfeasibleError | None = None
    for candidate in candidates:
        if candidate is not candidates[0]:
            rules: Any = constraints_of_the_model(candidate.calibrator.subject_to, candidates[0])
            candidate.calibrator.subject_to = rules
        try:
            collected = candidate.fit(method)
        except rp.InfeasibleError as error:
            failure = failure or error
            continue
        if best is None or candidate.gain - best[0].gain > EQUAL_VALUES:
            best = candidate, collected
    if best is None:
        raise failure or ValueError("no candidates")
    for each in best[1]:
        warn(each)
    best[0].warn_of_constant()
    return best[0]


def constraints_of_the_model(subject_to: Any, model: Candidate) -> list[Constraint] | None:
    """Return the constraints with the model's baseline replaced by numbers."""
    rules = Constraint.parse_all(subject_to, model.calibrator.metric)
    if not rules:
        return None
    numbers = []
    for rule in rules:
        limit = float(rule.threshold(baseline=model.value(rule.metric, model.undecided)))
        text = f"{_name(rule.metric)} {rule.relation} {limit!r}"
        numbers.append(replace(rule, text=text, factor=0.0, offset=limit))
    return numbers


def metric_scores(candidate: Candidate, metrics: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Return every metric before and after the correction, on all samples."""
    found = {}
    for metric in metrics:
        if is_log_loss(metric):
            before, after = candidate.calibrator.log_loss_ or (math.nan, math.nan)
        else:
            before = candidate.value(metric, candidate.undecided)
            after = candidate.value(metric, candidate.decided)
        found[_name(metric)] = {"before": before, "after": after}
    return found


def cv_results(candidates: Sequence[Candidate], metrics: Sequence[Any]) -> dict[str, Vector]:
    """Return the columns of ``cv_results_``: a row for every training and fold."""
    rows: list[dict[str, Any]] = []
    for candidate in candidates:
        ends = np.cumsum([0, *candidate.tuning.sizes]).tolist()
        for split, (start, end) in enumerate(pairwise(ends)):
            part = slice(start, end)
            strength, value = _alone(candidate, part)
            row = {
                "training": candidate.training.name,
                "split": split,
                "n_samples": end - start,
                "strength": strength,
                "value": value,
            }
            for metric in metrics:
                before, after = _before_and_after(candidate, metric, part)
                row |= {f"before_{_name(metric)}": before, f"after_{_name(metric)}": after}
            rows.append(row)
    return {name: np.asarray([row[name] for row in rows]) for name in rows[0]}


def _before_and_after(candidate: Candidate, metric: Any, rows: slice) -> tuple[float, float]:
    if not hasattr(candidate.calibrator, "strength_"):  # the constraints could not be met
        return math.nan, math.nan
    if is_log_loss(metric):
        return _log_losses(candidate, rows)
    return (
        candidate.value(metric, candidate.undecided, rows),
        candidate.value(metric, candidate.decided, rows),
    )


def _alone(candidate: Candidate, rows: slice) -> tuple[float, float]:
    """Return the best strength on some of the samples, and the metric there; NaN if none."""
    calibrator = copy.copy(candidate.calibrator)
    calibrator.n_bootstrap = 0
    calibrator.certify = None
    calibrator.tune = "strength"
    if not is_log_loss(calibrator.metric):
        calibrator.temperature = None
        calibrator.separate = False
        if calibrator.selection != "balanced_log_loss":
            calibrator.label_prior = None
    labels = candidate.classes[candidate.labels[rows]]
    weight = None if candidate.weight is None else candidate.weight[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RepriorWarning)
        try:
            calibrator.fit(candidate.scores[rows], labels, sample_weight=weight)
        except rp.RepriorError:  # a fold may lack a class, or be too small for the constraints
            return math.nan, math.nan
    return calibrator.strength_, calibrator.best_score_


def _log_losses(candidate: Candidate, rows: slice) -> tuple[float, float]:
    """Return the log-loss of some samples, weighted to the target prior, before and after."""
    calibrator = candidate.calibrator
    labels = candidate.labels[rows]
    weight = np.ones(labels.size) if candidate.weight is None else candidate.weight[rows]
    support = class_support(labels, weight, candidate.classes.size)
    if not ((support > 0) & (calibrator.target_prior_ > 0)).any():
        return math.nan, math.nan
    ratio = class_importance(support, target_prior=calibrator.target_prior_)
    weight = weight * ratio[labels]
    kept = weight > 0
    part = candidate.scores[rows][kept]
    before, after = (
        rp.metrics.log_loss(values, labels[kept], kind=kind, sample_weight=weight[kept])
        for values, kind in (
            (part, calibrator.kind),
            (calibrator.predict_log_proba(part), "log_probs"),
        )
    )
    return before, after


def _decisions(calibrator: rp.PosteriorCalibrator, scores: Vector, classes: Vector) -> Vector:
    place = {name: k for k, name in enumerate(classes.tolist())}
    return np.asarray([place[name] for name in calibrator.predict(scores).tolist()])


def _name(metric: Any) -> str:
    return metric if isinstance(metric, str) else str(metric.name)


def refuse_zeros(scores: Vector, labels: Vector, estimator: Any, kind: str) -> None:
    """Refuse a label whose class is impossible, where probabilities are fitted by log-loss."""
    own = scores[np.arange(labels.size), labels]
    impossible = own == 0 if kind == "probs" else np.isneginf(own)
    if not impossible.any():
        return
    where = int(np.argmax(impossible))
    raise rp.ScoresError(
        argument="estimator",
        rule="must leave every sample's own class possible, or the log-loss is infinite at any "
        "temperature",
        got=f"{type(estimator).__name__}, which gives the class of {impossible.sum()} of "
        f"{labels.size} samples the probability 0 (first of sample {where} of the folds)",
        remedy=[
            "Pass the smallest probability that counts, such as ",
            Setting("floor", 0.001),
            ".",
        ],
    )
