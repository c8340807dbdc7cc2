from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.support.miscalibrated import labelled

from reprior import LabelsError, ScoresError
from reprior.core import WeightedRows, kernels
from reprior.core import weighted_rows as module

OPTIONS = {"sample_weight": None, "kind": "logits", "class_axis": -1, "ignore_index": None}


def read(scores, labels, **options):
    return WeightedRows.read(scores, labels, **{**OPTIONS, **options})


@pytest.mark.parametrize("n_classes", [3, 30])
def test_rows_of_every_layout_are_the_same(n_classes, rng):
    z = rng.normal(size=(24, n_classes))
    y = rng.integers(n_classes, size=24)
    images = np.moveaxis(z.reshape(2, 3, 4, n_classes), -1, 1)
    for data in (read(z, y), read(images, y.reshape(2, 3, 4), class_axis=1)):
        np.testing.assert_array_equal(data.rows, z)
        np.testing.assert_array_equal(data.labels, y)
        np.testing.assert_array_equal(data.label_scores, z[np.arange(24), y])
        np.testing.assert_allclose(data.weights, 1 / 24)
        assert data.rows.flags.f_contiguous == (n_classes == 3)
        assert data.rows.flags.c_contiguous == (n_classes == 30)
        assert not data.has_impossible


def test_samples_left_out_are_gone_and_the_others_keep_their_place(rng):
    z, y = rng.normal(size=(6, 3)), np.array([0, 9, 1, 2, 2, 0])
    data = read(z, y, ignore_index=9, sample_weight=np.array([1.0, 1, 0, 2, 1, 0]))
    np.testing.assert_array_equal(data.rows, z[[0, 3, 4]])
    assert data.samples.tolist() == [0, 3, 4]
    np.testing.assert_allclose(data.weights, [0.25, 0.5, 0.25])


def test_weights_of_importance(rng):
    y = np.array([0, 0, 0, 1])
    data = read(rng.normal(size=(4, 2)), y, target_prior=np.array([0.5, 0.5]))
    np.testing.assert_allclose(data.weights, [1 / 6, 1 / 6, 1 / 6, 1 / 2])


def test_one_score_per_sample_becomes_two(rng):
    z, y = rng.normal(size=5), np.array([0, 1, 0, 1, 1])
    for target in (None, np.array([0.5, 0.5])):
        data = read(z, y, target_prior=target)
        np.testing.assert_array_equal(data.rows, np.stack([np.zeros(5), z], axis=1))


def test_a_vector_of_three_scores_is_one_sample():
    data = read(np.array([1.0, 2.0, 5.0]), np.array(1), target_prior=np.full(3, 1 / 3))
    assert data.rows.tolist() == [[1.0, 2.0, 5.0]]
    assert data.labels.tolist() == [1]


def test_classes_can_be_dropped_and_scores_shifted(rng):
    z, y = rng.normal(size=(6, 4)), np.array([1, 3, 1, 3, 3, 1])
    data = labelled(z, y)
    assert data.of_classes(np.ones(4, bool)) is data
    fewer = data.of_classes(np.array([False, True, False, True]))
    np.testing.assert_array_equal(fewer.rows, z[:, [1, 3]])
    assert fewer.labels.tolist() == [0, 1, 0, 1, 1, 0]
    np.testing.assert_array_equal(data.shifted(np.arange(4.0)).rows, z + np.arange(4.0))


@pytest.mark.parametrize("n_classes", [3, 30])
def test_a_sample_of_many_rows(n_classes, rng, monkeypatch):
    z, y = rng.normal(size=(100, n_classes)), rng.integers(n_classes, size=100)
    weights = rng.uniform(size=100)
    data = labelled(z, y, weights / weights.sum())
    assert data.sample() is None
    monkeypatch.setattr(module, "SAMPLE_FROM", 100)
    monkeypatch.setattr(module, "SAMPLE_ITEMS", n_classes)
    monkeypatch.setattr(module, "SAMPLE_ROWS", 25)
    few = data.sample()
    assert (few.samples // 4).tolist() == list(range(25))  # one of every four
    np.testing.assert_array_equal(few.rows, z[few.samples])
    np.testing.assert_array_equal(few.labels, y[few.samples])
    np.testing.assert_allclose(few.weights, weights[few.samples] / weights[few.samples].sum())
    assert few.weights.sum() == pytest.approx(1)
    assert few.rows.flags.c_contiguous == data.rows.flags.c_contiguous
    monkeypatch.setattr(module, "SAMPLE_ROWS", 60)
    assert data.sample() is None


def test_a_sample_of_another_library(rng, monkeypatch):
    monkeypatch.setattr(kernels, "native", None)
    z, y = rng.normal(size=(10, 3)), rng.integers(3, size=10)
    few = read(torch.tensor(z), torch.tensor(y)).every(3)
    assert (few.samples // 3).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(few.rows.numpy(), z[few.samples])
    np.testing.assert_array_equal(few.label_scores, z[np.arange(10), y][few.samples])


@pytest.mark.parametrize("n_classes, share", [(3, 3), (8, 4), (100, 12), (12, 12)])
def test_labels_in_a_regular_order_are_all_in_a_sample(n_classes, share):
    labels = np.arange(40 * n_classes * share) % n_classes
    few = labelled(np.zeros((labels.size, n_classes)), labels).every(share)
    counts = np.bincount(few.labels, minlength=n_classes)
    assert counts.min() >= 20  # of 40
    assert labelled(np.zeros((3, 2)), np.zeros(3, int)).every(1).labels.size == 3


def test_error_sentences():
    with pytest.raises(LabelsError, match="at least one sample of positive weight"):
        read(np.ones((2, 2)), np.array([7, 7]), ignore_index=7)
    with pytest.raises(ScoresError, match="Got probability 0 for class 1 of sample 2"):
        read(
            np.array([[-0.7, -0.7], [-0.7, -0.7], [0.0, -np.inf]]),
            np.array([7, 0, 1]),
            ignore_index=7,
        )
    with pytest.raises(ScoresError, match="3 on axis -1 of shape"):
        read(np.ones((2, 3)), np.array([0, 1]), target_prior=np.array([0.5, 0.5]))


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_what_is_left_out_may_hold_anything(kind):
    scores = {
        "logits": np.array([[2, 1], [7, 7], [1, 2]]),  # integers
        "probs": np.array([[0.9, 0.1], [9.0, np.nan], [0.1, 0.9]]),
        "log_probs": np.array([[0.0, -np.inf], [9.0, np.inf], [-np.inf, 0.0]]),
    }[kind]
    data = read(scores, np.array([0, 255, 1]), kind=kind, ignore_index=255)
    assert data.samples.tolist() == [0, 2]
    assert data.labels.tolist() == [0, 1]
    assert np.isfinite(data.label_scores).all()
