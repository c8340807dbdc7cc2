"""The table of switches: from it follow all counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.tuning.shared import cases, random_case

import reprior as rp


@given(cases())
def test_counts_at_the_upper_bound_follow_from_the_table(case):
    profile = case.profile()
    table, low = profile.switches, profile.counts(case.bounds[0])
    assert len(table) == profile.n_switches
    assert (np.diff(table.position) >= 0).all()
    later = table.position > case.bounds[0]
    predicted, right = low.predicted.astype(float), low.true_positive.astype(float)
    np.add.at(predicted, table.after[later], table.weight[later])
    np.add.at(predicted, table.before[later], -table.weight[later])
    for classes, sign in ((table.after, 1), (table.before, -1)):
        hit = later & (classes == table.label)
        np.add.at(right, classes[hit], sign * table.weight[hit])
    high = profile.counts(case.bounds[1])
    np.testing.assert_allclose(predicted, high.predicted, atol=1e-9)
    np.testing.assert_allclose(right, high.true_positive, atol=1e-9)


def test_weights_are_counts_where_there_are_none(rng):
    table = random_case(rng).profile().switches
    np.testing.assert_array_equal(table.weight, table.count)
    assert table.count.dtype == np.int64


def test_counts_of_a_difference(rng):
    case = random_case(rng)
    part = case.rows(slice(0, 20)).profile()
    twice = part + part + case.rows(slice(20, 60)).profile()
    left = (twice - case.rows(slice(20, 60)).profile()).switches
    assert left.count.tolist() == [2] * part.n_switches


def test_equal_profiles_have_equal_tables(rng):
    case = random_case(rng, weighted=True)
    a = case.profile().switches
    b = (case.rows(slice(30, 60)).profile() + case.rows(slice(0, 30)).profile()).switches
    for name in ("position", "label", "before", "after"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_binned_profile_has_no_table(rng):
    with pytest.raises(rp.OptionError, match=r"exact profile. Got one with resolution=0.1"):
        _ = random_case(rng).profile(resolution=0.1).switches


@given(cases())
def test_binning_later_is_binning_at_once(case):
    later, once = case.profile().binned(0.125), case.profile(resolution=0.125)
    assert later.resolution == 0.125
    for name, column in once._switches.arrays().items():
        np.testing.assert_allclose(later._switches.arrays()[name], column, atol=1e-12)
    assert later.best("accuracy") == once.best("accuracy")
    assert once.binned(0.125) is once


@pytest.mark.parametrize(
    "start, width, words",
    [(0.1, 0.2, "that of the profile, 0.1, once it is binned. Got 0.2"), (None, 0, "above 0")],
)
def test_words(rng, start, width, words):
    profile = random_case(rng).profile(resolution=start)
    with pytest.raises(rp.OptionError, match=words):
        profile.binned(width)
