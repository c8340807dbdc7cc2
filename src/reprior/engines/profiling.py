"""The profiling passes of a fit: one per bounds, saved as they go, refined at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.engines.checkpoints import (
    Checkpoint,
    Saved,
    as_left_out,
    as_place,
    check_same,
    options_of,
    pack_left_out,
    pack_place,
    rest_of,
    taken,
    tell,
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
from reprior.profile.merging import MOST_CELLS, ProfileSum
from reprior.profile.objective import Best, Constraint, SubjectTo, best_interval, middle
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, ProbabilityDetector, Samples
from reprior.profile.storage import pack_sum, unpack_sum
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

#: Why a profile keeps its bins that was to be refined.
MANY_CLASSES = "there are too many classes to count what each of them gains in every bin"
FRACTIONS = "no bound holds to the last bit for sums of fractional sample weights"
LOG_LOSS = "a fit by log-loss looks for no count metric"

#: Of the switches that are kept at most, the share from which on it is foreseen how many there
#: will be, and how many times that most these must be: shuffled samples then have too many, and of
#: sorted ones that have not, a pass is lost.
ENOUGH = 0.1
SURE = 2


class Profiler:
    """Profiles of a stream, one pass each; the first one also takes its digest.

    Parameters
    ----------
    stream : Stream
        The samples.
    new_sum : callable
        Gives the empty sum that the profiles of the parts are added to.
    checkpoint : Checkpoint, optional
        Where passes are saved as they go, begun for this fit.
    goal : Problem, optional
        For whose metric and constraints a binned profile is refined in a second pass.
    most : int
        Switches that this second pass keeps, at most.

    Attributes
    ----------
    digest : Digest or Known
        Of all samples, once there was a pass.
    left_out : tuple of LeftOut
        What the last pass could not read.
    unrefined : dict
        By bounds, why a profile has its bins still that was to be refined.
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
        self._coarse = self._patient = False
        new_sum()  # refuses a wrong resolution before the first pass

    def begin(self, resolution: Any) -> None:
        """Tell the checkpoint, if there is one, what the fit is of."""
        if self.checkpoint is not None:
            self.checkpoint.begin(
                sources_of(self.stream.chunks), options_of(self.stream, resolution)
            )

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile all samples within ``bounds``."""
        one, found = self._counted(bounds)
        self._coarse = one.total.coarse
        if self.goal is None or not one.total.coarse:
            return found
        if one.gains is None or self.goal.log_loss:
            self.unrefined[bounds] = LOG_LOSS if self.goal.log_loss else one.boundless
            return found
        exact = refined(
            found, one.gains, self.goal.metric, self.goal.constraints,
            lambda: self._exact_parts(bounds), most=self.most,
        )  # fmt: skip
        if not isinstance(exact, RefinedProfile):
            self.unrefined[bounds] = (
                f"more than {self.most} switches lie in bins that can hold the best strength, too "
                f"many to keep"
            )
        return exact

    def empty(self) -> ProfileSum:
        """A new sum; in bins where narrower bounds had too many switches already."""
        total = self.new_sum()
        if self._coarse:
            total.coarsen()
        return total

    def know_again(self, known: Known) -> None:
        """Take it that a digest of all samples, as a checkpoint has it, is theirs, or refuse.

        Files are known by name, size and time of change. Other chunks are gone through once.
        """
        chunks = self.stream.chunks
        if isinstance(self.digest, Known):
            check_same(self.digest, known)
        elif not isinstance(chunks, ScoreFile):
            check_same(taken(chunks, self.digest.class_axis, self.stream.progress), known)
        self.digest = known
        self.stream.check_same(known.n_samples)

    def _counted(self, bounds: tuple[float, float]) -> tuple[_Pass, StrengthProfile]:
        """One pass and its profile; where bins were begun in vain, of another that is patient."""
        one = _Pass(self, bounds, patient=self._patient)
        one.run()
        if one.in_vain:
            one = _Pass(self, bounds, patient=True)
            one.run()
        self._patient = one.patient  # what was wrong once would be so for other bounds
        return one, one.total.consume()

    def _exact_parts(self, bounds: tuple[float, float]) -> Iterator[StrengthProfile]:
        for part in self.stream.parts():
            with part.located():
                yield StrengthProfile.of(*part.data.read(bounds))


class _Counted(NamedTuple):
    """The profile of a part, and the number of samples from the first to its last."""

    profile: StrengthProfile
    stop: int


class _Pass:
    """One pass within some bounds, from its beginning or from where it was saved.

    A ``patient`` one keeps switches until they are too many. Others sum in bins as soon as too
    many are foreseen of files of a known size: room to keep them in would be new memory.
    """

    total: ProfileSum
    gains: GainTable | None

    def __init__(
        self, profiler: Profiler, bounds: tuple[float, float], *, patient: bool = False
    ) -> None:
        self.profiler, self.bounds, self.patient = profiler, bounds, patient
        self.total, self.gains, self.boundless = profiler.empty(), None, ""
        self.first = isinstance(profiler.digest, Digest)
        self.place, self.finished = Place(), False
        self._lock = Lock()

    def run(self) -> None:
        """Count what is not counted yet."""
        whole, checkpoint = self.profiler.stream, self.profiler.checkpoint
        saved = None if checkpoint is None else checkpoint.load(self.bounds)
        if saved is not None and self.patient and not _is_patient(saved):
            saved = None
        known = None if saved is None else self._take_up(saved)
        if checkpoint is not None and saved is not None and not self.in_vain:
            tell(checkpoint, self.bounds, self.place, whole.chunks, again=self.patient)
        if self.finished:
            return
        self._go_through(whole if saved is None else self._rest(known))
        whole.check_same(self.place.start)
        if isinstance(self.profiler.digest, Digest):
            self.profiler.digest = self.profiler.digest.known
        self.profiler.left_out = tuple(getattr(whole.chunks, "left_out", ()))
        self.finished = True
        self._save()

    @property
    def in_vain(self) -> bool:
        """Whether it has ended in bins, with no more switches than are kept."""
        kept = self.total.exact_up_to
        if not self.finished or not self.total.coarse or not kept:
            return False
        return self.total.total().n_switches <= kept

    def _go_through(self, stream: Stream) -> None:
        from_files = isinstance(self.profiler.stream.chunks, ScoreFile)
        with BackgroundThread() as background, OrderedThreads[_Counted | None]() as line:

            def look(chunk: Chunk) -> None:
                # Once the digest is taken of the last chunk before this one, and all of them are
                # counted, what is saved here holds them and nothing else.
                background.wait()
                if self._is_due():
                    self._add(line.rest())
                    self._save()
                if isinstance(self.profiler.digest, Digest):
                    background.call(self.profiler.digest.update, chunk)
                if from_files and isinstance(chunk, FileChunk):
                    self.place = chunk.after
                else:
                    self.place = Place(self.place.start + chunk.n_labels)

            # Chunks of files are arrays of their own, and each core may have one; others may be
            # filled anew for the next one.
            settle = None if from_files else background.wait
            for part in stream.parts(look, settle, checked=not self._finds_nan()):
                work = partial(self._count, part, *self._read(part))
                self._add(line.call(work) if from_files else [work()])
            self._add(line.rest())

    def _finds_nan(self) -> bool:
        """Whether counting finds every NaN: of logits, where no sample is ignored."""
        options = self.profiler.stream.options
        return options.kind == "logits" and options.ignore_index is None

    def _read(self, part: Part) -> tuple[Samples, Priors]:
        with part.located():
            samples, priors = part.data.read(self.bounds)
        if self.first:
            self.profiler.detector.add(samples)
        return samples, priors

    def _count(self, part: Part, samples: Samples, priors: Priors) -> _Counted | None:
        """Profile a part; add it at once, and return None, where the order does not matter.

        Sums of whole numbers in bins have the same bits in any order. Whoever has counted a part
        then enters it, and the thread that reads has the next one ready meanwhile.
        """
        with part.located():
            profile = StrengthProfile.of(samples, priors)
        n_samples, *_ = np.shape(part.data.labels) or (1,)  # one alone has no axis of samples
        counted = _Counted(profile, part.start + n_samples)
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
                if not self.total.coarse and self._foresees_too_many(part.stop):
                    self.total.coarsen()

    def _foresees_too_many(self, n_samples: int) -> bool:
        """Whether files have too many switches, unless the rest has far fewer than those so far.

        So far are those of the first ``n_samples``, whoever else counts or is about to: when bins
        are begun decides about the last bits of sums of weights.
        """
        chunks, kept = self.profiler.stream.chunks, self.total.exact_up_to
        n = chunks.n_samples if isinstance(chunks, ScoreFile) and not self.patient else None
        if n is None or kept is None or self.total.n_waiting < ENOUGH * kept:
            return False
        return self.total.n_waiting / n_samples * n > SURE * kept

    def _add_gains(self, profile: StrengthProfile) -> None:
        """Count what each class gains in each bin, where there is room for that.

        Not of fractional weights, whose sums no bound holds for to the last bit.
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
        """The stream of what is not counted yet; ``known`` is the digest of what is, if only that.

        Where there is one, what was counted is read once more, unless it is of files and another
        pass has taken their digest.
        """
        whole, n = self.profiler.stream, self.place.start
        progress = whole.progress
        further = None if progress is None else (lambda more: progress(n + more))
        trusted = isinstance(whole.chunks, ScoreFile) and not self.first
        digest = None if known is None or trusted else Digest(whole.options.class_axis)
        rest = rest_of(whole.chunks, self.place, digest, known)
        if self.first and digest is not None:
            self.profiler.digest = digest
        return Stream(
            whole.options, rest, whole.terms, further, first=n, may_be_empty=bool(self.total)
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
            "patient": self.patient,
            "place": pack_place(self.place),
            "left_out": pack_left_out(self.profiler.left_out),
            "lookalike": _pack_detector(self.profiler.detector),
            # Of all samples, or, where this pass is to take it, of those that were counted.
            "whole": isinstance(digest, Known),
            "digest": list(digest if isinstance(digest, Known) else digest.known),
        }
        if self.gains is not None:
            arrays["gross"] = self.gains.gained
        checkpoint.save(self.bounds, Saved(self.finished, state, arrays))

    def _take_up(self, saved: Saved) -> Known | None:
        """Go on from what was saved; return the digest of what is counted, if of no more."""
        self.finished, state, arrays = saved
        gained = arrays.pop("gross", None)
        self.total = unpack_sum(state["sum"], arrays, into=self.total)
        self.boundless, self.place = state["boundless"], as_place(state["place"])
        self.patient = _is_patient(saved)
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
        self.profiler.know_again(known)
        self.first = False
        if self.finished:
            self.profiler.left_out = as_left_out(state["left_out"])
        return None


