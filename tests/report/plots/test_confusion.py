"""ConfusionDisplay, and the matrix it draws."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.metrics import confusion_matrix as oracle
from tests.report.plots.shared import NAMES

import reprior as rp
from reprior.report.plots import ConfusionDisplay


@pytest.mark.parametrize("normalize", ["true", "pred", "all", "none"])
def test_the_matrix_is_scikit_learns(calibrator, judge_on, normalize):
    logits, labels = judge_on
    display = ConfusionDisplay.from_calibrator(calibrator, logits, labels, normalize=normalize)
    before = np.array(NAMES)[logits.argmax(axis=1)]
    for image, predicted in zip(display.images_, (before, calibrator.predict(logits)), strict=True):
        wanted = oracle(
            labels, predicted, labels=NAMES, normalize=None if normalize == "none" else normalize
        )
        np.testing.assert_allclose(image.get_array(), wanted)


def test_weights_and_ignored_labels():
    labels, predictions = np.array([[0, 1], [1, 9]]), np.array([[0, 0], [1, 1]])
    weight = np.array([[1.0, 0.5], [2.0, 7.0]])
    display = ConfusionDisplay.from_predictions(
        labels, predictions, sample_weight=weight, ignore_index=9, normalize="none"
    )
    assert display.images_[0].get_array().tolist() == [[1.0, 0.0], [0.5, 2.0]]


def test_two_matrices_stand_side_by_side_with_names(calibrator, judge_on):
    display = ConfusionDisplay.from_calibrator(calibrator, *judge_on)
    assert [ax.get_title() for ax in display.ax_] == ["before", "after"]
    assert [tick.get_text() for tick in display.ax_[0].get_yticklabels()] == NAMES
    assert [tick.get_text() for tick in display.ax_[1].get_xticklabels()] == NAMES


def test_numbers_are_in_the_cells_that_are_not_zero():
    display = ConfusionDisplay.from_predictions([0, 0, 1, 2], [0, 1, 1, 2], text_kw={"color": "r"})
    written = {(*text.get_position(),): text.get_text() for text in display.texts_}
    assert written == {(0, 0): "0.50", (1, 0): "0.50", (1, 1): "1.00", (2, 2): "1.00"}
    assert {text.get_color() for text in display.texts_} == {"r"}


def test_shares_that_round_to_zero_are_not_written():
    display = ConfusionDisplay.from_predictions([0] * 300 + [1], [0] * 299 + [1, 1])
    assert [text.get_text() for text in display.texts_] == ["1.00", "1.00"]


def test_counts_are_written_whole():
    display = ConfusionDisplay.from_predictions([0, 0, 1], [0, 0, 1], normalize="none")
    assert [text.get_text() for text in display.texts_] == ["2", "1"]


def test_one_matrix_on_given_axes():
    _, ax = plt.subplots()
    display = ConfusionDisplay.from_predictions([0, 1, 5], [0, 1, 1], ignore_index=5, ax=ax)
    assert display.ax_ is ax
    assert display.images_[0].get_array().shape == (2, 2)


def test_a_class_without_labels_is_an_empty_row():
    display = ConfusionDisplay.from_predictions([0, 0], [0, 1], classes=["a", "b", "c"])
    assert display.images_[0].get_array().tolist() == [[0.5, 0.5, 0.0], [0.0] * 3, [0.0] * 3]


def test_many_classes_are_pooled_and_have_no_numbers(many):
    calibrator, logits, labels = many
    display = ConfusionDisplay.from_calibrator(
        calibrator, logits, labels, max_classes=50, normalize="none"
    )
    matrix = display.matrices["after"]
    assert matrix.shape == (50, 50)
    assert matrix.sum() == labels.size
    assert display.classes[-1] == "251 others"
    assert display.texts_ == []
    support = np.sort(np.bincount(labels, minlength=300))[::-1]
    assert sorted(matrix.sum(axis=1)[:-1], reverse=True) == support[:49].tolist()


def test_more_classes_than_names_have_room_for(many):
    calibrator, logits, labels = many
    display = ConfusionDisplay.from_calibrator(calibrator, logits, labels)
    assert display.matrices["before"].shape == (200, 200)
    assert "others" not in [tick.get_text() for tick in display.ax_[0].get_yticklabels()]


def test_two_matrices_need_two_axes(calibrator, judge_on):
    _, ax = plt.subplots()
    with pytest.raises(rp.OptionError, match=r"`ax` must be 2 axes of matplotlib, or None. Got 1 "):
        ConfusionDisplay.from_calibrator(calibrator, *judge_on, ax=ax)


@pytest.mark.parametrize("max_classes", [1, 2.5, True])
def test_at_least_two_classes_are_drawn(calibrator, judge_on, max_classes):
    with pytest.raises(rp.OptionError, match=r"`max_classes` must be an integer of at least 2"):
        ConfusionDisplay.from_calibrator(calibrator, *judge_on, max_classes=max_classes)


def test_unknown_normalisations_are_refused():
    with pytest.raises(rp.OptionError, match=r"`normalize` must be one of 'true', .* Got 'rows'"):
        ConfusionDisplay.from_predictions([0, 1], [0, 1], normalize="rows")


def test_predictions_outside_the_classes_are_refused():
    with pytest.raises(rp.LabelsError, match="predictions"):
        ConfusionDisplay.from_predictions([0, 1], [0, 2], classes=["a", "b"])
