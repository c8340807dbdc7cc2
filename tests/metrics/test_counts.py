from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix
from tests.metrics.shared import LIBRARIES, predicted_samples

from reprior.exceptions import LabelsError, ProfileMismatchError, RepriorError
from reprior.metrics import ClassCounts

FIELDS = ("true_positive", "predicted", "support")


def assert_same(a: ClassCounts, b: ClassCounts) -> None:
    for name in (*FIELDS, "labelled", "seen"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


# ------------------------------------------------------------------------------------ oracles


@given(predicted_samples())
def test_equals_the_confusion_matrix(samples):
    n_classes, labels, predictions, weight = samples
    counts = ClassCounts.from_predictions(
        labels, predictions, n_classes=n_classes, sample_weight=weight
    )
    matrix = confusion_matrix(
        labels, predictions, labels=np.arange(n_classes), sample_weight=weight
    )
    np.testing.assert_array_equal(counts.true_positive, np.diag(matrix))
    np.testing.assert_array_equal(counts.predicted, matrix.sum(axis=0))
    np.testing.assert_array_equal(counts.support, matrix.sum(axis=1))


# --------------------------------------------------------------------------------- identities


@given(predicted_samples(), st.integers(0, 40))
def test_chunks_add_up(samples, cut):
    n_classes, labels, predictions, weight = samples
    cut = 1 + cut % labels.size
    total = ClassCounts.from_predictions(
        labels, predictions, n_classes=n_classes, sample_weight=weight
    )
    head = ClassCounts.from_predictions(
        labels[:cut], predictions[:cut], n_classes=n_classes, sample_weight=weight[:cut]
    )
    if cut == labels.size:
        assert_same(head, total)
        return
    tail = ClassCounts.from_predictions(
        labels[cut:], predictions[cut:], n_classes=n_classes, sample_weight=weight[cut:]
    )
    assert_same(head + tail, total)


@given(predicted_samples())
def test_weight_is_repetition(samples):
    n_classes, labels, predictions, weight = samples
    weighted = ClassCounts.from_predictions(
        labels, predictions, n_classes=n_classes, sample_weight=weight
    )
    repeated = ClassCounts.from_predictions(
        np.repeat(labels, weight), np.repeat(predictions, weight), n_classes=n_classes
    )
    assert_same(weighted, repeated)


@given(predicted_samples(), st.randoms(use_true_random=False))
def test_permuting_classes_permutes_counts(samples, random):
    n_classes, labels, predictions, _ = samples
    order = np.array(random.sample(range(n_classes), n_classes))
    plain = ClassCounts.from_predictions(labels, predictions, n_classes=n_classes)
    moved = ClassCounts.from_predictions(order[labels], order[predictions], n_classes=n_classes)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(moved, name)[order], getattr(plain, name))


def test_any_shape():
    labels, predictions = np.arange(8) % 3, np.arange(8) % 2
    flat = ClassCounts.from_predictions(labels, predictions, n_classes=3)
    cube = ClassCounts.from_predictions(
        labels.reshape(2, 2, 2), predictions.reshape(2, 2, 2), n_classes=3
    )
    assert_same(flat, cube)


def test_ignored_and_weightless_samples_are_left_out():
    counts = ClassCounts.from_predictions(
        [0, 255, 1, 1], [0, 1, 1, 2], n_classes=3, ignore_index=255, sample_weight=[1, 1, 0.5, 0]
    )
    assert counts.true_positive.tolist() == [1, 0.5, 0]
    assert counts.predicted.tolist() == [1, 0.5, 0]
    assert counts.seen.tolist() == [True, True, False]


def test_unweighted_counts_are_integers():
    counts = ClassCounts.from_predictions([0, 1], [0, 0], n_classes=2)
    assert all(getattr(counts, name).dtype.kind == "i" for name in FIELDS)


def test_presence_is_decided_by_numbers_of_samples():
    ghost = ClassCounts(
        np.array([0.0, 1.0]),
        np.array([1e-17, 1.0]),
        np.array([1e-17, 1.0]),
        n_predicted=np.array([0, 1]),
        n_labelled=np.array([0, 1]),
    )
    assert ghost.labelled.tolist() == ghost.seen.tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint64", "int64"])
def test_any_integer_dtype(dtype):
    labels = np.array([0, 1, 1], dtype=dtype)
    counts = ClassCounts.from_predictions(labels, labels, n_classes=2)
    assert counts.support.tolist() == [1, 2]


# ------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library(library):
    array = LIBRARIES[library]
    labels, predictions = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    weight = np.array([1.0, 2.0, 0.5, 3.0], dtype=np.float32)
    assert_same(
        ClassCounts.from_predictions(
            array(labels), array(predictions), n_classes=3, sample_weight=array(weight)
        ),
        ClassCounts.from_predictions(labels, predictions, n_classes=3, sample_weight=weight),
    )


# -------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "labels, predictions, error, sentence",
    [
        (
            [0, 3],
            [0, 1],
            LabelsError,
            r"`labels` must be class indices from 0 to 2\. Got labels\[1\]=3\.",
        ),
        ([0, 1], [0, -1], LabelsError, r"`predictions` must be .* Got predictions\[1\]=-1\."),
        ([0, 1], [0.0, 1.0], LabelsError, r"`predictions` must be integers .* float64"),
        ([0, 1], [0, 1, 2], LabelsError, r"`predictions` must have one entry per sample\."),
        ([], [], LabelsError, r"`labels` must be integers"),
        (np.array([], int), np.array([], int), LabelsError, r"`labels` must not be empty\."),
        (
            np.array([0]),
            torch.tensor([0]),
            RepriorError,
            r"one array library\. Got numpy and torch\.",
        ),
    ],
)
def test_bad_input_is_refused(labels, predictions, error, sentence):
    with pytest.raises(error, match=sentence):
        ClassCounts.from_predictions(labels, predictions, n_classes=3)


def test_bad_weights_are_refused():
    with pytest.raises(LabelsError, match=r"Got sample_weight\[1\]=-1\."):
        ClassCounts.from_predictions([0, 1], [0, 1], n_classes=2, sample_weight=[1, -1])


def test_counts_of_different_classes_do_not_add():
    two = ClassCounts.from_predictions([0], [0], n_classes=2)
    three = ClassCounts.from_predictions([0], [0], n_classes=3)
    with pytest.raises(ProfileMismatchError, match=r"Got 2 and 3 classes\. Pass the same"):
        _ = two + three


def test_only_counts_add_to_counts():
    with pytest.raises(TypeError):
        _ = ClassCounts.from_predictions([0], [0], n_classes=2) + 1
