"""ReliabilityDisplay draws the library's reliability curve."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.plots.shared import NAMES, PRIOR

import reprior as rp
from reprior.engines import evaluate
from reprior.report.plots import ReliabilityDisplay


def test_before_and_after_are_the_librarys_curves(calibrator, judge_on):
    logits, labels = judge_on
    index = np.array([NAMES.index(name) for name in labels])
    display = ReliabilityDisplay.from_calibrator(calibrator, logits, labels, n_bins=7)
    posteriors = (calibrator.uncorrected().predict_proba(logits), calibrator.predict_proba(logits))
    for line, dots, posterior, word in zip(
        display.lines_, display.markers_, posteriors, ("before", "after"), strict=True
    ):
        curve = rp.metrics.reliability_curve(posterior, index, n_bins=7)
        full = curve.count > 0
        joined = curve.count >= 3
        assert np.array_equal(line.get_xdata(), curve.confidence[joined])
        assert np.array_equal(line.get_ydata(), curve.accuracy[joined])
        assert np.array_equal(dots.get_offsets()[:, 0], curve.confidence[full])
        ece = rp.metrics.expected_calibration_error(posterior, index, n_bins=7)
        assert line.get_label() == f"{word} (ECE {ece:.3f})"


def test_a_bin_of_two_samples_has_a_marker_but_no_line():
    confidence = np.repeat([0.55, 0.65, 0.75, 0.95], [40, 2, 30, 1])
    posterior = np.stack([confidence, 1 - confidence], axis=1)
    display = ReliabilityDisplay.from_predictions(posterior, np.ones(73, int), n_bins=10)
    np.testing.assert_allclose(display.lines_[0].get_xdata(), [0.55, 0.75])
    np.testing.assert_allclose(display.markers_[0].get_offsets()[:, 0], [0.55, 0.65, 0.75, 0.95])


def test_larger_bins_have_larger_markers(calibrator, judge_on):
    display = ReliabilityDisplay.from_calibrator(calibrator, *judge_on)
    count = display.curves["before"].count
    sizes = display.markers_[0].get_sizes()
    assert np.argmax(sizes) == np.argmax(count[count > 0])


def test_one_set_of_scores(judge_on):
    logits, labels = judge_on
    index = np.array([NAMES.index(name) for name in labels])
    display = ReliabilityDisplay.from_predictions(
        logits, index, kind="logits", name="ours", binning="equal_mass"
    )
    curve = rp.metrics.reliability_curve(logits, index, kind="logits", binning="equal_mass")
    assert np.array_equal(display.lines_[0].get_ydata(), curve.accuracy)
    assert display.lines_[0].get_label().startswith("ours (ECE ")


def test_pixels_weights_and_ignored_labels():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(6, 4, 5, 3)), rng.integers(-1, 4, (6, 5, 3))
    weight = rng.random(labels.shape)
    calibrator = rp.PosteriorCalibrator(PRIOR, class_axis=1, ignore_index=-1)
    calibrator.fit(scores, labels, weight)
    display = ReliabilityDisplay.from_calibrator(calibrator, scores, labels, sample_weight=weight)
    assert display.curves["after"].count.sum() == pytest.approx(weight[labels >= 0].sum())


def test_options_reach_the_artists(calibrator, judge_on):
    display = ReliabilityDisplay.from_calibrator(
        calibrator, *judge_on, line_kw={"linewidth": 5}, marker_kw={"s": 9}
    )
    assert display.lines_[1].get_linewidth() == 5
    assert display.markers_[1].get_sizes().tolist() == [9]


def test_an_empty_display_says_how_to_make_one():
    with pytest.raises(rp.OptionError, match=r"`curves` must hold at least one curve. Got none"):
        ReliabilityDisplay(curves={}).plot()


def test_other_labels_are_refused(calibrator, judge_on):
    logits, labels = judge_on
    with pytest.raises(rp.LabelsError, match=r"`labels` must be among the classes, 'ant'"):
        ReliabilityDisplay.from_calibrator(calibrator, logits, np.where(labels == "bee", "b", "c"))


def test_bins_are_checked_by_the_library(calibrator, judge_on):
    with pytest.raises(rp.OptionError, match=r"`n_bins` must be an integer of at least 1. Got 0"):
        ReliabilityDisplay.from_calibrator(calibrator, *judge_on, n_bins=0)


def test_an_evaluation_draws_the_same(calibrator, judge_on):
    found = evaluate(calibrator, [(judge_on[0][:100], judge_on[1][:100]),
                                  (judge_on[0][100:], judge_on[1][100:])])  # fmt: skip
    chunked = ReliabilityDisplay.from_evaluation(found)
    at_once = ReliabilityDisplay.from_calibrator(calibrator, *judge_on)
    for one, other in zip(chunked.lines_, at_once.lines_, strict=True):
        np.testing.assert_allclose(one.get_xydata(), other.get_xydata(), rtol=1e-12)
        assert one.get_label() == other.get_label()
