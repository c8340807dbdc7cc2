"""Where samples are, and what is computed of them: sources and passes.

A fit works on a :class:`Source`, which has one method: ``source.run(pass_)`` runs a pass over all
of its blocks and merges what comes back. In memory there is one block (:class:`InMemory`), a file
has many, Dask has many elsewhere.

A :class:`Pass` says what is computed, in two steps::

    accumulator = pass_.begin()  # where the blocks are: one per thread, worker or shard
    accumulator.add(samples)  # for each of its blocks, in their order
    result = accumulator.result()  # small, and can be pickled
    pass_.merge(results)  # in the order of the blocks; a result again

A source makes its blocks by ``Samples.of(…, part=True)``, so a block may have no sample that
counts: every pass skips such. Passes, accumulators and results can be pickled. After an error an
accumulator is of no use: some samples may be in it.

The passes of this module:

- :class:`ProfilePass` gives :class:`Profiled`: the profile of all samples, how many they are, and
  whether logits look like probabilities.
- :class:`LogLossPass` gives the sums of a log-loss, its slopes and curvatures.
- :class:`CountPass` gives the class counts of a map's decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.importance import importance_ratio, importance_weights
from reprior.core.log_loss import JointLoss
from reprior.core.minimise import Quadratic
from reprior.core.score_map import ScoreMap
from reprior.core.weighted_rows import WeightedRows
from reprior.metrics.counts import ClassCounts
from reprior.profile.merging import PackedProfile, ProfileSum, merged
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, ProbabilityDetector, Samples, refuse_nothing

__all__ = [
    "EXACT",
    "Accumulator",
    "Bins",
    "CountPass",
    "InMemory",
    "LogLossPass",
    "LogLossRows",
    "Pass",
    "ProfilePass",
    "Profiled",
    "Source",
    "join_profiled",
    "join_profiles",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Accumulator(Protocol[Result_co]):
    """What one thread, worker or shard has computed so far."""

    def add(self, samples: Samples) -> None:
        """Take the next block in."""

    def result(self) -> Result_co:
        """What came of all blocks."""


class Pass(Protocol[Result]):
    """What is computed of samples that come in blocks."""

    def begin(self) -> Accumulator[Result]:
        """A new accumulator."""

    def merge(self, results: list[Result]) -> Result:
        """What came of all accumulators, in the order of their blocks; at least one."""


class Source(Protocol):
    """Labelled samples, wherever they are."""

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all blocks, and merge what comes back."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """Samples in memory: one block."""

    samples: Samples

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over the samples."""
        accumulator = pass_.begin()
        accumulator.add(self.samples)
        return accumulator.result()


# -------------------------------------------------------------------------------------- profile


class Bins(NamedTuple):
    """From how many switches on they are summed in bins (None: never), and how wide these are."""

    exact_up_to: int | None
    resolution: float

    @classmethod
    def of(cls, resolution: float | None) -> Bins:
        """Bins of this width from the first switch on; none for None."""
        return EXACT if resolution is None else cls(0, resolution)


EXACT = Bins(None, 0.0)
"""Every switch is kept."""


class Profiled(NamedTuple):
    """What a :class:`ProfilePass` knows of samples; small, and quick to be merged."""

    packed: PackedProfile | None
    """None where no sample counts."""
    n_samples: int
    """Those too that do not count."""
    detector: ProbabilityDetector

    @property
    def profile(self) -> StrengthProfile | None:
        """The profile; None where no sample counts."""
        return None if self.packed is None else self.packed.unpacked()

    def required(self) -> StrengthProfile:
        """The profile, or the error that no sample counts."""
        if self.packed is None:
            refuse_nothing(self.n_samples)
        return self.packed.unpacked()


@dataclass(frozen=True, eq=False)
class ProfilePass:
    """The profile of all samples, between ``priors`` and within their bounds."""

    priors: Priors
    bins: Bins = EXACT

    def begin(self) -> _ProfileAccumulator:
        """A new accumulator."""
        return _ProfileAccumulator(self)

    def merge(self, results: list[Profiled]) -> Profiled:
        """What is known of all samples."""
        return join_profiled(results, self.bins)


class _ProfileAccumulator:
    """Profiles blocks, and sums the profiles."""

    def __init__(self, of: ProfilePass) -> None:
        self._priors, self._n_samples = of.priors, 0
        self._detector = ProbabilityDetector()
        self._sum = ProfileSum(exact_up_to=of.bins.exact_up_to, resolution=of.bins.resolution)

    def add(self, samples: Samples) -> None:
        """Take the next block in."""
        self._n_samples += samples.labels.size
        if not samples.any_counts:
            return
        samples = samples.excluding(self._priors.excluded)
        if self._sum.coarse:
            for part in StrengthProfile.parts(samples, self._priors):
                self._sum.bin(part)
        else:
            self._sum.add(StrengthProfile.of(samples, self._priors))
        self._detector.add(samples)

    def result(self) -> Profiled:
        """The profile, if any sample counts."""
        packed = self._sum.packed() if self._sum else None
        return Profiled(packed, self._n_samples, self._detector)


