"""Predictions of every row of the held-out study for the test part of a split."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
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
from reprior.tuning.selection import CURVE_RULES, RULES, select

__all__ = ["AUTO", "GRID", "OTHERS", "PEERS", "ROWS", "WEIGHTED", "judged", "tuned_row"]

#: Strengths that are searched. For a model trained with balanced class weights, strength 0
#: corresponds to strength 1 of the base model.
BOUNDS, WEIGHTED_BOUNDS = (0.0, 2.0), (-1.0, 1.0)

#: The distance of the strengths of a plain grid.
GRID_STEP = 0.1

#: Other methods with the same base model.
PEERS = ("tuned threshold", "over-sampling", "SMOTE", "class weights")

#: Ensembles, which bring their own base model.
OTHERS = ("balanced forest", "easy ensemble", "balanced forest, λ")

#: λ of the base model, of class weights, and of the better of both by its out-of-fold value.
GIVEN, WEIGHTED, AUTO = "λ", "class weights, λ", "auto, λ"
GRID = "λ, grid"


def tuned_row(training: str, rule: str) -> str:
    """Return the name of the row of a training and a rule of selection."""
    return f"{training}, {rule}"


#: The rows of the tables.
ROWS = (
    "base", *PEERS, *OTHERS, "λ = 1", GRID, *(tuned_row(GIVEN, rule) for rule in RULES),
    *(tuned_row(training, rule) for training in (WEIGHTED, AUTO) for rule in CURVE_RULES),
    "per-class, shrunk", "per-class, unshrunk",
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

    def on_grid(self) -> float:
        """Return the best strength of a plain grid within the bounds as given, the lowest first."""
        low, high = self.bounds
        grid = np.linspace(low, high, round((high - low) / GRID_STEP) + 1)
        values = [self.profile.evaluate(self.metric, float(strength)) for strength in grid]
        return float(grid[int(np.argmax(values))])

    def biases(self, shrinkage: Any) -> Any:
        """Return the bias of every class."""
        return tune_per_class(
            self.scores, self.labels, source_prior=self.prior, metric=self.metric,
            kind="log_probs", shrinkage=shrinkage,
        ).biases  # fmt: skip


def judged(
    run: Scored, others: Mapping[str, Any] | None, metric: str, *, per_class: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """The metric of the test part for every row, and the strengths that were chosen."""
    test, labels = run["test"], run["labels"]
    n_classes = test.shape[1]
    prior = rp.prior_from_labels(labels, n_classes)
    w = slopes(prior, np.full(n_classes, 1 / n_classes))
    given = Tuning(run["out_of_fold"], labels, prior, metric)
    best = {rule: given.chosen(rule) for rule in RULES}
    tuned = {"base": 0.0, "λ = 1": 1.0, GRID: given.on_grid()}
    tuned |= {tuned_row(GIVEN, rule): each.strength for rule, each in best.items()}
    predictions = {row: (test + strength * w).argmax(axis=1) for row, strength in tuned.items()}
    predictions |= {"over-sampling": run["over_sampling"], "SMOTE": run["smote"]}
    if f"threshold_{metric}" in run:
        predictions["tuned threshold"] = run[f"threshold_{metric}"]
    if "weighted_test" in run:
        weighted = Tuning(run["weighted_out_of_fold"], labels, prior, metric, WEIGHTED_BOUNDS)
        predictions["class weights"] = run["weighted_test"].argmax(axis=1)
        for rule in CURVE_RULES:
            other = weighted.chosen(rule)
            decided = (run["weighted_test"] + other.strength * w).argmax(axis=1)
            tuned[tuned_row(WEIGHTED, rule)] = other.strength
            predictions[tuned_row(WEIGHTED, rule)] = decided
            better = other.value - best[rule].value > 2.0**-48
            predictions[tuned_row(AUTO, rule)] = (
                decided if better else predictions[tuned_row(GIVEN, rule)]
            )
    predictions |= dict(_of_others(others, labels, prior, w, metric)) if others else {}
    if per_class:
        for row, shrinkage in (("per-class, shrunk", "cv"), ("per-class, unshrunk", 0.0)):
            predictions[row] = (test + given.biases(shrinkage)).argmax(axis=1)
    values = {
        row: evaluate(metric, run["test_labels"], found, n_classes=n_classes)
        for row, found in predictions.items()
    }
    return values, tuned


def _of_others(
    others: Mapping[str, Any], labels: Any, prior: Any, w: Any, metric: str
) -> Iterator[tuple[str, Any]]:
    """Return the predictions of the ensembles, and of the forest with λ, "bagged"."""
    yield "balanced forest", others["forest_test"].argmax(axis=1)
    yield "easy ensemble", others["easy_ensemble"]
    forest = Tuning(others["forest_out_of_fold"], labels, prior, metric, WEIGHTED_BOUNDS)
    strength = forest.chosen("bagged").strength
    yield "balanced forest, λ", (others["forest_test"] + strength * w).argmax(axis=1)
