"""Samples that are weighted anew: what they count must be what a profile of them counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tuning.shared import (
    Case,
    assert_same_counts,
    cases,
    checked,
    exact_cases,
    random_case,
    rows_of,
    switch_multiset,
)

import reprior as rp
from reprior.profile import Priors
from reprior.tuning import sample_paths

METRICS = ("accuracy", "balanced_accuracy", "mean_iou", "macro_f1")


def arguments_of(case: Case, **options):
    """The samples and priors of a case."""
    settings = {"source_prior": case.source, "target_prior": case.target, "bounds": case.bounds}
    return checked(case.scores, case.labels, case.weights, **(settings | options))


def assert_same_profile(found, want):
    assert_same_counts(found.baseline, want.baseline)
    assert found.n_samples == want.n_samples
    for x in np.linspace(*want.bounds, 9):
        assert_same_counts(found.counts(float(x)), want.counts(float(x)))
    for metric in METRICS:
        for a, b in zip(found.curve(metric), want.curve(metric), strict=True):
            np.testing.assert_array_equal(a, b)


@given(cases(weighted=False))
def test_each_unit_as_often_as_it_is_there_is_the_profile_itself(case):
    paths = sample_paths(*arguments_of(case))
    assert_same_profile(paths.profile(paths.size), case.profile())


@given(exact_cases())
def test_switches_are_those_of_the_profile(case):
    prior = np.full(len(case.slopes), 1 / len(case.slopes))
    rows = rows_of(np.asarray(case.scores), case.labels)
    paths = sample_paths(rows, Priors(prior, prior, case.slopes, case.bounds))
    want = case.profile()
    found = paths.profile(paths.size)
    assert switch_multiset(found._switches) == switch_multiset(want._switches)
    assert (np.diff(paths.switches.position) >= 0).all()


@given(cases(weighted=False), st.integers(0, 2**32))
def test_a_replicate_is_the_profile_of_samples_taken_so_often(case, seed):
    # Whole groups, so that the samples that are taken can be named.
    groups = np.random.default_rng(seed).integers(3, size=case.n)
    times = np.random.default_rng(seed + 1).integers(3, size=3)
    taken = np.repeat(np.arange(case.n), times[groups])
    paths = sample_paths(*arguments_of(case), groups)
    present = np.unique(groups)
    if taken.size:
        assert_same_profile(paths.profile(times[present]), case.rows(taken).profile())


@given(cases(weighted=True))
def test_sample_weights_stay_within_rounding(case):
    paths = sample_paths(*arguments_of(case))
    found, want = paths.profile(paths.size), case.profile()
    for metric in METRICS:
        np.testing.assert_allclose(
            found.evaluate(metric, np.linspace(*case.bounds, 7)),
            want.evaluate(metric, np.linspace(*case.bounds, 7)),
            rtol=0, atol=1e-12,
        )  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_a_unit_that_is_not_drawn_is_gone(rng, weighted):
    case = random_case(rng, 80, 4, weighted=weighted)
    paths = sample_paths(*arguments_of(case), np.arange(80))
    times = np.zeros(80, np.int64)
    times[10:30] = 1
    found, want = paths.profile(times), case.rows(slice(10, 30)).profile()
    assert found.n_samples == 20
    assert found.weighted is weighted
    for metric in METRICS:
        np.testing.assert_allclose(
            found.evaluate(metric, [0.0, 0.7, 2.0]), want.evaluate(metric, [0.0, 0.7, 2.0])
        )


def test_samples_that_never_switch_are_one_unit(rng):
    case = Case(
        np.tile([[9.0, 0.0], [0.0, 9.0], [0.5, 0.0]], (10, 1)), np.tile([0, 0, 1], 10),
        np.array([0.8, 0.2]), np.array([0.5, 0.5]),
    )  # fmt: skip
    paths = sample_paths(*arguments_of(case))
    assert paths.n_units == 12  # ten that switch, and two kinds that do not
    assert sorted(paths.size.tolist()) == [1] * 10 + [10, 10]
    assert paths.n_switches == 10
    weights = np.repeat([1.0, 2.0], 15)
    weighted = sample_paths(*arguments_of(replace(case, weights=weights)))
    assert weighted.n_units == 14  # the same two kinds, of two weights


def test_many_blocks_are_joined(rng, monkeypatch):
    monkeypatch.setattr("reprior.tuning.resampling.HOST_BLOCK", 64)
    case = random_case(rng, 200, 6)
    paths = sample_paths(*arguments_of(case))
    assert_same_profile(paths.profile(paths.size), case.profile())


def test_ignored_samples_belong_to_no_group(rng):
    scores = rng.normal(size=(2, 3, 4, 5))
    labels = rng.integers(3, size=(2, 4, 5))
    labels[0, :2] = 255
    images = np.broadcast_to(np.arange(2)[:, None, None], labels.shape)
    case = Case(scores, labels, np.array([0.6, 0.3, 0.1]), np.full(3, 1 / 3))
    paths = sample_paths(*arguments_of(case, class_axis=1, ignore_index=255), images)
    assert paths.n_units == 2
    want = rp.StrengthProfile.from_scores(
        scores[:1], labels[:1], source_prior=case.source, class_axis=1, ignore_index=255
    )
    assert_same_profile(paths.profile(np.array([1, 0])), want)


def test_groups_must_fit_the_labels(rng):
    case = random_case(rng, 20, 3)
    with pytest.raises(rp.LabelsError) as caught:
        sample_paths(*arguments_of(case), np.arange(19))
    assert str(caught.value) == (
        "`groups` must have one entry per sample. Got shape (19,) for labels of shape (20,). "
        "Repeat an image's number for each of its pixels."
    )


def test_scores_that_cannot_be_used_are_refused(rng):
    case = random_case(rng, 20, 3)
    case.scores[7, 1] = np.nan
    with pytest.raises(rp.ScoresError, match=r"scores\[7, 1\]"):
        sample_paths(*arguments_of(case))
    case.scores[7] = -np.inf
    with pytest.raises(rp.ScoresError, match=r"scores\[7, :\]"):
        sample_paths(*arguments_of(case))
