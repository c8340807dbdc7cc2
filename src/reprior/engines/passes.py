"""The passes of a fit over chunks: what adds up is added up, what does not is gathered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from reprior.calibrator.sources import InMemory, best_at_temperature
from reprior.core.arrays import to_numpy
from reprior.core.box_newton import Quadratic
from reprior.core.importance import importance_weights
from reprior.core.joint import (
    JointLoss,
    LogLossFit,
    minimise_jointly,
    refuse_lone_class,
)
from reprior.core.labelled import Labelled
from reprior.core.prior import slopes
from reprior.core.scaling import ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.core.temperature import BOUNDS, LogLoss, Loss, TemperatureFit, _minimise
from reprior.engines.stream import Stream
from reprior.exceptions import OptionError
from reprior.files.score_file import ScoreFile
from reprior.metrics.counts import ClassCounts
from reprior.tuning.data import TuningData, importance_ratio
from reprior.tuning.problem import Problem, ProfileOf
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.reading import Reading, anything_counts

__all__ = ["GATHERED_SCORES", "ChunkedRows", "ChunkedSource"]

Vector: TypeAlias = np.ndarray[Any, Any]

KEPT_SCORES = 1 << 23
"""Log-scores that a fit by log-loss keeps between its passes, 64 MB of float64."""

GATHERED_SCORES = 1 << 27
"""Scores that are gathered in memory at most, 1 GB of float64."""


class ChunkedRows:
    """Rows of a stream with weights that sum to 1, part by part; kept where they are few."""

    def __init__(
        self, stream: Stream, problem: Problem, support: Vector, kept: Vector, shifts: Vector
    ) -> None:
        self.stream, self.kept, self.shifts = stream, kept, shifts
        # Refuses labels that are of no use, and a label prior that has none of them.
        importance_weights(
            np.arange(support.size), support, target_prior=problem.target_prior,
            label_prior=problem.label_prior,
        )  # fmt: skip
        self.label_prior = support if problem.label_prior is None else problem.label_prior
        self.mass = float(support @ importance_ratio(problem.target_prior, self.label_prior))
        self._known: list[Labelled] | None = []
        self._complete = False

    def parts(self) -> Iterator[Labelled]:
        """One pass."""
        if self._complete and self._known is not None:
            yield from self._known
            return
        n_scores = 0
        for part in self.stream.parts():
            weight = to_numpy(part.data.importance(self.label_prior))
            if not anything_counts(to_numpy(part.data.labels), weight, part.data.ignore_index):
                continue
            with part.located():
                found = self._labelled(part.data)
            yield found
            n_scores += found.labels.size * found.n_classes
            if self._known is not None:
                self._known.append(found)
                if n_scores > KEPT_SCORES:
                    self._known = None
        self._complete = True

    def _labelled(self, data: TuningData) -> Labelled:
        block = data.weighted(self.label_prior)
        rows = block.scores.astype(np.float64)
        labels = np.array(block.labels)  # kept, while the chunk's own may be filled anew
        found = Labelled.of_rows(rows, labels, np.asarray(block.weights) / self.mass)
        return found.of_classes(self.kept).shifted(self.shifts[self.kept])


class ChunkedSource:
    """The passes of a fit over a stream."""

    def __init__(self, stream: Stream, profile_of: ProfileOf) -> None:
        self.stream, self._profile_of = stream, profile_of
        self._support: Vector | None = None

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``."""
        found = self._profile_of(bounds)
        self._support = found.baseline.support
        return found

    def reading(self, bounds: tuple[float, float]) -> Reading:
        """All samples, gathered and laid out for a pass."""
        return self._gathered.reading(bounds)

    def temperature(self, problem: Problem, shifts: Vector) -> TemperatureFit:
        """The best T of softmax((z + b) / T), the labels weighted to the target prior."""
        rows = self._rows(problem, np.isfinite(shifts), shifts)

        def loss(inverse: float) -> Loss:
            total = np.zeros(3)
            for part in rows.parts():
                total += LogLoss(part)(inverse)
            return Loss(*total.tolist())

        return _minimise(loss, BOUNDS, 1.0)

    def log_loss(self, problem: Problem) -> float:
        """The log-loss of the model as it is, the labels weighted to the target prior."""
        none = np.zeros_like(problem.target_prior)
        parts = self._rows(problem, none == 0.0, none).parts()
        return sum(JointLoss(part, none)(1.0, 0.0).value for part in parts)

    def joint(self, problem: Problem) -> LogLossFit:
        """The best T and λ of softmax(z/T + λ·w); λ alone where T is given."""
        refuse_lone_class(problem.target_prior)
        possible = problem.target_prior > 0
        w = slopes(problem.source_prior, problem.target_prior)
        rows = self._rows(problem, possible, np.zeros_like(w))

        def loss(inverse: float, strength: float) -> Quadratic:
            total = np.zeros(len(Quadratic._fields))
            for part in rows.parts():
                total += JointLoss(part, w[possible])(inverse, strength)
            return Quadratic(*total.tolist())

        if not isinstance(problem.temperature, str):
            return best_at_temperature(loss, problem)
        if problem.flat:
            found = self.temperature(problem, w)
            return LogLossFit(
                found.temperature, 1.0 / found.temperature, found.log_loss, found.converged,
                found.n_iterations, found.at_bound,
            )  # fmt: skip
        return minimise_jointly(loss, problem.bounds)

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class, of all samples gathered."""
        return self._gathered.scaling(problem)

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """What a map decides on the samples."""
        return self._gathered.counts(decisions)

    def _rows(self, problem: Problem, kept: Vector, shifts: Vector) -> ChunkedRows:
        if self._support is None:
            self.profile(problem.bounds)
        support = np.asarray(self._support, np.float64)
        return ChunkedRows(self.stream, problem, support, kept, shifts)

    @cached_property
    def _gathered(self) -> InMemory:
        """All samples in memory, up to a limit."""
        parts, axis, n_scores = [], 0, 0
        # Chunks of files are arrays of their own; others may be filled anew for the next one.
        kept = np.asarray if isinstance(self.stream.chunks, ScoreFile) else np.array
        for part in self.stream.parts():
            n_scores += int(np.size(part.data.scores))
            if n_scores > GATHERED_SCORES:
                raise OptionError(
                    f"`chunks` must fit into memory for what is asked, which needs all scores at "
                    f"once: at most {GATHERED_SCORES:,} of them. Got more. Pass a sample of them, "
                    f"or leave out tune='per_class', cv, n_bootstrap, selection="
                    f"'balanced_log_loss' and temperature='bcts' or 'vector'."
                )
            arrays = (part.data.scores, part.data.labels, part.data.weight)
            parts.append([None if each is None else kept(to_numpy(each)) for each in arrays])
            like, axis = replace(part.data, scores=None, labels=None), part.sample_axis
        scores, labels, weight = zip(*parts, strict=True)
        return InMemory(
            replace(
                like,
                scores=np.concatenate(scores, axis=axis),
                labels=np.concatenate(labels),
                weight=None if weight[0] is None else np.concatenate(weight),
            )
        )
