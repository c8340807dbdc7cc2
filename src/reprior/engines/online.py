"""Tuning a calibrator on scores that come by once, as a loader hands them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import are_indices, read_terms
from reprior.calibrator.fitting import tuned
from reprior.calibrator.options import check_options, full_problem
from reprior.calibrator.sources import InMemory
from reprior.core.arrays import constant, is_numpy_namespace, to_numpy
from reprior.core.log_loss import LogLossFit
from reprior.core.scaling import SCALINGS, ScalingFit
from reprior.core.score_map import ScoreMap
from reprior.core.temperature import TemperatureFit
from reprior.engines.chunk_source import Part, Stream
from reprior.engines.chunked import AUTO_RESOLUTION, Resolution, profile_sum, refuse_wide_bins
from reprior.exceptions import Argument, LabelsError, OptionError, Setting, Words
from reprior.metrics.counts import ClassCounts
from reprior.profile.data import TuningData
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, ProbabilityDetector, Samples
from reprior.tuning.problem import Problem, ProfileOf
from reprior.tuning.selection import CURVE_RULES

__all__ = [
    "OnlineFit",
    "RowSample",
]

Vector: TypeAlias = np.ndarray[Any, Any]

EXACT_SWITCHES = 1 << 20
"""Switches that are kept one by one: 20 MB."""

SAMPLED_SCORES = 1 << 22
"""Scores that fits by log-loss are made on: a temperature's standard error is then far below
1 %."""


class OnlineFit:
    """Tunes a calibrator on batches of labelled scores that are not kept.

    Memory is bounded: from ``exact_up_to`` switches on they are summed in bins, and fits by
    log-loss are made on a random sample of the rows. Where all rows fit into that sample and all
    switches are kept, the result is that of ``calibrator.fit`` on all batches at once. What needs
    all scores at once is refused: ``tune="per_class"``, ``cv``, ``n_bootstrap``,
    ``selection="balanced_log_loss"``, and "bcts" or "vector" for ``metric="log_loss"``.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. :meth:`finish` fits it in place.
    resolution : float, "auto" or None, default "auto"
        Sum switches in bins of this width; None keeps each. "auto" keeps up to ``exact_up_to``
        and then sums in bins of 1e-4, with a warning. "refine" is refused: it would need all
        scores once more.
    again : callable, optional
        Gives all samples anew, as an iterable of Chunk or of (scores, labels[, weight]). It is
        called where the best strength lies at the upper bound, to look further up. Without it
        the bounds stay, and a warning says so.
    seed : int, default 0
        Of the row sample. Give each of several processes one of its own.
    exact_up_to : int, default 2**20
        Switches to keep under "auto".

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> labels = np.array([0, 0, 1, 1])
    >>> online = rp.engines.OnlineFit(rp.PosteriorCalibrator([0.8, 0.2]))
    >>> for batch in (slice(0, 3), slice(3, 4)):
    ...     online.update(logits[batch], labels[batch])
    >>> round(online.finish().strength_, 3)
    0.505
    """

    def __init__(
        self,
        calibrator: PosteriorCalibrator,
        *,
        resolution: Resolution = "auto",
        again: Callable[[], Iterable[Any]] | None = None,
        seed: int = 0,
        exact_up_to: int = EXACT_SWITCHES,
    ) -> None:
        check_options(calibrator)
        refuse_wide_bins(resolution, calibrator.bounds)
        _refuse_all_at_once(calibrator)
        if resolution == "refine":
            raise OptionError(
                argument="resolution",
                rule="must be a number above 0, 'auto' or None for scores that come by once",
                got="'refine', which reads them once more",
                remedy="Pass None to keep every switch, or use engines.fit.",
            )
        self.calibrator, self.again = calibrator, again
        self.resolution, self.exact_up_to = resolution, exact_up_to
        self.n_samples = 0
        self._terms = read_terms(calibrator, calibrator.classes)
        self._problem = full_problem(calibrator, self._terms)
        self._sum = profile_sum(resolution, exact_up_to)
        self._detector = ProbabilityDetector()
        size = max(1, SAMPLED_SCORES // self._terms.classes.size)
        fits = self._problem.log_loss or self._problem.separate
        needed = fits or isinstance(self._problem.temperature, str)
        self._sample = RowSample(size, seed) if needed else None

    def update(self, scores: Any, labels: Any, sample_weight: Any = None) -> None:
        """Take a batch in.

        Parameters
        ----------
        scores : array of shape (n, K), (n, K, H, W), … or (n,)
            The model's outputs; NumPy, PyTorch or JAX, on any device.
        labels : integer array of the scores' shape without the class axis
            Class indices; names where ``calibrator.classes`` has them.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        """
        if self._terms.names is None and not are_indices(labels):
            raise OptionError(
                argument="classes",
                rule="must be known where labels are names",
                got="labels that are no integers, and a calibrator without classes",
                remedy=[
                    "Pass ",
                    Words("classes=…", "--classes …"),
                    " in the order of the scores.",
                ],
            )
        batch = [(scores, labels, sample_weight)]
        stream = Stream(
            self.calibrator, batch, self._terms, first=self.n_samples, may_be_empty=True
        )
        for part in stream.parts():
            with part.located():
                self._take(part)
        self.n_samples += stream.n_samples or 0

    def merge(self, other: OnlineFit) -> OnlineFit:
        """Take in what another one has seen of the same problem, and return this one.

        For several processes: it can be pickled, without its ``again``. The other stays as it is.
        """
        theirs = other._meaning()
        for name, mine in self._meaning().items():
            if not np.array_equal(mine, theirs[name]):
                raise OptionError(
                    argument="other",
                    rule="must be of a calibrator with the same options",
                    got=f"{name}={_shown(theirs[name])}, not {_shown(mine)}",
                    remedy="Make both from one calibrator.",
                )
        self._sum.merge(other._sum)
        self._detector.merge(other._detector)
        if self._sample is not None and other._sample is not None:
            self._sample.merge(other._sample)
        self.n_samples += other.n_samples
        return self

    def finish(self) -> PosteriorCalibrator:
        """Fit the calibrator to all that came by, and return it. More may come afterwards."""
        if not self._sum:
            raise LabelsError(
                argument="labels",
                rule="must leave at least one sample to count",
                got=f"{self.n_samples} samples, none of them kept",
                remedy=[
                    "Call update(scores, labels) first; check ",
                    Argument("ignore_index"),
                    ".",
                ],
            )
        source = _Sampled(self._profile, self._rows)
        found = tuned(self._problem, source, widen=self.again is not None)
        self._detector.warn()
        if self.resolution == "auto" and found.profile.resolution is not None:
            warn(
                [
                    f"There are more than {self.exact_up_to} switches, too many to keep: they are "
                    f"summed in bins of {AUTO_RESOLUTION:g}. Pass ",
                    Setting("resolution", None),
                    " to keep each, or a number.",
                ]
            )
        found.warn()
        self.calibrator._adopt(self._problem, found)
        return self.calibrator

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: all but ``again``, which may hold a loader."""
        return {**self.__dict__, "again": None}

    def _meaning(self) -> dict[str, Any]:
        """The options that say what was counted, and what it is for."""
        options, problem = self.calibrator, self._problem
        return {
            "kind": options.kind,
            "ignore_index": options.ignore_index,
            "classes": problem.classes,
            "source_prior": problem.source_prior,
            "target_prior": problem.target_prior,
            "label_prior": problem.label_prior,
            "bounds": problem.bounds,
            "metric": "log_loss" if problem.log_loss else problem.metric,
            "subject_to": problem.constraints,
            "selection": problem.selection,
            "separate": problem.separate,
            "temperature": problem.temperature,
            "resolution": self.resolution,
        }

    def _take(self, part: Part) -> None:
        samples, priors = part.data.read(self._problem.bounds)
        profile = StrengthProfile.of(samples, priors)
        self._detector.add(samples)
        self._sum.add(profile)
        if self._sample is not None:
            self._sample.add(samples)

    def _profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """What came by; for other bounds than those of the problem, what ``again`` gives."""
        if bounds == self._problem.bounds or self.again is None:
            return self._sum.total()
        total = profile_sum(self.resolution, self.exact_up_to)
        stream = Stream(self.calibrator, self.again(), self._terms)
        for part in stream.parts():
            with part.located():
                total.add(StrengthProfile.of(*part.data.read(bounds)))
        if stream.n_samples != self.n_samples:
            raise OptionError(
                argument="again",
                rule="must give all samples that came by",
                got=f"{stream.n_samples} instead of {self.n_samples}",
                remedy="Let it go through the whole data again.",
            )
        return total.total()

    def _rows(self) -> TuningData:
        """The sample of the rows, as logarithms in any case."""
        assert self._sample is not None  # noqa: S101 - made where something is fitted by log-loss
        scores, labels, weight = self._sample.rows()
        return TuningData(
            scores=scores,
            labels=labels,
            weight=weight,
            ignore_index=None,
            kind="logits",
            class_axis=-1,
            source_prior=self._terms.source_prior,
            target_prior=self._terms.target_prior,
        )


