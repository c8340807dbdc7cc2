"""Where labelled samples are, and what is computed from them: sources and passes.

Every fit works on a :class:`Source`, which has one method: ``source.run(pass_)`` runs a pass over
all blocks of the samples and merges the results. In memory there is one block
(:class:`InMemory`), a file has many, Dask has many on its workers.

A :class:`Pass` says what is computed, in two steps::

    accumulator = pass_.begin()  # where the blocks are: one per thread, worker or shard
    accumulator.add(samples)  # for each of its blocks, in their order
    result = accumulator.result()  # small, and can be pickled
    pass_.merge(results)  # in the order of the blocks; a result again

A source makes its blocks by ``Samples.of(…, part=True)``, so a block may have no sample that
counts: every pass skips such blocks. Passes, accumulators and results can be pickled. An
accumulator that raised an error must not be used again: it may hold some of the block.

The passes of this module:

- :class:`ProfilePass` gives :class:`Profiled`: the profile of all samples, their number, and
  whether logits look like probabilities.
- :class:`MomentsPass` gives the sums of a log-loss, its slopes and curvatures.
- :class:`CountPass` gives the class counts of a map's decisions.
- :class:`CollectPass` gives the samples themselves, up to a limit.

:func:`collected` gives all samples of a source in memory, and :func:`loss_rows` what a fit by
log-loss needs: rows in memory where they are few, or sums by passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.importance import class_importance
from reprior.core.minimise import ROUNDING
from reprior.core.score_map import ScoreMap
from reprior.core.weighted_rows import LossRows, WeightedRows
from reprior.exceptions import OptionError, Reference, Setting, Words
from reprior.metrics.counts import ClassCounts
from reprior.profile.merging import PackedProfile, ProfileSum, merged
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Line, Priors, ProbabilityDetector, Samples, refuse_nothing

__all__ = [
    "AUTO_BINS",
    "EXACT",
    "HELD_SCORES",
    "MOST_COLLECTED",
    "Accumulator",
    "Bins",
    "CollectPass",
    "CountPass",
    "InMemory",
    "MomentsPass",
    "Pass",
    "ProfilePass",
    "Profiled",
    "RowReader",
    "Source",
    "SourceRows",
    "collected",
    "join_profiled",
    "join_profiles",
    "loss_rows",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class Accumulator(Protocol[Result_co]):
    """Computes the result of one thread, worker or shard."""

    def add(self, samples: Samples) -> None:
        """Add the next block."""

    def result(self) -> Result_co:
        """Return the result of all blocks."""


class Pass(Protocol[Result]):
    """A computation on samples that come in blocks."""

    @property
    def keeps_blocks(self) -> bool:
        """Whether accumulators keep the arrays of blocks, which a source must then not reuse."""

    def begin(self) -> Accumulator[Result]:
        """A new accumulator."""

    def merge(self, results: list[Result]) -> Result:
        """Merge the results of all accumulators (at least one), in the order of their blocks."""


class Source(Protocol):
    """Labelled samples, wherever they are."""

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all blocks, and merge the results."""


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
    """How many switches are kept before they are binned (None: all), and the bins' width."""

    exact_up_to: int | None
    resolution: float

    @classmethod
    def of(cls, resolution: float | None) -> Bins:
        """Bins of this width from the first switch on; none for None."""
        return EXACT if resolution is None else cls(0, resolution)


EXACT = Bins(None, 0.0)
"""Every switch is kept."""

AUTO_BINS = Bins(10**7, 1e-4)
"""Ten million switches are kept: some 200 MB, twice that while they are joined. More are summed in
bins, which give λ to four digits."""


class Profiled(NamedTuple):
    """The result of a :class:`ProfilePass`: small, and quick to merge."""

    packed: PackedProfile | None
    """None where no sample counts."""
    n_samples: int
    """All samples, also those that do not count."""
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
    """The profile of all samples, between ``priors`` or along a line, and within their bounds."""

    priors: Priors | Line
    bins: Bins = EXACT
    keeps_blocks = False

    def begin(self) -> _ProfileAccumulator:
        """A new accumulator."""
        return _ProfileAccumulator(self)

    def merge(self, results: list[Profiled]) -> Profiled:
        """Merge the results of all blocks."""
        return join_profiled(results, self.bins)


