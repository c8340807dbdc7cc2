"""Cross-validation of the strength."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tuning.shared import ROUNDING, random_case
from tests.tuning.test_resampling import reading_of

import reprior as rp
from reprior.metrics import evaluate
from reprior.tuning.crossval import cross_validate, fold_numbers, nested, stratified_folds
from reprior.tuning.selection import select

METRIC = "balanced_accuracy"


def folds_of(case, n_folds, seed=0):
    numbers = stratified_folds(case.labels, n_folds, np.random.default_rng(seed))
    return numbers, [case.rows(numbers == k).profile() for k in range(n_folds)]


def predicted(case, strength):
    return (case.scores + strength * case.slopes).argmax(axis=1)


@pytest.mark.parametrize("metric", ["accuracy", METRIC, "macro_f1"])
@pytest.mark.parametrize("rule", ["max", "smooth"])
def test_it_is_what_a_loop_over_folds_gives(rng, metric, rule):
    case = random_case(rng, 300, 4)
    numbers, folds = folds_of(case, 3)
    found = nested(folds, metric, rule=rule)
    after, before = np.empty(300, int), predicted(case, 0.0)
    for k in range(3):
        rest, own = case.rows(numbers != k), case.rows(numbers == k)
        strength = select(rest.profile(), metric, rule).strength
        assert found.strengths[k] == strength
        after[numbers == k] = predicted(own, strength)
        assert found.scores[k] == pytest.approx(
            evaluate(metric, own.labels, predicted(own, strength), n_classes=4), abs=ROUNDING
        )
        assert found.baseline[k] == pytest.approx(
            evaluate(metric, own.labels, predicted(own, 0.0), n_classes=4), abs=ROUNDING
        )
    assert found.score == pytest.approx(evaluate(metric, case.labels, after, n_classes=4))
    assert found.baseline_score == pytest.approx(evaluate(metric, case.labels, before, n_classes=4))
    assert found.best == select(case.profile(), metric, rule)
    assert found.profile.n_samples == 300


def test_what_it_says_of_the_folds(rng):
    found = nested(folds_of(random_case(rng, 200, 3), 4)[1], METRIC)
    assert found.mean == fmean(found.scores)
    assert found.std == stdev(found.scores)
    assert found.strength_std == stdev(found.strengths)
    assert found.gain == found.score - found.baseline_score
    assert found.optimism == found.best.value - found.score


def test_scores_are_divided_and_followed_once(rng):
    case = random_case(rng, 240, 4)
    numbers, folds = folds_of(case, 3)
    want = nested(folds, METRIC)
    for options in ({"cv": numbers}, {"cv": 3, "random_state": 0}):
        found = cross_validate(case.scores, case.labels, source_prior=case.source, **options)
        assert found.strengths == want.strengths
        assert found.score == want.score


def test_constraints_are_kept_on_what_is_tuned_on(rng):
    case = random_case(rng, 400, 3)
    rule = "accuracy >= baseline - 0.02"
    numbers, folds = folds_of(case, 3)
    found = nested(folds, METRIC, subject_to=rule)
    for k in range(3):
        rest = case.rows(numbers != k).profile()
        assert found.strengths[k] == rest.best(METRIC, subject_to=rule).strength


def test_repeated_folds_are_tuned_within_their_division(rng):
    # The same samples, scored by two sets of models: a sample must not be tuned on and judged on.
    case = random_case(rng, 200, 3)
    again = replace(case, scores=case.scores + rng.normal(scale=0.5, size=case.scores.shape))
    parts = folds_of(case, 2, 0)[1] + folds_of(again, 2, 1)[1]
    found = nested(parts, METRIC, divisions=[0, 0, 1, 1])
    alone = [nested(pair, METRIC) for pair in (parts[:2], parts[2:])]
    assert found.strengths == alone[0].strengths + alone[1].strengths
    assert found.scores == alone[0].scores + alone[1].scores
    assert found.best == sum(parts).best(METRIC)


@given(st.integers(2, 5), st.integers(0, 2**32))
def test_folds_have_as_many_of_each_class_to_within_one(n_folds, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=rng.integers(n_folds, 60))
    folds = stratified_folds(labels, n_folds, rng)
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for k in np.unique(labels):
        each = np.bincount(folds[labels == k], minlength=n_folds)
        assert each.max() - each.min() <= 1


def test_groups_and_images_stay_together(rng):
    case = random_case(rng, 60, 3)
    groups = rng.integers(10, size=60)
    folds = fold_numbers(reading_of(case), 3, groups, np.random.default_rng(0))
    for group in range(10):
        assert np.unique(folds[groups == group]).size == 1
    scores, labels = rng.normal(size=(6, 4, 5, 3)), rng.integers(3, size=(6, 4, 5))
    found = cross_validate(scores, labels, source_prior=[0.6, 0.3, 0.1], cv=2)
    assert found.profile.n_samples == 120
    dense = reading_of(type(case)(scores, labels, np.array([0.6, 0.3, 0.1]), case.target))
    images = fold_numbers(dense, 3, None, np.random.default_rng(0))
    assert images.shape == labels.shape
    assert (images == images[:, :1, :1]).all()
    assert np.bincount(images[:, 0, 0]).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"cv": 1}, "`cv` must be from 2 to the number of samples to divide, 20. Got 1."),
        ({"cv": 21}, "`cv` must be from 2 to the number of samples to divide, 20. Got 21."),
        (
            {"cv": "stratified"},
            "`cv` must be a number of folds, or the fold of every sample. Got <U10 of shape () "
            "for labels of shape (20,). Pass cv=3, or integers of the labels' shape.",
        ),
        (
            {"cv": np.zeros(19, int)},
            "`cv` must be a number of folds, or the fold of every sample. Got int64 of shape (19,)",
        ),
        (
            {"groups": np.zeros(19, int)},
            "`groups` must have one entry per sample. Got shape (19,) for labels of shape (20,).",
        ),
        (
            {"cv": np.zeros(20, int)},
            "`folds` must be at least two, in each of the `divisions`. Got 1 folds and divisions "
            "[0]. Pass more folds: something has to be left to tune on.",
        ),
    ],
)
def test_words(rng, options, sentence):
    case = random_case(rng, 20, 3)
    with pytest.raises(rp.RepriorError) as caught:
        cross_validate(case.scores, case.labels, source_prior=case.source, **options)
    assert sentence in str(caught.value)


def test_a_division_of_one_fold_has_nothing_to_tune_on(rng):
    folds = folds_of(random_case(rng, 60, 3), 3)[1]
    with pytest.raises(rp.OptionError, match=r"Got 3 folds and divisions \[0, 0, 1\]"):
        nested(folds, METRIC, divisions=[0, 0, 1])
    with pytest.raises(rp.OptionError, match=r"Got 3 folds and divisions \[0, 0\]"):
        nested(folds, METRIC, divisions=[0, 0])
