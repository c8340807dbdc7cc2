"""Classes as the page shows them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.report_pages import chunked, fitted, make_scores, page_json, unpack

import reprior as rp
from reprior.report import write_report

NAMES = list("abcdef")


@pytest.fixture
def describe(tmp_path):
    """Write a page of six classes, and read what it says of them."""
    logits, labels, counts = make_scores(np.random.default_rng(0), k=6)
    calibrator = fitted(logits, np.array(NAMES)[labels], counts, classes=np.array(NAMES))

    def describe(counts, **options):
        path = tmp_path / "r.html"
        write_report(path, calibrator, chunked(logits, labels), counts=counts, **options)
        return page_json(path)["classes"], path.read_text(encoding="utf-8")

    return describe


def groups_of(classes):
    return [classes["groupNames"][g] for g in unpack(classes["group"])]


def test_groups_are_by_training_count(describe):
    classes, _ = describe([500, 101, 100, 20, 19, 1])
    assert groups_of(classes) == [
        "many (> 100)", "many (> 100)", "medium (20 to 100)", "medium (20 to 100)",
        "few (< 20)", "few (< 20)",
    ]  # fmt: skip
    assert classes["whole"]


def test_groups_have_the_limits_that_were_given(describe):
    classes, _ = describe([70, 51, 50, 15, 14, 0], groups=(15, 50))
    assert classes["groupNames"] == ["many (> 50)", "medium (15 to 50)", "few (< 15)"]
    assert unpack(classes["group"]).tolist() == [0, 0, 1, 1, 2, 2]


def test_counts_by_name(describe):
    by_name = {name: i for i, name in enumerate("fedcba")}
    assert unpack(describe(by_name)[0]["counts"]).tolist() == [5, 4, 3, 2, 1, 0]


def test_without_counts_the_groups_are_thirds_by_prior(describe):
    classes, text = describe(None)
    assert classes["counts"] is None
    assert unpack(classes["group"]).tolist() == [0, 0, 1, 1, 2, 2]
    assert "thirds of the classes by source prior" in text


def test_negative_counts_are_refused(describe):
    with pytest.raises(rp.PriorError, match=r"finite and not negative .* Got counts\[1\]=-1\."):
        describe([1, -1, 1, 1, 1, 1])
    with pytest.raises(rp.PriorError, match=r"Got counts\[0\]=many\."):
        describe(["many", "2", "3", "4", "5", "6"])


def test_many_classes_share_cells(tmp_path):
    k = 95
    logits, labels = 3 * np.eye(k), np.arange(k)
    calibrator = fitted(logits, labels, np.arange(k, 0, -1))
    path = write_report(tmp_path / "r.html", calibrator, [(logits, labels)])
    classes = page_json(path)["classes"]
    assert classes["cellNames"][0] == "1–10"
    assert classes["cellNames"][-1] == "87–95"
    cell = unpack(classes["cell"]).astype(int)
    assert np.bincount(cell).tolist() == [10] * 5 + [9] * 5
    assert (np.diff(cell) >= 0).all()
