"""The passes of a fit over pieces that Dask's tasks go through: Dask arrays, or shards of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from reprior.calibrator.fitting import Tuned, tuned
from reprior.calibrator.sources import InMemory, LogLossPasses, RowsOf
from reprior.core.log_loss import JointLoss
from reprior.core.minimise import Quadratic
from reprior.core.scaling import ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.exceptions import OptionError, Reference, Setting, Words
from reprior.metrics.counts import ClassCounts
from reprior.profile.dask_arrays import (
    EXACT,
    ArrayPieces,
    Bins,
    Pieces,
    Profiled,
    profiled,
)
from reprior.profile.data import TuningData
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, Samples, anything_counts
from reprior.tuning.problem import Problem

__all__ = [
    "AUTO_BINS",
    "AUTO_RESOLUTION",
    "GATHERED_SCORES",
    "MOST_SWITCHES",
    "NEEDS_ALL_SCORES",
    "CountTally",
    "LazySource",
    "LossTally",
    "gathered",
    "join_sums",
    "tuned_on",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Switches that are kept one by one: some 200 MB, twice that while they are joined.
MOST_SWITCHES = 10**7

#: Width of the bins in which more are summed: few enough to keep, and λ is known to four digits.
AUTO_RESOLUTION = 1e-4

AUTO_BINS = Bins(MOST_SWITCHES, AUTO_RESOLUTION)

#: What needs all scores in memory at once, as sentences list it.
NEEDS_ALL_SCORES: list[str | Reference] = [
    Setting("tune", "per_class"),
    ", ",
    Words("cv", "--cv"),
    ", ",
    Words("n_bootstrap", "--bootstrap"),
    ", ",
    Setting("selection", "balanced_log_loss"),
    " and ",
    Setting("temperature", "bcts"),
    " or 'vector'",
]

#: Scores that are gathered in memory at most, 1 GB of float64.
GATHERED_SCORES = 1 << 27


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


class LazySource(LogLossPasses[RowsOf]):
    """The passes of a fit, each of which is one round of tasks over all pieces.

    ``gather`` gives all samples in memory, or refuses: for what does not add up.
    """

    def __init__(
        self, pieces: Pieces, *, bins: Bins = EXACT, gather: Callable[[], TuningData]
    ) -> None:
        self.pieces, self.bins, self._gather = pieces, bins, gather
        self.profiled: Profiled | None = None
        self._known_support: Vector | None = None

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``."""
        self.profiled = profiled(self.pieces, bounds, self.bins)
        profile = self.profiled.required()
        self._known_support = np.asarray(profile.baseline.support, np.float64)
        return profile

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """What a map decides on the samples."""
        found: ClassCounts = self.pieces.run(partial(CountTally, decisions), join_sums)
        return found

    def read(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """All samples, gathered and checked, and what is looked for in them."""
        return self._gathered.read(bounds)

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class, of all samples gathered."""
        return self._gathered.scaling(problem)

    @cached_property
    def _gathered(self) -> InMemory:
        return InMemory(self._gather())

    def _support(self, problem: Problem) -> Vector:
        if self._known_support is None:
            self.profile(problem.bounds)
        assert self._known_support is not None  # noqa: S101 - the profile has set it
        return self._known_support

    def _rows(self, rows: RowsOf) -> RowsOf:
        return rows

    def _loss(self, rows: RowsOf, w: Vector, inverse: float, strength: float) -> Quadratic:
        found = self.pieces.run(partial(LossTally, rows, w, (inverse, strength)), join_sums)
        return Quadratic(*found.tolist())


def gathered(data: TuningData) -> TuningData:
    """Dask arrays computed, all of them, up to a limit."""
    n_scores = int(np.nan_to_num(np.prod(data.scores.shape, dtype=np.float64)))
    if n_scores > GATHERED_SCORES:
        raise OptionError(
            argument="scores",
            rule=f"must fit into memory for what is asked, which needs all of them at once: at "
            f"most {GATHERED_SCORES:,}",
            got=f"{n_scores:,}",
            remedy=["Pass a sample of them, or leave out ", *NEEDS_ALL_SCORES, "."],
        )
    arrays = (data.scores, data.labels, data.weight)
    scores, labels, weight = (None if each is None else np.asarray(each) for each in arrays)
    return replace(data, scores=scores, labels=labels, weight=weight)


def tuned_on(problem: Problem, data: TuningData) -> Tuned:
    """Tune what the problem asks for, on arrays in memory or on Dask arrays where they are."""
    if not array_api_compat.is_dask_array(data.scores):
        return tuned(problem, InMemory(data))
    source = LazySource(ArrayPieces(data), bins=AUTO_BINS, gather=partial(gathered, data))
    found = tuned(problem, source)
    if source.profiled is not None:
        source.profiled.detector.warn()
    if found.profile.resolution is not None:
        found.warnings.append(
            f"There are more than {AUTO_BINS.exact_up_to} switches, too many to keep: they are "
            f"summed in bins of {AUTO_BINS.resolution:g}. To keep each, call "
            f"reprior.engines.dask_fit(calibrator, (scores, labels), resolution=None)."
        )
    return found
