"""PriorDisplay: the priors as used, and shares of labels and predictions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.plots.shared import NAMES, PRIOR

import reprior as rp
from reprior.engines import evaluate
from reprior.report.plots import PriorDisplay


def test_shares_are_those_of_the_calibrator_and_its_predictions(calibrator, judge_on):
    logits, labels = judge_on
    display = PriorDisplay.from_calibrator(calibrator, logits, labels)
    wanted = {
        "source prior": PRIOR,
        "target prior": np.full(4, 0.25),
        "labels": [(labels == name).mean() for name in NAMES],
        "predicted, before": np.bincount(logits.argmax(axis=1), minlength=4) / 300,
        "predicted, after": [(calibrator.predict(logits) == name).mean() for name in NAMES],
    }
    assert list(display.lines_) == list(wanted)
    for name, share in wanted.items():
        np.testing.assert_allclose(display.lines_[name].get_xdata(), share)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == NAMES


def test_classes_are_sorted_by_the_source_prior(judge_on):
    logits, names = judge_on
    prior = PRIOR[[2, 0, 3, 1]]
    calibrator = rp.PosteriorCalibrator(prior, classes=NAMES).fit(logits, names)
    display = PriorDisplay.from_calibrator(calibrator)
    assert display.order_.tolist() == [1, 3, 0, 2]
    assert display.lines_["source prior"].get_xdata().tolist() == sorted(PRIOR, reverse=True)
    assert list(display.lines_) == ["source prior", "target prior"]


def test_a_profile_at_one_strength(profile):
    display = PriorDisplay.from_profile(profile, 1.5, classes=NAMES, line_kw={"markersize": 11})
    predicted = profile.counts(1.5).predicted
    assert np.array_equal(
        display.lines_["predicted, after"].get_xdata(), predicted / predicted.sum()
    )
    assert display.lines_["labels"].get_markersize() == 11


def test_shares_of_zero_have_a_place():
    display = PriorDisplay(shares={"one": np.array([0.5, 0.5, 0.0])}).plot()
    low, _ = display.ax_.get_xlim()
    assert low <= 0
    assert display.lines_["one"].get_xdata().tolist() == [0.5, 0.5, 0.0]


def test_many_classes_are_drawn_as_means_of_groups(many):
    calibrator, logits, labels = many
    display = PriorDisplay.from_calibrator(calibrator, logits, labels)
    runs = np.array_split(display.order_, 40)
    for name, line in display.lines_.items():
        wanted = [display.shares[name][run].mean() for run in runs]
        np.testing.assert_allclose(line.get_ydata(), wanted)
    assert display.ax_.get_xlabel() == "rank in the source prior, means of 40 groups"


def test_a_loaded_calibrator_will_do(calibrator, judge_on, tmp_path):
    calibrator.save(tmp_path / "cal.json")
    loaded = PriorDisplay.from_calibrator(rp.load(tmp_path / "cal.json"), *judge_on)
    fitted = PriorDisplay.from_calibrator(calibrator, *judge_on)
    assert np.array_equal(loaded.shares["predicted, after"], fitted.shares["predicted, after"])


@pytest.mark.parametrize("given, missing", [("scores", "labels"), ("labels", "scores")])
def test_scores_and_labels_go_together(calibrator, judge_on, given, missing):
    one = dict(zip(("scores", "labels"), judge_on, strict=True))[given]
    with pytest.raises(rp.OptionError, match=rf"given together. Got no {missing}. Pass both"):
        PriorDisplay.from_calibrator(calibrator, **{given: one})


def test_an_unfitted_calibrator_is_refused():
    with pytest.raises(rp.NotFittedError, match="not fitted"):
        PriorDisplay.from_calibrator(rp.PosteriorCalibrator(PRIOR))


def test_an_evaluation_draws_the_same(calibrator, judge_on):
    chunked = PriorDisplay.from_evaluation(evaluate(calibrator, [judge_on]), calibrator)
    at_once = PriorDisplay.from_calibrator(calibrator, *judge_on)
    assert list(chunked.shares) == list(at_once.shares)
    for name, share in chunked.shares.items():
        assert np.array_equal(share, at_once.shares[name])