class _ProfileAccumulator:
    """Profiles blocks, and sums the profiles."""

    def __init__(self, of: ProfilePass) -> None:
        self._priors = of.priors
        self._n_samples = 0
        self._detector = ProbabilityDetector()
        self._sum = ProfileSum(exact_up_to=of.bins.exact_up_to, resolution=of.bins.resolution)

    def add(self, samples: Samples) -> None:
        """Add the next block."""
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
    """Merge results, summing switches in bins if there are too many."""
    detector = ProbabilityDetector()
    for each in results:
        detector.merge(each.detector)
    packed = join_profiles([each.packed for each in results], bins)
    return Profiled(packed, sum(each.n_samples for each in results), detector)


def join_profiles(
    profiles: Sequence[PackedProfile | None], bins: Bins = EXACT
) -> PackedProfile | None:
    """Sum profiles; None stands for no samples.

    Too many switches are summed in bins, and so is everything to which such a sum is added: whether
    the total is binned does not depend on the order.
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


# ----------------------------------------------------------------------------------- collecting


MOST_COLLECTED = 1 << 27
"""Largest number of scores that are collected in memory: 1 GB of float64."""

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
"""What needs all scores in memory at once, as errors list it."""


@dataclass(frozen=True)
class CollectPass:
    """All samples in memory; an error where they have more scores than ``most``."""

    most: int
    keeps_blocks = True

    def begin(self) -> _CollectAccumulator:
        """A new accumulator."""
        return _CollectAccumulator(self)

    def merge(self, results: list[Samples | None]) -> Samples | None:
        """All samples, in the order of the blocks; None where there are none."""
        blocks = [samples for samples in results if samples is not None]
        self.check_size(sum(samples.n_scores for samples in blocks))
        return Samples.concatenate(blocks) if blocks else None

    def check_size(self, n_scores: int) -> None:
        """Refuse more scores than may be collected."""
        if n_scores > self.most:
            raise OptionError(
                argument="scores",
                rule="must fit into memory for what is asked, which needs all of them at once: at "
                f"most {self.most:,}",
                got="more",
                remedy=["Pass a sample of them, or leave out ", *NEEDS_ALL_SCORES, "."],
            )


class _CollectAccumulator:
    """Keeps blocks."""

    def __init__(self, of: CollectPass) -> None:
        self._pass = of
        self._blocks: list[Samples] = []
        self._n_scores = 0

    def add(self, samples: Samples) -> None:
        """Add the next block."""
        if not samples.any_counts:
            return
        self._n_scores += samples.n_scores
        self._pass.check_size(self._n_scores)
        self._blocks.append(samples)

    def result(self) -> Samples | None:
        """The samples of all blocks."""
        return self._pass.merge(list(self._blocks))


def collected(source: Source) -> Samples:
    """Collect all samples of a source in memory; refuse too many scores.

    Samples that are in memory are returned unchanged.
    """
    if isinstance(source, InMemory):
        return source.samples
    samples = source.run(CollectPass(MOST_COLLECTED))
    if samples is None:
        refuse_nothing(0)
    return samples


# ------------------------------------------------------------------------------------- log-loss

HELD_SCORES = 1 << 23
"""A fit by log-loss keeps up to this many log-scores in memory: 64 MB of float64."""


@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads blocks as rows of log-scores, weighted so that the labels have the target's mix.

    ``ratio`` is P_t / P_l of every class, ``mass`` the sum of all samples' weights.
    """

    ratio: Vector
    mass: float

    @classmethod
    def of(cls, support: Vector, target_prior: Vector, label_prior: Vector | None) -> RowReader:
        """Make the reader of samples whose classes have the weights ``support``.

        Without a ``label_prior`` the labels' prior is proportional to these.
        """
        ratio = class_importance(support, target_prior=target_prior, label_prior=label_prior)
        return cls(ratio, float(support @ ratio))

    def read(self, samples: Samples) -> WeightedRows | None:
        """Read one block as float64 rows; None if no sample counts. Weights sum to its share."""
        rows = self._rows(samples, np.float64)
        return None if rows is None else replace(rows, weights=rows.weights / self.mass)

    def read_all(self, samples: Samples) -> WeightedRows:
        """Read all samples as rows in their own precision, with weights that sum to 1."""
        rows = self._rows(samples, None)
        if rows is None:
            refuse_nothing(samples.labels.size)
        weights = rows.weights / rows.weights.max()  # first: the sum of huge weights is infinite
        return replace(rows, weights=weights / weights.sum())

    def _rows(self, samples: Samples, dtype: Any) -> WeightedRows | None:
        weighted = samples.reweighted(samples.importance(self.ratio))
        if not weighted.any_counts:
            return None
        block = weighted.read()
        scores = block.scores if dtype is None else to_numpy(block.scores).astype(dtype)
        left_out = weighted.left_out()
        kept = None if left_out is None else np.flatnonzero(~left_out.reshape(-1))
        return WeightedRows.of_rows(scores, block.labels, np.asarray(block.weights), kept)


