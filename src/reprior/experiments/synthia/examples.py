"""Frames to look at, chosen by a rule: where a fusion finds small things that another misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.core.prior import prior_from_counts
from reprior.exceptions import require
from reprior.experiments.synthia.frame_counts import STRETCH
from reprior.experiments.synthia.frames import IGNORED
from reprior.experiments.synthia.fused import FusionResult, decide, fit_fusion, read_pair
from reprior.experiments.synthia.runs import NetworkRun
from reprior.experiments.synthia.sources import HELD_OUT

__all__ = ["BETTER", "RULE", "SHOWN", "WORSE", "Example", "choose_examples", "rarer", "recovered"]

Array: TypeAlias = np.ndarray[Any, Any]

#: What is shown, and which of them are compared.
SHOWN = ("softave", "uno", "uno-ic-rebalanced/tuned")
WORSE, BETTER = SHOWN[0], SHOWN[-1]

#: A region counts that has so many pixels of the scores, of which so many are found, or missed.
LEAST_PIXELS, FOUND, MISSED = 8, 0.5, 0.1

#: Conditions that are shown, and regions that are pointed at in each.
N_CONDITIONS, N_REGIONS = 4, 3

RULE = (
    f"The {N_CONDITIONS} conditions are those under which UNO-IC, which rebalances first here, "
    f"gains most mean accuracy over SoftAve; of each, that frame is shown in which regions of the "
    f"rarer half of the classes that UNO-IC finds (half of their pixels or more) and SoftAve "
    f"misses (a tenth or less) have most pixels, {STRETCH} frames at least from those shown above "
    f"it. The boxes are the largest of these regions; a row without a box has none. So the frames "
    f"show what the gain looks like, not how often it is there."
)


@dataclass(frozen=True, eq=False)
class Example:
    """A frame to look at.

    Parameters
    ----------
    condition : str
        The weather.
    index : int
        Which of the test frames.
    labels : uint8 (h, w)
        The truth at the pixels of the scores.
    decided : mapping of str to integer (h, w)
        What each of :data:`SHOWN` decides.
    boxes : sequence of (int, int, int, int)
        Top, left, bottom and right of the regions pointed at, ends not included.
    """

    condition: str
    index: int
    labels: Array
    decided: Mapping[str, Array]
    boxes: Sequence[tuple[int, int, int, int]]


def choose_examples(
    result: FusionResult, runs: Mapping[str, NetworkRun], homes: Mapping[str, Path]
) -> list[Example]:
    """Return the frames of :data:`RULE`, from the score files of both networks."""
    counts = np.asarray(next(iter(runs.values())).class_counts)
    held_out, prior = read_pair(homes, HELD_OUT), prior_from_counts(counts)
    fusions = {
        row: fit_fusion(row, held_out, prior, strength=result.strengths.get(row)) for row in SHOWN
    }
    small = rarer(counts)
    found: list[Example] = []
    for condition in _most_gained(result):
        pair = read_pair(homes, condition)
        decided = {row: decide(fusions[row], pair) for row in SHOWN}
        labels = pair["rgb"].labels
        regions = [
            recovered(labels[i], decided[WORSE][i], decided[BETTER][i], small)
            for i in range(len(labels))
        ]
        taken = [each.index for each in found]
        index = _best(regions, taken)
        boxes = [box for _, box in regions[index][:N_REGIONS]]
        own = {row: each[index] for row, each in decided.items()}
        found.append(Example(condition, index, labels[index], own, boxes))
    return found


def rarer(counts: Array) -> Array:
    """Return the rarer half of the classes.

    Examples
    --------
    >>> rarer(np.array([50, 3, 9, 70]))
    array([1, 2])
    """
    return np.sort(np.argsort(counts, kind="stable")[: len(counts) // 2])


def recovered(
    labels: Array, before: Array, after: Array, small: Array
) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Return size and box of the regions of small classes that are found after and not before.

    Parameters
    ----------
    labels, before, after : integer (h, w)
        The truth, and two decisions.
    small : sequence of int
        Classes.

    Returns
    -------
    list of (int, (int, int, int, int))
        Pixels, and top, left, bottom and right, the largest region first.
    """
    image: Any = require("scipy.ndimage", extra="experiments", purpose="To find regions")
    found = []
    for k in small:
        marks, _ = image.label((labels == k) & (labels != IGNORED), structure=np.ones((3, 3)))
        for number, (rows, columns) in enumerate(image.find_objects(marks), 1):
            region = marks[rows, columns] == number
            size = int(region.sum())
            was, is_now = (
                float((each[rows, columns][region] == k).mean()) for each in (before, after)
            )
            if size >= LEAST_PIXELS and was <= MISSED and is_now >= FOUND:
                found.append((size, (rows.start, columns.start, rows.stop, columns.stop)))
    return sorted(found, key=lambda each: -each[0])


def _most_gained(result: FusionResult) -> list[str]:
    def gained(condition: str) -> float:
        better, worse = (
            result.judged[row][condition]["balanced_accuracy"] for row in (BETTER, WORSE)
        )
        return worse - better

    return sorted(result.averaged, key=gained)[:N_CONDITIONS]


def _best(regions: Sequence[Sequence[tuple[int, Any]]], taken: Sequence[int]) -> int:
    """Return the frame with most pixels in its regions, away from those that are taken."""
    free = [i for i in range(len(regions)) if all(abs(i - j) >= STRETCH for j in taken)]
    return max(free or range(len(regions)), key=lambda i: sum(size for size, _ in regions[i]))
