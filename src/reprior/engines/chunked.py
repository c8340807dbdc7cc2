"""Tuning a calibrator chunk by chunk, in memory that does not grow with the data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from reprior.calibrator import PosteriorCalibrator
from reprior.core.arrays import to_numpy
from reprior.core.binary import is_single_score
from reprior.core.checks import check_finite_number
from reprior.core.temperature import BOUNDS, LogLoss, Loss, minimise
from reprior.encoding import check_options, state_problem
from reprior.engines.fingerprint import Digest
from reprior.engines.lookalike import Lookalike
from reprior.engines.stream import Progress, Stream, settle_terms
from reprior.exceptions import LabelsError, OptionError, RepriorWarning
from reprior.tuning.data import importance_ratio
from reprior.tuning.merging import ProfileSum
from reprior.tuning.problem import Problem
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.reading import anything_counts

__all__ = ["AUTO_RESOLUTION", "ChunkedLoss", "Profiler", "Resolution", "fit", "profile_sum"]

Resolution: TypeAlias = float | Literal["auto"] | None
Calibrator = TypeVar("Calibrator", bound=PosteriorCalibrator)

AUTO_RESOLUTION = 1e-4
"""Width of the bins where there are too many switches to keep: λ is reported to four digits."""

MOST_SWITCHES = 10**7
"""Switches that are kept one by one: some 200 MB, twice that while they are joined."""

KEPT_SCORES = 1 << 23
"""Log-scores that the fit of the temperature keeps between its passes, 64 MB of float64."""


def fit(
    calibrator: Calibrator,
    chunks: Iterable[Any],
    *,
    resolution: Resolution = "auto",
    progress: Progress = None,
) -> Calibrator:
    """Tune a calibrator on labelled scores that come in chunks.

    The result is that of ``calibrator.fit`` on all of them at once: to the bit for strength,
    interval, score and counts, unless samples have fractional weights, whose sums then differ
    in the last bits; for a fitted temperature to 1e-6 of it.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. It is fitted in place.
    chunks : re-iterable of Chunk, or of (scores, labels[, weight])
        A file opened by :func:`reprior.files.scores.open_scores`, or a list. Integer labels are
        class indices; others are names, looked up in ``calibrator.classes``. They are read once,
        once more for each widening of the bounds, and for a fitted temperature as often as its
        Newton iteration needs.
    resolution : float, "auto" or None, default "auto"
        Sum switches in bins of this width; None keeps each. "auto" keeps up to ten million and
        then sums in bins of 1e-4, with a warning.
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
    refuse_once(chunks)
    terms = settle_terms(calibrator, chunks)
    problem = state_problem(calibrator, terms)
    stream = Stream(calibrator, chunks, terms, progress)
    profiler = Profiler(stream, resolution)
    best, profile = problem.search(profiler.profile)
    profiler.lookalike.warn(stacklevel=2)
    if resolution == "auto" and profile.resolution is not None:
        warnings.warn(
            f"There are more than {MOST_SWITCHES} switches, too many to keep: they are summed in "
            f"bins of {AUTO_RESOLUTION:g}. Pass resolution=None to keep each, or a number.",
            RepriorWarning,
            stacklevel=2,
        )
    temperature = problem.temperature
    if temperature == "fit":
        loss = ChunkedLoss(stream, problem, best.strength, profile)
        temperature = minimise(loss, BOUNDS, stacklevel=3).temperature
    problem.warn_of_absent(profile)
    provenance = {"digest": profiler.digest.value, "n_samples": profiler.digest.n_samples}
    calibrator._adopt(problem, best, profile, temperature, provenance)
    return calibrator


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
        if resolution != "auto":
            raise OptionError(
                f"`resolution` must be a number above 0, 'auto' or None. Got {resolution!r}. "
                f"Pass for example 0.0001."
            )
        return ProfileSum(exact_up_to=exact_up_to, resolution=AUTO_RESOLUTION)
    width = check_finite_number("resolution", resolution, positive=True, hint="Or pass 'auto'.")
    return ProfileSum(exact_up_to=0, resolution=width)


class Profiler:
    """Profiles of a stream, one pass each; the first one also takes its digest."""

    def __init__(self, stream: Stream, resolution: Resolution) -> None:
        self.stream, self.resolution = stream, resolution
        self.digest = Digest(stream.options.class_axis)
        self.lookalike = Lookalike(stream.options.kind)
        self._coarse = False
        profile_sum(resolution, MOST_SWITCHES)  # refuse a wrong one before the first pass

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile all samples within ``bounds``."""
        first = self.digest.n_samples == 0
        total = profile_sum(self.resolution, MOST_SWITCHES)
        if self._coarse:  # narrower bounds had too many switches already
            total.coarsen()
        n_classes = self.stream.terms.classes.size
        for part in self.stream.parts(self.digest.update if first else None):
            with part.located():
                reading = part.data.reading(bounds)
                if first:
                    shape, axis = np.shape(part.data.scores), self.stream.options.class_axis
                    self.lookalike.see(reading.rows, is_single_score(shape, n_classes, axis))
                total.add(StrengthProfile._of(reading))
        self._coarse = total.coarse
        return total.total()


class ChunkedLoss:
    """The log-loss of a stream as a function of 1/T; a call is a pass, unless all is kept."""

    def __init__(
        self, stream: Stream, problem: Problem, strength: float, profile: StrengthProfile
    ) -> None:
        self.stream, self.strength = stream, strength
        support = profile.baseline.support
        self.label_prior = support if problem.label_prior is None else problem.label_prior
        ratio = importance_ratio(problem.target_prior, self.label_prior)
        self.mass = float(support @ ratio)
        if not self.mass > 0:
            raise LabelsError(
                "`labels` must hold a class of positive `target_prior` and `label_prior`, or no "
                "temperature can be fitted. Got none. Pass temperature=None."
            )
        self._kept: list[LogLoss] | None = []
        self._complete = False

    def __call__(self, inverse: float) -> Loss:
        """Return the loss, its slope and its curvature at 1/T."""
        total = np.zeros(3)
        for loss in self._losses():
            total += loss(inverse)
        return Loss(*total.tolist())

    def _losses(self) -> Iterable[LogLoss]:
        if self._complete and self._kept is not None:
            yield from self._kept
            return
        n_scores = 0
        for part in self.stream.parts():
            weight = to_numpy(part.data.importance(self.label_prior))
            if not anything_counts(to_numpy(part.data.labels), weight, part.data.ignore_index):
                continue
            with part.located():
                block = part.data.shifted(self.strength, self.label_prior)
                weight = np.asarray(block.weights) / self.mass
                loss = LogLoss.of_rows(block.scores, block.labels, weight)
            yield loss
            n_scores += block.scores.size
            if self._kept is not None:
                self._kept.append(loss)
                if n_scores > KEPT_SCORES:
                    self._kept = None
        self._complete = True
