"""Cross-validation of the strength."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, ShuffleSplit, StratifiedKFold
from tests.tuning.shared import ROUNDING, random_case
from tests.tuning.test_resampling import arguments_of

import reprior as rp
from reprior import cross_validate
from reprior.exceptions import OptionError
from reprior.metrics import evaluate
from reprior.profile import Samples
from reprior.tuning import (
    counted_images,
    fold_numbers,
    folds_of,
    images_of,
    nested,
    select,
    stratified_folds,
)

METRIC = "balanced_accuracy"


def case_folds(case, n_folds, seed=0):
    numbers = stratified_folds(case.labels, n_folds, np.random.default_rng(seed))
    return numbers, [case.rows(numbers == k).profile() for k in range(n_folds)]


def predicted(case, strength):
    return (case.scores + strength * case.slopes).argmax(axis=1)


@pytest.mark.parametrize("metric", ["accuracy", METRIC, "macro_f1"])
@pytest.mark.parametrize("rule", ["max", "smooth"])
def test_it_is_what_a_loop_over_folds_gives(rng, metric, rule):
    case = random_case(rng, 300, 4)
    numbers, folds = case_folds(case, 3)
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
    found = nested(case_folds(random_case(rng, 200, 3), 4)[1], METRIC)
    assert found.mean == fmean(found.scores)
    assert found.std == stdev(found.scores)
    assert found.strength_std == stdev(found.strengths)
    assert found.gain == found.score - found.baseline_score
    assert found.optimism == found.best.value - found.score


def test_scores_are_divided_and_followed_once(rng):
    case = random_case(rng, 240, 4)
    numbers, folds = case_folds(case, 3)
    want = nested(folds, METRIC)
    for options in ({"cv": numbers}, {"cv": 3, "random_state": 0}):
        found = cross_validate(case.scores, case.labels, source_prior=case.source, **options)
        assert found.strengths == want.strengths
        assert found.score == want.score


def test_constraints_are_kept_on_what_is_tuned_on(rng):
    case = random_case(rng, 400, 3)
    rule = "accuracy >= baseline - 0.02"
    numbers, folds = case_folds(case, 3)
    found = nested(folds, METRIC, subject_to=rule)
    for k in range(3):
        rest = case.rows(numbers != k).profile()
        assert found.strengths[k] == rest.best(METRIC, subject_to=rule).strength


def test_repeated_folds_are_tuned_within_their_division(rng):
    # The same samples, scored by two sets of models: a sample must not be tuned on and judged on.
    case = random_case(rng, 200, 3)
    again = replace(case, scores=case.scores + rng.normal(scale=0.5, size=case.scores.shape))
    parts = case_folds(case, 2, 0)[1] + case_folds(again, 2, 1)[1]
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
    folds = fold_numbers(arguments_of(case)[0], 3, groups, np.random.default_rng(0))
    for group in range(10):
        assert np.unique(folds[groups == group]).size == 1
    scores, labels = rng.normal(size=(6, 4, 5, 3)), rng.integers(3, size=(6, 4, 5))
    found = cross_validate(scores, labels, source_prior=[0.6, 0.3, 0.1], cv=2)
    assert found.profile.n_samples == 120
    dense = arguments_of(type(case)(scores, labels, np.array([0.6, 0.3, 0.1]), case.target))[0]
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
    folds = case_folds(random_case(rng, 60, 3), 3)[1]
    with pytest.raises(rp.OptionError, match=r"Got 3 folds and divisions \[0, 0, 1\]"):
        nested(folds, METRIC, divisions=[0, 0, 1])
    with pytest.raises(rp.OptionError, match=r"Got 3 folds and divisions \[0, 0\]"):
        nested(folds, METRIC, divisions=[0, 0])


def samples(shape=(24,)):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=shape)
    return Samples.of(rng.normal(size=(*shape, 3)), labels, n_classes=3)


def folds(cv, shape=(24,)):
    return folds_of(samples(shape), cv, np.random.default_rng(0))


def test_a_number_makes_stratified_folds():
    found, labels = folds(4), samples().labels
    for k in range(3):
        counts = np.bincount(found[labels == k], minlength=4)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("given", [np.arange(24) % 3, list(np.arange(24) % 3), tuple([0, 1] * 12)])
def test_folds_that_are_given_stay(given):
    np.testing.assert_array_equal(folds(given), np.asarray(given))


def test_a_splitter_is_asked():
    splitter = StratifiedKFold(4)
    found, labels = folds(splitter), samples().labels
    for k, (_, test) in enumerate(splitter.split(np.zeros((24, 1)), labels)):
        assert (found[test] == k).all()
    np.testing.assert_array_equal(found, folds(list(splitter.split(np.zeros(24), labels))))


def test_images_stay_whole():
    found = folds([([1, 3], [0, 2]), ([0, 2], [1, 3])], (4, 2, 3))
    np.testing.assert_array_equal(found[:, 0, 0], [0, 1, 0, 1])
    assert (found == found[:, :1, :1]).all()
    images = images_of(samples((4, 2, 3)))
    assert images.shape == (4, 2, 3)
    assert images_of(samples()) is None
    np.testing.assert_array_equal(counted_images(samples((4, 2, 3))), np.repeat(range(4), 6))
    assert counted_images(samples()) is None


def test_ignored_pixels_belong_to_no_image():
    given = samples((3, 2, 2))
    labels = given.labels.copy()
    labels[1, 0, 1] = labels[2] = 255
    marked = replace(given, labels=labels, ignore_index=255)
    np.testing.assert_array_equal(counted_images(marked), [0, 0, 0, 0, 1, 1, 1])


def test_pairs_may_be_marked():
    test = np.arange(24) % 2 == 0
    found = folds([(~test, test), (np.flatnonzero(test), np.flatnonzero(~test))])
    np.testing.assert_array_equal(found, np.arange(24) % 2)


class KFoldOfImages:
    def split(self, X, y):
        assert (len(X), y.shape) == (4, (4,))
        return [([0, 1], [2, 3]), ([2, 3], [0, 1])]


def test_splitters_divide_images():
    assert folds(KFoldOfImages(), (4, 2, 3))[:, 1, 2].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    "cv, words",
    [
        (ShuffleSplit(3, random_state=0), "Got sample .* in .* of them. Pass a splitter"),
        ([(list(range(2, 24)), [0, 1])], "Got sample 2 in 0 of them"),
        ([([5], [0, 1])], "pair 0 with 21 of 22 others left out of its train part, and 0 samples"),
        ([(np.arange(24), [0, 1])], "pair 0 with 0 of 22 others .* and 2 samples in both parts"),
        ([(None, [0, 1])], "must have indices of 24 samples .* Got None in pair 0"),
        ([(np.arange(2, 24), [0, 24])], r"Got \[0, 24\] in pair 0. Pass a splitter"),
        (GroupKFold(3), "GroupKFold.*'groups' parameter should not be None.*split.X, y, groups"),
        ([1.5, 2.5], "Got an entry 1.5. Pass cv=5"),
        (["ab", 0], "Got an entry 'ab'"),
        (1, "from 2 to the number"),
        (np.zeros(3, int), "the fold of every sample"),
    ],
)
def test_what_divides_nothing_is_refused(cv, words):
    with pytest.raises(OptionError, match=words):
        folds(cv)
