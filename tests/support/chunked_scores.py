"""Labelled scores, cuts into chunks, and the comparison of two fits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.tuning.shared import assert_same_counts, switch_multiset

import reprior as rp
from reprior.files import Chunk

TEMPERATURE_TOLERANCE = 1e-6
"""Newton stops at steps of 1e-6 relative to 1/T, and then errs by the square of that; sums over
other chunks round differently by less."""

PRIOR = np.array([0.6, 0.25, 0.1, 0.05])


@dataclass(frozen=True)
class Data:
    """Labelled scores, and the options that go with them."""

    scores: Any
    labels: Any
    weight: Any = None
    prior: Any = None
    options: Any = None

    def calibrator(self, **more: Any) -> rp.PosteriorCalibrator:
        prior = PRIOR if self.prior is None else self.prior
        return rp.PosteriorCalibrator(prior, **{**(self.options or {}), **more})

    def chunks(self, cuts: Any) -> list[Chunk]:
        edges = [0, *sorted(cuts), len(self.labels)]
        return [self.chunk(a, b) for a, b in pairwise(edges)]

    def chunk(self, a: int, b: int) -> Chunk:
        weight = None if self.weight is None else self.weight[a:b]
        return Chunk(self.scores[a:b], self.labels[a:b], weight, start=a)

    def with_options(self, **options: Any) -> Data:
        return replace(self, options={**(self.options or {}), **options})


def flat(seed: int = 0, n: int = 60, *, shift: float = 1.0, prior: Any = PRIOR) -> Data:
    """Scores (n, K) of a model that is wrong often enough to be corrected."""
    rng = np.random.default_rng(seed)
    n_classes = len(prior)
    labels = rng.integers(n_classes, size=n)
    scores = rng.normal(size=(n, n_classes)) * 1.5 + 2 * np.log(prior) * shift
    scores[np.arange(n), labels] += 2.0
    return Data(scores, labels, prior=prior)


def images(seed: int = 0, n: int = 6) -> Data:
    """Scores (n, K, H, W) with ignored pixels, NaN where they are ignored."""
    one = flat(seed, n * 6)
    scores = np.moveaxis(one.scores.reshape(n, 2, 3, 4), -1, 1).astype(np.float32)
    labels = one.labels.reshape(n, 2, 3).copy()
    rng = np.random.default_rng(seed + 1)
    labels[rng.random(labels.shape) < 0.3] = 255
    labels[1] = 255
    scores = np.where((labels == 255)[:, None], np.float32(np.nan), scores)
    return Data(scores, labels, options={"class_axis": 1, "ignore_index": 255})


def weighted(data: Data, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    return replace(data, weight=rng.integers(0, 4, np.shape(data.labels)).astype(np.float64))


def cuts(n: int) -> st.SearchStrategy[list[int]]:
    """Draw where to cut n samples; repeated cuts make empty chunks."""
    return st.lists(st.integers(0, n), max_size=6)


def quietly(call: Any, *args: Any, **options: Any) -> tuple[Any, list[str]]:
    """Return the result of a call, and the sentences of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **options)
    return result, [str(warning.message) for warning in caught]


def assert_same_fit(a: rp.PosteriorCalibrator, b: rp.PosteriorCalibrator) -> None:
    """Equal to the bit, but for the temperature."""
    assert (a.strength_, a.strength_interval_, a.best_score_) == (
        b.strength_,
        b.strength_interval_,
        b.best_score_,
    )
    assert abs(a.temperature_ / b.temperature_ - 1) <= TEMPERATURE_TOLERANCE
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.source_prior_, b.source_prior_)
    np.testing.assert_array_equal(a.target_prior_, b.target_prior_)
    mine, theirs = a.profile_, b.profile_
    assert mine.bounds == theirs.bounds
    assert_same_counts(mine.baseline, theirs.baseline)
    assert_same_counts(mine.counts(mine.bounds[1]), theirs.counts(theirs.bounds[1]))
    if mine.resolution is None:
        assert switch_multiset(mine._switches) == switch_multiset(theirs._switches)