def _pack_detector(detector: ProbabilityDetector) -> dict[str, Any]:
    """A detector as JSON can hold it, by the names that checkpoints have."""
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
    return detector


def _is_patient(saved: Saved) -> bool:
    return bool(saved.header.get("patient", False))  # checkpoints of old have none


ExactParts: TypeAlias = Callable[[], Iterable[StrengthProfile]]

#: What rounding of ratios and of their sum may hide: a bin within this of the best is looked into.
SLACK = 4 * EQUAL_VALUES


class RefinedProfile(StrengthProfile):
    """A binned profile that is exact where one metric, under its constraints, is best.

    :meth:`best` for that metric is the best of the exact profile. Everything else is that of a
    binned profile.
    """

    _metric_of_best: CountMetric
    _rules: Sequence[Constraint]

    def best(self, metric: str | CountMetric, *, subject_to: SubjectTo = None) -> Best:
        """The strength at which the metric is largest: exact for the one it was refined for."""
        rules = Constraint.parse_all(subject_to)
        if metric != self._metric_of_best or list(rules) != list(self._rules):
            return super().best(metric, subject_to=subject_to)
        steps, feasible = self._feasible(self._steps_of(metric), rules)
        a, b, value = best_interval(steps, self.bounds[1], feasible)
        at_bound = a <= self.bounds[0] or b >= self.bounds[1]
        return Best(float(middle(a, b)), value, (a, b), at_bound)


