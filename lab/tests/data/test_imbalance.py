"""Imbalanced training sets: the totals that everybody reports, and the formula behind them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprior.exceptions import LabelsError, OptionError
from reprior_lab.data import imbalance_counts, imbalanced_indices


@pytest.mark.parametrize(
    "n_max, n_classes, totals",
    [(5000, 10, (12406, 20431, 25250, 27500)), (500, 100, (10847, 19573, 25250, 27500))],
)
def test_totals_of_cifar(n_max, n_classes, totals):
    cases = [("exp", 100), ("exp", 10), ("step", 100), ("step", 10)]
    found = [int(imbalance_counts(n_max, n_classes, *case).sum()) for case in cases]
    assert tuple(found) == totals


@given(st.integers(100, 5000), st.integers(2, 40), st.sampled_from(["exp", "step"]))
def test_indices_keep_the_first_of_each_class(n_max, n_classes, kind):
    n_max = min(n_max, 300)
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), n_max))
    index = imbalanced_indices(labels, kind, 10)
    counts = imbalance_counts(n_max, n_classes, kind, 10)
    assert np.array_equal(np.bincount(labels[index], minlength=n_classes), counts)
    assert (np.diff(index) > 0).all()
    for k in range(n_classes):
        assert np.array_equal(index[labels[index] == k], np.flatnonzero(labels == k)[: counts[k]])


def test_none_keeps_all():
    assert np.array_equal(imbalanced_indices([1, 0, 0], "none"), [0, 1, 2])
    assert np.array_equal(imbalance_counts(7, 3, "none"), [7, 7, 7])


def test_a_ratio_that_empties_a_class_is_refused():
    with pytest.raises(OptionError, match="must leave every class a sample"):
        imbalance_counts(50, 10, "exp", 100)


def test_a_class_that_is_too_small_is_refused():
    with pytest.raises(LabelsError, match=r"2 samples of class 1 .* Got 1"):
        imbalanced_indices([0, 0, 0, 0, 1], "step", 2)


@pytest.mark.parametrize("kind, ratio", [("exponential", 10), ("exp", 0.5), ("exp", float("nan"))])
def test_bad_options_are_refused(kind, ratio):
    with pytest.raises(OptionError):
        imbalance_counts(100, 10, kind, ratio)


def test_sizes_that_are_none_are_refused():
    with pytest.raises(OptionError, match="at least 2"):
        imbalance_counts(100, 1)
