"""Likely mistakes have a sentence of their own, and correct use is silent."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import reprior as rp

MIX = np.array([0.6, 0.3, 0.1])
NAMES = np.array(["ant", "moose", "zebra"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 600, p=MIX)
    return rng.normal(size=(600, 3)) + 2 * np.eye(3)[labels] + np.log(MIX), labels


def warnings_of(calibrator, *given, **more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(*given, **more)
    return [str(each.message) for each in caught]


# ------------------------------------------------------------------------------ class order

ASSUMED = "columns of `scores` are taken to be in sorted order, 'ant', 'moose', 'zebra'"
BELOW = "worse than chance"


@pytest.mark.parametrize(
    "prior, frame",
    [
        (MIX, np.asarray),
        (MIX, torch.tensor),
        (MIX, lambda z: pd.DataFrame(z, columns=["p0", "p1", "p2"])),
        (dict(zip(NAMES, MIX, strict=True)), np.asarray),
        (pd.Series(MIX, index=NAMES), np.asarray),
    ],
    ids=["array", "tensor", "other columns", "dict", "series"],
)
def test_an_order_that_had_to_be_assumed_is_named(data, prior, frame):
    scores, labels = data
    (sentence,) = warnings_of(rp.PosteriorCalibrator(prior), frame(scores), NAMES[labels].tolist())
    assert ASSUMED in sentence
    assert "classes=['ant', 'moose', 'zebra']" in sentence


def test_an_order_that_is_known_is_silent(data):
    scores, labels = data
    named = NAMES[labels]
    prior = dict(zip(NAMES.tolist(), MIX, strict=True))
    for calibrator, given in [
        (rp.PosteriorCalibrator(prior, classes=NAMES), (scores, named)),
        (rp.PosteriorCalibrator(prior), (pd.DataFrame(scores, columns=NAMES), named)),
        (rp.PosteriorCalibrator(prior), (pl.DataFrame(scores, schema=NAMES.tolist()), named)),
        (rp.PosteriorCalibrator(dict(enumerate(MIX))), (scores, labels)),
        (rp.PosteriorCalibrator(MIX), (scores, labels)),
    ]:
        assert warnings_of(calibrator, *given) == []


def test_the_smallest_weights_say_nothing_about_the_order(data):
    scores, labels = data
    weight = np.full(len(labels), 5e-324)
    assert warnings_of(rp.PosteriorCalibrator(MIX), scores, labels, sample_weight=weight) == []


@pytest.mark.parametrize("prior", [MIX, dict(zip(NAMES.tolist(), MIX, strict=True))])
def test_chunks_are_treated_alike(data, prior):
    scores, labels = data
    calibrator = rp.PosteriorCalibrator(prior)
    with pytest.warns(rp.RepriorWarning, match=ASSUMED):
        rp.engines.fit(calibrator, [(scores, NAMES[labels])])
    framed = [(pd.DataFrame(scores, columns=NAMES), NAMES[labels])]
    assert rp.engines.fit(calibrator, framed).strength_ == calibrator.strength_


def test_scores_in_another_order_are_noticed(data):
    scores, labels = data
    order = [2, 0, 1]  # zebra, ant, moose
    for calibrator, given in [
        (rp.PosteriorCalibrator(MIX[order]), NAMES[labels]),
        (rp.PosteriorCalibrator(MIX), labels),
        (rp.PosteriorCalibrator(MIX, metric="log_loss"), labels),
    ]:
        sentences = warnings_of(calibrator, scores[:, order], given)
        (sentence,) = (each for each in sentences if BELOW in each)
        assert "likely cause is the order of the classes" in sentence
        assert "count from 1" not in sentence


def test_labels_that_count_from_1_are_noticed_where_the_last_class_is_absent(data):
    scores, labels = data
    kept = labels < 2
    sentences = warnings_of(rp.PosteriorCalibrator(MIX), scores[kept], labels[kept] + 1)
    (sentence,) = (each for each in sentences if BELOW in each)
    assert "No label is 0: if labels count from 1, subtract 1" in sentence


@pytest.mark.parametrize("weight", [None, "random"])
def test_a_model_at_chance_is_not_below_it(weight):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 400))
        labels = rng.choice(3, n, p=MIX)
        weights = None if weight is None else rng.integers(1, 4, n)
        sentences = warnings_of(
            rp.PosteriorCalibrator(MIX), rng.normal(size=(n, 3)), labels, sample_weight=weights
        )
        assert not any(BELOW in each for each in sentences), seed


# ------------------------------------------------------------------------------ options


def test_strength_is_no_option():
    with pytest.raises(rp.OptionError, match=r"`strength` must be left out.*Got strength=1\.0"):
        rp.PosteriorCalibrator(MIX, strength=1.0)
    assert "strength" not in inspect.signature(rp.PosteriorCalibrator).parameters
    assert "source_prior" in inspect.signature(rp.PosteriorCalibrator).parameters
    with pytest.raises(TypeError, match="unexpected keyword argument 'strenght'"):
        rp.PosteriorCalibrator(MIX, strenght=1.0)


@pytest.mark.parametrize("metric", [["accuracy", "mean_iou"], ("log_loss",), None, {}])
def test_one_metric_is_tuned(data, metric):
    with pytest.raises(rp.OptionError, match="`metric` must be one metric"):
        rp.PosteriorCalibrator(MIX, metric=metric).fit(*data)


def test_several_metrics_are_pointed_to_constraints(data):
    with pytest.raises(rp.OptionError, match=r"subject_to='mean_iou >= baseline - 0.01'"):
        rp.PosteriorCalibrator(MIX, metric=["accuracy", "mean_iou"]).fit(*data)


# ------------------------------------------------------------------------------ data


@pytest.mark.parametrize("column", [np.asarray, pd.Series, torch.tensor, lambda y: y.tolist()])
def test_a_missing_label_is_named(data, column):
    scores, labels = data
    missing = labels.astype(np.float64)
    missing[3] = np.nan
    with pytest.raises(rp.LabelsError, match=r"Got labels\[3\]=nan, which is missing"):
        rp.PosteriorCalibrator(MIX).fit(scores, column(missing))


@pytest.mark.parametrize(
    "names", [None, NAMES, NAMES.astype(object), pd.Series(NAMES), NAMES.tolist()]
)
def test_swapped_arguments_are_refused(data, names):
    scores, labels = data
    if names is not None:
        labels = [names[k] for k in labels] if isinstance(names, list) else names[labels]
    with pytest.raises(rp.ScoresError, match="`scores` must come before `labels`"):
        rp.PosteriorCalibrator(MIX).fit(labels, scores)


def test_single_scores_may_be_a_series(data):
    scores, labels = data
    names = np.array(["no", "yes"])[np.minimum(labels, 1)]
    calibrator = rp.PosteriorCalibrator([0.6, 0.4], classes=["no", "yes"])
    expected = calibrator.fit(scores[:, 1], names).strength_
    for given in (pd.Series(scores[:, 1]), pl.Series(scores[:, 1])):
        assert calibrator.fit(given, names).strength_ == expected


def test_predicted_labels_and_features_are_no_scores(data):
    scores, labels = data
    decided = scores.argmax(axis=1)
    for words in (NAMES[decided], NAMES[decided].tolist(), pd.Series(NAMES[decided])):
        with pytest.raises(rp.ScoresError, match=r"predicted labels\. Got names of classes"):
            rp.PosteriorCalibrator(MIX).fit(words, NAMES[labels])
    with pytest.raises(rp.ScoresError, match="not the predicted labels"):
        rp.PosteriorCalibrator(MIX).fit(decided, labels)
    with pytest.raises(rp.ScoresError, match="not the features"):
        rp.PosteriorCalibrator(MIX).fit(np.zeros((600, 7)), labels)
    sentences = warnings_of(rp.PosteriorCalibrator(MIX), np.eye(3)[decided], labels)
    assert any("look like predicted labels" in each for each in sentences)


def test_indices_that_disagree_are_refused(data):
    scores, labels = pd.DataFrame(data[0]), pd.Series(data[1])
    calibrator = rp.PosteriorCalibrator(MIX)
    with pytest.raises(rp.LabelsError, match=r"`labels` must have the index of `scores`") as error:
        calibrator.fit(scores, labels.sample(frac=1.0, random_state=0))
    assert "labels.loc[scores.index]" in str(error.value)
    assert "labels.to_numpy()" in str(error.value)
    with pytest.raises(rp.LabelsError, match=r"labels.index\[0\]=100, where scores.index\[0\]=0"):
        calibrator.fit(scores.iloc[:500], labels.iloc[100:])
    weight = pd.Series(np.ones(600))[::-1]
    with pytest.raises(rp.LabelsError, match="`sample_weight` must have the index of `scores`"):
        calibrator.fit(scores, labels, sample_weight=weight)
    with pytest.raises(rp.LabelsError, match="`sample_weight` must have the index of `labels`"):
        calibrator.fit(data[0], labels, sample_weight=weight)


def test_equal_times_in_two_time_zones_are_one_index(data):
    times = pd.date_range("2024-01-01", periods=600, tz="UTC")
    scores = pd.DataFrame(data[0], index=times)
    labels = pd.Series(data[1], index=times.tz_convert("Europe/Berlin"))
    calibrator = rp.PosteriorCalibrator(MIX).fit(scores, labels)
    assert calibrator.strength_ == rp.PosteriorCalibrator(MIX).fit(*data).strength_


def test_equal_indices_are_paired(data):
    scores, labels = pd.DataFrame(data[0]), pd.Series(data[1])
    expected = rp.PosteriorCalibrator(MIX).fit(*data).strength_
    order = np.random.default_rng(1).permutation(600)
    for given in [
        (scores.iloc[order], labels.iloc[order]),
        (scores, data[1]),
        (data[0], labels),
        (scores, pl.Series(data[1])),
    ]:
        assert rp.PosteriorCalibrator(MIX).fit(*given).strength_ == expected


# ------------------------------------------------------------------------------ files


@pytest.mark.parametrize("read", [rp.load, rp.PriorTracker.load])
def test_a_file_that_does_not_exist(tmp_path, read):
    with pytest.raises(rp.RepriorError, match=r"nothing.json' does not exist. Check the path"):
        read(tmp_path / "nothing.json")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing.json")