def candidates(
    profile: StrengthProfile,
    gains: GainTable,
    metric: CountMetric,
    constraints: Sequence[Constraint],
    least: float,
) -> Vector:
    """Which bins may hold a strength that keeps the constraints and is worth ``least``."""
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
    """The profile with the switches of its candidate bins one by one.

    ``parts`` gives the exact profiles of all parts once more, of which only the switches in those
    bins are kept, ``most`` of them. Where there are more, the profile is returned as it is.
    """
    least = profile.best(metric, subject_to=constraints).value
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
        found = _joined(profile, switches, inside, kept)
        found._metric_of_best, found._rules = metric, list(constraints)
        value = found.best(metric, subject_to=constraints).value
        if value >= least - SLACK:
            return found
        # The best grid points lie on intervals too narrow to aim at, which do not count.
        least = value


def _kept(
    parts: Iterable[StrengthProfile], gains: GainTable, chosen: Vector, weighted: bool
) -> Switches:
    found = [Switches.none(weighted)]
    for part in parts:
        switches = part._switches
        assert isinstance(switches, Switches)  # noqa: S101 - parts are exact
        mine = np.flatnonzero(chosen[gains.bins_of(switches.position)])
        if mine.size:
            found.append(switches.taken(mine))
    return Switches.concatenate(found)


def _joined(
    profile: StrengthProfile, switches: BinnedSwitches, inside: Vector, kept: Switches
) -> RefinedProfile:
    """Bins outside of the candidates, single switches inside."""
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
