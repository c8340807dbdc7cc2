"""A profile with a direction for each sample, against one whose samples share it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import reprior as rp
from benchmarks.timing import Row, compare

#: (N, K), mean lead of the true class over unit noise.
CASES = [
    ((1_000_000, 14), 3.5),
    ((200_000, 100), 5.0),
    ((8_000, 8_142), 6.0),
]
BAR = 3.0
"""A direction for each sample has twice the numbers to read."""


def problem(shape: tuple[int, int], lead: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float32 logits, one direction for all samples, and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, shape[1], shape[0])
    logits = rng.standard_normal(shape, dtype=np.float32)
    logits[np.arange(shape[0]), labels] += rng.random(shape[0], dtype=np.float32) * 2 * lead
    direction = np.linspace(-2.3, 2.3, shape[1], dtype=np.float32)
    return logits - direction, direction, labels


def rows() -> Iterator[Row]:
    for shape, lead in CASES:
        logits, shared, labels = problem(shape, lead)
        own = np.tile(shared, (shape[0], 1))
        second = logits + own

        def along(
            direction: np.ndarray, logits: np.ndarray = logits, labels: np.ndarray = labels
        ) -> rp.Best:
            profile = rp.StrengthProfile.along(logits, direction, labels)
            return profile.best("balanced_accuracy")

        def blended(
            logits: np.ndarray = logits, second: np.ndarray = second, labels: np.ndarray = labels
        ) -> rp.Blend:
            return rp.Blend().fit({"first": logits, "second": second}, labels)

        size = f"{shape[0]:,} x {shape[1]:,}"
        peer = "one direction for all samples"
        theirs = lambda shared=shared, along=along: along(shared)  # noqa: E731
        ours = lambda own=own, along=along: along(own)  # noqa: E731
        yield compare(f"a direction for each sample, {size}", ours, peer, theirs, bar=BAR, pairs=15)
        yield compare(f"Blend.fit, {size}", blended, peer, theirs, bar=np.nan, pairs=15)