class _Sampled:
    """The passes of a fit: over all that came by for a profile, over a sample for log-losses."""

    def __init__(self, profile_of: ProfileOf, rows: Callable[[], TuningData]) -> None:
        self._profile_of, self._rows = profile_of, rows
        self._support: Any = None

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile the samples within ``bounds``."""
        found = self._profile_of(bounds)
        self._support = found.baseline.support
        return found

    def temperature(self, problem: Problem, shifts: Any) -> TemperatureFit:
        """The best T of the sample."""
        return self._sample.temperature(self._of_all(problem), shifts)

    def log_loss(self, problem: Problem) -> float:
        """The log-loss of the model as it is, on the sample."""
        return self._sample.log_loss(self._of_all(problem))

    def joint(self, problem: Problem) -> LogLossFit:
        """The best T and λ of the sample."""
        return self._sample.joint(self._of_all(problem))

    def scaling(self, problem: Problem) -> ScalingFit:
        """A bias, or a scale and a bias, for every class, of the sample."""
        return self._sample.scaling(self._of_all(problem))

    def read(self, bounds: tuple[float, float]) -> tuple[Samples, Priors]:
        """All samples are not there: what needs them is refused before."""
        return self._sample.read(bounds)

    def counts(self, decisions: ScoreMap) -> ClassCounts:
        """All samples are not there: what needs them is refused before."""
        return self._sample.counts(decisions)

    @cached_property
    def _sample(self) -> InMemory:
        return InMemory(self._rows())

    def _of_all(self, problem: Problem) -> Problem:
        """With the class frequencies of all samples, not of those in the sample."""
        if problem.label_prior is not None or self._support is None:
            return problem
        support = np.asarray(self._support, np.float64)
        return replace(problem, label_prior=support / support.sum())


def _shown(value: Any) -> str:
    """A value as a sentence shows it."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        value = [getattr(each, "text", each) for each in value]
    return repr(getattr(value, "name", value))


