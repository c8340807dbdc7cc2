"""Frames to look at are chosen by the rule that is printed, not by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy", reason="scipy is not installed")

from lab.tests.synthia.test_rgbd_tables import PAPERS, fusion

from reprior_lab.synthia import rgbd
from reprior_lab.synthia.rgbd import BETTER, RULE, WORSE, recovered


def test_regions_that_are_found_after_and_missed_before():
    labels = np.zeros((12, 20), np.uint8)
    labels[1:5, 1:4] = 1  # found by both
    labels[1:5, 8:11] = 1  # found after
    labels[8:10, 2:12] = 2  # found after, larger
    labels[6, 15] = 2  # too small
    labels[11, 15:19] = 255
    after = np.where(labels == 255, 0, labels)
    before = after.copy()
    before[1:5, 8:11] = 0
    before[8:10, 2:12] = 0
    before[6, 15] = 0
    found = recovered(labels, before, after, np.array([1, 2]))
    assert found == [(20, (8, 2, 10, 12)), (12, (1, 8, 5, 11))]
    # Of a class that is not small, of which half is found before, or too little after: none.
    assert recovered(labels, before, after, np.array([0])) == []
    half = before.copy()
    half[8:10, 2:7] = 2
    assert recovered(labels, half, after, np.array([2])) == []
    little = after.copy()
    little[8:10, 2:8] = 0
    assert recovered(labels, before, little, np.array([2])) == []


def test_touching_at_a_corner_is_one_region():
    labels = np.zeros((6, 6), np.uint8)
    labels[:3, :3] = labels[3:, 3:] = 1
    found = recovered(labels, np.zeros((6, 6), int), labels, np.array([1]))
    assert found == [(18, (0, 0, 6, 6))]


def test_the_frame_with_most_pixels_away_from_those_taken():
    regions = [[] for _ in range(40)]
    regions[5], regions[12], regions[30] = [(9, None)], [(8, None), (8, None)], [(10, None)]
    assert rgbd._best(regions, []) == 12
    assert rgbd._best(regions, [12]) == 30
    assert rgbd._best(regions, [14, 30]) != 12
    assert rgbd._best(regions[:3], [1]) == 0, "where all are near, any may be shown"


def test_the_conditions_with_the_largest_gain():
    result = fusion(PAPERS)
    judged = {row: {c: dict(v) for c, v in by.items()} for row, by in result.judged.items()}
    for i, condition in enumerate(PAPERS):
        judged[BETTER][condition]["balanced_accuracy"] = 0.5 + 0.05 * i
        judged[WORSE][condition]["balanced_accuracy"] = 0.4
    chosen = rgbd._most_gained(replace(result, judged=judged))
    assert chosen == list(reversed(PAPERS))[:4]
    assert RULE.startswith("The 4 conditions")
