"""ClassChangeDisplay: the library's ratios, in order of the training counts."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.plots.shared import NAMES

import reprior as rp
from reprior.engines import evaluate
from reprior.report.plots import ClassChangeDisplay

METRICS = {
    "recall": "macro_recall", "precision": "macro_precision", "iou": "mean_iou", "f1": "macro_f1",
}  # fmt: skip


def per_class(metric, labels, predictions, n_classes=4):
    counts = rp.ClassCounts.from_predictions(labels, predictions, n_classes=n_classes)
    return rp.metrics.COUNT_METRICS[METRICS[metric]].per_class(counts)


@pytest.mark.parametrize("metric", METRICS)
def test_the_points_are_the_librarys_ratios(calibrator, judge_on, metric):
    logits, names = judge_on
    labels = np.array([NAMES.index(name) for name in names])
    after = np.array([NAMES.index(name) for name in calibrator.predict(logits)])
    counts = [10, 400, 30, 20]
    display = ClassChangeDisplay.from_calibrator(
        calibrator, logits, names, metric=metric, counts=counts
    )
    assert display.order_.tolist() == [1, 2, 3, 0]
    for points, predicted in ((display.before_, logits.argmax(axis=1)), (display.after_, after)):
        wanted = per_class(metric, labels, predicted)[display.order_]
        assert np.array_equal(points.get_offsets()[:, 0], wanted)
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert ticks == ["bee (400)", "cat (30)", "dog (20)", "ant (10)"]


def test_without_counts_the_source_prior_orders(calibrator, judge_on):
    display = ClassChangeDisplay.from_calibrator(calibrator, *judge_on)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == NAMES
    assert display.ax_.get_xlabel() == "recall"


def test_segments_go_from_before_to_after(calibrator, judge_on):
    display = ClassChangeDisplay.from_calibrator(calibrator, *judge_on)
    ends = [segment[:, 0].tolist() for segment in display.segments_.get_segments()]
    assert ends == np.stack([display.before, display.after], axis=1).tolist()
    assert display.before[0] > display.after[0]
    colours = display.segments_.get_colors()
    assert not np.array_equal(colours[0], colours[3])


def test_a_profile_at_one_strength(profile):
    display = ClassChangeDisplay.from_profile(profile, 1.0, metric="iou", classes=NAMES)
    ratio = rp.metrics.COUNT_METRICS["mean_iou"].per_class
    assert np.array_equal(display.before, ratio(profile.baseline))
    assert np.array_equal(display.after, ratio(profile.counts(1.0)))
    assert display.ax_.get_xlabel() == "IoU"


def test_classes_without_labels_are_left_out(calibrator, judge_on):
    logits, names = judge_on
    some = names != "cat"
    display = ClassChangeDisplay.from_calibrator(calibrator, logits[some], names[some])
    assert display.order_.tolist() == [0, 1, 3]


def test_many_classes_are_drawn_as_means_of_groups(many):
    calibrator, logits, labels = many
    display = ClassChangeDisplay.from_calibrator(calibrator, logits, labels)
    assert display.segments_ is None
    runs = np.array_split(display.order_, 40)
    wanted = [np.nanmean(display.after[run]) for run in runs]
    np.testing.assert_allclose(display.after_.get_ydata(), wanted)
    assert display.before_.get_xdata()[0] == (runs[0].size + 1) / 2
    assert display.ax_.get_xlabel() == "rank in training count, groups of 7 or 8 classes"


def test_counts_by_name(calibrator, judge_on):
    counts = {"dog": 1, "cat": 2, "bee": 3, "ant": 4}
    display = ClassChangeDisplay.from_calibrator(calibrator, *judge_on, counts=counts)
    assert display.sizes.tolist() == [4, 3, 2, 1]


def test_options_reach_the_artists(calibrator, judge_on):
    display = ClassChangeDisplay.from_calibrator(
        calibrator,
        *judge_on,
        before_kw={"s": 5},
        after_kw={"marker": "s", "label": "now"},
        segment_kw={"lw": 7, "color": "black"},
    )
    assert display.before_.get_sizes().tolist() == [5]
    assert display.after_.get_label() == "now"
    assert display.segments_.get_linewidths().tolist() == [7]
    assert display.segments_.get_colors()[:, :3].tolist() == [[0, 0, 0]]


def test_missing_counts_are_named(calibrator, judge_on):
    with pytest.raises(rp.OptionError, match=r"`counts` must have every class. Got none for 'dog'"):
        ClassChangeDisplay.from_calibrator(
            calibrator, *judge_on, counts={"ant": 1, "bee": 1, "cat": 1}
        )


def test_counts_of_other_classes_are_refused(profile):
    with pytest.raises(rp.OptionError, match=r"one number per class, 4. Got shape \(3,\)"):
        ClassChangeDisplay.from_profile(profile, 1.0, counts=[1, 2, 3])


def test_other_ratios_are_refused(profile):
    with pytest.raises(rp.OptionError, match=r"`metric` must be one of .* Got 'accuracy'"):
        ClassChangeDisplay.from_profile(profile, 1.0, metric="accuracy")


def test_a_strength_outside_the_bounds_is_refused(profile):
    with pytest.raises(rp.OptionError, match="must lie within the bounds of the profile"):
        ClassChangeDisplay.from_profile(profile, 9.0)


def test_an_evaluation_draws_the_same(calibrator, judge_on):
    found = evaluate(calibrator, [judge_on])
    chunked = ClassChangeDisplay.from_evaluation(
        found, {"ant": 4, "bee": 3, "cat": 2, "dog": 1}, metric="f1", classes=NAMES
    )
    at_once = ClassChangeDisplay.from_calibrator(calibrator, *judge_on, metric="f1")
    assert np.array_equal(chunked.before, at_once.before)
    assert np.array_equal(chunked.after, at_once.after)
    assert chunked.order_.tolist() == [0, 1, 2, 3]
