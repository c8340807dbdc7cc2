"""Counts by hand, and the bootstrap against a loop over its draws."""

from __future__ import annotations

import numpy as np
import pytest

from reprior_lab.synthia import correction as frame_counts
from reprior_lab.synthia.correction import (
    DRAWS,
    METRICS,
    count_frames,
    found_shares,
    gain_of,
    values_of,
)


def drawn(seed, n_frames=25, n_classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, (n_frames, 6, 7)).astype(np.uint8)
    labels[rng.random(labels.shape) < 0.1] = 255
    right = rng.random(labels.shape) < 0.6
    decided = np.where(right & (labels != 255), labels, rng.integers(0, n_classes, labels.shape))
    return labels, decided


def metrics(labels, decided, n_classes=4):
    """Mean IoU and mean accuracy from a confusion matrix."""
    kept = labels != 255
    matrix = np.zeros((n_classes, n_classes))
    np.add.at(matrix, (labels[kept], decided[kept]), 1)
    hits, rows, columns = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    seen = rows + columns > 0
    return np.mean((hits / (rows + columns - hits))[seen]), np.mean((hits / rows)[rows > 0])


def gained(labels, before, after, n_classes=4):
    """The gain in both metrics, over the same classes on both sides."""
    kept = labels != 255
    sums = []
    for decided in (before, after):
        matrix = np.zeros((n_classes, n_classes))
        np.add.at(matrix, (labels[kept], decided[kept]), 1)
        sums.append((np.diag(matrix), matrix.sum(1), matrix.sum(0)))
    (_, rows, one), (_, _, other) = sums
    seen = np.flatnonzero(rows + one + other > 0)
    ious = [[h[k] / (r[k] + c[k] - h[k]) if h[k] else 0.0 for k in seen] for h, r, c in sums]
    recalls = [[h[k] / r[k] for k in np.flatnonzero(rows)] for h, r, _ in sums]
    return tuple(np.mean(after) - np.mean(before) for before, after in (ious, recalls))


def test_values_are_those_of_the_confusion_matrix():
    labels, decided = drawn(0)
    found = values_of(count_frames(labels, decided, 4))
    assert tuple(found.values()) == pytest.approx(metrics(labels, decided))
    assert tuple(found) == METRICS


def test_a_class_that_is_absent_has_no_share():
    labels = np.array([[[0, 0, 1]]], np.uint8)
    counts = count_frames(labels, np.array([[[0, 2, 1]]]), 3)
    assert found_shares(counts) == [0.5, 1.0, None]
    # A class predicted but absent counts 0 in mean IoU, and not at all in mean accuracy.
    assert values_of(counts) == {"mean_iou": 0.5, "balanced_accuracy": 0.75}


@pytest.mark.parametrize("metric", METRICS)
def test_the_interval_is_that_of_stretches_drawn_anew(metric):
    labels, before = drawn(1, n_frames=43)
    after = np.where(np.arange(43)[:, None, None] % 3 == 0, labels % 4, before)
    counts = [count_frames(labels, each, 4) for each in (before, after)]
    gain = gain_of([counts[0]], [counts[1]], metric, seed=5)
    weights = frame_counts._weights(5, 5)  # ten, ten, ten, ten and three frames
    assert weights.shape == (DRAWS, 5)
    which = METRICS.index(metric)
    gains = []
    for times in weights[:200]:
        frames = np.concatenate(
            [np.tile(np.arange(43)[10 * i : 10 * i + 10], n) for i, n in enumerate(times)]
        )
        gains.append(gained(labels[frames], before[frames], after[frames])[which])
    stretches = [np.add.reduceat(each, np.arange(0, 43, 10), axis=0) for each in counts]
    ours = frame_counts._gains(*stretches, frame_counts.COUNT_METRICS[metric], weights)
    assert ours[:200] == pytest.approx(gains)
    assert (gain.low, gain.high) == pytest.approx(tuple(np.quantile(ours, (0.025, 0.975))))
    whole = [metrics(labels, each)[which] for each in (before, after)]
    assert gain.value == pytest.approx(whole[1] - whole[0])
    assert gain.low < gain.value < gain.high


def rare_class():
    """A class with labels in the first stretch of four alone, which only one side predicts."""
    labels = np.tile(np.arange(3, dtype=np.uint8), (40, 4, 3))
    labels[0, 0, :3] = 3
    before = np.where(labels == 3, 0, labels)
    before[:, 3] = 0
    after = before.copy()
    after[0, 0, :3] = 3
    after[1::10, 1, 1] = 3  # found nowhere else, and said to be everywhere
    return labels, before, after


@pytest.mark.parametrize("metric", METRICS)
def test_a_class_of_one_stretch_counts_on_both_sides_alike(metric):
    labels, before, after = rare_class()
    counts = [count_frames(labels, each, 4) for each in (before, after)]
    stretches = [each.reshape(4, 10, 3, 4).sum(axis=1) for each in counts]
    weights = frame_counts._weights(4, 0)
    ours = frame_counts._gains(*stretches, frame_counts.COUNT_METRICS[metric], weights)
    which, lacking = METRICS.index(metric), weights[:, 0] == 0
    for times, gain in zip(weights[:100], ours[:100], strict=True):
        frames = np.repeat(np.arange(40), np.repeat(times, 10))
        expected = gained(labels[frames], before[frames], after[frames])[which]
        assert gain == pytest.approx(expected)
    # Where a draw has no labels of it, a false alarm costs its pixels and nothing else: three
    # right of some ninety are lost, and not a quarter of the metric.
    assert lacking.any()
    assert np.abs(ours[lacking]).max() < 0.02
    swapped = frame_counts._gains(*stretches[::-1], frame_counts.COUNT_METRICS[metric], weights)
    assert swapped == pytest.approx(-ours)


def test_a_class_that_one_side_alone_predicts_counts_on_both():
    labels = np.zeros((4, 1, 4), np.uint8)
    labels[:, :, 2:] = 1
    before, after = labels.astype(int), labels.astype(int)
    after[0, 0, 0] = 2
    counts = [count_frames(labels, each, 3) for each in (before, after)]
    # Class 2 is 0 on both sides: (7/8 + 1 + 0) / 3 − (1 + 1 + 0) / 3.
    assert gain_of(counts[:1], counts[1:], "mean_iou").value == pytest.approx(-1 / 24)


def test_over_conditions_it_is_the_mean():
    first, second = drawn(2), drawn(3)
    before = [count_frames(*each, 4) for each in (first, second)]
    after = [count_frames(each[0], each[0] % 4, 4) for each in (first, second)]
    together = gain_of(before, after, "mean_iou")
    apart = [gain_of([b], [a], "mean_iou").value for b, a in zip(before, after, strict=True)]
    assert together.value == pytest.approx(np.mean(apart))


def test_nothing_changed_is_nothing_gained():
    counts = count_frames(*drawn(4), 4)
    assert gain_of([counts], [counts], "balanced_accuracy") == (0.0, 0.0, 0.0)


def test_few_frames_are_parted_all_the_same():
    labels, decided = drawn(6, n_frames=6)
    counts = [count_frames(labels, each, 4) for each in (decided, labels % 4)]
    gain = gain_of(counts[:1], counts[1:], "mean_iou")
    assert gain.low < gain.value < gain.high
