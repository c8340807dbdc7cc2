"""Tuning a calibrator chunk by chunk, in memory that does not grow with the data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.fitting import tuned
from reprior.calibrator.lazy_source import (
    AUTO_RESOLUTION,
    GATHERED_SCORES,
    MOST_SWITCHES,
    NEEDS_ALL_SCORES,
)
from reprior.calibrator.options import check_options, full_problem
from reprior.calibrator.sources import InMemory, LogLossPasses, RowsOf
from reprior.core.arrays import to_numpy
from reprior.core.checks import check_finite_number
from reprior.core.log_loss import JointLoss
from reprior.core.minimise import Quadratic
from reprior.core.scaling import ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.core.weighted_rows import WeightedRows
from reprior.engines.checkpoints import Checkpoint
from reprior.engines.chunk_source import Progress, Stream, settle_terms
from reprior.engines.profiling import LOG_LOSS, Profiler
from reprior.exceptions import OptionError, Setting, Words
from reprior.files.chunks import LeftOut, describe_left_out
from reprior.files.scores import ScoreFile
from reprior.metrics.counts import ClassCounts
from reprior.profile.merging import APART, ProfileSum, bare
from reprior.profile.objective import Best
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, Samples
from reprior.profile.switches import Switches
from reprior.tuning.problem import Problem, ProfileOf

__all__ = [
    "AUTO_RESOLUTION",
    "MOST_SWITCHES",
    "ChunkedRows",
    "ChunkedSource",
    "PreallocatedSum",
    "Resolution",
    "fit",
    "profile_sum",
    "refuse_wide_bins",
]

Vector: TypeAlias = np.ndarray[Any, Any]

Resolution: TypeAlias = float | Literal["auto", "refine"] | None
Calibrator = TypeVar("Calibrator", bound=PosteriorCalibrator)


def fit(
    calibrator: Calibrator,
    chunks: Iterable[Any],
    *,
    resolution: Resolution = "auto",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    progress: Progress = None,
) -> Calibrator:
    """Tune a calibrator on labelled scores that come in chunks.

    The result is that of ``calibrator.fit`` on all of them at once, with labels as it takes them
    (see ``chunks``): to the bit for strength, interval, score and counts, unless samples have
    fractional weights, whose sums then differ in the last bits; for what is fitted by log-loss
    to 1e-6 of it.

    A strength, its temperature, and both together (``metric="log_loss"``) are tuned chunk by
    chunk. What needs all scores at once gathers them in memory, up to 2²⁷ of them, and refuses
    more: ``tune="per_class"``, ``cv``, ``n_bootstrap``, ``temperature="bcts"`` or ``"vector"``,
    and ``selection="balanced_log_loss"``.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. It is fitted in place.
    chunks : re-iterable of Chunk, or of (scores, labels[, weight])
        A file opened by :func:`reprior.files.scores.open_scores`, or a list. Integer labels are
        class indices, where ``calibrator.classes`` are names too, of which ``calibrator.fit``
        takes the names alone; others are names, looked up there. They are read once, once more
        for each widening of the bounds, of sorted files once more if fewer switches came than
        were foreseen, and for a fit by log-loss as often as its Newton iteration needs.
    resolution : float, "auto", "refine" or None, default "auto"
        Sum switches in bins of this width, at most half that of the calibrator's bounds;
        None keeps each. "auto" keeps up to ten million and
        then sums in bins of 1e-4, with a warning: the strength is then known to one bin, and the
        value is that of the best point of the grid. "refine" does the same, and then reads the
        chunks once more for the switches in those bins that can hold the best: the result is
        that of None, in the memory of "auto".
    checkpoint : path or Checkpoint, optional
        A folder in which what is counted is saved twice a minute at most. A fit that was ended
        in between, however rudely, goes on from there with the same call and gives the same
        result to the bit. It is refused where options, files or how these are read have changed
        since; chunks that do not come from files are known by a digest, for which they are gone
        through once. It stays when the fit is done; ``Checkpoint(folder).remove()`` deletes it.
        Passes of a fit by log-loss, and those that gather all scores, begin anew. What was counted
        before is told to the logger ``reprior.engines.resuming``, as information.
    progress : callable, optional
        Called after every chunk with the number of samples read in the present pass.

    Returns
    -------
    PosteriorCalibrator
        The calibrator, fitted, with ``provenance_``.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> labels = np.array([0, 0, 1, 1])
    >>> chunks = [(logits[:3], labels[:3]), (logits[3:], labels[3:])]
    >>> calibrator = rp.engines.fit(rp.PosteriorCalibrator([0.8, 0.2]), chunks)
    >>> round(calibrator.strength_, 3)
    0.505
    """
    check_options(calibrator)
    refuse_wide_bins(resolution, calibrator.bounds)
    refuse_once(chunks)
    terms = settle_terms(calibrator, chunks)
    problem = full_problem(calibrator, terms)
    stream = Stream(calibrator, chunks, terms, progress)
    profiler = Profiler(
        stream,
        lambda: profile_sum(resolution, MOST_SWITCHES),
        checkpoint=checkpoint
        if isinstance(checkpoint, Checkpoint | None)
        else Checkpoint(checkpoint),
        goal=problem if resolution == "refine" else None,
        most=MOST_SWITCHES,
    )
    profiler.begin(resolution)
    found = tuned(problem, ChunkedSource(stream, profiler.profile))
    profiler.detector.warn()
    if found.profile.resolution is not None:
        best = found.profile.best(problem.metric, subject_to=problem.constraints)
        _warn_of_bins(resolution, profiler.unrefined.get(found.profile.bounds, ""), best)
    found.warn()
    provenance: dict[str, Any] = {
        "digest": profiler.digest.value,
        "n_samples": profiler.digest.n_samples,
    }
    if profiler.left_out:
        provenance["left_out"] = _noted(profiler.left_out)
    calibrator._adopt(problem, found, provenance)
    return calibrator


def _warn_of_bins(resolution: Resolution, unrefined: str, best: Best) -> None:
    """Say what the bins of a profile mean for the result, where that was not asked for.

    ``unrefined`` is why they are there still, though they were to be refined.
    """
    if resolution == "auto":
        warn(
            [
                f"There are more than {MOST_SWITCHES:,} switches, too many to keep: they are "
                f"summed in bins of {AUTO_RESOLUTION:g}. Pass ",
                Setting("resolution", "refine"),
                " for the exact result in one more pass, ",
                Words("None", "none"),
                " to keep each, or a number.",
            ]
        )
    elif resolution == "refine" and unrefined:
        inside = ""
        if unrefined != LOG_LOSS:
            inside = (
                f" The result is that of the bins: inside its own {best.uncertainty:.2g} of the "
                f"samples change their class."
            )
        warn(
            [
                Setting("resolution", "refine"),
                f" leaves bins of {AUTO_RESOLUTION:g} as they are, as {unrefined}.{inside}",
            ]
        )


def _noted(left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """Say what was left out, and keep it for the provenance."""
    warn(describe_left_out(left_out))
    rows = [each.rows for each in left_out]
    return {
        "files": [os.fspath(each.path) for each in left_out],
        "n_samples": None if None in rows else sum(n for n in rows if n is not None),
    }


def refuse_once(chunks: Any) -> None:
    """Refuse an iterator, which can be gone through once only."""
    if not isinstance(chunks, Iterable) or iter(chunks) is chunks:
        raise OptionError(
            argument="chunks",
            rule="must be something that can be gone through several times",
            got=type(chunks).__name__,
            remedy="Pass a list, or an object whose __iter__ begins anew; for scores that come by "
            "once there is reprior.engines.OnlineFit.",
        )


def profile_sum(resolution: Resolution, exact_up_to: int) -> ProfileSum:
    """The empty sum that a ``resolution`` asks for."""
    if resolution is None:
        return ProfileSum()
    if isinstance(resolution, str):
        if resolution not in ("auto", "refine"):
            raise OptionError(
                argument="resolution",
                rule=["must be a number above 0, 'auto', 'refine' or ", Words("None", "none")],
                got=repr(resolution),
                remedy="Pass for example 0.0001.",
            )
        return PreallocatedSum(exact_up_to=exact_up_to, resolution=AUTO_RESOLUTION)
    width = check_finite_number("resolution", resolution, positive=True, hint="Or pass 'auto'.")
    return ProfileSum(exact_up_to=0, resolution=width)


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

    def read(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """All samples, gathered and checked, and what is looked for in them."""
        return self._gathered.read(bounds)

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
                    argument="chunks",
                    rule="must fit into memory for what is asked, which needs all scores at once: "
                    f"at most {GATHERED_SCORES:,} of them",
                    got="more",
                    remedy=["Pass a sample of them, or leave out ", *NEEDS_ALL_SCORES, "."],
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


class PreallocatedSum(ProfileSum):
    """A sum that holds its switches once, and goes over to bins in the room of these.

    They are written behind one another into columns of the most that are kept, which the system
    gives out as they are filled, and takes back as soon as they are let go of. Of arrays of some
    hundred kilobytes each, an allocator gives little back.
    """

    _room: Switches | None = None

    def coarsen(self) -> None:
        """From here on, sum in bins; those switches too that were kept so far."""
        self.coarse = True
        kept, self._exact, self._waiting = self._exact[::-1], [], 0
        self._room = None
        while kept:  # one after another, and each let go: joined they would need twice the room
            self._bin(kept.pop()[1])

    def consume(self) -> StrengthProfile:
        """The sum, its switches by strength; what was kept is let go of."""
        self._room = None
        return super().consume()

    def _keep(self, profile: StrengthProfile) -> None:
        """Write the switches behind those that are kept."""
        if self.coarse:
            super()._keep(profile)
            return
        if self._room is None:
            self._room = _columns(self.exact_up_to or 0, profile.weighted)
            before, self._exact = self._exact, []
            for _, each in before:  # of a checkpoint
                self._write(each, self._room)
        self._write(profile, self._room)

    def _write(self, profile: StrengthProfile, room: Switches) -> None:
        added = profile._switches
        assert isinstance(added, Switches)  # noqa: S101 - what waits is exact
        assert added.count is None  # noqa: S101 - and of scores: every switch is of one sample
        whole, used = bare(profile), 0
        if self._exact:
            before = self._exact[0][1]
            whole, used = bare(before) + whole, before.n_switches
        end = used + len(added)
        if end > len(room):
            super()._keep(profile)  # too many: they are about to be binned
            return
        for name, column in added.arrays().items():
            getattr(room, name)[used:end] = column
        self._exact = [(APART, whole._like(switches=room.taken(slice(end))))]


def _columns(n: int, weighted: bool) -> Switches:
    """Room for switches."""
    label, loser, winner = (np.empty(n, np.int32) for _ in range(3))
    return Switches(np.empty(n), label, loser, winner, weight=np.empty(n) if weighted else None)


FEWEST_BINS = 2
"""With a single one there is nothing to choose from but the bounds."""


def refuse_wide_bins(resolution: Any, bounds: Sequence[float]) -> None:
    """Refuse a resolution that leaves no strength between the bounds to choose.

    Examples
    --------
    >>> refuse_wide_bins(1.0, (0.0, 2.0))
    >>> refuse_wide_bins("auto", (0.0, 2.0))
    """
    width = float(bounds[1]) - float(bounds[0])
    if not isinstance(resolution, Real) or not float(resolution) * FEWEST_BINS > width > 0:
        return
    raise OptionError(
        argument="resolution",
        rule=f"must be at most half the width of the bounds, {width:g}",
        got=f"{float(resolution):g}: the strength could only be at the edges of such bins",
        remedy=f"Pass at most {width / FEWEST_BINS:g}, for example 0.0001, or wider bounds.",
    )
