from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.tuning.bias_cases import random_biases
from tests.tuning.shared import assert_same_counts

from reprior.metrics.counts import ClassCounts
from reprior.tuning.shrinkage import SHRINKAGES, fold_counts, label_numbers, shrunk

NUMBERS = hnp.arrays(np.float64, 4, elements=st.floats(-3, 3))
LABELS = hnp.arrays(np.int64, 4, elements=st.integers(0, 50))


def differences(biases):
    return biases[:, None] - biases


@given(NUMBERS, NUMBERS, LABELS)
def test_none_leaves_the_biases_and_all_returns_to_the_start(start, biases, labels):
    np.testing.assert_array_equal(shrunk(start, biases, labels, 0.0), biases)
    np.testing.assert_array_equal(shrunk(start, biases, labels, np.inf), start)


@given(NUMBERS, NUMBERS, LABELS, st.floats(0.1, 100), st.floats(-5, 5))
def test_a_constant_added_to_all_biases_changes_nothing(start, biases, labels, shrinkage, more):
    a, b = (shrunk(start, x, labels, shrinkage) for x in (biases, biases + more))
    np.testing.assert_allclose(differences(a), differences(b), atol=1e-12)


@given(NUMBERS, NUMBERS, LABELS, st.floats(0.1, 100))
def test_every_class_goes_its_share_of_the_way(start, biases, labels, shrinkage):
    moved = shrunk(start, biases, labels, shrinkage) - start
    share = labels / (labels + shrinkage)
    assert moved[labels == 0].tolist() == [0.0] * np.count_nonzero(labels == 0)
    # Differences of what each class would have gone are those of the tuned biases.
    there = labels > 0
    gone = moved[there] / share[there]
    np.testing.assert_allclose(differences(gone), differences((biases - start)[there]), atol=1e-9)
    assert moved.sum() == pytest.approx(0.0, abs=1e-9)


def test_equal_numbers_of_labels_shrink_alike():
    start, biases = np.array([0.0, 1.0]), np.array([0.5, 3.5])
    got = shrunk(start, biases, np.array([30, 30]), 10.0)
    np.testing.assert_allclose(got[1] - got[0], 1.0 + 0.75 * 2.0)


def test_a_class_out_of_play_stays_there_and_does_not_count():
    start = np.array([0.0, -np.inf, 1.0])
    biases = np.array([1.0, -np.inf, 4.0])
    got = shrunk(start, biases, np.array([9, 9, 9]), 9.0)
    assert got[1] == -np.inf
    np.testing.assert_allclose(got[[0, 2]], [0.5 * -1, 1.0 + 0.5 * 1])


def test_no_labels_at_all_is_the_start():
    start, biases = np.zeros(2), np.array([1.0, 2.0])
    np.testing.assert_array_equal(shrunk(start, biases, np.zeros(2), 3.0), start)


def test_labels_are_counted_by_weight(rng):
    case = random_biases(rng, 50, 4, absent=1)
    want = np.bincount(case.labels, minlength=4)
    np.testing.assert_array_equal(label_numbers(case.data), want)
    same = type(case)(case.scores, case.labels, case.start, np.full(50, 2.5))
    np.testing.assert_allclose(label_numbers(same.data), want)
    uneven = np.where(np.arange(50) == np.flatnonzero(case.labels == 0)[0], 1e6, 1.0)
    one = type(case)(case.scores, case.labels, case.start, uneven)
    assert label_numbers(one.data)[0] == pytest.approx(1.0, abs=1e-4)


def test_held_out_counts_are_of_biases_tuned_without_them(rng):
    case = random_biases(rng, 60, 3)
    data, folds = case.data, np.arange(60) % 3

    def tuned(rest):
        assert rest.n_samples == 40
        return np.zeros(3), np.bincount(rest.labels, minlength=3) / 10.0

    got = fold_counts(data, folds, tuned)
    assert len(got) == len(SHRINKAGES)
    for shrinkage, counts in zip(SHRINKAGES, got, strict=True):
        predictions = np.empty(60, np.int64)
        for fold in range(3):
            labels = np.bincount(case.labels[folds != fold], minlength=3)
            biases = shrunk(np.zeros(3), labels / 10.0, labels, shrinkage)
            test = folds == fold
            predictions[test] = (case.scores[test] + biases).argmax(axis=1)
        want = ClassCounts.from_predictions(case.labels, predictions, n_classes=3)
        assert_same_counts(counts, want)
