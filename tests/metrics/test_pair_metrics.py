"""Metrics of pairs and images: their names, and what they refuse."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import reprior as rp
from reprior.exceptions import LabelsError, OptionError
from reprior.metrics import (
    PAIR_METRIC_NAMES,
    ClassCounts,
    PairCounts,
    evaluate,
    find_metric,
    from_confusion,
)


@pytest.mark.parametrize(
    "matrix, sentence",
    [
        ([[0, 1, 2], [1, 0, 2]], r"must have a row and a column for each class.* shape \(2, 3\)"),
        ([[0, math.nan], [1, 0]], r"`matrix` must be finite. Got matrix\[0, 1\]=nan"),
        ([[0, math.inf], [1, 0]], r"`matrix` must be finite"),
        ([0, 1], r"`matrix` must have shape \(K, D\)"),
        ([["a", "b"], ["c", "d"]], "`matrix` must be numbers"),
        ([[0, 1e-9], [1e-9, 0]], "largest entry from 1e-06 to 1e.12. Got 1e-09. Express them in"),
        ([[0, 1e15], [1, 0]], "Express them in another unit"),
    ],
)
def test_bad_costs_are_refused(matrix, sentence):
    with pytest.raises(OptionError, match=sentence):
        rp.Cost(matrix)


def test_costs_of_other_classes_are_refused():
    with pytest.raises(OptionError, match=r"`metric` must have costs of shape \(3, 3\)"):
        find_metric(rp.Cost([[0, 1], [1, 0]]), n_classes=3)


def test_costs_are_values():
    a, b = rp.Cost([[0, 1], [5, 0]]), rp.Cost(np.array([[0.0, 1.0], [5.0, 0.0]]))
    assert a == b
    assert hash(a) == hash(b)
    assert a != rp.Cost([[0, 1], [4, 0]])
    assert a != rp.Cost([[0, 1], [5, 0]], name="euros")
    assert pickle.loads(pickle.dumps(a)) == a
    assert repr(a) == "Cost(<2 × 2 matrix>, name='cost')"
    assert evaluate(a, [0, 0, 1, 1], [0, 1, 0, 1], sample_weight=[1, 1, 2, 4]) == pytest.approx(
        (1 + 10) / 8
    )
    assert rp.Cost(np.zeros((2, 2))).scale == 1.0


@pytest.mark.parametrize(
    "function, sentence",
    [
        (lambda m: m.sum(axis=2), r"must map matrices \(S, K, K\) to S numbers. Got float64 of"),
        (lambda m: m[:, 0, 0] / 0.0 * 0.0, "must be finite for every matrix. Got mine=nan"),
        (lambda m: ["a"] * len(m), "must map matrices"),
    ],
)
def test_bad_functions_are_refused(function, sentence):
    with np.errstate(all="ignore"), pytest.raises(OptionError, match=sentence):
        evaluate(from_confusion(function, "mine"), [0, 1], [0, 1])


def test_no_function_is_refused():
    with pytest.raises(OptionError, match=r"`function` must be a function of matrices"):
        from_confusion("accuracy")


def test_functions_may_be_minimised_and_cannot_change_the_matrix():
    def wrong(matrices):
        return matrices.sum(axis=(1, 2)) - matrices.diagonal(axis1=1, axis2=2).sum(axis=1)

    metric = from_confusion(wrong, greater_is_better=False)
    assert metric.name == "wrong"
    assert not metric.greater_is_better
    assert metric.of_rank(metric.rank(3.5)) == pytest.approx(3.5)

    def change(matrices):
        matrices[:] = 0
        return matrices[:, 0, 0]

    with pytest.raises(ValueError, match="read-only"):
        evaluate(from_confusion(change), [0, 1], [0, 1])


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("cohen_kappa(cubic)", "must have one of 'linear', 'quadratic' in parentheses, or none"),
        ("cohen_kappa(quadratc)", r"Did you mean 'cohen_kappa\(quadratic\)'\?"),
        ("cohen_kappa(linear)[0]", "a mean of one class"),
        ("mean_dice_per_imag", "Did you mean 'mean_dice_per_image'"),
        ("mean_dice_per_image(2)", "must have no argument in parentheses"),
    ],
)
def test_bad_names_are_refused(name, sentence):
    with pytest.raises(OptionError, match=sentence):
        find_metric(name, n_classes=3)


def test_a_kappa_is_no_mean_over_a_group():
    with pytest.raises(OptionError, match="is no mean over classes"):
        find_metric("cohen_kappa(linear)[few]", n_classes=3, class_groups={"few": [1, 2]})


@pytest.mark.parametrize("name", PAIR_METRIC_NAMES)
def test_no_samples_have_no_value(name):
    nothing, empty = np.zeros(3, dtype=int), np.zeros(0, dtype=int)
    counts = ClassCounts(
        nothing, nothing, nothing, pairs=PairCounts(empty, empty, empty, None, empty)
    )
    assert math.isnan(find_metric(name, n_classes=3)(counts))
    assert math.isnan(rp.Cost(np.eye(3))(counts))
    assert math.isnan(from_confusion(lambda m: m[:, 0, 0])(counts))


def test_counts_without_pairs_or_images_are_refused():
    counts = ClassCounts.from_predictions([0, 1], [0, 1], n_classes=2)
    with pytest.raises(OptionError, match="'cost' must have counts of pairs"):
        rp.Cost([[0, 1], [1, 0]])(counts)
    with pytest.raises(LabelsError, match="`image_ids` must say of which image"):
        evaluate("mean_dice_per_image", [0, 1], [0, 1])


def test_image_ids_of_the_wrong_length_are_refused():
    for ids in ([0, 1, 2], [0.5, 1.5], [[0], [1]]):
        with pytest.raises(LabelsError, match="`image_ids` must be integers, one per sample"):
            evaluate("mean_dice_per_image", [0, 1], [0, 1], image_ids=ids)


def test_counts_add_with_their_pairs():
    parts = [
        ClassCounts.from_predictions(
            [0, 1, 1], [0, 1, 0], n_classes=2, pairs=True, sample_weight=weight, image_ids=ids
        )
        for weight, ids in ((None, [0, 0, 1]), ([1.0, 2.0, 3.0], None))
    ]
    whole = parts[0] + parts[0]
    assert whole.pairs.matrix(2).tolist() == [[2, 0], [2, 2]]
    assert whole.pairs.image.tolist() == [0, 0, 1]
    mixed = parts[0] + parts[1]
    assert mixed.pairs.image is None
    assert mixed.pairs.matrix(2).tolist() == [[2, 0], [4, 3]]
    assert (parts[0] + ClassCounts.from_predictions([0], [0], n_classes=2)).pairs is None
    assert len(PairCounts.of(np.arange(3), np.arange(3), 1000, np.ones(3), np.arange(3) * 7)) == 3


@pytest.mark.parametrize(
    "groups, sentence",
    [
        ({"": [0]}, "`class_groups` must have names of letters that differ"),
        ({3: [0]}, "without brackets. Got 3"),
        ({"a[b]": [0]}, r"Got 'a\[b\]'"),
        ({"few": [0], " few ": [1]}, "twice, but for spaces"),
        ({"few": []}, "groups of at least one class. Got 'few', which is empty"),
        ({"few": [7]}, "must name a class that exists"),
    ],
)
def test_bad_groups_are_refused(groups, sentence):
    calibrator = rp.PosteriorCalibrator([0.7, 0.3], class_groups=groups)
    with pytest.raises((OptionError, LabelsError), match=sentence):
        calibrator.fit(np.eye(2) * 3, [0, 1])


def test_groups_may_be_indices_beside_names():
    metric = find_metric(
        "recall[few]", n_classes=2, classes=["cat", "dog"], class_groups={"few": [1]}
    )
    assert metric.classes == (1,)
