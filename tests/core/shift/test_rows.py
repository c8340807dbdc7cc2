"""Rows of log-posteriors: source and target read and calibrated alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax

import reprior as rp
from reprior.core.shift.rows import Affine, as_calibration, labelled_rows, log_rows

HOW = {"kind": "logits", "class_axis": -1, "calibration": None}
Z = np.array([[1.0, 2.0, 0.5], [2.0, 0.5, -1.0], [0.0, 0.2, 3.0], [5.0, 1.5, 1.0]])
Y = np.array([1, 0, 2, 0])


def labelled(scores, labels, n_classes=3, *, ignore_index=None, **how):
    return labelled_rows((scores, labels), n_classes, ignore_index=ignore_index, **{**HOW, **how})


def test_maps_become_rows():
    maps = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    rows = log_rows(maps, 3, **{**HOW, "class_axis": 1})
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
    assert log_rows([1.0, 2.0, 3.0], 3, **HOW).shape == (1, 3)


def test_source_and_target_are_calibrated_alike():
    calibration = as_calibration((0.5, [0.0, 1.0, 2.0]), 3)
    expected = 0.5 * Z + [0.0, 1.0, 2.0]
    np.testing.assert_allclose(log_rows(Z, 3, **{**HOW, "calibration": calibration}), expected)
    np.testing.assert_allclose(labelled(Z, Y, calibration=calibration).rows, expected)


def test_calibration_by_a_factor_per_class_a_function_and_as_it_is():
    assert as_calibration(None, 3) is None
    affine = Affine([1.0, 2.0, 3.0], 0.0)
    assert as_calibration(affine, 3) is affine
    np.testing.assert_allclose(affine(Z), Z * [1, 2, 3])
    calibration = as_calibration(lambda rows: log_softmax(rows / 2, axis=1), 3)
    np.testing.assert_allclose(calibration(Z), log_softmax(Z / 2, axis=1))


def test_the_dtype_stays():
    assert Affine(0.5, 1.0)(Z.astype(np.float32)).dtype == np.float32


def test_a_class_of_probability_0_stays_so():
    rows = log_rows([[1.0, 0.0]], 2, kind="probs", class_axis=-1, calibration=Affine(0.5, 1.0))
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
        (lambda rows: rows.argmax(axis=1)[:, None] + 0 * rows.astype(int), "Got int64"),
        (lambda rows: rows * np.nan, "without NaN"),
        (lambda rows: rows + np.inf, r"without NaN and \+inf"),
    ],
)
def test_words_about_calibration(calibration, words):
    with pytest.raises(rp.OptionError, match=words):
        log_rows(Z, 3, **{**HOW, "calibration": as_calibration(calibration, 3)})


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
def test_words_about_validation(validation, error, words):
    with pytest.raises(error, match=words):
        labelled_rows(validation, 3, ignore_index=None, **HOW)
