"""The passes of a fit over chunks: what adds up is added up, what does not is gathered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from reprior.calibrator.lazy_source import GATHERED_SCORES
from reprior.calibrator.log_loss_passes import LogLossPasses, RowsOf
from reprior.calibrator.sources import InMemory
from reprior.core.arrays import to_numpy
from reprior.core.log_loss import JointLoss
from reprior.core.minimise import Quadratic
from reprior.core.scaling import ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.core.weighted_rows import WeightedRows
from reprior.engines.chunk_source import Stream
from reprior.exceptions import OptionError
from reprior.files.scores import ScoreFile
from reprior.metrics.counts import ClassCounts
from reprior.profile.profile import StrengthProfile
from reprior.profile.reading import Reading
from reprior.tuning.problem import Problem, ProfileOf

__all__ = ["ChunkedRows", "ChunkedSource"]

Vector: TypeAlias = np.ndarray[Any, Any]

KEPT_SCORES = 1 << 23
"""Log-scores that a fit by log-loss keeps between its passes, 64 MB of float64."""


class ChunkedRows:
    """Rows of a stream, part by part; kept between the passes where they are few."""

    def __init__(self, stream: Stream, rows: RowsOf) -> None:
        self.stream, self.rows = stream, rows
        self._few = True
        self._known: list[WeightedRows] | None = None

    def parts(self) -> Iterator[WeightedRows]:
        """One pass."""
        if self._known is not None:
            yield from self._known
            return
        known, n_scores = list[WeightedRows](), 0
        for part in self.stream.parts():
            with part.located():
                found = self.rows.read(part.data)
            if found is None:
                continue
            yield found
            n_scores += found.labels.size * found.n_classes
            self._few = self._few and n_scores <= KEPT_SCORES
            known.append(found) if self._few else known.clear()
        if self._few:  # and only of a pass that came to its end
            self._known = known


class ChunkedSource(LogLossPasses[ChunkedRows]):
    """The passes of a fit over a stream."""

    def __init__(self, stream: Stream, profile_of: ProfileOf) -> None:
        self.stream, self._profile_of = stream, profile_of
        self._counted: Vector | None = None

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``."""
        found = self._profile_of(bounds)
        self._counted = found.baseline.support
        return found

    def reading(self, bounds: tuple[float, float]) -> Reading:
        """All samples, gathered and laid out for a pass."""
        return self._gathered.reading(bounds)

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class, of all samples gathered."""
        return self._gathered.scaling(problem)

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """What a map decides on the samples."""
        return self._gathered.counts(decisions)

    def _support(self, problem: Problem) -> Vector:
        known = self._counted
        found = self.profile(problem.bounds).baseline.support if known is None else known
        return np.asarray(found, np.float64)

    def _rows(self, rows: RowsOf) -> ChunkedRows:
        return ChunkedRows(self.stream, rows)

    def _loss(self, rows: ChunkedRows, w: Vector, inverse: float, strength: float) -> Quadratic:
        total = np.zeros(len(Quadratic._fields))
        for part in rows.parts():
            total += JointLoss(part, w[rows.rows.kept])(inverse, strength)
        return Quadratic(*total.tolist())

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
