from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metrics.shared import LIBRARIES, ROUNDING, predicted_samples

from reprior.exceptions import LabelsError, OptionError, PriorError
from reprior.metrics import COUNT_METRICS, ClassCounts, CountMetric, group_metric, shot_groups

# ------------------------------------------------------------------------------------- groups


def test_the_convention_at_the_thresholds():
    groups = shot_groups([101, 100, 21, 20, 19, 0])
    assert list(groups) == ["many", "medium", "few"]
    assert np.flatnonzero(groups["many"]).tolist() == [0]
    assert np.flatnonzero(groups["medium"]).tolist() == [1, 2, 3]
    assert np.flatnonzero(groups["few"]).tolist() == [4, 5]


@given(st.lists(st.integers(0, 300), min_size=1), st.integers(0, 99), st.integers(100, 300))
def test_every_class_is_in_one_group(counts, low, high):
    groups = shot_groups(counts, thresholds=(low, high))
    assert (np.sum(list(groups.values()), axis=0) == 1).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library(library):
    groups = shot_groups(LIBRARIES[library](np.array([500, 50, 5], dtype=np.int32)))
    assert [np.flatnonzero(mask).item() for mask in groups.values()] == [0, 1, 2]


@pytest.mark.parametrize(
    "counts, options, error, sentence",
    [
        ([5, -1], {}, PriorError, r"not negative\. Got train_counts\[1\]=-1\. Count the"),
        ([5, math.nan], {}, PriorError, r"must be finite .* Got train_counts\[1\]=nan\."),
        ([[5, 1]], {}, PriorError, r"one number per class\. Got dtype int64 and shape \(1, 2\)"),
        (["5"], {}, PriorError, r"one number per class\. Got dtype <U1"),
        ([5], {"thresholds": (100, 20)}, OptionError, r"bounds reversed\. Pass thresholds="),
        ([5], {"thresholds": 20}, OptionError, r"`thresholds` must be two numbers"),
    ],
)
def test_bad_counts_are_refused(counts, options, error, sentence):
    with pytest.raises(error, match=sentence):
        shot_groups(counts, **options)


# ------------------------------------------------------------------------------------- metric


def slow_group_recall(labels, predictions, mask) -> float:
    """As in the code of Liu et al.: accuracy of every labelled class of the group, then mean."""
    values = [
        np.mean(predictions[labels == k] == k) for k in np.flatnonzero(mask) if (labels == k).any()
    ]
    return float(np.mean(values)) if values else math.nan


@given(predicted_samples(), st.data())
def test_equals_the_slow_oracle(samples, data):
    n_classes, labels, predictions, _ = samples
    shots = data.draw(
        st.lists(st.integers(0, 200), min_size=n_classes, max_size=n_classes), label="shots"
    )
    counts = ClassCounts.from_predictions(labels, predictions, n_classes=n_classes)
    groups = shot_groups(shots)
    found = group_metric(counts, groups)
    for name, mask in groups.items():
        expected = slow_group_recall(labels, predictions, mask)
        assert found[name] == pytest.approx(expected, rel=ROUNDING, nan_ok=True)


@pytest.mark.parametrize("name", [name for name in COUNT_METRICS if name != "accuracy"])
@given(samples=predicted_samples())
def test_a_group_of_all_classes_is_the_metric(name, samples):
    n_classes, labels, predictions, weight = samples
    counts = ClassCounts.from_predictions(
        labels, predictions, n_classes=n_classes, sample_weight=weight
    )
    everything = {"all": np.ones(n_classes, dtype=bool)}
    expected = COUNT_METRICS[name](counts)
    assert group_metric(counts, everything, name)["all"] == pytest.approx(expected, rel=ROUNDING)


COUNTS = ClassCounts.from_predictions([0, 0, 1, 1], [0, 2, 1, 1], n_classes=4)
"""Class 2 is predicted but has no labels; class 3 is neither labelled nor predicted."""

GROUPS = {"a": [True, False, True, False], "b": [False, True, False, False], "c": [False] * 4}


@pytest.mark.parametrize(
    "metric, a, b",
    [
        ("balanced_accuracy", 0.5, 1.0),
        ("accuracy", 0.5, 1.0),
        ("mean_iou", 0.25, 1.0),
        ("recall[1]", math.nan, 1.0),
        (CountMetric("precision", predicted=1), 0.5, 1.0),
    ],
)
def test_absent_classes_and_empty_groups(metric, a, b):
    found = group_metric(COUNTS, GROUPS, metric)
    np.testing.assert_allclose([found["a"], found["b"], found["c"]], [a, b, math.nan])


def test_a_group_of_unseen_classes_has_no_value():
    assert math.isnan(group_metric(COUNTS, shot_groups([500, 500, 500, 1]), "mean_iou")["few"])


@pytest.mark.parametrize(
    "groups, metric, error, sentence",
    [
        (
            {"few": [True, False]},
            "accuracy",
            OptionError,
            r"masks of the 4 classes\. Got groups\['few'\] of dtype bool and shape \(2,\)\. Pass",
        ),
        ({"few": [0, 1, 2, 3]}, "accuracy", OptionError, r"Got groups\['few'\] of dtype int64"),
        (GROUPS, "mean_iuo", OptionError, r"Did you mean 'mean_iou'\?"),
        (GROUPS, "roc_auc", OptionError, r"decided by hard labels"),
        (GROUPS, "recall[9]", LabelsError, r"0 to 3\. Got '9'"),
    ],
)
def test_bad_groups_are_refused(groups, metric, error, sentence):
    with pytest.raises(error, match=sentence):
        group_metric(COUNTS, groups, metric)
