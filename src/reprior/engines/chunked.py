"""Tune a calibrator chunk by chunk, in memory that does not grow with the data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.fitting import tuned
from reprior.calibrator.options import check_options, full_problem
from reprior.core.checks import check_finite_number
from reprior.engines.checkpoints import Checkpoint
from reprior.engines.chunk_source import Progress, Stream, settle_terms
from reprior.engines.profiling import LOG_LOSS, Profiler
from reprior.exceptions import OptionError, Setting, Words
from reprior.files.chunks import LeftOut, describe_left_out
from reprior.profile.merging import APART, ProfileSum, bare
from reprior.profile.objective import Best
from reprior.profile.profile import StrengthProfile
from reprior.profile.source import AUTO_BINS
from reprior.profile.switches import Switches

__all__ = [
    "AUTO_RESOLUTION",
    "MOST_SWITCHES",
    "PreallocatedSum",
    "Resolution",
    "fit",
    "profile_sum",
    "refuse_wide_bins",
]

Vector: TypeAlias = np.ndarray[Any, Any]

MOST_SWITCHES = AUTO_BINS.exact_up_to or 0
AUTO_RESOLUTION = AUTO_BINS.resolution

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

    The result is that of ``calibrator.fit`` on all chunks at once. Strength, interval, score and
    counts are equal to the bit, unless samples have fractional weights, whose sums differ in the
    last bits. What is fitted by log-loss is equal to 1e-6.

    A strength, its temperature, and both together (``metric="log_loss"``) are tuned chunk by
    chunk. Other options collect all scores in memory, up to 2²⁷ of them, and refuse more:
    ``tune="per_class"``, ``cv``, ``n_bootstrap``, ``temperature="bcts"`` or ``"vector"``, and
    ``selection="balanced_log_loss"``.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. It is fitted in place.
    chunks : re-iterable of Chunk, or of (scores, labels[, weight])
        A file opened by :func:`reprior.files.scores.open_scores`, or a list. Integer labels are
        class indices, even where ``calibrator.classes`` are names (``calibrator.fit`` then takes
        names only); other labels are names from ``calibrator.classes``. The chunks are read once,
        once more for each widening of the bounds, once more for sorted files with fewer switches
        than expected, and for a fit by log-loss once per Newton step.
    resolution : float, "auto", "refine" or None, default "auto"
        Sum switches in bins of this width, at most half that of the calibrator's bounds;
        None keeps each. "auto" keeps up to ten million and
        then sums in bins of 1e-4, with a warning: the strength is then known to one bin, and the
        value is that of the best point of the grid. "refine" does the same, and then reads the
        chunks once more for the switches in those bins that can contain the best strength: the
        result is that of None, in the memory of "auto".
    checkpoint : path or Checkpoint, optional
        A folder in which the counts so far are saved, at most twice a minute. After an
        interruption or a kill, the same call continues from there and gives the same result to
        the bit. It is refused where options, files or how these are read have changed
        since, and where another fit is using it; chunks that do not come from files are recognised
        by a digest, which takes a pass over them. It stays when the fit is done;
        ``Checkpoint(folder).remove()`` deletes it. Passes of a fit by log-loss, and those that
        gather all scores, start again. The logger ``reprior.engines.resuming`` says, as
        information, what was counted before.
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
    if not isinstance(checkpoint, Checkpoint | None):
        checkpoint = Checkpoint(checkpoint)
    profiler = Profiler(
        stream,
        lambda: profile_sum(resolution, MOST_SWITCHES),
        checkpoint=checkpoint,
        goal=problem if resolution == "refine" else None,
        most=MOST_SWITCHES,
    )
    with checkpoint or nullcontext():
        profiler.begin(resolution)
        fitted = tuned(problem, profiler)
    if fitted.profile.resolution is not None:
        best = fitted.profile.best(problem.metric, subject_to=problem.constraints)
        _warn_of_bins(resolution, profiler.unrefined.get(fitted.profile.bounds, ""), best)
    fitted.warn()
    provenance: dict[str, Any] = {
        "digest": profiler.digest.value,
        "n_samples": profiler.digest.n_samples,
    }
    if profiler.left_out:
        provenance["left_out"] = _provenance_of(profiler.left_out)
    calibrator._adopt(problem, fitted, provenance)
    return calibrator


def _warn_of_bins(resolution: Resolution, unrefined: str, best: Best) -> None:
    """Warn of bins that were not asked for, and say what they mean for the result.

    ``unrefined`` is the reason why they could not be refined.
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
                f" The result is that of the bins: inside its own, {best.uncertainty:.2g} of the "
                f"samples change their class."
            )
        warn(
            [
                Setting("resolution", "refine"),
                f" leaves bins of {AUTO_RESOLUTION:g} as they are, as {unrefined}.{inside}",
            ]
        )