def _refuse_all_at_once(options: Any) -> None:
    """Refuse what needs all scores at once."""
    scaled = options.temperature if not options.separate else None
    asked = {
        "tune": options.tune if options.tune == "per_class" else None,
        "cv": options.cv,
        "n_bootstrap": options.n_bootstrap or None,
        "selection": options.selection if options.selection not in CURVE_RULES else None,
        "temperature": scaled if isinstance(scaled, str) and scaled in SCALINGS else None,
    }
    for name, value in asked.items():
        if value is not None:
            raise OptionError(
                argument=name,
                rule="must do without all scores at once, which come by batch by batch and are "
                "not kept",
                got=repr(value),
                remedy="Gather the scores and pass them to PosteriorCalibrator.fit, or leave it "
                "out.",
            )


class RowSample:
    """At most ``size`` rows, each as likely as any other to be among them.

    Every row draws a random number, and those of the smallest are kept. So the smallest of two
    samples together are a sample of both.
    """

    def __init__(self, size: int, seed: Any) -> None:
        self.size = size
        self._draw = np.random.default_rng(seed)
        self._columns: list[tuple[Vector, ...]] = []
        self._limit, self._n = 1.0, 0

    def add(self, rows: Samples) -> None:
        """Let the samples that count take part in the draw."""
        left_out = rows.left_out()
        key = self._draw.random(rows.labels.size)
        chosen = key < self._limit
        if left_out is not None:
            chosen &= ~left_out.reshape(-1)
        index = np.flatnonzero(chosen)
        if index.size > self.size:
            index = np.sort(index[np.argpartition(key[index], self.size)[: self.size]])
        if not index.size:
            return
        taken = replace(
            rows,
            scores=_gathered(rows, index),
            labels=rows.labels.reshape(-1)[index],
            weights=None if rows.weights is None else rows.weights.reshape(-1)[index],
        )
        block = taken.read((slice(None),))
        weight = np.ones(index.size) if block.weights is None else block.weights
        self._keep(key[index], to_numpy(block.scores), block.labels, weight)

    def merge(self, other: RowSample) -> None:
        """Take the sample of other rows in."""
        for part in tuple(other._columns):
            self._keep(*part)

    def rows(self) -> tuple[Vector, Vector, Vector]:
        """Log-scores (n, K), labels and weights of the sample."""
        self._shrink()
        _, scores, labels, weight = self._columns[0]
        return scores, labels, weight

    def _keep(self, *part: Vector) -> None:
        self._columns.append(part)
        self._n += part[0].size
        if self._n > self.size:  # whoever is above this number is out already
            keys = np.concatenate([column[0] for column in self._columns])
            self._limit = float(np.partition(keys, self.size - 1)[self.size - 1])
        if self._n > 2 * self.size:
            self._shrink()

    def _shrink(self) -> None:
        """Keep the rows with the smallest numbers, in the order in which they came."""
        key, *rest = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        if key.size > self.size:
            best = np.sort(np.argpartition(key, self.size)[: self.size])
            key, *rest = (column[best] for column in (key, *rest))
        self._columns, self._n = [(key, *rest)], key.size


def _gathered(rows: Samples, index: Vector) -> Any:
    """Scores (n, K) of some samples; the others, which may lie strided, are not copied."""
    where = np.unravel_index(index, rows.labels.shape)
    if is_numpy_namespace(rows.xp):
        return rows.scores[where]
    return rows.scores[tuple(constant(axis, rows.xp, like=rows.scores) for axis in where)]
