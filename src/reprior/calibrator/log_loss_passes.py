"""Fits by log-loss of samples that come in parts: every value of the loss is a pass over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from reprior.calibrator.sources import best_at_temperature
from reprior.core.arrays import to_numpy
from reprior.core.importance import classes_with_labels, importance_weights
from reprior.core.log_loss import LogLossFit, minimise_jointly, refuse_lone_class
from reprior.core.minimise import Quadratic
from reprior.core.prior import slopes
from reprior.core.temperature import BOUNDS, Loss, TemperatureFit, minimise_temperature
from reprior.core.weighted_rows import WeightedRows
from reprior.profile.data import TuningData, importance_ratio
from reprior.profile.reading import anything_counts
from reprior.tuning.problem import Problem

__all__ = ["LogLossPasses", "RowsOf"]

Vector: TypeAlias = np.ndarray[Any, Any]
Rows = TypeVar("Rows")


@dataclass(frozen=True, eq=False)
class RowsOf:
    """Which rows a fit by log-loss looks at, and how: part by part, with weights that sum to 1."""

    label_prior: Vector
    mass: float
    kept: Vector
    """Which classes exist."""
    shifts: Vector
    """What is added to the log-scores of each."""

    @classmethod
    def of(cls, problem: Problem, support: Vector, kept: Vector, shifts: Vector) -> RowsOf:
        """The rows of samples of which every class has ``support``."""
        # Refuses labels that are of no use, and a label prior that has none of them.
        importance_weights(
            np.arange(support.size), support, target_prior=problem.target_prior,
            label_prior=problem.label_prior,
        )  # fmt: skip
        label_prior = support if problem.label_prior is None else problem.label_prior
        mass = float(support @ importance_ratio(problem.target_prior, label_prior))
        return cls(label_prior, mass, kept, shifts)

    def read(self, data: TuningData) -> WeightedRows | None:
        """The rows of one part, in arrays of their own; None where none counts."""
        weight = to_numpy(data.importance(self.label_prior))
        if not anything_counts(to_numpy(data.labels), weight, data.ignore_index):
            return None
        block = data.weighted(self.label_prior)
        rows = block.scores.astype(np.float64)
        labels = np.array(block.labels)  # may be kept, while the part's own are filled anew
        found = WeightedRows.of_rows(rows, labels, np.asarray(block.weights) / self.mass)
        return found.of_classes(self.kept).shifted(self.shifts[self.kept])


class LogLossPasses(ABC, Generic[Rows]):
    """What is fitted by log-loss, of a loss that is summed over all parts in a pass."""

    @abstractmethod
    def _support(self, problem: Problem) -> Vector:
        """The weight of every class among the labels."""

    @abstractmethod
    def _rows(self, rows: RowsOf) -> Rows:
        """These rows of all parts, to be gone through again and again."""

    @abstractmethod
    def _loss(self, rows: Rows, w: Vector, inverse: float, strength: float) -> Quadratic:
        """The log-loss of softmax(δ·z + λ·w) at δ = 1/T and λ, by one pass."""

    def temperature(self, problem: Problem, shifts: Vector) -> TemperatureFit:
        """The best T of softmax((z + b) / T), the labels weighted to the target prior."""
        rows = self._rows(self._which(problem, np.isfinite(shifts), shifts))
        none = np.zeros_like(shifts)

        def loss(inverse: float) -> Loss:
            found = self._loss(rows, none, inverse, 0.0)
            return Loss(found.value, found.slope_x, found.curvature_xx)

        return minimise_temperature(loss, BOUNDS, 1.0)

    def log_loss(self, problem: Problem) -> float:
        """The log-loss of the model as it is, the labels weighted to the target prior."""
        none = np.zeros_like(problem.target_prior)
        rows = self._rows(self._which(problem, none == 0.0, none))
        return self._loss(rows, none, 1.0, 0.0).value

    def joint(self, problem: Problem) -> LogLossFit:
        """The best T and λ of softmax(z/T + λ·w); λ alone where T is given."""
        refuse_lone_class(problem.target_prior)
        w = slopes(problem.source_prior, problem.target_prior)
        every = self._which(problem, problem.target_prior > 0, np.zeros_like(w))
        seen = classes_with_labels(np.where(every.kept, self._support(problem), 0.0))
        found = self._joint(problem, replace(every, kept=seen), w)
        if (seen == every.kept).all():
            return found
        # A class without labels teaches nothing, but takes its share of the probability.
        loss = self._loss(self._rows(every), w, 1.0 / found.temperature, found.strength)
        return replace(found, log_loss=loss.value)

    def _which(self, problem: Problem, kept: Vector, shifts: Vector) -> RowsOf:
        return RowsOf.of(problem, self._support(problem), kept, shifts)

    def _joint(self, problem: Problem, which: RowsOf, w: Vector) -> LogLossFit:
        loss = partial(self._loss, self._rows(which), w)
        if not isinstance(problem.temperature, str):
            return best_at_temperature(loss, problem)
        if np.unique(w[which.kept]).size == 1:
            found = self.temperature(problem, np.where(which.kept, w, -np.inf))
            return LogLossFit(
                found.temperature, 1.0 / found.temperature, found.log_loss, found.converged,
                found.n_iterations, found.at_bound,
            )  # fmt: skip
        return minimise_jointly(loss, problem.bounds)
