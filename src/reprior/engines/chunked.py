"""Tuning a calibrator chunk by chunk, in memory that does not grow with the data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.fitting import tuned
from reprior.calibrator.lazy_source import AUTO_RESOLUTION, MOST_SWITCHES
from reprior.calibrator.options import check_options, full_problem
from reprior.core.checks import check_finite_number
from reprior.engines.bin_width import refuse_wide_bins
from reprior.engines.checkpoints import Checkpoint
from reprior.engines.chunk_source import Progress, Stream, settle_terms
from reprior.engines.lean_sum import LeanSum
from reprior.engines.passes import ChunkedSource
from reprior.engines.profiling import LOG_LOSS, Profiler
from reprior.exceptions import OptionError, RepriorWarning
from reprior.files.chunks import LeftOut, describe_left_out
from reprior.profile.merging import ProfileSum
from reprior.profile.objective import Best

__all__ = ["AUTO_RESOLUTION", "MOST_SWITCHES", "Resolution", "fit", "profile_sum"]

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
    profiler.lookalike.warn(stacklevel=2)
    if found.profile.resolution is not None:
        best = found.profile.best(problem.metric, subject_to=problem.constraints)
        _warn_of_bins(resolution, profiler.unrefined.get(found.profile.bounds, ""), best)
    found.say(stacklevel=2)
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
        sentence = (
            f"There are more than {MOST_SWITCHES:,} switches, too many to keep: they are summed in "
            f"bins of {AUTO_RESOLUTION:g}. Pass resolution='refine' for the exact result in one "
            f"more pass, None to keep each, or a number."
        )
    elif resolution == "refine" and unrefined:
        sentence = (
            f"resolution='refine' leaves bins of {AUTO_RESOLUTION:g} as they are, as {unrefined}."
        )
        if unrefined != LOG_LOSS:
            sentence += (
                f" The result is that of the bins: inside its own {best.uncertainty:.2g} of the "
                f"samples change their class."
            )
    else:
        return
    warnings.warn(sentence, RepriorWarning, stacklevel=3)


def _noted(left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """Say what was left out, and keep it for the provenance."""
    warnings.warn(describe_left_out(left_out), RepriorWarning, stacklevel=3)
    rows = [each.rows for each in left_out]
    return {
        "files": [os.fspath(each.path) for each in left_out],
        "n_samples": None if None in rows else sum(n for n in rows if n is not None),
    }


def refuse_once(chunks: Any) -> None:
    """Refuse an iterator, which can be gone through once only."""
    if not isinstance(chunks, Iterable) or iter(chunks) is chunks:
        raise OptionError(
            f"`chunks` must be something that can be gone through several times. Got "
            f"{type(chunks).__name__}. Pass a list, or an object whose __iter__ begins anew; for "
            f"scores that come by once there is reprior.engines.OnlineFit."
        )


def profile_sum(resolution: Resolution, exact_up_to: int) -> ProfileSum:
    """The empty sum that a ``resolution`` asks for."""
    if resolution is None:
        return ProfileSum()
    if isinstance(resolution, str):
        if resolution not in ("auto", "refine"):
            raise OptionError(
                f"`resolution` must be a number above 0, 'auto', 'refine' or None. Got "
                f"{resolution!r}. Pass for example 0.0001."
            )
        return LeanSum(exact_up_to=exact_up_to, resolution=AUTO_RESOLUTION)
    width = check_finite_number("resolution", resolution, positive=True, hint="Or pass 'auto'.")
    return ProfileSum(exact_up_to=0, resolution=width)
