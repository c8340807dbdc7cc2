"""The passes of a fit over pieces that Dask's tasks go through: Dask arrays, or shards of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from reprior.calibrator.fitting import Tuned, tuned
from reprior.calibrator.sources import InMemory, best_at_temperature
from reprior.core.box_newton import Quadratic
from reprior.core.importance import classes_with_labels, importance_weights
from reprior.core.joint import JointLoss, LogLossFit, minimise_jointly, refuse_lone_class
from reprior.core.labelled import Labelled
from reprior.core.prior import slopes
from reprior.core.scaling import ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.core.temperature import BOUNDS, Loss, TemperatureFit, _minimise
from reprior.exceptions import OptionError
from reprior.metrics.counts import ClassCounts
from reprior.tuning.data import TuningData, importance_ratio
from reprior.tuning.lazy import (
    EXACT,
    ArrayPieces,
    Bins,
    Found,
    Pieces,
    profiled,
    warner_of_probs,
)
from reprior.tuning.problem import Problem
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.reading import Reading, anything_counts, refuse_nothing

__all__ = [
    "AUTO_BINS",
    "CountTally",
    "LazySource",
    "LossTally",
    "RowsOf",
    "gathered",
    "join_sums",
    "tuned_on",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Switches that are kept one by one, some 200 MB; more are summed in bins, of which there are few
#: enough to keep and many enough to know λ to four digits.
AUTO_BINS = Bins(10**7, 1e-4)

#: Scores that are gathered in memory at most, 1 GB of float64.
GATHERED_SCORES = 1 << 27


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

    def read(self, data: TuningData) -> Labelled | None:
        """The rows of one part; None where none counts."""
        weight = np.asarray(data.importance(self.label_prior))
        if not anything_counts(np.asarray(data.labels), weight, data.ignore_index):
            return None
        block = data.weighted(self.label_prior)
        rows = block.scores.astype(np.float64)
        found = Labelled.of_rows(rows, block.labels, np.asarray(block.weights) / self.mass)
        return found.of_classes(self.kept).shifted(self.shifts[self.kept])


class LossTally:
    """The log-loss of samples at one (1/T, λ), its slopes and curvatures."""

    def __init__(self, rows: RowsOf, slopes: Vector, at: tuple[float, float]) -> None:
        self.rows, self.slopes, self.at = rows, slopes, at
        self.total = np.zeros(len(Quadratic._fields))

    def add(self, data: TuningData) -> None:
        """Take the next samples in."""
        part = self.rows.read(data)
        if part is not None:
            self.total += JointLoss(part, self.slopes[self.rows.kept])(*self.at)

    def result(self) -> Vector:
        """The fields of a Quadratic; those of parts add."""
        return self.total


class CountTally:
    """What a map decides on samples."""

    def __init__(self, decisions: ScoreMap) -> None:
        self.decisions = decisions
        self.total: ClassCounts | None = None

    def add(self, data: TuningData) -> None:
        """Take the next samples in."""
        if anything_counts(np.asarray(data.labels), data.weight, data.ignore_index):
            counts = InMemory(data).counts(self.decisions)
            self.total = counts if self.total is None else self.total + counts

    def result(self) -> ClassCounts | None:
        """The counts, None where no sample counts."""
        return self.total


def join_sums(parts: list[Any]) -> Any:
    """The sum of the parts, in their order; None stands for nothing."""
    known = [part for part in parts if part is not None]
    total = known[0] if known else None
    for part in known[1:]:
        total = total + part
    return total


class LazySource:
    """The passes of a fit, each of which is one round of tasks over all pieces.

    ``gather`` gives all samples in memory, or refuses: for what does not add up.
    """

    def __init__(
        self, pieces: Pieces, *, bins: Bins = EXACT, gather: Callable[[], TuningData]
    ) -> None:
        self.pieces, self.bins, self._gather = pieces, bins, gather
        self.found: Found | None = None

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``."""
        found = profiled(self.pieces, bounds, self.bins)
        if found.profile is None:
            refuse_nothing(found.n_samples)
        self.found = found
        return found.profile

    def temperature(self, problem: Problem, shifts: Vector) -> TemperatureFit:
        """The best T of softmax((z + b) / T), the labels weighted to the target prior."""
        rows = self._rows(problem, np.isfinite(shifts), shifts)
        none = np.zeros_like(shifts)

        def loss(inverse: float) -> Loss:
            found = self._loss(rows, none, inverse, 0.0)
            return Loss(found.value, found.slope_x, found.curvature_xx)

        return _minimise(loss, BOUNDS, 1.0)

    def log_loss(self, problem: Problem) -> float:
        """The log-loss of the model as it is, the labels weighted to the target prior."""
        none = np.zeros_like(problem.target_prior)
        return self._loss(self._rows(problem, none == 0.0, none), none, 1.0, 0.0).value

    def joint(self, problem: Problem) -> LogLossFit:
        """The best T and λ of softmax(z/T + λ·w); λ alone where T is given."""
        refuse_lone_class(problem.target_prior)
        w = slopes(problem.source_prior, problem.target_prior)
        rows = self._rows(problem, problem.target_prior > 0, np.zeros_like(w))
        seen = classes_with_labels(np.where(rows.kept, self._support, 0.0))
        found = self._joint(problem, replace(rows, kept=seen), w)
        if (seen == rows.kept).all():
            return found
        # A class without labels teaches nothing, but takes its share of the probability.
        value = self._loss(rows, w, 1.0 / found.temperature, found.strength).value
        return replace(found, log_loss=value)

    def _joint(self, problem: Problem, rows: RowsOf, w: Vector) -> LogLossFit:
        loss = partial(self._loss, rows, w)
        if not isinstance(problem.temperature, str):
            return best_at_temperature(loss, problem)
        if np.unique(w[rows.kept]).size == 1:
            found = self.temperature(problem, np.where(rows.kept, w, -np.inf))
            return LogLossFit(
                found.temperature, 1.0 / found.temperature, found.log_loss, found.converged,
                found.n_iterations, found.at_bound,
            )  # fmt: skip
        return minimise_jointly(loss, problem.bounds)

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """What a map decides on the samples."""
        found: ClassCounts = self.pieces.run(partial(CountTally, decisions), join_sums)
        return found

    def reading(self, bounds: tuple[float, float]) -> Reading:
        """All samples, gathered and laid out for a pass."""
        return self._gathered.reading(bounds)

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class, of all samples gathered."""
        return self._gathered.scaling(problem)

    @cached_property
    def _gathered(self) -> InMemory:
        return InMemory(self._gather())

    def _rows(self, problem: Problem, kept: Vector, shifts: Vector) -> RowsOf:
        if self.found is None:
            self.profile(problem.bounds)
        return RowsOf.of(problem, self._support, kept, shifts)

    @property
    def _support(self) -> Vector:
        """The weight of every class, once there is a profile."""
        assert self.found is not None and self.found.profile is not None  # noqa: S101, PT018
        return np.asarray(self.found.profile.baseline.support, np.float64)

    def _loss(self, rows: RowsOf, w: Vector, inverse: float, strength: float) -> Quadratic:
        found = self.pieces.run(partial(LossTally, rows, w, (inverse, strength)), join_sums)
        return Quadratic(*found.tolist())


def gathered(data: TuningData) -> TuningData:
    """Dask arrays computed, all of them, up to a limit."""
    n_scores = int(np.nan_to_num(np.prod(data.scores.shape, dtype=np.float64)))
    if n_scores > GATHERED_SCORES:
        raise OptionError(
            f"`scores` must fit into memory for what is asked, which needs all of them at once: at "
            f"most {GATHERED_SCORES:,}. Got {n_scores:,}. Pass a sample of them, or leave out "
            f"tune='per_class', cv, n_bootstrap, selection='balanced_log_loss' and "
            f"temperature='bcts' or 'vector'."
        )
    arrays = (data.scores, data.labels, data.weight)
    scores, labels, weight = (None if each is None else np.asarray(each) for each in arrays)
    return replace(data, scores=scores, labels=labels, weight=weight)


def tuned_on(problem: Problem, data: TuningData) -> Tuned:
    """Tune what the problem asks for, on arrays in memory or on Dask arrays where they are."""
    if not array_api_compat.is_dask_array(data.scores):
        return tuned(problem, InMemory(data), stacklevel=3)
    source = LazySource(ArrayPieces(data), bins=AUTO_BINS, gather=partial(gathered, data))
    found = tuned(problem, source, stacklevel=3)
    if source.found is not None:
        warner_of_probs(source.found)()
    if found.profile.resolution is not None:
        found.sentences.append(
            f"There are more than {AUTO_BINS.exact_up_to} switches, too many to keep: they are "
            f"summed in bins of {AUTO_BINS.resolution:g}. To keep each, call "
            f"reprior.engines.dask_fit(calibrator, (scores, labels), resolution=None)."
        )
    return found
