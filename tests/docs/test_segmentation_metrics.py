"""The gallery's comparison of mean IoU and Dice per image: its page, and its numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from docs.scripts.segmentation_metrics import (
    DRAWS,
    PAGE,
    RUN_FILE,
    SHOWN,
    TUNED,
    interval,
    read,
    render,
    run,
    value,
)

import reprior as rp

pytestmark = pytest.mark.skipif(
    not (PAGE.parent / "data").exists(), reason="the source distribution has no scores"
)

FOUND = json.loads(RUN_FILE.read_text(encoding="utf-8")) if RUN_FILE.exists() else {}


def test_the_page_shows_the_run_file():
    text = PAGE.read_text(encoding="utf-8")
    assert render(text, FOUND) == text, "Run: python -m docs.scripts.segmentation_metrics --render"


def test_the_run_file_is_what_the_script_finds():
    again = run(draws=2)
    assert FOUND["draws"] == DRAWS
    assert [row["tuned_for"] for row in again["rows"]] == ["uncorrected", *TUNED]
    for row, kept in zip(again["rows"], FOUND["rows"], strict=True):
        assert row["strength"] == pytest.approx(kept["strength"])
        for part in ("tuning", "test"):
            assert row[part] == pytest.approx(kept[part])
    assert again["best_of_test"] == pytest.approx(FOUND["best_of_test"])


def test_each_metric_is_best_where_it_was_tuned():
    for name in TUNED:
        values = {row["tuned_for"]: row["tuning"][name] for row in FOUND["rows"]}
        assert max(values, key=values.get) == name
    assert set(FOUND["rows"][0]["test"]) == set(SHOWN)


def test_what_the_page_says_of_other_data():
    by_iou, by_dice = FOUND["rows"][1:]
    assert by_iou["strength"] < by_dice["strength"]
    for row in (by_iou, by_dice):
        assert all(low > 0 for low, _ in row["gain"].values())
    assert abs(by_iou["test"]["mean_iou"] - by_dice["test"]["mean_iou"]) < 0.001
    assert (
        0 < by_dice["test"]["mean_dice_per_image"] - by_iou["test"]["mean_dice_per_image"] < 0.001
    )


def test_an_interval_is_of_whole_frames():
    scores, labels = read("test")
    decided = scores.argmax(axis=1)
    better = np.where(np.arange(len(labels))[:, None, None] % 2, labels, decided)
    low, high = interval("accuracy", labels, decided, better, scores.shape[1], 40)
    gain = value("accuracy", labels, better, 12) - value("accuracy", labels, decided, 12)
    assert 0 < low < gain < high
    assert gain == pytest.approx(
        rp.metrics.evaluate("accuracy", labels, better) - (labels == decided).mean()
    )
