from __future__ import annotations

import numpy as np
import pytest
from tests.tuning.shared import assert_same_counts

from reprior.metrics.counts import ClassCounts
from reprior.profile.samples import Block
from reprior.tuning import columns
from reprior.tuning.columns import Columns


def data_of(rng, n=600, k=37, *, weighted=False, dtype="f4"):
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    scores = rng.normal(size=(n, k)).astype(dtype)
    return Columns(Block(scores, rng.integers(k, size=n), weights))


@pytest.mark.parametrize("k", [2, 15, 16, 17, 37])
def test_columns_are_the_columns_in_any_order(rng, k):
    data = data_of(rng, k=k)
    for j in rng.permutation(k):
        column = data.column(int(j))
        np.testing.assert_array_equal(column, data.rows[:, j])
        assert column.flags.c_contiguous


def test_neighbouring_columns_are_read_once(rng, monkeypatch):
    data = data_of(rng)
    first = data.column(17)
    assert data.column(30).base is first.base
    assert data.column(33).base is not first.base


def test_the_scores_of_the_caller_stay_as_they_are(rng):
    scores = rng.normal(size=(5, 3))
    data = Columns(Block(scores, np.zeros(5, np.int64), None))
    assert np.shares_memory(data.rows, scores)
    assert scores.flags.writeable
    assert not data.rows.flags.writeable


def test_predictions_are_the_first_arg_max_of_scores_and_biases(rng):
    data = data_of(rng, n=columns.SAMPLES_AT_ONCE * 2 + 3, k=4)
    biases = np.array([0.0, -np.inf, 0.5, 0.25])
    want = (data.rows.astype(np.float64) + biases).argmax(axis=1)
    np.testing.assert_array_equal(data.predictions(biases), want)
    level = Columns(Block(np.zeros((3, 4)), np.zeros(3, np.int64), None))
    assert level.predictions(np.zeros(4)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_predictions(rng, weighted):
    data = data_of(rng, k=5, weighted=weighted)
    predictions = rng.integers(5, size=600)
    want = ClassCounts.from_predictions(
        data.labels, predictions, n_classes=5, sample_weight=data.weights
    )
    assert_same_counts(data.counts(predictions), want)


@pytest.mark.parametrize("weighted", [False, True])
def test_some_of_the_samples(rng, weighted):
    data, index = data_of(rng, k=3, weighted=weighted), np.array([5, 2, 9])
    some = data.taken(index)
    assert (some.n_samples, some.n_classes) == (3, 3)
    np.testing.assert_array_equal(some.rows, data.rows[index])
    np.testing.assert_array_equal(some.labels, data.labels[index])
    if weighted:
        np.testing.assert_array_equal(some.weights, data.weights[index])
    else:
        assert some.weights is None
