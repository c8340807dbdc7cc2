"""Forecasts without labels: oracles, coverage, files, and what is refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import reprior as rp
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    OptionError,
    PriorError,
    RepriorWarning,
    ScoresError,
)
from reprior.metrics import evaluate

SOURCE = np.array([0.7, 0.2, 0.1])
MIX = np.array([0.3, 0.25, 0.45])


def drawn(n, prior, seed=0, signal=1.8):
    rng = np.random.default_rng(seed)
    labels = rng.choice(prior.size, n, p=prior)
    eye = np.eye(prior.size)
    return rng.normal(size=(n, prior.size)) + signal * eye[labels] + np.log(SOURCE), labels


@pytest.fixture(scope="module")
def tuning():
    return drawn(3_000, SOURCE)


@pytest.fixture(scope="module")
def fitted(tuning):
    return rp.PosteriorCalibrator(SOURCE).fit(*tuning)


@pytest.fixture(scope="module")
def there():
    return drawn(4_000, MIX, seed=1)


@pytest.mark.parametrize(
    "metric", ["accuracy", "macro_f1", "mean_iou", "cohen_kappa", "precision[2]", "fbeta(2)[1]"]
)
def test_it_is_the_metric_of_the_tuning_data_weighted_to_the_mix(tuning, fitted, there, metric):
    scores, labels = tuning
    forecast = fitted.forecast(there[0], metric)
    after = fitted.predict(scores)
    # Column j: what is predicted for class j. The mix that explains what is predicted there.
    seen = np.stack([np.bincount(after[labels == k], minlength=3) for k in range(3)], axis=1)
    rates = seen / seen.sum(axis=0)
    mix = np.linalg.solve(rates, np.bincount(fitted.predict(there[0])) / 4_000)
    np.testing.assert_allclose(forecast.target_prior, mix, rtol=1e-9)
    weight = (mix / np.bincount(labels))[labels]
    for predicted, value in ((scores.argmax(axis=1), forecast.before), (after, forecast.after)):
        expected = evaluate(metric, labels, predicted, n_classes=3, sample_weight=weight)
        assert value == pytest.approx(expected, rel=1e-9)


def test_it_comes_true(fitted, there):
    scores, labels = there
    forecast = fitted.forecast(scores)
    np.testing.assert_allclose(forecast.target_prior, MIX, atol=0.04)
    assert forecast.before == pytest.approx(np.mean(scores.argmax(axis=1) == labels), abs=0.04)
    assert forecast.after == pytest.approx(np.mean(fitted.predict(scores) == labels), abs=0.04)
    for value, (low, high) in (
        (forecast.before, forecast.before_interval),
        (forecast.after, forecast.after_interval),
    ):
        assert low < value < high
        assert high - low < 0.15


def test_intervals_cover():
    """90 % intervals over 150 draws of tuning labels and of scores of a random mix."""
    truth_scores, truth_labels = drawn(60_000, np.full(3, 1 / 3), seed=2)
    rng = np.random.default_rng(3)
    covered = 0
    n = 150
    for i in range(n):
        calibrator = rp.PosteriorCalibrator(SOURCE).fit(*drawn(600, SOURCE, seed=10 + i))
        mix = rng.dirichlet(np.ones(3))
        forecast = calibrator.forecast(drawn(500, mix, seed=1_000 + i)[0])
        right = calibrator.predict(truth_scores) == truth_labels
        truth = sum(mix[k] * right[truth_labels == k].mean() for k in range(3))
        low, high = forecast.after_interval
        covered += low <= truth <= high
    assert 0.84 * n <= covered <= 0.97 * n


def test_the_same_seed_gives_the_same_intervals(fitted, there, tuning):
    one, other = (fitted.forecast(there[0]) for _ in range(2))
    assert one.after_interval == other.after_interval
    seeded = rp.PosteriorCalibrator(SOURCE, random_state=1).fit(*tuning)
    assert seeded.forecast(there[0]).after_interval != one.after_interval
    wider = fitted.forecast(there[0], confidence=0.99)
    assert wider.after_interval[0] < one.after_interval[0] < one.after < wider.after_interval[1]


def test_validation_in_place_of_the_tuning_data(fitted, tuning, there):
    with_tuning = fitted.forecast(there[0], validation=tuning)
    plain = fitted.forecast(there[0])
    assert (with_tuning.after, with_tuning.after_interval) == (plain.after, plain.after_interval)
    other = fitted.forecast(there[0], validation=drawn(3_000, np.full(3, 1 / 3), seed=5))
    assert other.after == pytest.approx(plain.after, abs=0.03)
    retargeted = fitted.retarget(plain.target_prior)
    assert retargeted.forecast(there[0], validation=tuning).after > plain.after


def test_it_is_frozen_and_reads_as_text(fitted, there):
    forecast = fitted.forecast(there[0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        forecast.after = 1.0
    assert forecast.metric == "accuracy"
    text = forecast.summary(["ant", "bee", "cat"])
    assert "expected accuracy" in text
    assert "90 % interval" in text
    assert "class mix there: ant 0.3" in text
    assert "retarget? Only for accuracy: the class mix differs from the target prior by" in text


def test_metrics_that_do_not_move(fitted, there, tuning):
    forecast = fitted.forecast(there[0], "balanced_accuracy")
    assert forecast.advice.startswith("No: balanced_accuracy does not move under label shift")
    assert forecast.after == pytest.approx(fitted.best_score_, rel=1e-9)
    assert "does not move" in fitted.forecast(there[0], "recall[1]").advice
    assert "does not move" not in fitted.forecast(there[0], "specificity[1]").advice


@pytest.mark.parametrize("metric", ["balanced_accuracy", "recall[2]", "macro_recall",
                                    "recall_macro", "worst_recall", "gmean"])  # fmt: skip
def test_recalls_stay_where_a_class_is_gone(fitted, metric):
    scores = drawn(4_000, np.array([0.9, 0.1, 0.0]), seed=4)[0] - [0.0, 0.0, 2.0]
    gone = fitted.forecast(scores, metric)
    assert gone.target_prior[2] == 0
    usual = fitted.forecast(drawn(4_000, SOURCE, seed=4)[0], metric)
    assert (gone.before, gone.after) == pytest.approx((usual.before, usual.after), rel=1e-9)
    assert gone.after_interval[0] < gone.after < gone.after_interval[1]
    for ratio in ("precision[2]", "iou[2]", "f1[2]"):
        with pytest.raises(OptionError, match="an estimated share of 0"):
            fitted.forecast(scores, ratio)


def test_advice(fitted, tuning):
    uniform = drawn(3_000, np.full(3, 1 / 3), seed=7)[0]
    assert "is within the noise" in fitted.forecast(uniform).advice
    skewed = drawn(3_000, MIX, seed=8)[0]
    assert "costs balanced_accuracy, which the calibrator is tuned for" in (
        fitted.forecast(skewed, "macro_f1").advice
    )
    for metric, start in (("macro_f1", "Perhaps: "), ("accuracy", "Yes: ")):
        own = rp.PosteriorCalibrator(SOURCE, metric="accuracy", target_prior=SOURCE / 2 + 1 / 6)
        assert own.fit(*tuning).forecast(skewed, metric).advice.startswith(start)
    advice = fitted.uncorrected().forecast(skewed, validation=tuning).advice
    assert "at strength 0 the model stays as it is" in advice


def test_files_keep_the_matrices(fitted, there, tmp_path):
    path = tmp_path / "cal.json"
    fitted.save(path)
    document = json.loads(path.read_text())
    assert document["format_version"] == 3
    assert np.sum(document["confusion"]["after"]) == 3_000
    loaded = rp.load(path).forecast(there[0])
    plain = fitted.forecast(there[0])
    assert (loaded.before, loaded.after_interval) == (plain.before, plain.after_interval)
    for damaged in (
        {"before": document["confusion"]["before"]}, [1],
        {**document["confusion"], "after": [[1, 2, 3]] * 3},
        {**document["confusion"], "after": [[-1, 2, 3]] * 3},
        {**document["confusion"], "more": 1},
    ):  # fmt: skip
        path.write_text(json.dumps({**document, "confusion": damaged}))
        with pytest.raises(FileFormatError, match="confusion"):
            rp.load(path)


def test_older_files_need_validation(fitted, there, tuning, tmp_path):
    path = tmp_path / "cal.json"
    fitted.save(path)
    document = json.loads(path.read_text())
    del document["confusion"]
    path.write_text(json.dumps({**document, "format_version": 1}))
    loaded = rp.load(path)
    with pytest.raises(OptionError, match="`validation` must be given"):
        loaded.forecast(there[0])
    assert loaded.forecast(there[0], validation=tuning).after == fitted.forecast(there[0]).after


def test_score_files_are_read_once_more(fitted, tuning, there, tmp_path):
    from reprior.files import open_scores

    np.savez(tmp_path / "val.npz", scores=tuning[0], labels=tuning[1])
    calibrator = rp.PosteriorCalibrator(SOURCE)
    rp.engines.fit(calibrator, open_scores(tmp_path / "val.npz", kind="logits"))
    assert calibrator.forecast(there[0]).after == fitted.forecast(there[0]).after


def test_maps_that_are_not_of_the_strength(tuning, there):
    for options in ({"tune": "per_class"}, {"metric": "log_loss"}, {"separate": True}):
        calibrator = rp.PosteriorCalibrator(SOURCE, **options).fit(*tuning)
        right = np.mean(calibrator.predict(there[0]) == there[1])
        assert calibrator.forecast(there[0]).after == pytest.approx(right, abs=0.03)


def test_class_names_and_maps(tuning, there):
    pd = pytest.importorskip("pandas")
    names = ["ant", "bee", "cat"]
    scores = pd.DataFrame(tuning[0], columns=names)
    calibrator = rp.PosteriorCalibrator(SOURCE, classes=names)
    calibrator.fit(scores, np.array(names)[tuning[1]])
    frame = pd.DataFrame(there[0], columns=names)[["cat", "ant", "bee"]]
    forecast = calibrator.forecast(frame, "recall[cat]")
    assert forecast.target_prior[2] == pytest.approx(MIX[2], abs=0.05)
    with pytest.raises(ScoresError, match="must be the classes"):
        calibrator.forecast(frame.rename(columns={"cat": "dog"}))
    maps = rp.PosteriorCalibrator(SOURCE, class_axis=1)
    maps.fit(tuning[0].reshape(30, 10, 10, 3).transpose(0, 3, 1, 2), tuning[1].reshape(30, 10, 10))
    deployed = there[0].reshape(40, 10, 10, 3).transpose(0, 3, 1, 2)
    assert maps.forecast(deployed).after == calibrator.forecast(frame).after


@pytest.mark.parametrize("n", [0, 11])
def test_too_few_scores_are_refused(fitted, there, n):
    with pytest.raises(ScoresError, match="at least 4 samples per class, 12, for a class mix"):
        fitted.forecast(there[0][:n])


def test_what_else_is_refused(fitted, tuning, there):
    scores = there[0]
    with pytest.raises(ScoresError):
        fitted.forecast(scores[:, :2])
    with pytest.raises(OptionError, match="`confidence` must be below 1"):
        fitted.forecast(scores, confidence=1.0)
    with pytest.raises(OptionError, match="must be decided by hard labels"):
        fitted.forecast(scores, "log_loss")
    with pytest.raises(OptionError, match="must be a name or a CountMetric"):
        fitted.forecast(scores, there[1])
    with pytest.raises(OptionError, match="validation"):
        fitted.forecast(scores, validation=5)
    weighted = rp.PosteriorCalibrator(SOURCE).fit(*tuning, np.linspace(1, 2, 3_000))
    with pytest.raises(OptionError, match="a fit without sample weights"):
        weighted.forecast(scores)
    with pytest.raises(OptionError, match="and not after retarget"):
        fitted.retarget(MIX).forecast(scores)
    ruled_out = rp.PosteriorCalibrator(SOURCE, target_prior=[0.5, 0.5, 0])
    with pytest.warns(RepriorWarning):
        ruled_out.fit(*tuning)
    with pytest.raises(PriorError, match="must be positive for every class, to forecast"):
        ruled_out.forecast(scores)
    two = tuning[1] < 2
    with pytest.warns(RepriorWarning, match="no tuning labels"):
        absent = rp.PosteriorCalibrator(SOURCE).fit(tuning[0][two], tuning[1][two])
    with pytest.raises(LabelsError, match="none of class 2"):
        absent.forecast(scores)


def test_classes_that_are_hardly_told_apart_bring_a_warning():
    calibrator = rp.PosteriorCalibrator(SOURCE).fit(*drawn(300, SOURCE, signal=0.1))
    with pytest.warns(RepriorWarning, match="confusion matrix of the validation samples may be"):
        calibrator.forecast(drawn(300, MIX, signal=0.1)[0])


# --------------------------------------------------------------------------------------- tracker


def test_a_tracker_forecasts_over_time(fitted):
    tracker = rp.PriorTracker(SOURCE, half_life=2_000)
    tracker.update(drawn(6_000, SOURCE, seed=11)[0])
    early = tracker.forecast(fitted)
    np.testing.assert_array_equal(early.target_prior, tracker.prior)
    tracker.update(drawn(12_000, MIX, seed=12)[0])
    late = tracker.forecast(fitted)
    assert late.target_prior[2] > early.target_prior[2] + 0.2
    assert late.before < early.before
    low, high = late.after_interval
    assert low < late.after < high
    assert late.advice.startswith("Only for accuracy")


def test_what_a_tracker_refuses(fitted):
    tracker = rp.PriorTracker(SOURCE)
    with pytest.raises(OptionError, match="must have seen at least 12 samples"):
        tracker.forecast(fitted)
    probs = rp.PriorTracker(SOURCE, kind="probs")
    with pytest.raises(OptionError, match="must be of scores of kind 'probs'"):
        probs.forecast(fitted)
    other = rp.PriorTracker([0.5, 0.5])
    with pytest.raises(OptionError, match="`calibrator` must be of the 2 classes of the tracker"):
        other.forecast(fitted)
