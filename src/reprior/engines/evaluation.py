"""Evaluate a calibrator chunk by chunk: every metric before and after, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import Terms, cost_array, is_range
from reprior.core.arrays import to_numpy
from reprior.core.decision import cost_matrix, decide
from reprior.core.logspace import ROW_SUM_TOLERANCE
from reprior.core.score_map import ScoreMap
from reprior.engines.chunk_source import Part, Progress, Stream
from reprior.engines.concurrency import OrderedThreads
from reprior.exceptions import RepriorError, ScoresError
from reprior.files.chunks import LeftOut, describe_left_out
from reprior.files.scores import ScoreFile
from reprior.metrics.calibration import Reliability
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts
from reprior.profile.samples import (
    Block,
    ProbabilityDetector,
    Samples,
    without_likely_probabilities,
)

__all__ = ["Evaluation", "evaluate"]

Vector = np.ndarray[Any, Any]

BLOCK_SCORES = 1 << 20
"""Scores whose posteriors are in memory at a time."""

SMALL = 1e-3
"""Below this probability, the log-loss takes the log-posterior: a posterior of a short dtype has
few digits there, or none."""

SHOWN = ("accuracy", "balanced_accuracy", "mean_iou", "macro_precision", "macro_f1")
"""Count metrics that are always reported."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of a calibrator on labelled data: ``before`` is the uncorrected model.

    Attributes
    ----------
    n_samples : int
        Samples that count, ignored and weightless ones left out.
    before, after : ClassCounts
        True positives, predicted and support of every class.
    reliability_before, reliability_after : Reliability
        Confidence and accuracy in bins.
    log_loss, brier : (float, float)
        Before and after.
    metric : CountMetric or None
        The metric that the calibrator was tuned for, where that is a known count metric.
    left_out : tuple of LeftOut
        The unreadable parts of files that were opened with ``skip_unreadable``.
    mean_cost : (float, float) or None
        The mean cost per sample of decisions of least expected cost, before and after, where costs
        are given: smaller is better.
    """

    n_samples: int
    before: ClassCounts
    after: ClassCounts
    reliability_before: Reliability
    reliability_after: Reliability
    log_loss: tuple[float, float]
    brier: tuple[float, float]
    metric: CountMetric | None = None
    left_out: tuple[LeftOut, ...] = ()
    mean_cost: tuple[float, float] | None = None

    @property
    def metrics(self) -> dict[str, tuple[float, float]]:
        """Every metric's value before and after."""
        counted = {name: COUNT_METRICS[name] for name in SHOWN}
        if self.metric is not None:
            counted.setdefault(self.metric.name, self.metric)
        sides = self.reliability_before, self.reliability_after
        return {
            **{name: (metric(self.before), metric(self.after)) for name, metric in counted.items()},
            "log_loss": self.log_loss,
            "brier": self.brier,
            "ece": (sides[0].ece, sides[1].ece),
            "classwise_ece": (sides[0].classwise_ece, sides[1].classwise_ece),
            **({} if self.mean_cost is None else {"mean_cost": self.mean_cost}),
        }

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {a:.4g} → {b:.4g}" for name, (a, b) in self.metrics.items())
        return f"Evaluation({self.n_samples} samples, {shown})"


def evaluate(
    calibrator: PosteriorCalibrator,
    chunks: Iterable[Any],
    *,
    costs: Any = None,
    progress: Progress = None,
) -> Evaluation:
    """Evaluate a fitted calibrator on labelled scores that come in chunks, in one pass.

    Predictions are those of :meth:`PosteriorCalibrator.predict`, probabilities those of
    :meth:`PosteriorCalibrator.predict_proba`; the values are those of the functions in
    ``reprior.metrics`` on all posteriors at once, to rounding. The log-loss is that of the
    log-posterior: it is finite where a probability is too small for its dtype.

    Parameters
    ----------
    calibrator : PosteriorCalibrator
        Fitted, or loaded. Samples with its ``ignore_index`` as label are left out.
    chunks : iterable of Chunk, or of (scores, labels[, weight])
        Data it was not tuned on. Integer labels are class indices; others are names. For files
        that were opened with ``skip_unreadable``, a warning names what was left out.
    costs : array-like of shape (K, D), optional
        ``costs[true, decided]``, as for :meth:`PosteriorCalibrator.predict`. ``mean_cost`` is then
        the mean cost, at the labels, of the decisions of least expected cost, before and after.
    progress : callable, optional
        Called after every chunk with the number of samples read so far.

    Returns
    -------
    Evaluation
        Counts, reliability and metrics, before and after.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> labels = np.array([0, 0, 1, 1])
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, labels)
    >>> evaluation = rp.engines.evaluate(calibrator, [(logits, labels)])
    >>> evaluation.metrics["accuracy"]
    (0.75, 1.0)

    To miss class 1 costs five times a false alarm, and to ask a human half a false alarm:

    >>> costs = [[0, 1, 0.5], [5, 0, 0.5]]
    >>> rp.engines.evaluate(calibrator, [(logits, labels)], costs=costs).mean_cost
    (0.375, 0.25)
    """
    names = None if is_range(calibrator._fitted.classes_) else calibrator.classes_
    terms = Terms(calibrator.classes_, names, calibrator.source_prior_, calibrator.target_prior_)
    stream = Stream(calibrator, chunks, terms, progress)
    n_classes = terms.classes.size
    if costs is not None:
        costs = cost_matrix(cost_array(costs, calibrator.classes_), n_classes)
    metric = _metric_of(calibrator, n_classes)
    paired = metric is not None and metric.needs != "classes"
    before, after = (
        _Tally(each, costs, paired=paired) for each in (calibrator.uncorrected(), calibrator)
    )
    sides = before, after
    detector = ProbabilityDetector()
    # Chunks of files are new arrays; others may be refilled for the next chunk.
    from_files = isinstance(chunks, ScoreFile)
    with without_likely_probabilities(), OrderedThreads[tuple[_Sums, ...]]() as threads:
        for part in stream.parts():
            with part.located():
                rows = part.samples
                detector.add(rows)
            for index in rows.blocks(BLOCK_SCORES):
                _add(threads.call(partial(_judged, sides, part, rows, index)), sides)
            if not from_files:
                _add(threads.rest(), sides)
        _add(threads.rest(), sides)
    detector.warn()
    left_out = tuple(getattr(chunks, "left_out", ()))
    if left_out:
        warn(describe_left_out(left_out))
    return Evaluation(
        after.n_samples,
        before.counts,
        after.counts,
        before.reliability,
        after.reliability,
        (before.log_loss / before.weight, after.log_loss / after.weight),
        (before.brier / before.weight, after.brier / after.weight),
        metric,
        left_out,
        None if costs is None else (before.cost / before.weight, after.cost / after.weight),
    )