@dataclass(frozen=True, eq=False)
class MomentsPass:
    """The log-loss of softmax(scale·(z + shift) + bias), with its slopes and curvatures.

    ``classes`` are the indices of the classes that exist, and ``shift`` is added to their
    log-scores. The sums are those of :func:`reprior.core.log_loss_sums.log_loss_moments`; those of
    blocks add.
    """

    reader: RowReader
    classes: Vector
    shift: Vector
    scale: float
    bias: Vector
    slopes: Vector
    keeps_blocks = False

    def begin(self) -> _MomentsAccumulator:
        """A new accumulator."""
        return _MomentsAccumulator(self)

    def merge(self, results: list[Vector]) -> Vector:
        """The sum, in the order of the blocks."""
        total = results[0]
        for result in results[1:]:
            total = total + result
        return total


class _MomentsAccumulator:
    """Sums the log-loss of blocks."""

    def __init__(self, of: MomentsPass) -> None:
        self._pass = of
        self._total: Vector = np.zeros(6)

    def add(self, samples: Samples) -> None:
        """Add the next block."""
        step = self._pass
        rows = step.reader.read(samples)
        if rows is not None:
            exists = np.isin(np.arange(rows.n_classes), step.classes)
            rows = rows.of_classes(exists).shifted(step.shift)
            self._total += rows.moments(step.scale, step.bias, step.slopes)

    def result(self) -> Vector:
        """The sums."""
        return self._total


@dataclass(frozen=True, eq=False)
class SourceRows:
    """The rows of a source for fits by log-loss: each sum is a pass over its blocks."""

    source: Source
    reader: RowReader
    classes: Vector
    """Indices of the classes that exist."""
    shift: Vector
    """What is added to the log-scores of each of them."""
    has_labels: Vector
    """Which of them have labels."""
    noise: float = ROUNDING

    @property
    def n_classes(self) -> int:
        """How many classes exist."""
        return int(self.classes.size)

    def sample(self) -> None:
        """No sample: to draw one would cost a pass."""
        return

    def of_classes(self, kept: Vector) -> SourceRows:
        """Return the rows of some classes; the others must have no labels."""
        if kept.all():
            return self
        return replace(
            self,
            classes=self.classes[kept],
            shift=self.shift[kept],
            has_labels=self.has_labels[kept],
        )

    def shifted(self, shift: Vector) -> SourceRows:
        """Return the rows with a number added to each class's log-scores."""
        return replace(self, shift=self.shift + shift)

    def moments(self, scale: float, shift: Vector, slopes: Vector) -> Vector:
        """Compute the log-loss and its derivatives by one pass."""
        return self.source.run(
            MomentsPass(self.reader, self.classes, self.shift, scale, shift, slopes)
        )


def loss_rows(source: Source, reader: RowReader, profile: StrengthProfile) -> LossRows:
    """Return the rows of a source for fits by log-loss: in memory if they are few, or by passes.

    ``profile`` is a profile of the source, for the number of samples and their classes.
    """
    n_scores = (profile.n_samples + int(profile.n_ruled_out.sum())) * profile.n_classes
    if isinstance(source, InMemory) or n_scores <= HELD_SCORES:
        return reader.read_all(collected(source))
    n_classes = profile.n_classes
    has_labels = (profile.baseline.support > 0) & (reader.ratio > 0)
    return SourceRows(source, reader, np.arange(n_classes), np.zeros(n_classes), has_labels)


# --------------------------------------------------------------------------------------- counts


@dataclass(frozen=True, eq=False)
class CountPass:
    """Class counts of the decisions of a map; None if no sample counts."""

    decisions: ScoreMap
    priors: Priors
    paired: bool = False
    """Whether pairs of label and decision are counted too."""
    keeps_blocks = False

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
        """Add the next block."""
        if not samples.any_counts:
            return
        priors = self._pass.priors
        gone = tuple(np.flatnonzero(priors.target == 0).tolist())
        block = samples.excluding(gone).read()
        predicted = self._pass.decisions.decisions(
            np.asarray(block.scores), priors.source, priors.target
        )
        counts = ClassCounts.from_predictions(
            block.labels,
            predicted,
            n_classes=priors.n_classes,
            sample_weight=block.weights,
            pairs=self._pass.paired,
            image_ids=block.images,
        )
        self._total = counts if self._total is None else self._total + counts

    def result(self) -> ClassCounts | None:
        """The counts."""
        return self._total
