"""Tune a calibrator on batches of scores that are seen once, as a loader gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import are_indices, read_terms
from reprior.calibrator.fitting import tuned
from reprior.calibrator.options import check_options, full_problem
from reprior.core.arrays import constant, is_numpy_namespace, to_numpy
from reprior.core.scaling import SCALINGS
from reprior.engines.chunk_source import Part, Stream
from reprior.engines.chunked import AUTO_RESOLUTION, Resolution, profile_sum, refuse_wide_bins
from reprior.exceptions import Argument, LabelsError, OptionError, Setting, Words
from reprior.profile.merging import PackedProfile
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Priors, ProbabilityDetector, Samples
from reprior.profile.source import InMemory, Pass, Profiled, ProfilePass
from reprior.tuning.selection import CURVE_RULES

__all__ = [
    "OnlineFit",
    "RowSample",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Result = TypeVar("Result")

EXACT_SWITCHES = 1 << 20
"""Switches that are kept one by one: 20 MB."""

SAMPLED_SCORES = 1 << 22
"""Scores that fits by log-loss are made on: a temperature's standard error is then far below
1 %."""


class OnlineFit:
    """Tune a calibrator on batches of labelled scores, without keeping them.

    Memory is bounded: more than ``exact_up_to`` switches are summed in bins, and fits by log-loss
    use a random sample of the rows. Where that sample has all rows and all switches are kept, the
    result is that of ``calibrator.fit`` on all batches at once. Options that need all scores at
    once are refused: ``tune="per_class"``, ``cv``, ``n_bootstrap``,
    ``selection="balanced_log_loss"``, and "bcts" or "vector" for ``metric="log_loss"``.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Its options say what is tuned. :meth:`finish` fits it in place.
    resolution : float, "auto" or None, default "auto"
        Sum switches in bins of this width; None keeps each. "auto" keeps up to ``exact_up_to``
        and then sums in bins of 1e-4, with a warning. "refine" is refused: it needs all scores a
        second time.
    again : callable, optional
        Returns all samples again, as an iterable of Chunk or of (scores, labels[, weight]). It is
        called where the best strength lies at the upper bound, to widen the bounds. Without it the
        bounds stay, with a warning.
    seed : int, default 0
        Seed of the row sample. Give each of several processes another one.
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
                rule="must be a number above 0, 'auto' or None for scores that are seen once",
                got="'refine', which reads them a second time",
                remedy="Pass None to keep every switch, or use engines.fit.",
            )
        self.calibrator, self.again = calibrator, again
        self.resolution, self.exact_up_to = resolution, exact_up_to
        self.n_samples = 0
        self._terms = read_terms(calibrator, calibrator.classes)
        self._problem = full_problem(calibrator, self._terms)
        self._priors = self._problem.priors(self._problem.bounds)
        self._sum = profile_sum(resolution, exact_up_to)
        self._detector = ProbabilityDetector()
        size = max(1, SAMPLED_SCORES // self._terms.classes.size)
        fits = self._problem.log_loss or self._problem.separate
        needed = fits or isinstance(self._problem.temperature, str)
        self._sample = RowSample(size, seed) if needed else None

    def update(self, scores: Any, labels: Any, sample_weight: Any = None) -> None:
        """Add a batch.

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
        """Add the batches of another one for the same problem, and return this one.

        For several processes: objects can be pickled, without ``again``. The other is unchanged.
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
        """Fit the calibrator to all batches so far, and return it. More may follow."""
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
        source = _OnlineSource(self)
        fitted = tuned(
            self._problem,
            source,
            widen=self.again is not None,
            loss_source=source.row_sample,
        )
        if self.resolution == "auto" and fitted.profile.resolution is not None:
            warn(
                [
                    f"There are more than {self.exact_up_to} switches, too many to keep: they are "
                    f"summed in bins of {AUTO_RESOLUTION:g}. Pass ",
                    Setting("resolution", None),
                    " to keep each, or a number.",
                ]
            )
        fitted.warn()
        self.calibrator._adopt(self._problem, fitted)
        return self.calibrator

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: all but ``again``, which may have a loader."""
        return {**self.__dict__, "again": None}

    def _meaning(self) -> dict[str, Any]:
        """Return the options that decide what is counted, and for which fit."""
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
            "certify": problem.certify,
            "selection": problem.selection,
            "separate": problem.separate,
            "temperature": problem.temperature,
            "resolution": self.resolution,
        }

    def _take(self, part: Part) -> None:
        samples = part.samples.excluding(self._priors.excluded)
        profile = StrengthProfile.of(samples, self._priors)
        self._detector.add(samples)
        self._sum.add(profile)
        if self._sample is not None:
            self._sample.add(samples)

    def _profile(self, priors: Priors) -> StrengthProfile:
        """Return the profile of all batches; for wider bounds, of the samples of ``again``."""
        if priors.bounds == self._problem.bounds or self.again is None:
            return self._sum.total()
        total = profile_sum(self.resolution, self.exact_up_to)
        stream = Stream(self.calibrator, self.again(), self._terms)
        for part in stream.parts():
            with part.located():
                samples = part.samples.excluding(priors.excluded)
                total.add(StrengthProfile.of(samples, priors))
        if stream.n_samples != self.n_samples:
            raise OptionError(
                argument="again",
                rule="must give all samples of the batches",
                got=f"{stream.n_samples} instead of {self.n_samples}",
                remedy="Let it give the whole data again.",
            )
        return total.total()


class _OnlineSource:
    """A source of all batches for a profile pass, and of the row sample for other passes."""

    def __init__(self, online: OnlineFit) -> None:
        self._online = online

    def run(self, pass_: Pass[Result]) -> Result:
        """Give the profile of all samples, or run another pass over the sample of rows."""
        online = self._online
        wanted: Pass[Any] = pass_
        if isinstance(wanted, ProfilePass):
            assert isinstance(wanted.priors, Priors)  # noqa: S101 - a calibrator is fitted
            profile = online._profile(wanted.priors)
            profiled: Any = Profiled(PackedProfile(profile), online.n_samples, online._detector)
            return cast(Result, profiled)
        assert self.row_sample is not None  # noqa: S101 - other options that need samples are refused
        return self.row_sample.run(pass_)

    @cached_property
    def row_sample(self) -> InMemory | None:
        """The row sample as a source; None where nothing is fitted by log-loss."""
        online = self._online
        if online._sample is None:
            return None
        return InMemory(online._sample.samples(online._priors.n_classes))


def _shown(value: Any) -> str:
    """Return a value as errors show it."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        value = [getattr(each, "text", each) for each in value]
    return repr(getattr(value, "name", value))


def _refuse_all_at_once(options: Any) -> None:
    """Refuse options that need all scores at once."""
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
                rule="must not need all scores at once, since batches are not kept",
                got=repr(value),
                remedy="Gather the scores and pass them to PosteriorCalibrator.fit, or leave it "
                "out.",
            )