def _provenance_of(left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """Warn of files that were left out, and return them for the provenance."""
    warn(describe_left_out(left_out))
    rows = [each.rows for each in left_out]
    return {
        "files": [os.fspath(each.path) for each in left_out],
        "n_samples": None if None in rows else sum(n for n in rows if n is not None),
    }


def refuse_once(chunks: Any) -> None:
    """Refuse an iterator, which gives its chunks only once."""
    if not isinstance(chunks, Iterable) or iter(chunks) is chunks:
        raise OptionError(
            argument="chunks",
            rule="must be something that can be iterated several times",
            got=type(chunks).__name__,
            remedy="Pass a list, or an object whose __iter__ starts again. For scores that are "
            "seen once, use reprior.engines.OnlineFit.",
        )


def profile_sum(resolution: Resolution, exact_up_to: int) -> ProfileSum:
    """Return the empty sum for a ``resolution``."""
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


class PreallocatedSum(ProfileSum):
    """A sum that stores its switches in preallocated columns, and bins without copying them.

    The columns have room for as many switches as are kept. The system provides their pages as they
    are filled and takes them back when they are freed; of many small arrays, an allocator returns
    little.
    """

    _columns: Switches | None = None

    def coarsen(self) -> None:
        """Sum in bins from now on, including the switches that were kept so far."""
        self.coarse = True
        kept, self._exact, self._waiting = self._exact[::-1], [], 0
        self._columns = None
        while kept:  # one by one, each freed: joined they would need twice the memory
            self._bin(kept.pop()[1])

    def consume(self) -> StrengthProfile:
        """Return the sum with switches sorted by strength, and free the columns."""
        self._columns = None
        return super().consume()

    def _keep(self, profile: StrengthProfile) -> None:
        """Append the switches to the columns."""
        if self.coarse:
            super()._keep(profile)
            return
        if self._columns is None:
            pairs = profile._pairs
            has_images = pairs is not None and pairs.start.image is not None
            self._columns = _new_columns(self.exact_up_to or 0, profile.weighted, has_images)
            before, self._exact = self._exact, []
            for _, each in before:  # of a checkpoint
                self._write(each, self._columns)
        self._write(profile, self._columns)

    def _write(self, profile: StrengthProfile, columns: Switches) -> None:
        added = profile._switches
        assert isinstance(added, Switches)  # noqa: S101 - kept profiles are exact
        assert added.count is None  # noqa: S101 - one sample per switch
        total, used = bare(profile), 0
        if self._exact:
            before = self._exact[0][1]
            total, used = bare(before) + total, before.n_switches
        end = used + len(added)
        if end > len(columns):
            super()._keep(profile)  # too many: the sum bins them next
            return
        kept = columns.arrays()
        for name, column in added.arrays().items():
            if name in kept:
                kept[name][used:end] = column
        self._exact = [(APART, total._like(switches=columns.taken(slice(end))))]


def _new_columns(n: int, weighted: bool, has_images: bool) -> Switches:
    """Return uninitialised columns for ``n`` switches."""
    label, loser, winner = (np.empty(n, np.int32) for _ in range(3))
    return Switches(
        np.empty(n),
        label,
        loser,
        winner,
        weight=np.empty(n) if weighted else None,
        image=np.empty(n, np.int64) if has_images else None,
    )


FEWEST_BINS = 2
"""With fewer, only the bounds could be chosen."""


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