def join_profiled(results: Sequence[Profiled], bins: Bins = EXACT) -> Profiled:
    """What is known of the samples of all results."""
    detector = ProbabilityDetector()
    for each in results:
        detector.merge(each.detector)
    packed = join_profiles([each.packed for each in results], bins)
    return Profiled(packed, sum(each.n_samples for each in results), detector)


def join_profiles(
    profiles: Sequence[PackedProfile | None], bins: Bins = EXACT
) -> PackedProfile | None:
    """The sum of profiles, None standing for no samples.

    Where there are too many switches they are summed in bins, and so is all to which such a sum
    is added: whether the sum of all is binned does not depend on how they are joined.
    """
    known = [packed for packed in profiles if packed is not None]
    if not known:
        return None
    limit, width = bins
    plain = [packed.profile for packed in known]
    binned = any(profile.resolution is not None for profile in plain)
    if limit is None or not (binned or sum(profile.n_switches for profile in plain) > limit):
        return PackedProfile(merged(plain))
    total = ProfileSum(exact_up_to=0, resolution=width)
    for packed in known:
        total.bin_packed(packed)
    return total.packed()


# ------------------------------------------------------------------------------------- log-loss


@dataclass(frozen=True, eq=False)
class LogLossRows:
    """Which rows a fit by log-loss reads, and how: block by block, with weights that sum to 1."""

    target_prior: Vector
    label_prior: Vector
    mass: float
    kept: Vector
    """Which classes exist."""
    shifts: Vector
    """What is added to the log-scores of each."""

    @classmethod
    def of(
        cls,
        support: Vector,
        *,
        target_prior: Vector,
        label_prior: Vector | None,
        kept: Vector,
        shifts: Vector,
    ) -> LogLossRows:
        """The rows of samples of which every class has ``support``."""
        # Refuses labels that are of no use, and a label prior that has none of them.
        importance_weights(
            np.arange(support.size), support, target_prior=target_prior, label_prior=label_prior
        )
        label_prior = support if label_prior is None else label_prior
        mass = float(support @ importance_ratio(target_prior, label_prior))
        return cls(target_prior, label_prior, mass, kept, shifts)

    def read(self, samples: Samples) -> WeightedRows | None:
        """The rows of one block, in arrays of their own; None where none counts."""
        samples = samples.reweighted(samples.importance(self.target_prior, self.label_prior))
        if not samples.any_counts:
            return None
        block = samples.read()
        rows = to_numpy(block.scores).astype(np.float64)
        labels = np.array(block.labels)  # may be kept, while the block's own are filled anew
        labelled = WeightedRows.of_rows(rows, labels, np.asarray(block.weights) / self.mass)
        return labelled.of_classes(self.kept).shifted(self.shifts[self.kept])


@dataclass(frozen=True, eq=False)
class LogLossPass:
    """The log-loss of softmax(δ·z + λ·w) at one (δ, λ), its slopes and curvatures.

    ``slopes`` are w. The result has the fields of a Quadratic; those of parts add.
    """

    rows: LogLossRows
    slopes: Vector
    inverse_temperature: float
    strength: float

    def begin(self) -> _LogLossAccumulator:
        """A new accumulator."""
        return _LogLossAccumulator(self)

    def merge(self, results: list[Vector]) -> Vector:
        """The sum, in the order of the blocks."""
        total = results[0]
        for result in results[1:]:
            total = total + result
        return total


class _LogLossAccumulator:
    """Sums the log-loss of blocks."""

    def __init__(self, of: LogLossPass) -> None:
        self._pass = of
        self._total = np.zeros(len(Quadratic._fields))

    def add(self, samples: Samples) -> None:
        """Take the next block in."""
        rows = self._pass.rows
        part = rows.read(samples)
        if part is not None:
            loss = JointLoss(part, self._pass.slopes[rows.kept])
            self._total += loss(self._pass.inverse_temperature, self._pass.strength)

    def result(self) -> Vector:
        """The sums."""
        return self._total


# --------------------------------------------------------------------------------------- counts


@dataclass(frozen=True, eq=False)
class CountPass:
    """Class counts of what a map decides; None where no sample counts."""

    decisions: ScoreMap
    priors: Priors

    def begin(self) -> _CountAccumulator:
        """A new accumulator."""
        return _CountAccumulator(self)

    def merge(self, results: list[ClassCounts | None]) -> ClassCounts | None:
        """The sum, in the order of the blocks."""
        total: ClassCounts | None = None
        for counts in results:
            total = counts if total is None else total if counts is None else total + counts
        return total


class _CountAccumulator:
    """Counts the decisions on blocks."""

    def __init__(self, of: CountPass) -> None:
        self._pass = of
        self._total: ClassCounts | None = None

    def add(self, samples: Samples) -> None:
        """Take the next block in."""
        if not samples.any_counts:
            return
        priors = self._pass.priors
        gone = tuple(np.flatnonzero(priors.target == 0).tolist())
        block = samples.excluding(gone).read()
        predicted = self._pass.decisions.decisions(
            np.asarray(block.scores), priors.source, priors.target
        )
        counts = ClassCounts.from_predictions(
            block.labels, predicted, n_classes=priors.n_classes, sample_weight=block.weights
        )
        self._total = counts if self._total is None else self._total + counts

    def result(self) -> ClassCounts | None:
        """The counts."""
        return self._total
