"""The data of a fit, and the passes over them: all in memory, or a part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import array_api_compat
import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.importance import classes_with_labels, importance_weights
from reprior.core.log_loss import (
    JointLoss,
    LogLossFit,
    best_jointly,
    minimise_jointly,
    refuse_lone_class,
    with_labels,
)
from reprior.core.minimise import ROUNDING, Quadratic
from reprior.core.prior import slopes
from reprior.core.scaling import ScalingFit, fit_scaling
from reprior.core.score_map import ScoreMap
from reprior.core.temperature import (
    BOUNDS,
    Loss,
    TemperatureFit,
    best_temperature,
    minimise_temperature,
)
from reprior.core.weighted_rows import WeightedRows
from reprior.metrics.counts import ClassCounts
from reprior.profile.constants import AFTER_ZERO
from reprior.profile.data import TuningData, importance_ratio
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, Samples, anything_counts
from reprior.tuning.problem import Problem

__all__ = [
    "InMemory",
    "LogLossPasses",
    "RowsOf",
    "Source",
    "best_at_temperature",
]

Vector: TypeAlias = np.ndarray[Any, Any]


class Source(Protocol):
    """The passes over labelled scores that a fit may need, wherever these are."""

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``."""

    def read(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """All samples, checked, and what is looked for in them."""

    def temperature(self, problem: Problem, shifts: Vector) -> TemperatureFit:
        """The best T of softmax((z + b) / T), the labels weighted to the target prior."""

    def log_loss(self, problem: Problem) -> float:
        """The log-loss of the model as it is, the labels weighted to the target prior."""

    def joint(self, problem: Problem) -> LogLossFit:
        """The best T and λ of softmax(z/T + λ·w); λ alone where T is given."""

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class."""

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """What a map decides on the samples."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """WeightedRows scores in memory."""

    data: TuningData

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the data within ``bounds``."""
        return self.data.profile(bounds)

    def read(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """All samples, checked, and what is looked for in them."""
        return self._here.read(bounds)

    def temperature(self, problem: Problem, shifts: Vector) -> TemperatureFit:
        """The best T of softmax((z + b) / T), the labels weighted to the target prior."""
        kept = np.isfinite(shifts)
        data = self._here.labelled(problem.label_prior).of_classes(kept)
        return best_temperature(data.shifted(shifts[kept]), BOUNDS)

    def log_loss(self, problem: Problem) -> float:
        """The log-loss of the model as it is, the labels weighted to the target prior."""
        data = self._here.labelled(problem.label_prior)
        return JointLoss(data, np.zeros(data.n_classes))(1.0, 0.0).value

    def joint(self, problem: Problem) -> LogLossFit:
        """The best T and λ of softmax(z/T + λ·w); λ alone where T is given."""
        refuse_lone_class(problem.target_prior)
        possible = problem.target_prior > 0
        data = self._here.labelled(problem.label_prior).of_classes(possible)
        w = slopes(problem.source_prior, problem.target_prior)[possible]
        if isinstance(problem.temperature, str):
            return best_jointly(data, w, problem.bounds)
        whole, loss = JointLoss(data, w), JointLoss(*with_labels(data, w))
        found = best_at_temperature(loss, problem, noise=loss.noise)
        if loss.data is data:
            return found
        return replace(found, log_loss=whole(1.0 / found.temperature, found.strength).value)

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class."""
        data = self._here
        return fit_scaling(
            data.scores,
            data.labels,
            scaling=str(problem.temperature),
            source_prior=problem.source_prior,
            target_prior=problem.target_prior,
            label_prior=problem.label_prior,
            bounds=problem.bounds,
            sample_weight=data.weight,
            kind=data.kind,
            class_axis=data.class_axis,
            ignore_index=data.ignore_index,
        )

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """What a map decides on the samples."""
        data = self._here
        # Within bounds from just after 0 on, as a fit has them where a class is ruled out.
        low = 0.0 if data.target_prior.all() else AFTER_ZERO
        samples, _ = self.read((low, 1.0))
        block = samples.read((slice(None),))
        rows = np.asarray(block.scores)
        predicted = decisions.decisions(rows, data.source_prior, data.target_prior)
        return ClassCounts.from_predictions(
            block.labels, predicted, n_classes=data.source_prior.size, sample_weight=block.weights
        )

    @property
    def _here(self) -> TuningData:
        """The data as arrays that can be gone through at will: Dask's are computed."""
        data = self.data
        if not array_api_compat.is_dask_array(data.scores):
            return data
        return replace(
            data,
            scores=np.asarray(data.scores),
            labels=np.asarray(data.labels),
            weight=None if data.weight is None else np.asarray(data.weight),
        )


def best_at_temperature(
    loss: Callable[[float, float], Quadratic], problem: Problem, *, noise: float = ROUNDING
) -> LogLossFit:
    """The best λ at the temperature that is given; that of strength 1 where none matters."""
    temperature, bounds = float(problem.temperature), problem.bounds
    inverse = 1.0 / temperature
    if problem.flat:
        value = loss(inverse, inverse).value
        return LogLossFit(temperature, inverse, value, True, 1, False)
    fixed = temperature, temperature
    found = minimise_jointly(loss, bounds, fixed, start=(inverse, 1.0), noise=noise)
    return replace(found, at_bound=found.strength in bounds)


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
