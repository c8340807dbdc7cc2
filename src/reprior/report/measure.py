"""One pass over labelled chunks: all figures of the page about a set of samples.

Every block is processed twice: by :class:`StrengthProfile`, for curves and optima, and by the
envelope itself, for what a profile does not keep: the joint table of labels and predictions, the
confidence of every sample's prediction along the grid, and switches with both their classes where
there are so many that the profile bins them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.calibrator.encoding import Terms, is_range
from reprior.core.prior import slopes
from reprior.engines.chunk_source import Stream
from reprior.engines.chunked import MOST_SWITCHES, profile_sum
from reprior.engines.fingerprint import Digest
from reprior.exceptions import Argument, RepriorError
from reprior.metrics.counts import ClassCounts
from reprior.profile.envelope import Envelope, envelope
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Block, Priors, Samples
from reprior.report.headline import main_metric
from reprior.report.intervals import GainInterval, SampleKeeper
from reprior.report.thinning import RowBuffer, SwitchRows, grouped, summed_per_class

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator

__all__ = [
    "GRID_SIZE",
    "GridReliability",
    "Measured",
    "measure",
    "page_bounds",
    "predictions_along",
    "strength_grid",
]


Vector: TypeAlias = np.ndarray[Any, Any]
Progress: TypeAlias = Callable[[int], Any]

#: Evenly spaced strengths at which probabilities are judged; 0 and the chosen one are added.
GRID_SIZE = 41

#: Scores of one block: exponentials of a block are in memory at once, in float64.
BLOCK = 1 << 21


@dataclass(frozen=True, eq=False)
class Measured:
    """What one set of labelled scores does at every strength.

    ``joint`` has a row for every pair of label and prediction at the lower bound, ``switches``
    every change from there on, on a grid of width ``resolution`` where they are too many to keep.
    ``before`` is the reliability of the uncorrected model (strength 0, temperature 1), ``grid``
    that at the calibrator's temperature. At strength 0 ``grid`` repeats ``before``, unless 0 is
    the chosen strength. ``gain`` is the bootstrap interval of the tuned metric's gain; where there
    is none, ``no_gain_interval`` says why.
    """

    profile: StrengthProfile
    joint: SwitchRows
    switches: SwitchRows
    resolution: float | None
    before: GridReliability
    grid: GridReliability
    digest: str
    n_read: int
    """Samples read, ignored ones too."""
    gain: GainInterval | None
    no_gain_interval: str | None

    def counts(self, strength: float) -> ClassCounts:
        """Counts at 0, the chosen strength or a bound: exact there, also where bins are kept."""
        base = self.profile.baseline
        n = self.profile.n_classes
        until = int(np.searchsorted(self.switches.position, strength, side="right"))
        moved = self.switches.taken(np.arange(until))
        rows = SwitchRows.joined([self.joint, summed_per_class(moved, n)])
        right = rows.label == rows.after
        number = np.bincount(rows.after, rows.count, n).astype(np.int64)
        mass = rows.count if rows.weight is None else rows.weight
        is_predicted = number > 0  # where no sample is left, sums of weights keep rounding errors
        return ClassCounts(
            np.bincount(rows.after[right], mass[right], n) * is_predicted,
            np.bincount(rows.after, mass, n) * is_predicted,
            base.support,
            n_predicted=number,
            n_labelled=base.n_labelled,
        )


def page_bounds(calibrator: PosteriorCalibrator) -> tuple[float, float]:
    """The calibrator's bounds, widened to hold 0, the chosen strength and its interval.

    A class of target prior 0, which a retargeted calibrator may have, leaves nothing below 0.
    """
    held = [0.0, calibrator.strength_, *calibrator.bounds, *calibrator.strength_interval_]
    if calibrator.profile_ is not None:
        held += calibrator.profile_.bounds
    if calibrator.strength_ >= 0.0 and not (calibrator.target_prior_ > 0.0).all():
        held = [max(strength, 0.0) for strength in held]
    return float(min(held)), float(max(held))


def strength_grid(calibrator: PosteriorCalibrator) -> Vector:
    """Strengths at which probabilities are judged, increasing."""
    even = np.linspace(*page_bounds(calibrator), GRID_SIZE).round(12)
    return np.unique([*even, 0.0, calibrator.strength_])


def measure(
    calibrator: PosteriorCalibrator,
    chunks: Iterable[Any],
    *,
    name: str,
    progress: Progress | None = None,
    done: int = 0,
) -> Measured:
    """Measure ``chunks`` in one pass; ``name`` is the argument in errors."""
    try:
        return _measured(calibrator, chunks, progress, done)
    except RepriorError as error:
        raise error.with_sentence(["This is about ", Argument(name), "."]) from error


def _measured(
    calibrator: PosteriorCalibrator, chunks: Iterable[Any], progress: Progress | None, done: int
) -> Measured:
    w = slopes(calibrator.source_prior_, calibrator.target_prior_)
    low, high = page_bounds(calibrator)
    priors = Priors.between(calibrator.source_prior_, calibrator.target_prior_, (low, high))
    grid = GridReliability(strength_grid(calibrator), w, calibrator.temperature_)
    before = GridReliability(np.zeros(1), w)
    tempered = grid.temperature != 1.0
    tally = _Tally(w.size, low)
    buffer = RowBuffer([low, 0.0, calibrator.strength_], high)
    digest = Digest(calibrator.class_axis)
    keeper = SampleKeeper()
    profiles = profile_sum("auto", MOST_SWITCHES)
    report_progress = None if progress is None else (lambda n: progress(done + n))
    stream = Stream(calibrator, chunks, _terms(calibrator), report_progress)
    for part in stream.parts(digest.update):
        with part.located():
            samples = part.samples.excluding(priors.excluded)
            profiles.add(StrengthProfile.of(samples, priors))
            keeper.add(samples)
            for block, winners in _winners(samples, w, (low, high)):
                tally.add(block, winners.start)
                buffer.add(_rows(block, winners))
                labelled_scores = (block.scores, block.labels, block.weights)
                if tempered:
                    before.add(*labelled_scores, winners.origin[:, None])
                grid.add(*labelled_scores, predictions_along(winners, grid.strengths))
    if not tempered:
        before = grid.only(0.0)
    elif calibrator.strength_ != 0.0:
        grid.replace(before)
    profile = profiles.total()
    metric = main_metric(calibrator)
    if not metric.has_labels(profile.baseline.labelled):
        keeper.reason = "The set has no labels for the tuned metric."
    gain = keeper.gain(priors, metric)
    return Measured(
        profile,
        tally.closed(),
        *buffer.closed(),
        before,
        grid,
        digest.value,
        stream.n_samples or 0,
        gain,
        keeper.reason,
    )


def _terms(calibrator: PosteriorCalibrator) -> Terms:
    """The classes and priors of a fitted calibrator."""
    classes = calibrator.classes_
    names = None if is_range(classes) else classes
    return Terms(classes, names, calibrator.source_prior_, calibrator.target_prior_)


def _winners(
    rows: Samples, w: Vector, bounds: tuple[float, float]
) -> Iterator[tuple[Block, Envelope]]:
    """Yield the samples block by block, with their winning classes at every strength."""
    for index in rows.blocks(BLOCK):
        block = rows.read(index)
        if block.labels.size:
            winners = envelope(block.scores, w, bounds, rows.xp)
            yield block, rows.refuse(np.isfinite(w)) if winners is None else winners


def _rows(block: Block, winners: Envelope) -> SwitchRows:
    return SwitchRows(
        winners.position,
        block.labels[winners.row],
        winners.loser,
        winners.winner,
        np.ones(winners.row.size, np.int64),
        None if block.weights is None else block.weights[winners.row],
    )


class _Tally:
    """The joint table of labels and predictions, kept sparse: nothing quadratic in K."""

    def __init__(self, n_classes: int, low: float) -> None:
        self.n_classes = n_classes
        self.low = low
        self.rows: SwitchRows | None = None

    def add(self, block: Block, predicted: Vector) -> None:
        """Count the samples of a block."""
        size = predicted.size
        no_class = np.full(size, self.n_classes)
        more = SwitchRows(
            np.full(size, self.low),
            block.labels,
            no_class,
            predicted,
            np.ones(size, np.int64),
            block.weights,
        )
        self.rows = grouped(more if self.rows is None else SwitchRows.joined([self.rows, more]))

    def closed(self) -> SwitchRows:
        """Return the table."""
        assert self.rows is not None  # noqa: S101 - a set without samples was refused before
        return self.rows


N_BINS = 15

#: Below this logarithm of a term, smaller ones of the same sum may be lost to underflow.
SMALLEST_LOG = -600.0


def predictions_along(winners: Envelope, strengths: Vector) -> Vector:
    """The class of every sample at increasing strengths, (N, G)."""
    order = np.argsort(winners.position, kind="stable")
    position = winners.position[order]
    row = winners.row[order]
    winner = winners.winner[order]
    current = winners.start.astype(np.int64, copy=True)
    result = np.empty((current.size, strengths.size), np.int64)
    done = 0
    for g, strength in enumerate(strengths):
        until = int(np.searchsorted(position, strength, side="right"))
        # Of several switches of one sample the last one, in order of strength, stands.
        current[row[done:until]] = winner[done:until]
        result[:, g], done = current, until
    return result


#: What :class:`GridReliability` sums, with a row per strength.
_SUMS = ("weight", "confidence", "hits", "loss")


@dataclass(eq=False)
class GridReliability:
    """Confidence, hits and weight per bin of confidence, and log-loss, at every strength.

    Bin b holds the confidences in (b/15, (b+1)/15], as in
    :func:`reprior.metrics.reliability_curve`.
    """

    strengths: Vector
    slopes: Vector
    temperature: float = 1.0
    weight: Vector = field(init=False)
    confidence: Vector = field(init=False)
    hits: Vector = field(init=False)
    loss: Vector = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.strengths.size, N_BINS)
        self.weight, self.confidence, self.hits = (np.zeros(shape) for _ in range(3))
        self.loss = np.zeros(self.strengths.size)

    def add(self, scores: Vector, labels: Vector, weights: Vector | None, chosen: Vector) -> None:
        """Count a block: log-scores (n, K), labels (n,), weights, predictions (n, G)."""
        weight = np.ones(labels.size) if weights is None else weights
        each = np.arange(labels.size)
        scaled = scores.astype(np.float64) / self.temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        shift = self._shift()
        top = scaled[each[:, None], chosen] + shift.T[chosen, np.arange(self.strengths.size)]
        log_total = self._log_totals(scaled, shift, top)
        sure = np.minimum(np.exp(top - log_total), 1.0)
        of_label = scaled[each, labels][:, None] + shift.T[labels]
        self.loss += weight @ (log_total - of_label)
        edges = np.linspace(0.0, 1.0, N_BINS + 1)
        cell = np.searchsorted(edges[1:-1], sure, side="left")
        cell += N_BINS * np.arange(self.strengths.size)
        spread = np.broadcast_to(weight[:, None], sure.shape)
        hit = chosen == labels[:, None]
        for table, values in (
            (self.weight, spread),
            (self.confidence, spread * sure),
            (self.hits, spread * hit),
        ):
            sums = np.bincount(cell.ravel(), values.ravel(), minlength=table.size)
            table += sums.reshape(table.shape)

    @property
    def ece(self) -> Vector:
        """Expected calibration error at every strength, (G,)."""
        gap = np.abs(self.confidence - self.hits).sum(axis=1)
        return np.asarray(gap / self.weight.sum(axis=1))

    @property
    def log_loss(self) -> Vector:
        """Mean negative log-probability of the labels at every strength, (G,)."""
        return np.asarray(self.loss / self.weight.sum(axis=1))

    def only(self, strength: float) -> GridReliability:
        """Return the figures of one strength of the grid."""
        selected = self.strengths == strength
        alone = GridReliability(self.strengths[selected], self.slopes, self.temperature)
        for name in _SUMS:
            setattr(alone, name, getattr(self, name)[selected])
        return alone

    def replace(self, other: GridReliability) -> None:
        """Take the figures of ``other`` at its strengths, which are among these."""
        index = np.searchsorted(self.strengths, other.strengths)
        for name in _SUMS:
            getattr(self, name)[index] = getattr(other, name)

    def _shift(self) -> Vector:
        """λ·w / T, (G, K), less its largest entry per strength; 0·(−inf) = 0."""
        with np.errstate(invalid="ignore"):
            shift = np.outer(self.strengths / self.temperature, self.slopes)
        shift[self.strengths == 0.0] = 0.0
        return np.asarray(shift - shift.max(axis=1, keepdims=True))

    def _log_totals(self, scaled: Vector, shift: Vector, top: Vector) -> Vector:
        """Logarithm of the sum over classes, (n, G); term by term where products underflow."""
        with np.errstate(divide="ignore", under="ignore"):
            total = np.log(np.exp(scaled) @ np.exp(shift).T)
        for g in np.flatnonzero((top < SMALLEST_LOG).any(axis=0)):
            rows = np.flatnonzero(top[:, g] < SMALLEST_LOG)
            terms = scaled[rows] + shift[g]
            peak = terms.max(axis=1)
            with np.errstate(under="ignore"):
                total[rows, g] = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        return np.asarray(total)
