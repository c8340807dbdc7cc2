"""Labels and predictions before and after, as indices."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.report.plots.shared import NAMES, PRIOR

import reprior as rp
from reprior.report.plots.before_after import before_and_after, profile_of


def test_predictions_are_those_of_the_calibrator(calibrator, judge_on):
    logits, labels = judge_on
    seen = before_and_after(calibrator, logits, labels)
    names = np.array(NAMES)
    assert (names[seen.labels] == labels).all()
    assert (names[seen.after] == calibrator.predict(logits)).all()
    assert (seen.before == logits.argmax(axis=1)).all()
    assert not (seen.before == seen.after).all()


def test_posteriors_are_those_of_the_calibrator_and_of_the_model(calibrator, judge_on):
    logits, labels = judge_on
    seen = before_and_after(calibrator, logits, labels)
    assert np.array_equal(seen.posterior_after, calibrator.predict_proba(logits))
    plain = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(seen.posterior_before, plain, rtol=1e-12)


def test_frames_come_in_any_order(calibrator, judge_on):
    logits, labels = judge_on
    frame = pd.DataFrame(logits, columns=NAMES)[NAMES[::-1]]
    one = before_and_after(calibrator, frame, pd.Series(labels))
    other = before_and_after(calibrator, logits, labels)
    assert (one.after == other.after).all()
    assert (one.before == other.before).all()


def test_one_score_per_sample():
    scores, labels = np.array([-1.0, 0.4, 2.0, -0.2]), np.array([0, 0, 1, 1])
    calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(scores, labels)
    seen = before_and_after(calibrator, scores, labels)
    assert seen.before.tolist() == [0, 1, 1, 0]
    assert seen.n_classes == 2


def test_counts_leave_out_what_is_ignored(tune):
    logits, labels = tune
    marked = np.where(np.arange(labels.size) % 3 == 0, -1, labels)
    calibrator = rp.PosteriorCalibrator(PRIOR, ignore_index=-1).fit(logits, marked)
    before, after = before_and_after(calibrator, logits, marked).counts()
    assert before.support.sum() == after.support.sum() == (marked >= 0).sum()


def test_counts_are_weighted(calibrator, judge_on):
    logits, labels = judge_on
    weight = np.arange(labels.size) % 4
    before, _ = before_and_after(calibrator, logits, labels, pd.Series(weight)).counts()
    assert before.support.sum() == weight.sum()


def test_a_calibrator_without_profile_says_what_to_do(calibrator):
    with pytest.raises(rp.OptionError, match=r"must have the profile of its .* Do this."):
        profile_of(calibrator.retarget(PRIOR), "Do this.")
