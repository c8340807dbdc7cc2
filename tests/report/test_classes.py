"""Classes as the page shows them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.shared import fitted, make_scores

import reprior as rp
from reprior.exceptions import PriorError
from reprior.report.classes import describe_classes


@pytest.fixture
def calibrator():
    logits, labels, counts = make_scores(np.random.default_rng(0), k=6)
    names = np.array(list("abcdef"))
    return fitted(logits, names[labels], counts, classes=names)


def test_groups_are_by_training_count(calibrator):
    found = describe_classes(calibrator, [500, 101, 100, 20, 19, 1])
    assert [found.group_names[g] for g in found.group] == [
        "many (> 100)", "many (> 100)", "medium (20 to 100)", "medium (20 to 100)",
        "few (< 20)", "few (< 20)",
    ]  # fmt: skip
    assert found.whole


def test_counts_by_name(calibrator):
    by_name = {name: i for i, name in enumerate("fedcba")}
    assert describe_classes(calibrator, by_name).counts.tolist() == [5, 4, 3, 2, 1, 0]


def test_without_counts_the_groups_are_thirds_by_prior(calibrator):
    found = describe_classes(calibrator, None)
    assert found.counts is None
    assert found.group.tolist() == [0, 0, 1, 1, 2, 2]
    assert "thirds of the classes by source prior" in found.group_note


def test_negative_counts_are_refused(calibrator):
    with pytest.raises(PriorError, match=r"finite and not negative .* Got counts\[1\]=-1\."):
        describe_classes(calibrator, [1, -1, 1, 1, 1, 1])
    with pytest.raises(PriorError, match=r"Got counts\[0\]=many\."):
        describe_classes(calibrator, ["many", "2", "3", "4", "5", "6"])


def test_many_classes_share_cells():
    k = 95
    counts = np.arange(k, 0, -1)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(counts)).fit(
        3 * np.eye(k), np.arange(k)
    )
    found = describe_classes(calibrator, None)
    assert found.cell_names[0] == "1–10"
    assert found.cell_names[-1] == "87–95"
    assert np.bincount(found.cell).tolist() == [10] * 5 + [9] * 5
    assert (np.diff(found.cell) >= 0).all()


def test_groups_have_the_limits_that_were_given():
    calibrator = rp.PosteriorCalibrator([0.7, 0.2, 0.1]).fit(3 * np.eye(3), [0, 1, 2])
    classes = describe_classes(calibrator, [70, 20, 10], (15, 50))
    assert classes.group_names == ["many (> 50)", "medium (15 to 50)", "few (< 15)"]
    assert list(classes.group) == [0, 1, 2]