class RowSample:
    """A uniform sample of at most ``size`` rows.

    Every row draws a random number, and the rows with the smallest are kept. So the smallest of two
    samples together are a sample of both.
    """

    def __init__(self, size: int, seed: Any) -> None:
        self.size = size
        self._draw = np.random.default_rng(seed)
        self._columns: list[tuple[Vector, ...]] = []
        self._limit, self._n = 1.0, 0

    def add(self, rows: Samples) -> None:
        """Add the samples that count to the draw."""
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
        """Add the sample of other rows."""
        for part in tuple(other._columns):
            self._keep(*part)

    def samples(self, n_classes: int) -> Samples:
        """Return the kept rows, as log-scores (n, K)."""
        self._shrink()
        _, scores, labels, weights = self._columns[0]
        return Samples.of(scores, labels, weights, n_classes=n_classes, part=True)

    def _keep(self, *part: Vector) -> None:
        self._columns.append(part)
        self._n += part[0].size
        if self._n > self.size:  # rows with a larger number are out already
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
    """Return the scores (n, K) of some samples, without copying the others."""
    where = np.unravel_index(index, rows.labels.shape)
    if is_numpy_namespace(rows.xp):
        return rows.scores[where]
    return rows.scores[tuple(constant(axis, rows.xp, like=rows.scores) for axis in where)]
