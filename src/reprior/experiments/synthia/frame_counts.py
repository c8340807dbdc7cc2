"""Decisions counted frame by frame, and how sure a gain is: bootstrap over stretches of road."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.experiments.synthia.frames import IGNORED
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric
from reprior.metrics.counts import ClassCounts

__all__ = ["METRICS", "STRETCH", "Gain", "count_frames", "found_shares", "gain_of", "values_of"]

Array: TypeAlias = np.ndarray[Any, Any]

#: What the tables are about, in their order.
METRICS = ("mean_iou", "balanced_accuracy")

#: Frames of a stretch that are drawn together: neighbours are all but equal. Of few frames there
#: are at least so many stretches.
STRETCH, LEAST_STRETCHES = 10, 4

#: Draws of the bootstrap, and the coverage of its interval.
DRAWS, CONFIDENCE = 2000, 0.95


class Gain(NamedTuple):
    """A difference of two metrics, and its 95 % interval."""

    value: float
    low: float
    high: float


def count_frames(labels: Array, decided: Array, n_classes: int) -> Array:
    """Return true positives, predicted and support of every class in every frame, (N, 3, K).

    Parameters
    ----------
    labels : uint8 (N, h, w)
        Class indices, 255 for pixels that do not count.
    decided : integer (N, h, w)
        The classes that were decided for.
    n_classes : int
        K.

    Examples
    --------
    >>> labels = np.array([[[0, 1, 255]]], np.uint8)
    >>> count_frames(labels, np.array([[[0, 0, 1]]]), 2)
    array([[[1, 0],
            [2, 0],
            [1, 1]]])
    """
    found = np.zeros((len(labels), 3, n_classes), np.int64)
    for frame, own, said in zip(found, labels, decided, strict=True):
        kept = own != IGNORED
        counts = ClassCounts.from_predictions(
            own[kept].astype(np.int64), said[kept], n_classes=n_classes
        )
        frame[:] = counts.true_positive, counts.predicted, counts.support
    return found


def values_of(counts: Array) -> dict[str, float]:
    """Return mean IoU and mean accuracy of all frames.

    Examples
    --------
    >>> values_of(np.array([[[1, 0], [2, 0], [1, 1]]]))
    {'mean_iou': 0.25, 'balanced_accuracy': 0.5}
    """
    total = ClassCounts(*counts.sum(axis=0))
    return {name: COUNT_METRICS[name](total) for name in METRICS}


def found_shares(counts: Array) -> list[float | None]:
    """Return the share of each class's pixels that are found; None where it has none.

    Examples
    --------
    >>> found_shares(np.array([[[1, 0, 0], [2, 0, 0], [1, 1, 0]]]))
    [1.0, 0.0, None]
    """
    hits, _, support = counts.sum(axis=0)
    return [round(float(hit / n), 6) if n else None for hit, n in zip(hits, support, strict=True)]


def gain_of(before: Sequence[Array], after: Sequence[Array], metric: str, *, seed: int = 0) -> Gain:
    """Return what a metric gains, the mean over conditions, with its bootstrap interval.

    Stretches of ten frames (fewer where there are under forty) are drawn anew with replacement,
    the same ones before and after, and the same ones under every condition that has as many; the
    interval is from the 2.5 % to the 97.5 % quantile of the gains. Strengths are taken as given.

    Both sides are averaged over the same classes: those with labels, and for the mean IoU those
    that either side predicts too. A class that a draw has not is left out of it on both sides.

    Parameters
    ----------
    before, after : sequence of int (N, 3, K)
        Counts of the frames under each condition, see :func:`count_frames`.
    metric : str
        "mean_iou" or "balanced_accuracy".
    seed : int, default 0
        Of the draws.
    """
    of = COUNT_METRICS[metric]
    values, draws = [], np.zeros(DRAWS)
    for one, other in zip(before, after, strict=True):
        length = max(1, min(STRETCH, len(one) // LEAST_STRETCHES))
        starts = np.arange(0, len(one), length)
        was, became = (np.add.reduceat(counts, starts, axis=0) for counts in (one, other))
        values.append(_gains(was, became, of, np.ones((1, len(starts))))[0])
        draws += _gains(was, became, of, _weights(len(starts), seed))
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.quantile(draws / len(values), (tail, 1.0 - tail))
    return Gain(float(np.mean(values)), float(low), float(high))


def _weights(n_stretches: int, seed: int) -> Array:
    """How often each stretch is drawn in each draw, (draws, stretches)."""
    rng = np.random.default_rng([seed, n_stretches])
    return rng.multinomial(n_stretches, np.full(n_stretches, 1.0 / n_stretches), size=DRAWS)


def _gains(before: Array, after: Array, metric: CountMetric, weights: Array) -> Array:
    """Return the gain of each draw, from the counts of each stretch."""
    drawn = [np.moveaxis(np.tensordot(weights, counts, axes=1), 1, 0) for counts in (before, after)]
    there = drawn[0][2] > 0
    if metric.average != "labelled":
        # One set of classes for both sides. Were it each side's own, a class that one of them
        # alone predicts, and a draw has no labels of, would divide one sum by one more.
        there = there | (drawn[0][1] > 0) | (drawn[1][1] > 0)
    was, became = (np.where(there, metric.ratio(*each), 0.0).sum(axis=1) for each in drawn)
    # A draw may miss every frame with any label: it has no metric, and no gain.
    gained: Array = (became - was) / np.maximum(there.sum(axis=1), 1)
    return gained
