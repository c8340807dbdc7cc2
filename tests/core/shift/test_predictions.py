"""What a model predicts: from log-scores, and straight from what users hold."""

from __future__ import annotations

import itertools

import array_api_strict
import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from tests.support.oracles import confusion

import reprior as rp
from reprior import ScoresError
from reprior.core import kernels
from reprior.core.shift import (
    AffineCalibration,
    as_calibration,
    predict,
    read_log_scores,
    read_predictions,
    read_validation_rows,
)

EXACT = 1e-12
"""Means of probabilities in float64, summed in another order."""

pytestmark = pytest.mark.usefixtures("passes")
SOFT = pytest.mark.parametrize("soft", [False, True])
KINDS = pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])


@pytest.fixture(params=["native", "arrays"])
def passes(request):
    """Every test by the kernels and by array code."""
    if request.param == "arrays":
        request.getfixturevalue("without_native")


def draw(n=500, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(n_classes), rng.choice(n_classes, n - n_classes)]
    return rng.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[labels], labels


def as_kind(logits, kind):
    turned = {"logits": np.asarray, "probs": softmax, "log_probs": log_softmax}[kind]
    return turned(logits) if kind == "logits" else turned(logits, axis=1)


def read(scores, n_classes=4, *, kind="logits", class_axis=-1, calibration=None, soft=False):
    return read_predictions(
        scores, n_classes, kind=kind, class_axis=class_axis, calibration=calibration, soft=soft
    )


def assert_same(found, expected, labels):
    np.testing.assert_allclose(found.sum(), expected.sum(), rtol=EXACT)
    np.testing.assert_allclose(found.mean(), expected.mean(), rtol=EXACT)
    confused = expected.class_means(labels)
    np.testing.assert_allclose(found.class_means(labels), confused, atol=EXACT)
    direction = np.linspace(-1, 1, confused.shape[0])
    np.testing.assert_allclose(
        found.projected(direction), expected.projected(direction), atol=EXACT
    )
    assert len(found) == len(expected)


@SOFT
def test_class_means_are_the_confusion_matrix(soft):
    scores, labels = draw()
    found = predict(scores, soft=soft).class_means(labels)
    if soft:
        means = [softmax(scores[labels == k], axis=1).mean(axis=0) for k in range(4)]
        expected = np.stack(means, axis=1)
    else:
        counts = confusion(labels, scores.argmax(axis=1), 4).T
        expected = counts / counts.sum(axis=0)
    np.testing.assert_allclose(found, expected, atol=EXACT)
    np.testing.assert_allclose(found.sum(axis=0), 1)


def test_short_floats_are_summed_in_long_ones():
    scores = np.tile(np.array([[0.1, 0.2, 0.3]], np.float32), (70_000, 1))
    mean = predict(scores, soft=True).mean()
    np.testing.assert_allclose(mean, softmax([0.1, 0.2, 0.3]), rtol=1e-6)
    assert mean.dtype == np.float64
    assert mean.sum() == pytest.approx(1, abs=1e-15)


@SOFT
@KINDS
def test_what_is_read_is_what_log_scores_say(kind, soft):
    logits, labels = draw()
    scores = as_kind(logits, kind)
    rows = read_log_scores(scores, 4, kind=kind, class_axis=-1, calibration=None)
    assert_same(read(scores, kind=kind, soft=soft), predict(rows, soft=soft), labels)


@SOFT
@KINDS
def test_a_calibration_is_applied_first(kind, soft):
    logits, labels = draw()
    scores = as_kind(logits, kind)
    how = AffineCalibration(0.5, [0.0, 2.0, 0.0, -1.0])
    rows = read_log_scores(scores, 4, kind=kind, class_axis=-1, calibration=how)
    found = read(scores, kind=kind, soft=soft, calibration=how)
    assert_same(found, predict(rows, soft=soft), labels)


