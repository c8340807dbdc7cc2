"""The profile passes of a fit: one per bounds, saved at intervals, refined at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from reprior.engines.checkpoints import (
    Checkpoint,
    Saved,
    as_left_out,
    as_place,
    check_same,
    digest_of,
    log_resumed,
    options_of,
    pack_left_out,
    pack_place,
    rest_of,
)
from reprior.engines.chunk_source import (
    Part,
    Stream,
    refuse_other_samples,
    sources_of,
)
from reprior.engines.concurrency import BackgroundThread, OrderedThreads
from reprior.engines.fingerprint import Digest, Known
from reprior.files.chunks import Chunk, FileChunk, LeftOut, Place
from reprior.files.scores import ScoreFile
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.binning import BinnedSwitches, GainTable, n_cells
from reprior.profile.constants import EQUAL_VALUES
from reprior.profile.merging import MOST_CELLS, PackedProfile, ProfileSum
from reprior.profile.objective import Best, Constraint, SubjectTo
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, ProbabilityDetector, Samples
from reprior.profile.source import Pass, Profiled, ProfilePass
from reprior.profile.storage import pack_sum
from reprior.profile.sweep import value_of
from reprior.profile.switches import ClassEvents, Switches
from reprior.tuning.problem import Problem

__all__ = [
    "Profiler",
    "RefinedProfile",
    "candidates",
    "refined",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Result = TypeVar("Result")

#: Reasons why a profile cannot be refined and keeps its bins.
MANY_CLASSES = "there are too many classes to count what each of them gains in every bin"
FRACTIONS = "no bound holds to the last bit for sums of fractional sample weights"
LOG_LOSS = "a fit by log-loss looks for no count metric"

#: When ``ENOUGH`` of the largest number of switches is reached, their final number is predicted.
#: Binning starts if the prediction is ``SURE`` times the largest number. Shuffled samples then have
#: too many; sorted ones may have fewer, which costs a second pass.
ENOUGH = 0.1
SURE = 2


class Profiler:
    """Chunks as a source: saves profile passes at intervals; the first pass computes the digest.

    Parameters
    ----------
    stream : Stream
        The samples.
    new_sum : callable
        Returns the empty sum for the profiles of the parts.
    checkpoint : Checkpoint, optional
        Where passes are saved at intervals.
    goal : Problem, optional
        A binned profile is refined, in a second pass, for its metric and constraints.
    most : int
        The largest number of switches that this second pass keeps.

    Attributes
    ----------
    digest : Digest or Known
        The digest of all samples, after the first pass.
    left_out : tuple of LeftOut
        The files that the last pass could not read.
    unrefined : dict
        The reason why a profile could not be refined, by its bounds.
    """

    def __init__(
        self,
        stream: Stream,
        new_sum: Callable[[], ProfileSum],
        *,
        checkpoint: Checkpoint | None = None,
        goal: Problem | None = None,
        most: int = 0,
    ) -> None:
        self.stream, self.new_sum, self.checkpoint = stream, new_sum, checkpoint
        self.goal, self.most = goal, most
        self.digest: Digest | Known = Digest(stream.options.class_axis)
        self.detector = ProbabilityDetector()
        self.left_out: tuple[LeftOut, ...] = ()
        self.unrefined: dict[tuple[float, float], str] = {}
        self._coarse = self._keep_all = False
        new_sum()  # refuses a wrong resolution before the first pass

    def begin(self, resolution: Any) -> None:
        """Give the data and options of the fit to the checkpoint, if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.begin(
                sources_of(self.stream.chunks), options_of(self.stream, resolution)
            )

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all chunks. Profile passes are saved at intervals, and refined."""
        wanted: Pass[Any] = pass_
        if not isinstance(wanted, ProfilePass):
            return self.stream.run(pass_)
        assert isinstance(wanted.priors, Priors)  # noqa: S101 - a calibrator is fitted
        profile = self.profile(wanted.priors)
        profiled: Any = Profiled(PackedProfile(profile), profile.n_samples, self.detector)
        return cast(Result, profiled)

    def profile(self, priors: Priors) -> StrengthProfile:
        """Profile all samples within the bounds of ``priors``."""
        bounds = priors.bounds
        counting, profile = self._counted(priors)
        self._coarse = counting.total.coarse
        if self.goal is None or not counting.total.coarse:
            return profile
        if counting.gains is None or self.goal.log_loss:
            self.unrefined[bounds] = LOG_LOSS if self.goal.log_loss else counting.boundless
            return profile
        exact = refined(
            profile,
            counting.gains,
            self.goal.metric,
            self.goal.constraints,
            lambda: self._exact_parts(priors),
            most=self.most,
        )
        if not isinstance(exact, RefinedProfile):
            self.unrefined[bounds] = (
                f"more than {self.most} switches lie in bins that can hold the best strength, too "
                f"many to keep"
            )
        return exact

    def empty(self) -> ProfileSum:
        """Return a new sum; binned from the start if narrower bounds had too many switches."""
        total = self.new_sum()
        if self._coarse:
            total.coarsen()
        return total

    def verify(self, known: Known) -> None:
        """Take a checkpoint's digest of all samples; refuse it if the samples differ.

        Files are identified by name, size and modification time. Other chunks need a pass.
        """
        chunks = self.stream.chunks
        if isinstance(self.digest, Known):
            check_same(self.digest, known)
        elif not isinstance(chunks, ScoreFile):
            check_same(digest_of(chunks, self.digest.class_axis, self.stream.progress), known)
        self.digest = known
        self.stream.check_same(known.n_samples)

    def _counted(self, priors: Priors) -> tuple[_Counting, StrengthProfile]:
        """One pass and its profile; rerun without early binning if that was unnecessary."""
        counting = _Counting(self, priors, keep_all=self._keep_all)
        counting.run()
        if counting.binned_needlessly:
            counting = _Counting(self, priors, keep_all=True)
            counting.run()
        self._keep_all = counting.keep_all  # a wrong prediction would be wrong for other bounds too
        return counting, counting.total.consume()

    def _exact_parts(self, priors: Priors) -> Iterator[StrengthProfile]:
        for part in self.stream.parts():
            with part.located():
                yield StrengthProfile.of(part.samples.excluding(priors.excluded), priors)


class _Counted(NamedTuple):
    """The profile of a part, and the number of samples up to its end."""

    profile: StrengthProfile
    stop: int


class _Counting:
    """One profile pass, from the first sample or from where it was saved.

    With ``keep_all`` it keeps switches until there are too many. Without, it also begins to bin
    when too many are predicted, for files of known size: allocating memory to keep them is slow.
    """

    total: ProfileSum
    gains: GainTable | None

    def __init__(self, profiler: Profiler, priors: Priors, *, keep_all: bool = False) -> None:
        self.profiler, self.priors, self.keep_all = profiler, priors, keep_all
        self.bounds = priors.bounds
        self.total = profiler.empty()
        self.gains = None
        self.boundless = ""
        self.first = isinstance(profiler.digest, Digest)
        self.place = Place()
        self.finished = False
        self._lock = Lock()

    def run(self) -> None:
        """Count the samples that are not counted yet."""
        stream, checkpoint = self.profiler.stream, self.profiler.checkpoint
        saved = None
        if checkpoint is not None:
            saved = checkpoint.load(self.priors, stream.chunks, self.total.resolution)
        if saved is not None and self.keep_all and not _keeps_all(saved):
            saved = None
        known = None
        if checkpoint is not None and saved is not None:
            known = self._restore(saved, checkpoint)
        if checkpoint is not None and saved is not None and not self.binned_needlessly:
            log_resumed(checkpoint, self.bounds, self.place, stream.chunks, again=self.keep_all)
        if self.finished:
            return
        self._count_all(stream if saved is None else self._rest(known))
        stream.check_same(self.place.start)
        if isinstance(self.profiler.digest, Digest):
            self.profiler.digest = self.profiler.digest.known
        self.profiler.left_out = tuple(getattr(stream.chunks, "left_out", ()))
        self.finished = True
        self._save()

    @property
    def binned_needlessly(self) -> bool:
        """Whether the finished sum is binned although there are few enough switches to keep."""
        limit = self.total.exact_up_to
        if not self.finished or not self.total.coarse or not limit:
            return False
        return self.total.total().n_switches <= limit

    def _count_all(self, stream: Stream) -> None:
        from_files = isinstance(self.profiler.stream.chunks, ScoreFile)
        with BackgroundThread() as background, OrderedThreads[_Counted | None]() as threads:

            def look(chunk: Chunk) -> None:
                # The digest covers all chunks before this one, and after `rest` they are counted:
                # what is saved here has these chunks and no other.
                background.wait()
                if self._is_due():
                    self._add(threads.rest())
                    self._save()
                if isinstance(self.profiler.digest, Digest):
                    background.call(self.profiler.digest.update, chunk)
                if from_files and isinstance(chunk, FileChunk):
                    self.place = chunk.after
                else:
                    self.place = Place(self.place.start + chunk.n_labels)

            # Chunks of files are new arrays, and each core may have one; others may be refilled
            # for the next chunk.
            settle = None if from_files else background.wait
            for part in stream.parts(look, settle, checked=not self._finds_nan()):
                work = partial(self._count, part, self._samples(part))
                self._add(threads.call(work) if from_files else [work()])
            self._add(threads.rest())

    def _finds_nan(self) -> bool:
        """Tell whether the profile finds every NaN: of logits, where no sample is ignored."""
        options = self.profiler.stream.options
        return options.kind == "logits" and options.ignore_index is None

    def _samples(self, part: Part) -> Samples:
        samples = part.samples.excluding(self.priors.excluded)
        if self.first:
            self.profiler.detector.add(samples)
        return samples

    def _count(self, part: Part, samples: Samples) -> _Counted | None:
        """Profile a part; add it at once, and return None, where the order does not matter.

        Sums of whole numbers in bins have the same bits in any order. The thread that has counted a
        part then adds it, while the thread that reads prepares the next one.
        """
        with part.located():
            profile = StrengthProfile.of(samples, self.priors)
        counted = _Counted(profile, part.start + samples.labels.shape[0])
        if profile.weighted or not self.total.coarse:
            return counted
        self._add([counted])
        return None

    def _add(self, parts: Iterable[_Counted | None]) -> None:
        for part in parts:
            if part is None:
                continue
            with self._lock:
                if self.profiler.goal is not None:
                    self._add_gains(part.profile)
                self.total.add(part.profile)
                if not self.total.coarse and self._predicts_too_many(part.stop):
                    self.total.coarsen()

    def _predicts_too_many(self, n_samples: int) -> bool:
        """Tell whether files will have too many switches, unless the rest has far fewer.

        The prediction is from the first ``n_samples``, whatever other threads have counted: the
        place where binning starts decides the last bits of sums of weights.
        """
        chunks, kept = self.profiler.stream.chunks, self.total.exact_up_to
        n = chunks.n_samples if isinstance(chunks, ScoreFile) and not self.keep_all else None
        if n is None or kept is None or self.total.n_waiting < ENOUGH * kept:
            return False
        return self.total.n_waiting / n_samples * n > SURE * kept

    def _add_gains(self, profile: StrengthProfile) -> None:
        """Count what each class gains in each bin, if that fits into memory.

        Not with fractional weights: no bound holds to the last bit for their sums.
        """
        width, switches = self.total.resolution, profile._switches
        assert isinstance(switches, Switches)  # noqa: S101 - parts are exact
        if switches.weight is not None and bool((switches.weight % 1 != 0).any()):
            self.boundless, self.gains = FRACTIONS, None
        elif n_cells(self.bounds, width, profile.n_classes) > MOST_CELLS:
            self.boundless, self.gains = MANY_CLASSES, None
        if self.boundless:
            return
        if self.gains is None:
            self.gains = GainTable(self.bounds, width, profile.n_classes, profile.weighted)
        self.gains.add(switches)

    def _rest(self, known: Known | None) -> Stream:
        """Return the stream of the samples that are not counted yet.

        ``known`` is the digest of the counted samples, where there is none of all. These samples
        are then read once more, unless they are of files whose digest another pass has taken.
        """
        stream, n = self.profiler.stream, self.place.start
        progress = stream.progress
        further = None if progress is None else (lambda more: progress(n + more))
        trusted = isinstance(stream.chunks, ScoreFile) and not self.first
        digest = None if known is None or trusted else Digest(stream.options.class_axis)
        rest = rest_of(stream.chunks, self.place, digest, known)
        if self.first and digest is not None:
            self.profiler.digest = digest
        return Stream(
            stream.options, rest, stream.terms, further, first=n, may_be_empty=bool(self.total)
        )

    def _is_due(self) -> bool:
        checkpoint = self.profiler.checkpoint
        return checkpoint is not None and bool(self.place.start) and checkpoint.due

    def _save(self) -> None:
        checkpoint, digest = self.profiler.checkpoint, self.profiler.digest
        if checkpoint is None:
            return
        packed, arrays = pack_sum(self.total)
        state: dict[str, Any] = {
            "sum": packed,
            "boundless": self.boundless,
            "patient": self.keep_all,
            "place": pack_place(self.place),
            "left_out": pack_left_out(self.profiler.left_out),
            "lookalike": _pack_detector(self.profiler.detector),
            # Whether the digest is of all samples, or of those that were counted so far.
            "whole": isinstance(digest, Known),
            "digest": list(digest if isinstance(digest, Known) else digest.known),
        }
        if self.gains is not None:
            arrays["gross"] = self.gains.gained
        checkpoint.save(self.bounds, Saved(self.finished, state, arrays))

    def _restore(self, saved: Saved, checkpoint: Checkpoint) -> Known | None:
        """Continue from what was saved; return its digest unless that is of all samples."""
        self.finished, state, arrays = saved
        gained = arrays.pop("gross", None)
        self.total = checkpoint.unpack(self.bounds, state["sum"], arrays, self.total)
        self.boundless, self.place = state["boundless"], as_place(state["place"])
        self.keep_all = _keeps_all(saved)
        if gained is not None:
            weighted = gained.dtype.kind == "f"
            width, n_classes = self.total.resolution, gained.shape[1]
            self.gains = GainTable(self.bounds, width, n_classes, weighted)
            self.gains.gained = gained
        if self.first:
            self.profiler.detector = _as_detector(state["lookalike"])
        known = Known(*state["digest"])
        if not state["whole"]:
            return known
        self.profiler.verify(known)
        self.first = False
        if self.finished:
            self.profiler.left_out = as_left_out(state["left_out"])
        return None


def _pack_detector(detector: ProbabilityDetector) -> dict[str, Any]:
    """Return a detector as JSON values, under their names in checkpoints."""
    return {
        "possible": detector.possible,
        "single": detector.single_score,
        "n_samples": detector.n_samples,
    }


def _as_detector(packed: dict[str, Any]) -> ProbabilityDetector:
    detector = ProbabilityDetector()
    detector.possible = packed["possible"]
    detector.single_score = packed["single"]
    detector.n_samples = packed["n_samples"]
    detector.hard = False  # not saved: what was read before may have been otherwise
    return detector


def _keeps_all(saved: Saved) -> bool:
    return bool(saved.header.get("patient", False))  # older checkpoints have none


ExactParts: TypeAlias = Callable[[], Iterable[StrengthProfile]]

#: The rounding error of ratios and of their sum: bins within this of the best are refined too.
SLACK = 4 * EQUAL_VALUES


class RefinedProfile(StrengthProfile):
    """A binned profile that is exact where one metric, under its constraints, is best.

    :meth:`best` for that metric is the best of the exact profile. Everything else is that of a
    binned profile.
    """

    _metric_of_best: CountMetric
    _rules: Sequence[Constraint]

    def _chosen(
        self, choose: Callable[..., Best], metric: str | CountMetric, subject_to: SubjectTo
    ) -> Best:
        rules = Constraint.parse_all(subject_to)
        if metric != self._metric_of_best or list(rules) != list(self._rules):
            return super()._chosen(choose, metric, subject_to)
        steps, feasible = self._feasible(self._steps_of(metric), rules)
        switches = self._switches
        assert isinstance(switches, BinnedSwitches)  # noqa: S101 - made so by `_joined`
        # Every switch of the best interval is known: an interval lies in candidate bins.
        return choose(steps, self.bounds, feasible, switches=switches.events.position)


def candidates(
    profile: StrengthProfile,
    gains: GainTable,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    least: float,
) -> Vector:
    """Return the bins that may contain a feasible strength with a metric of ``least`` or more."""
    may = gains.reach(profile, metric).largest >= least - SLACK
    for rule in constraints:
        limited = rule.metric
        assert isinstance(limited, CountMetric)  # noqa: S101 - resolved with the problem
        baseline = value_of(profile.baseline, limited)
        reach = gains.reach(profile, limited)
        farthest = reach.largest + SLACK if rule.relation == ">=" else reach.least - SLACK
        may &= rule.holds(farthest, baseline)
    return may


def refined(
    profile: StrengthProfile,
    gains: GainTable,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    parts: ExactParts,
    *,
    most: int,
) -> StrengthProfile:
    """Return the profile with the switches of its candidate bins one by one.

    ``parts`` gives the exact profiles of all parts again, of which the switches in those bins are
    kept, up to ``most``. Where there are more, the profile is returned unchanged.
    """
    least = profile._widest_best(metric, subject_to=constraints).value
    switches = profile._switches
    assert isinstance(switches, BinnedSwitches)  # noqa: S101 - an exact one needs no refining
    while True:
        chosen = candidates(profile, gains, metric, constraints, least)
        inside = chosen[gains.bins_of(switches.point)]
        n = int(switches.count[inside].sum())
        if n > most:
            return profile
        kept = _kept(parts(), gains, chosen, profile.weighted)
        if kept.total != n:
            refuse_other_samples("chunks", f"{n} switches near the best, and then {kept.total}")
        exact = _joined(profile, switches, inside, kept)
        exact._metric_of_best, exact._rules = metric, list(constraints)
        value = exact._widest_best(metric, subject_to=constraints).value
        if value >= least - SLACK:
            return exact
        # The best grid points lie in intervals too narrow to be chosen, which do not count.
        least = value


def _kept(
    parts: Iterable[StrengthProfile], gains: GainTable, chosen: Vector, weighted: bool
) -> Switches:
    kept = [Switches.none(weighted)]
    for part in parts:
        switches = part._switches
        assert isinstance(switches, Switches)  # noqa: S101 - parts are exact
        mine = np.flatnonzero(chosen[gains.bins_of(switches.position)])
        if mine.size:
            kept.append(switches.taken(mine))
    return Switches.concatenate(kept)


def _joined(
    profile: StrengthProfile, switches: BinnedSwitches, inside: Vector, kept: Switches
) -> RefinedProfile:
    """Join the bins outside of the candidates with the single switches inside."""
    outside = ~np.isin(switches.events.position, switches.point[inside])
    both = [
        np.concatenate([getattr(switches.events, f.name)[outside], getattr(kept.events, f.name)])
        for f in fields(ClassEvents)
    ]
    order = np.argsort(both[0], kind="stable")
    events = ClassEvents(*(column[order] for column in both))
    mixed = BinnedSwitches(
        events, switches.point[~inside], switches.count[~inside], switches.mass[~inside]
    )
    return RefinedProfile(
        source_prior=profile.source_prior,
        target_prior=profile.target_prior,
        bounds=profile.bounds,
        resolution=profile.resolution,
        counts=profile._counts,
        sums=profile._sums,
        switches=mixed,
    )
