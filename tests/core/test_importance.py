from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprior import LabelsError, PriorError, RepriorError
from reprior.core import importance_ratio, importance_weights

TARGET = np.array([0.2, 0.3, 0.5])


@given(st.integers(0, 10**6))
def test_by_their_own_frequencies_labels_get_the_mix_of_the_target(seed):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(3), rng.integers(3, size=20)])
    weights = rng.uniform(0.1, 3.0, size=23)
    found = importance_weights(labels, weights, target_prior=TARGET)
    mix = np.bincount(labels, found, minlength=3)
    np.testing.assert_allclose(mix / mix.sum(), TARGET, rtol=1e-12)


def test_a_given_prior_of_the_labels_is_divided_by():
    labels, weights = np.array([[0, 1], [2, 2]]), np.array([[1.0, 2.0], [3.0, 0.0]])
    prior = np.array([0.5, 0.4, 0.1])
    found = importance_weights(labels, weights, target_prior=TARGET, label_prior=prior)
    np.testing.assert_allclose(found, [[0.4, 1.5], [15.0, 0.0]])


def test_labels_of_weight_0_may_be_anything():
    found = importance_weights(
        np.array([0, 255, 1]), np.array([1.0, 0.0, 1.0]), target_prior=np.array([0.5, 0.5])
    )
    np.testing.assert_allclose(found, [1.0, 0.0, 1.0])


def test_a_class_that_the_target_lacks_counts_nothing():
    found = importance_weights(np.array([0, 1]), np.ones(2), target_prior=np.array([0.0, 1.0]))
    np.testing.assert_allclose(found, [0.0, 2.0])


def test_nor_does_one_that_the_label_prior_lacks_too():
    found = importance_weights(
        np.array([0, 1, 2]),
        np.ones(3),
        target_prior=np.array([0.5, 0.5, 0.0]),
        label_prior=np.array([0.25, 0.75, 0.0]),
    )
    np.testing.assert_allclose(found, [2.0, 2 / 3, 0.0])
    assert importance_ratio(np.array([0.0, 1.0]), np.array([0.0, 0.0])).tolist() == [0.0, 0.0]


WORDS = {
    "label prior next to 0": (
        lambda: importance_weights(
            np.array([0, 1]),
            np.ones(2),
            target_prior=TARGET,
            label_prior=np.array([1.0, 1e-310, 0.0]),
        ),
        PriorError,
        "`label_prior` must be positive for every class that has labels. Got label_prior[1]=1e-310",
    ),
    "label prior of 0": (
        lambda: importance_weights(
            np.array([0, 1]), np.ones(2), target_prior=TARGET, label_prior=np.array([1.0, 0, 0])
        ),
        PriorError,
        "Got label_prior[1]=0 and labels of class 1.",
    ),
    "nothing of the target": (
        lambda: importance_weights(
            np.array([0, 0]), np.ones(2), target_prior=np.array([0.0, 0.5, 0.5])
        ),
        LabelsError,
        "`labels` must hold a class of positive `target_prior`, or there is nothing to fit.",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)