@SOFT
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("n_classes", [3, 100])
def test_many_rows_are_shared_among_threads(monkeypatch, kind, soft, n_classes):
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "3")
    logits, labels = draw(1_300_000 // n_classes, n_classes)
    scores = as_kind(logits, kind)
    assert scores.size > 4 * kernels.BLOCK_ITEMS
    rows = read_log_scores(scores, n_classes, kind=kind, class_axis=-1, calibration=None)
    found = read(scores, n_classes, kind=kind, soft=soft)
    assert_same(found, predict(rows, soft=soft), labels)


@SOFT
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_classes_on_any_axis_of_any_library(kind, soft):
    logits, labels = draw(60)
    scores = as_kind(logits, kind)
    maps = np.moveaxis(scores.reshape(3, 4, 5, 4), -1, 1)
    expected = read(scores, kind=kind, soft=soft)
    for given in (maps, np.asfortranarray(maps), array_api_strict.asarray(maps)):
        assert_same(read(given, kind=kind, class_axis=1, soft=soft), expected, labels)


@SOFT
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_shorter_floats(kind, soft, dtype):
    scores = as_kind(draw()[0], kind).astype(dtype)
    found, wide = (read(z, kind=kind, soft=soft) for z in (scores, scores.astype(np.float64)))
    np.testing.assert_allclose(found.mean(), wide.mean(), rtol=2e-6)


SHAPES = pytest.mark.parametrize("n_classes", [2, 3, 17, 128, 129, 300])
SHORTER = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@SHAPES
@SHORTER
def test_decisions_are_the_first_of_the_largest(rng, n_classes, dtype):
    # Many ties, some between zeros of either sign, and classes that are ruled out.
    scores = rng.choice(np.array([0.0, -0.0, -1.0, -np.inf], dtype), (60, n_classes))
    scores[np.arange(60), rng.integers(n_classes, size=60)] = -0.0
    np.testing.assert_array_equal(read(scores, n_classes).classes, scores.argmax(axis=1))
    counts = rng.integers(0, 3, (60, n_classes)) + np.eye(n_classes)[np.arange(60) % n_classes]
    probs = (counts / counts.sum(axis=1, keepdims=True)).astype(dtype)
    probs[probs == 0] = -0.0
    found = read(probs, n_classes, kind="probs")
    np.testing.assert_array_equal(found.classes, probs.argmax(axis=1))


@SHAPES
@SHORTER
@pytest.mark.parametrize("kind, soft", [("logits", False), ("probs", False), ("probs", True)])
def test_bad_scores_are_refused_at_any_place(n_classes, dtype, kind, soft):
    places = {0, n_classes // 2, n_classes - 1}
    for place, bad in itertools.product(places, [np.nan, -np.nan, np.inf]):
        scores = as_kind(draw(400, n_classes)[0], kind).astype(dtype)
        scores[399, place] = bad
        with pytest.raises(ScoresError, match=rf"\[399(, {place})?\]"):
            read(scores, n_classes, kind=kind, soft=soft)


@SOFT
@SHORTER
@pytest.mark.parametrize("summed", [False, True])
def test_rows_that_are_no_distribution_are_refused(dtype, soft, summed):
    how = {"kind": "probs", "class_axis": -1, "calibration": None, "soft": soft}
    for row in ([-0.25, 0.75, 0.5], [0.5, 0.5, 0.25]):
        scores = np.array([[0.25, 0.5, 0.25], row], dtype)
        with pytest.raises(ScoresError, match=r"\[1"):
            read_predictions(scores, 3, summed=summed, **how)


def test_a_row_without_a_finite_logit_is_refused():
    with pytest.raises(ScoresError, match=r"\[1"):
        read(np.array([[0.0, -np.inf], [-np.inf, -np.inf]]), 2)


def test_the_sum_may_be_computed_at_once():
    rows = softmax(draw(3000, 100)[0], axis=1)
    how = {"kind": "probs", "class_axis": -1, "calibration": None, "soft": True}
    found = read_predictions(rows, 100, summed=True, **how)
    np.testing.assert_allclose(found.sum(), rows.sum(axis=0), rtol=EXACT)
    some = np.arange(3000) % 7 == 0
    np.testing.assert_allclose(found[some].sum(), rows[some].sum(axis=0), rtol=EXACT)


def test_rows_that_miss_1_by_rounding_are_normalised():
    scores = np.array([[0.2503, 0.75], [0.1, 0.9]])
    found = read(scores, 2, kind="probs", soft=True)
    expected = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.probabilities(), expected, rtol=1e-15)
    np.testing.assert_allclose(found.mean(), expected.mean(axis=0), rtol=1e-15)


def test_probabilities_are_of_the_dtype_they_are_computed_in():
    for given, expected in ((np.float16, np.float32), (np.float32, np.float32), (int, np.float64)):
        rows = np.array([[1, 0], [0, 1]], given)
        assert read(rows, 2, kind="probs", soft=True).probabilities().dtype == expected


@SOFT
def test_some_of_the_samples(soft):
    scores, labels = draw()
    some = labels != 1
    found, expected = (
        read(softmax(z, axis=1), kind="probs", soft=soft) for z in (scores, scores[some])
    )
    np.testing.assert_allclose(found[some].sum(), expected.sum(), rtol=EXACT)
    assert len(found[some]) == some.sum()


def test_a_score_per_sample_is_two_classes():
    scores = np.array([0.1, 0.8, 0.6])
    found = read(scores, 2, kind="probs", soft=True)
    np.testing.assert_allclose(found.sum(), [1.5, 1.5])
    assert read(scores, 2, kind="probs").sum().tolist() == [1, 2]


BAD = {
    "NaN": ("logits", [0.0, np.nan, 1.0, 0.0], r"Got scores\[70, 1\]=nan"),
    "+inf": ("logits", [0.0, 1.0, np.inf, 0.0], r"Got scores\[70, 2\]=inf"),
    "no finite score": ("logits", [-np.inf] * 4, r"Got scores\[70, :\] with probability 0"),
    "NaN probability": ("probs", [np.nan, 0.5, 0.5, 0.0], r"Got scores\[70, 0\]=nan"),
    "negative": ("probs", [0.6, 0.6, -0.2, 0.0], r"Got scores\[70, 2\]=-0\.2"),
    "all 0": ("probs", [0.0] * 4, r"Got scores\[70, :\] with probability 0"),
    "sum": ("probs", [0.5, 0.6, 0.0, 0.0], r"Got scores\[70, :\] with sum 1\.1"),
    "inf and -inf": ("probs", [np.inf, -np.inf, 0.5, 0.5], r"Got scores\[70, 0\]=inf"),
}


@SOFT
@pytest.mark.parametrize("case", BAD)
def test_bad_scores_are_named(case, soft):
    kind, row, message = BAD[case]
    scores = as_kind(draw()[0], kind)
    scores[70] = row
    with pytest.raises(rp.ScoresError, match=message):
        read(scores, kind=kind, soft=soft)


def test_probabilities_declared_as_logits_are_warned_of():
    scores = softmax(draw()[0], axis=1)
    with pytest.warns(rp.RepriorWarning, match="kind='probs'"):
        read(scores)


HOW = {"kind": "logits", "class_axis": -1, "calibration": None}
Z = np.array([[1.0, 2.0, 0.5], [2.0, 0.5, -1.0], [0.0, 0.2, 3.0], [5.0, 1.5, 1.0]])
Y = np.array([1, 0, 2, 0])


def labelled(scores, labels, n_classes=3, *, ignore_index=None, **how):
    return read_validation_rows(
        (scores, labels), n_classes, ignore_index=ignore_index, **{**HOW, **how}
    )


def test_maps_become_rows():
    maps = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    rows = read_log_scores(maps, 3, **{**HOW, "class_axis": 1})
    np.testing.assert_array_equal(rows, np.moveaxis(maps, 1, -1).reshape(-1, 3))


def test_labels_of_maps_and_ignored_ones():
    rng = np.random.default_rng(0)
    maps, labels = rng.normal(size=(2, 3, 4, 5)), rng.integers(3, size=(2, 4, 5))
    labels[0, 0] = 255
    found = labelled(maps, labels, ignore_index=255, class_axis=1)
    keep = labels.reshape(-1) != 255
    np.testing.assert_array_equal(found.rows, np.moveaxis(maps, 1, -1).reshape(-1, 3)[keep])
    np.testing.assert_array_equal(found.labels, labels.reshape(-1)[keep])


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_single_scores_have_two_columns(shape, kind):
    z = np.array([-1.0, 2.0, 0.5, -3.0])
    single = (z if kind == "logits" else expit(z)).reshape(shape)
    found = labelled(single, [False, True, True, False], 2, kind=kind)
    np.testing.assert_allclose(softmax(found.rows, axis=1)[:, 1], expit(z))
    assert found.labels.tolist() == [0, 1, 1, 0]


def test_one_sample_of_many_classes():
    assert read_log_scores([1.0, 2.0, 3.0], 3, **HOW).shape == (1, 3)


def test_source_and_target_are_calibrated_alike():
    calibration = as_calibration((0.5, [0.0, 1.0, 2.0]), 3)
    expected = 0.5 * Z + [0.0, 1.0, 2.0]
    np.testing.assert_allclose(
        read_log_scores(Z, 3, **{**HOW, "calibration": calibration}), expected
    )
    np.testing.assert_allclose(labelled(Z, Y, calibration=calibration).rows, expected)


def test_calibration_by_a_factor_per_class_a_function_and_as_it_is():
    assert as_calibration(None, 3) is None
    affine = AffineCalibration([1.0, 2.0, 3.0], 0.0)
    assert as_calibration(affine, 3) is affine
    np.testing.assert_allclose(affine(Z), Z * [1, 2, 3])
    calibration = as_calibration(lambda rows: log_softmax(rows / 2, axis=1), 3)
    np.testing.assert_allclose(calibration(Z), log_softmax(Z / 2, axis=1))


def test_the_dtype_stays():
    assert AffineCalibration(0.5, 1.0)(Z.astype(np.float32)).dtype == np.float32


def test_a_class_of_probability_0_stays_so():
    rows = read_log_scores(
        [[1.0, 0.0]], 2, kind="probs", class_axis=-1, calibration=AffineCalibration(0.5, 1.0)
    )
    assert rows[0, 1] == -np.inf


@pytest.mark.parametrize(
    "calibration, words",
    [
        (2.0, r"must be \(scale, bias\), or a function of log-scores \(n, K\). Got float"),
        ((1.0, 2.0, 3.0), "Got tuple"),
        ((0.0, 1.0), r"`calibration\[0\]` must be positive.* Got 0"),
        (([1.0, -2.0, 1.0], 0.0), "Got -2"),
        (([1.0, 2.0], 0.0), r"`calibration\[0\]` must be a finite number, or one per class"),
        ((1.0, [0.0, np.nan, 0.0]), r"`calibration\[1\]` must be a finite number"),
        ((1.0, "0"), r"`calibration\[1\]` must be a finite number"),
        (lambda rows: rows[:, :2], r"must return log-scores of the shape it was given, \(4, 3\)"),
        (
            lambda rows: rows.argmax(axis=1)[:, None] + 0 * rows.astype(int),
            "Got int64",
        ),
        (lambda rows: rows * np.nan, "without NaN"),
        (lambda rows: rows + np.inf, r"without NaN and \+inf"),
    ],
)
def test_errors_about_calibration(calibration, words):
    with pytest.raises(rp.OptionError, match=words):
        read_log_scores(Z, 3, **{**HOW, "calibration": as_calibration(calibration, 3)})


@pytest.mark.parametrize(
    "validation, error, words",
    [
        (Z, rp.OptionError, r"`validation` must be \(scores, labels\). Got ndarray"),
        ((Z, Y, Y), rp.OptionError, "Got tuple of 3"),
        ((Z * np.nan, Y), rp.ScoresError, r"`validation\[0\]` must not contain NaN"),
        ((Z * np.nan, Y), rp.ScoresError, r"Got validation\[0\]\[0, 0\]=nan"),
        ((Z[:, :2], Y), rp.ScoresError, r"`validation\[0\]` must have one entry per class"),
        ((Z, Y[:3]), rp.LabelsError, r"`validation\[1\]` must have one entry per sample"),
        ((Z, Y + 1), rp.LabelsError, r"Got validation\[1\]\[2\]=3"),
        ((Z, Y + 0.5), rp.LabelsError, r"`validation\[1\]` must be integers"),
        ((Z, [0, 0, 2, 0]), rp.LabelsError, "must have labels of every class.* none of class 1"),
    ],
)
def test_errors_about_validation(validation, error, words):
    with pytest.raises(error, match=words):
        read_validation_rows(validation, 3, ignore_index=None, **HOW)
