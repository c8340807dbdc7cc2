"""The exact top-k curve, against the strengths tried one by one and against the profile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reprior as rp
from reprior.exceptions import RepriorError
from reprior.metrics import top_k_accuracy
from reprior_lab import inaturalist_results as module
from reprior_lab.inaturalist_results import top_k_curve

BOUNDS = (0.0, 3.0)


def at(curve, strengths):
    """A step function's values."""
    return curve[1][np.searchsorted(curve[0], strengths, side="right") - 1]


def sample(seed, n=60, n_classes=9, equal=False):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4 if equal else 400, n_classes)  # few values: many equal slopes
    scores = rng.normal(0, 2, (n, n_classes)) + np.log(counts)
    return scores, rng.integers(0, n_classes, n), rp.prior_from_counts(counts)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 5, 8, 9]), st.booleans())
def test_is_what_the_strengths_give_one_by_one(seed, k, equal):
    scores, labels, prior = sample(seed, equal=equal)
    curve = top_k_curve(scores, labels, source_prior=prior, k=k, bounds=BOUNDS)
    strengths = np.random.default_rng(seed + 1).uniform(*BOUNDS, 25)
    # Nothing is tried within rounding of a switch.
    strengths = strengths[np.abs(strengths[:, None] - curve[0]).min(axis=1) > 1e-9]
    tried = [
        top_k_accuracy(rp.log_rebalance(scores, prior, strength=each), labels, k=k)
        for each in strengths
    ]
    assert at(curve, strengths) == pytest.approx(tried, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_with_one_is_the_profile(seed):
    scores, labels, prior = sample(seed)
    curve = top_k_curve(scores, labels, source_prior=prior, k=1, bounds=BOUNDS)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=prior, bounds=BOUNDS)
    strengths, values = profile.curve("accuracy")
    assert curve[0] == pytest.approx(strengths, abs=1e-9)
    assert curve[1] == pytest.approx(values)


def test_with_all_classes_is_one():
    scores, labels, prior = sample(3)
    strengths, values = top_k_curve(scores, labels, source_prior=prior, k=9)
    assert strengths.tolist() == [0.0]
    assert values.tolist() == [1.0]


def test_equal_lines_go_to_the_lower_index():
    scores = np.zeros((3, 3))
    curve = top_k_curve(scores, [0, 1, 2], source_prior=np.full(3, 1 / 3), k=2)
    assert curve[1].tolist() == [2 / 3]


def test_the_larger_slope_is_ahead_at_a_crossing():
    # The lines meet at λ = 1: from there on the rarer class is first.
    prior = [0.75, 0.25]
    scores = np.array([[np.log(3.0), 0.0]])
    strengths, values = top_k_curve(scores, [1], source_prior=prior, k=1)
    assert strengths == pytest.approx([0.0, 1.0])
    assert values.tolist() == [0.0, 1.0]
    assert top_k_curve(scores, [0], source_prior=prior, k=1)[1].tolist() == [1.0, 0.0]


def test_blocks_make_no_difference(monkeypatch):
    scores, labels, prior = sample(5)
    whole = top_k_curve(scores.astype(np.float32), labels, source_prior=prior, k=3)
    monkeypatch.setattr(module, "BLOCK", 20)
    parts = top_k_curve(scores.astype(np.float32), labels, source_prior=prior, k=3)
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_lower_bound_above_zero():
    scores, labels, prior = sample(6)
    wide = top_k_curve(scores, labels, source_prior=prior, k=3, bounds=(0.0, 2.0))
    narrow = top_k_curve(scores, labels, source_prior=prior, k=3, bounds=(0.5, 2.0))
    assert narrow[0][0] == 0.5
    strengths = np.linspace(0.5, 2.0, 40)
    assert np.array_equal(at(wide, strengths), at(narrow, strengths))


@pytest.mark.parametrize("k", [0, 4, True, 1.5])
def test_k_must_be_a_number_of_classes(k):
    with pytest.raises(RepriorError, match=r"`k` must be an integer from 1 to .* 3\. Got"):
        top_k_curve(np.zeros((2, 3)), [0, 1], source_prior=np.full(3, 1 / 3), k=k)


def test_labels_must_fit():
    with pytest.raises(RepriorError, match="labels"):
        top_k_curve(np.zeros((2, 3)), [0, 3], source_prior=np.full(3, 1 / 3))
