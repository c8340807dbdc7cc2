"""Folds in every way that they can be asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, ShuffleSplit, StratifiedKFold

from reprior.exceptions import OptionError
from reprior.profile.reading import read
from reprior.tuning.fold_options import counted_images, folds_of, images_of


def reading(shape=(24,)):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=shape)
    scores = rng.normal(size=(*shape, 3))
    return read(
        scores, labels, None, source_prior=[0.5, 0.3, 0.2], target_prior="uniform", kind="logits",
        bounds=(0.0, 2.0), class_axis=-1, ignore_index=None, resolution=None,
    )  # fmt: skip


def folds(cv, shape=(24,)):
    return folds_of(reading(shape), cv, np.random.default_rng(0))


def test_a_number_makes_stratified_folds():
    found, labels = folds(4), reading().rows.labels
    for k in range(3):
        counts = np.bincount(found[labels == k], minlength=4)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("given", [np.arange(24) % 3, list(np.arange(24) % 3), tuple([0, 1] * 12)])
def test_folds_that_are_given_stay(given):
    np.testing.assert_array_equal(folds(given), np.asarray(given))


def test_a_splitter_is_asked():
    splitter = StratifiedKFold(4)
    found, labels = folds(splitter), reading().rows.labels
    for k, (_, test) in enumerate(splitter.split(np.zeros((24, 1)), labels)):
        assert (found[test] == k).all()
    np.testing.assert_array_equal(found, folds(list(splitter.split(np.zeros(24), labels))))


def test_images_stay_whole():
    found = folds([([1, 3], [0, 2]), ([0, 2], [1, 3])], (4, 2, 3))
    np.testing.assert_array_equal(found[:, 0, 0], [0, 1, 0, 1])
    assert (found == found[:, :1, :1]).all()
    images = images_of(reading((4, 2, 3)))
    assert images.shape == (4, 2, 3)
    assert images_of(reading()) is None
    np.testing.assert_array_equal(counted_images(reading((4, 2, 3))), np.repeat(range(4), 6))
    assert counted_images(reading()) is None


def test_ignored_pixels_belong_to_no_image():
    given = reading((3, 2, 2))
    labels = given.rows.labels.copy()
    labels[1, 0, 1] = labels[2] = 255
    marked = replace(given, rows=replace(given.rows, labels=labels, ignore_index=255))
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
