"""Promised constraints through the calibrator: options, engines, files and words."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import reprior as rp
from reprior.exceptions import FileFormatError, OptionError, RepriorWarning

SOURCE = np.array([0.6, 0.25, 0.1, 0.05])
RULE = "recall[0] >= 0.8"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.choice(4, 3_000, p=SOURCE)
    return rng.normal(size=(3_000, 4)) + 2 * np.eye(4)[labels] + np.log(SOURCE), labels


@pytest.fixture(scope="module")
def fitted(data):
    return rp.PosteriorCalibrator(SOURCE, subject_to=RULE, certify=0.95).fit(*data)


def test_it_is_the_best_of_the_profile(data, fitted):
    profile = rp.StrengthProfile.from_scores(*data, source_prior=SOURCE)
    best = profile.best("balanced_accuracy", subject_to=RULE, certify=0.95)
    assert fitted.certified_
    assert (fitted.strength_, fitted.best_score_) == (best.strength, best.value)
    assert fitted.strength_interval_ == best.interval
    uncertified = rp.PosteriorCalibrator(SOURCE, subject_to=RULE).fit(*data)
    assert not uncertified.certified_
    assert uncertified.best_score_ >= fitted.best_score_


def test_bounds_are_not_widened(data):
    scores, labels = data
    options = {"metric": "recall[3]", "bounds": (0.0, 0.5)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrator = rp.PosteriorCalibrator(SOURCE, subject_to=RULE, certify=0.95, **options)
        assert calibrator.fit(scores, labels).strength_ <= 0.5


def test_the_summary_says_what_is_promised_and_what_it_costs(data, fitted):
    text = fitted.summary()
    assert (
        "promised     recall[0] >= 0.8: with a probability of 95 % on new data of the tuning mix, "
        "if samples are drawn independently"
    ) in text
    best = fitted.profile_.best("balanced_accuracy", subject_to=RULE)
    cost = best.value - fitted.best_score_
    assert f"it costs     {cost:.4f} of balanced_accuracy on the tuning labels" in text


def test_the_advice_of_the_summary_can_be_promised(data):
    """Of the metrics that lose, only accuracy has a test."""
    rule = "recall[0] >= 0.5"
    calibrator = rp.PosteriorCalibrator(SOURCE, metric="recall[3]", subject_to=rule)
    assert "'mean_iou >= baseline - 0.02'" in calibrator.fit(*data).summary()
    calibrator.certify = 0.95
    rules = [rule, "accuracy >= baseline - 0.02"]
    assert calibrator.fit(*data).summary().endswith(f"to limit that, pass subject_to={rules!r}")
    calibrator.subject_to = rules
    assert calibrator.fit(*data).certified_
    calibrator = rp.PosteriorCalibrator(SOURCE, subject_to=rule, certify=0.95)
    summary = calibrator.fit(*data).summary()
    assert "costs: macro_precision" in summary
    assert "to limit that" not in summary


def test_images_are_refused(data):
    scores, labels = data
    calibrator = rp.PosteriorCalibrator(SOURCE, subject_to=RULE, certify=0.95)
    with pytest.raises(OptionError, match="pixels of an image are not drawn independently"):
        calibrator.fit(scores, labels, image_ids=np.arange(labels.size) // 100)


def test_class_names(data):
    scores, labels = data
    names = np.array(["ant", "bee", "cat", "dog"])
    calibrator = rp.PosteriorCalibrator(
        SOURCE, subject_to=["recall[ant] >= 0.8", "precision[dog] >= 0.2"], certify=0.9,
        classes=names,
    ).fit(scores, names[labels])  # fmt: skip
    assert calibrator.certified_
    text = calibrator.summary()
    assert "recall[ant] >= 0.8 and precision[dog] >= 0.2: each with a probability of 90 %" in text


def test_the_file_keeps_the_promise(fitted, tmp_path):
    path = tmp_path / "cal.json"
    fitted.save(path)
    assert json.loads(path.read_text())["format_version"] == 3
    loaded = rp.load(path)
    assert loaded.certified_
    assert (loaded.certify, loaded.subject_to) == (0.95, [RULE])
    assert "promised     recall[0] >= 0.8" in loaded.summary()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_other_decisions_end_the_promise(fitted, tmp_path):
    for other in (fitted.retarget([0.4, 0.3, 0.2, 0.1]), fitted.uncorrected()):
        assert not other.certified_
        assert "promised" not in other.summary()
        other.save(tmp_path / "cal.json")
        assert "promise" not in json.loads((tmp_path / "cal.json").read_text())


@pytest.mark.parametrize(
    "promise",
    [
        {"certify": 1.0, "subject_to": [RULE]}, {"certify": 0.9}, [0.9],
        {"certify": 0.9, "subject_to": []}, {"certify": 0.9, "subject_to": ["recall[9] >= 0.8"]},
        {"certify": 0.9, "subject_to": ["nonsense"]},
        {"certify": 0.9, "subject_to": [RULE], "a": 1},
    ],
)  # fmt: skip
def test_damaged_promises_are_refused(fitted, tmp_path, promise):
    path = tmp_path / "cal.json"
    fitted.save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "promise": promise}))
    with pytest.raises(FileFormatError, match="promise"):
        rp.load(path)
    path.write_text(json.dumps({**document, "format_version": 2}))
    with pytest.raises(FileFormatError, match="does not know"):
        rp.load(path)


def test_chunks_give_the_same(data, fitted):
    scores, labels = data
    chunks = [(scores[i::3], labels[i::3]) for i in range(3)]
    for options in ({}, {"resolution": 0.001}, {"resolution": "refine"}):
        calibrator = rp.PosteriorCalibrator(SOURCE, subject_to=RULE, certify=0.95)
        rp.engines.fit(calibrator, chunks, **options)
        assert calibrator.certified_
        assert calibrator.strength_ == pytest.approx(fitted.strength_)
    online = rp.engines.OnlineFit(rp.PosteriorCalibrator(SOURCE, subject_to=RULE, certify=0.95))
    for chunk in chunks:
        online.update(*chunk)
    assert online.finish().strength_ == fitted.strength_


def test_with_bootstrap_and_temperature(data, fitted):
    calibrator = rp.PosteriorCalibrator(
        SOURCE, subject_to=RULE, certify=0.95, n_bootstrap=50, temperature="fit"
    ).fit(*data)
    assert calibrator.strength_ == fitted.strength_
    low, high = calibrator.uncertainty_.value_interval
    assert low < calibrator.best_score_ < high


def test_only_strength_0_brings_a_warning(data):
    scores, labels = data
    calibrator = rp.PosteriorCalibrator(
        SOURCE, subject_to="accuracy >= baseline - 0.001", certify=0.95
    )
    with pytest.warns(RepriorWarning, match="only strength 0, the model as it is, can be promised"):
        calibrator.fit(scores[:300], labels[:300])
    assert calibrator.certified_
    assert calibrator.strength_ == 0.0


def test_equal_priors(data):
    calibrator = rp.PosteriorCalibrator(SOURCE, target_prior=SOURCE, subject_to=RULE, certify=0.95)
    with pytest.warns(RepriorWarning, match="no strength changes a decision"):
        assert calibrator.fit(*data).certified_


@pytest.mark.parametrize(
    "options, words",
    [
        ({"subject_to": None}, "`certify` must be given with `subject_to`"),
        ({"certify": 1.0}, "`certify` must be a probability below 1"),
        ({"certify": 0.0}, "`certify` must be"),
        ({"tune": "per_class"}, "`tune` must be 'strength' with `certify`: biases are too many"),
        ({"selection": "smooth"}, "`selection` must be 'max' with `certify`"),
        ({"cv": 5}, "`cv` must be None with `certify`: folds have other labels"),
        ({"metric": "log_loss"}, "the log-loss has no counts to limit"),
        ({"subject_to": "mean_iou >= 0.1"}, "a mean over classes and no share of samples"),
    ],
)
def test_options_that_exclude_a_promise(data, options, words):
    calibrator = rp.PosteriorCalibrator(SOURCE, **{"subject_to": RULE, "certify": 0.95, **options})
    with pytest.raises(OptionError) as caught:
        calibrator.fit(*data)
    assert words in str(caught.value)
    assert not hasattr(calibrator, "strength_")


def test_weights_and_maps_are_refused(data):
    scores, labels = data
    calibrator = rp.PosteriorCalibrator(SOURCE, subject_to=RULE, certify=0.95)
    with pytest.raises(OptionError, match="drawn independently, each once"):
        calibrator.fit(scores, labels, np.linspace(0.5, 1, labels.size))
    maps = (scores.reshape(30, 10, 10, 4), labels.reshape(30, 10, 10))
    with pytest.raises(OptionError, match="the pixels of an image are not drawn independently"):
        calibrator.fit(*maps)
    with pytest.raises(OptionError, match="the pixels of an image are not drawn independently"):
        rp.engines.fit(calibrator, [maps])