class _Sums(NamedTuple):
    """What a calibrator does to some samples."""

    n_samples: int
    counts: ClassCounts
    reliability: Reliability
    weight: float
    brier: float
    log_loss: float
    cost: float


class _Tally:
    """What a calibrator does to the samples that came by: its decisions, and its probabilities."""

    def __init__(
        self, calibrator: PosteriorCalibrator, costs: Vector | None, *, paired: bool = False
    ) -> None:
        self.paired = paired
        self.priors = calibrator.source_prior_, calibrator.target_prior_
        self.decision = calibrator._decision
        self.probability = calibrator.probability_map_ or self.decision
        n_classes = self.n_classes = self.priors[0].size
        none = np.zeros(n_classes, np.int64)
        self.counts = ClassCounts(none, none, none)
        self.reliability, self.n_samples = Reliability.empty(n_classes), 0
        self.log_loss = self.brier = self.weight = self.cost = 0.0
        self.costs = costs

    def add(self, sums: _Sums) -> None:
        """Add the sums of some samples."""
        self.n_samples += sums.n_samples
        self.counts = sums.counts if self.n_samples == sums.n_samples else self.counts + sums.counts
        self.reliability += sums.reliability
        self.weight += sums.weight
        self.brier += sums.brier
        self.log_loss += sums.log_loss
        self.cost += sums.cost

    def judged(self, block: Block, kind: str) -> _Sums:
        """Sums of scores (n, K) of the samples that count, with labels and weights."""
        z, y, w = block[:3]
        images = block.images
        posterior = self._posterior(self.probability, z, kind)
        decided = self.decision.decide(z, *self.priors, kind=kind, class_axis=-1)
        counts = ClassCounts.from_predictions(
            y,
            decided,
            n_classes=self.n_classes,
            sample_weight=w,
            pairs=self.paired,
            image_ids=images,
        )
        ones = np.ones(y.size) if w is None else w
        total = float(ones.sum())
        true = posterior[np.arange(y.size), y].astype(np.float64)
        small = np.flatnonzero(true < SMALL)
        with np.errstate(divide="ignore"):
            true = np.log(true)
        if small.size:
            exact = self._posterior(self.probability, z[small], kind, log=True)
            true[small] = exact[np.arange(small.size), y[small]]
        gap = posterior.astype(np.float64)
        gap[np.arange(y.size), y] -= 1.0
        brier = float(ones @ np.einsum("ij,ij->i", gap, gap)) / (2 if self.n_classes == 2 else 1)
        reliability = Reliability.of_rows(posterior, y, ones)
        log_loss = -float((ones * true).sum())
        cost = 0.0
        if self.costs is not None:
            cost = float(ones @ self.costs[y, decide(posterior, self.costs)])
        return _Sums(y.size, counts, reliability, total, brier, log_loss, cost)

    def _posterior(self, score_map: ScoreMap, z: Any, kind: str, *, log: bool = False) -> Any:
        return score_map.posterior(z, *self.priors, kind=kind, class_axis=-1, log=log)


def _add(results: Iterable[tuple[_Sums, ...]], sides: Sequence[_Tally]) -> None:
    for both in results:
        for side, sums in zip(sides, both, strict=False):  # empty where no sample counts
            side.add(sums)


def _judged(sides: Sequence[_Tally], part: Part, rows: Samples, index: Any) -> tuple[_Sums, ...]:
    """Return each side's sums over a block; errors name samples by their index among all."""
    with part.located():
        try:
            block, kind = _read(rows, index)
            return tuple(side.judged(block, kind) for side in sides if block.labels.size)
        except ScoresError:
            rows.refuse(sides[0].priors[1] > 0)


def _read(rows: Samples, index: Any) -> tuple[Block, str]:
    """Return the scores that count of a block, (n, K) on the host, and their kind.

    They are as given, so that their posterior is that of ``predict_proba``; but probabilities of a
    dtype so short that rows miss 1 come as logarithms.
    """
    coarse = rows.tolerance > ROW_SUM_TOLERANCE
    raw = replace(rows, kind="logits")
    block = rows.read(index) if coarse else raw.read(index, check=False)
    return block._replace(scores=to_numpy(block.scores)), "logits" if coarse else rows.kind


def _metric_of(calibrator: PosteriorCalibrator, n_classes: int) -> CountMetric | None:
    """Return the tuned metric; None where a file names one that is not known here."""
    names = None if is_range(calibrator.classes_) else calibrator.classes_.tolist()
    try:
        return find_metric(
            calibrator.metric,
            n_classes=n_classes,
            classes=names,
            class_groups=calibrator.class_groups,
        )
    except RepriorError:
        return None
