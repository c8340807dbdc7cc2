"""Predictions of every row of the held-out study for the test part of a split."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import reprior as rp
from benchmarks.held_out_scores import Scored
from reprior.core.prior import slopes
from reprior.metrics import evaluate
from reprior.metrics.count_metrics import find_metric
from reprior.profile.objective import Best
from reprior.profile.samples import Priors, Samples
from reprior.tuning.per_class import tune_per_class
from reprior.tuning.problem import best_widened
from reprior.tuning.selection import RULES, select

__all__ = ["PEERS", "ROWS", "TUNED_BOTH", "judged"]

#: Strengths that are searched. For a model trained with balanced class weights, strength 0
#: corresponds to strength 1 of the base model.
BOUNDS, WEIGHTED_BOUNDS = (0.0, 2.0), (-1.0, 1.0)

#: The selection rule of rows that do not compare rules.
USUAL_RULE = "bagged"

#: Other methods with the same base model.
PEERS = ("tuned threshold", "over-sampling", "SMOTE", "class weights")

#: λ of the base model, or of class weights: whichever is better on its out-of-fold scores.
TUNED_BOTH = "λ, the better training"

#: The rows of the tables.
ROWS = (
    "base", *PEERS, "λ = 1", *(f"λ, {rule}" for rule in RULES), "λ, max, folds twice",
    "λ, bagged, folds twice", "per-class, shrunk", "per-class, unshrunk", "class weights, λ",
    TUNED_BOTH,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tuning:
    """Out-of-fold log-probabilities (N, K), their labels, and the tuning on them."""

    scores: Any
    labels: Any
    prior: Any
    metric: str
    bounds: tuple[float, float] = BOUNDS

    @cached_property
    def profile(self) -> rp.StrengthProfile:
        """Return the profile, with bounds as wide as a calibrator makes them."""

        def profile_of(bounds: tuple[float, float]) -> rp.StrengthProfile:
            return rp.StrengthProfile.from_scores(
                self.scores, self.labels, source_prior=self.prior, kind="log_probs", bounds=bounds
            )

        metric = find_metric(self.metric, n_classes=self.prior.size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rp.RepriorWarning)
            return best_widened(profile_of, self.bounds, metric, ())[1]

    def chosen(self, rule: str) -> Best:
        """Return the strength that a selection rule chooses."""
        priors = Priors.of(self.prior, "uniform", self.profile.bounds)
        samples = Samples.of(self.scores, self.labels, n_classes=self.prior.size, kind="log_probs")
        return select(self.profile, self.metric, rule, samples=samples, priors=priors)

    def biases(self, shrinkage: Any) -> Any:
        """Return the bias of every class."""
        return tune_per_class(
            self.scores, self.labels, source_prior=self.prior, metric=self.metric,
            kind="log_probs", shrinkage=shrinkage,
        ).biases  # fmt: skip


def judged(run: Scored, metric: str) -> tuple[dict[str, float], dict[str, float]]:
    """The metric of the test part for every row, and the strengths that were chosen."""
    n_classes = run.test.shape[1]
    prior = rp.prior_from_labels(run.labels, n_classes)
    w = slopes(prior, np.full(n_classes, 1 / n_classes))
    once = Tuning(run.out_of_fold[0], run.labels, prior, metric)
    tuned = {"base": 0.0, "λ = 1": 1.0, **dict(_strengths(run, once))}
    predictions = {row: (run.test + x * w).argmax(axis=1) for row, x in tuned.items()}
    for row, shrinkage in (("per-class, shrunk", "cv"), ("per-class, unshrunk", 0.0)):
        predictions[row] = (run.test + once.biases(shrinkage)).argmax(axis=1)
    predictions |= {"over-sampling": run.over_sampling, "SMOTE": run.smote}
    if n_classes == 2:
        predictions["tuned threshold"] = getattr(run, f"threshold_{metric}")
    if run.weighted_test.size:
        weighted = Tuning(run.weighted_out_of_fold, run.labels, prior, metric, WEIGHTED_BOUNDS)
        own, other = once.chosen(USUAL_RULE), weighted.chosen(USUAL_RULE)
        predictions["class weights"] = run.weighted_test.argmax(axis=1)
        predictions["class weights, λ"] = (run.weighted_test + other.strength * w).argmax(axis=1)
        better = "class weights, λ" if other.value > own.value else f"λ, {USUAL_RULE}"
        predictions[TUNED_BOTH] = predictions[better]
        tuned["class weights, λ"] = other.strength
    values = {
        row: evaluate(metric, run.test_labels, found, n_classes=n_classes)
        for row, found in predictions.items()
    }
    return values, tuned


def _strengths(run: Scored, once: Tuning) -> Iterator[tuple[str, float]]:
    """Return the strength of each rule, on one repetition of cross-validation and on all."""
    for rule in RULES:
        yield f"λ, {rule}", once.chosen(rule).strength
    pooled = run.out_of_fold.reshape(-1, once.prior.size)
    labels = np.tile(run.labels, len(run.out_of_fold))
    twice = Tuning(pooled, labels, once.prior, once.metric)
    for rule in ("max", "bagged"):
        yield f"λ, {rule}, folds twice", twice.chosen(rule).strength
