"""A stream's prior by online EM, and the evidence for a shift."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.label_shift import World, world

from reprior.core.shift import (
    MeanRatios,
    TrackerState,
    TrackingOptions,
    block_size,
    measure_ratios,
    reference_posteriors,
    track,
)
from reprior.core.shift.tracking import REFERENCE_SHARE, STANDARD_ERRORS

EXACT = 1e-10
"""Sums of a few hundred terms in two orders, and logarithms of them."""


def options_for(reference, half_life=48.0, rate=1e-4, ratios=None):
    return TrackingOptions(reference, half_life, rate, ratios)


def one_by_one(posterior, options):
    """The definitions, a sample at a time."""
    prior, evidence, alarm_at = options.reference, 0.0, None
    believed, block = prior, []
    for i, row in enumerate(posterior):
        if not block:
            believed = (1 - REFERENCE_SHARE) * prior + REFERENCE_SHARE * options.reference
        ratio = sum(row * believed / options.reference)
        error = np.sqrt(believed @ options.ratios.covariance @ believed)
        fair = sum(believed * options.ratios.mean) + STANDARD_ERRORS * error
        evidence = (1 + evidence) * ratio / fair
        if alarm_at is None and evidence >= 1 / options.false_alarm_rate:
            alarm_at = i + 1
        block.append(row * believed / options.reference / ratio)
        if len(block) == options.block_size:
            old = 2 ** (-len(block) / options.half_life)
            prior, block = old * prior + (1 - old) * np.mean(block, axis=0), []
    if block:
        old = 2 ** (-len(block) / options.half_life)
        prior = old * prior + (1 - old) * np.mean(block, axis=0)
    return prior, evidence, alarm_at


@given(st.integers(0, 300), st.lists(st.integers(1, 70), min_size=1, max_size=5))
def test_batches_are_samples_one_by_one(seed, sizes):
    rng = np.random.default_rng(seed)
    here = world(rng, 3, 2.0)
    root = 0.02 * rng.normal(size=(3, 3))
    options = options_for(here.source, ratios=MeanRatios(rng.uniform(0.9, 1.1, 3), root @ root.T))
    scores, _ = here.draw(rng, sum(sizes), here.target)
    posterior = reference_posteriors(scores, here.source, here.source)
    state = TrackerState.start(here.source)
    for part in np.split(posterior, np.cumsum(sizes)[:-1]):
        state = track(state, part, options)
    prior, evidence, alarm_at = one_by_one(posterior, options)
    np.testing.assert_allclose(state.current_prior(options.half_life), prior, atol=EXACT)
    assert state.log_evidence == pytest.approx(math.log1p(evidence), abs=1e-8)
    assert state.alarm_at == alarm_at
    assert state.n_samples == sum(sizes)
    assert state.waiting == sum(sizes) % options.block_size


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_mix_is_followed(n_classes):
    rng = np.random.default_rng(n_classes)
    here = world(rng, n_classes, 8.0)
    options = options_for(here.source, 500.0)
    state = TrackerState.start(here.source)
    for mix in (here.target, here.source):
        scores, _ = here.draw(rng, 5000, mix)
        state = track(state, reference_posteriors(scores, here.source, here.source), options)
        # The spread of weights that halve every 500 samples is that of 1443 alike: 0.013.
        np.testing.assert_allclose(state.current_prior(500.0), mix, atol=0.05)


def test_a_half_life_is_one_for_a_model_that_is_sure():
    reference = np.array([0.5, 0.5])
    options = options_for(reference, 160.0)
    sure = np.tile([1.0, 0.0], (160, 1))
    state = track(TrackerState.start(reference), sure, options)
    np.testing.assert_allclose(state.current_prior(160.0), [0.75, 0.25])
    np.testing.assert_allclose(state.prior.sum(), 1)


def test_a_class_of_prior_0_recovers():
    reference = np.array([0.5, 0.5])
    options = options_for(reference, 16.0)
    likely = np.array([[0.8, 0.2], [0.2, 0.8]])
    state = track(TrackerState.start(reference), np.tile(likely[:1], (16 * 200, 1)), options)
    assert state.current_prior(16.0)[1] < 0.01
    state = track(state, np.tile(likely[1:], (16 * 12, 1)), options)
    assert state.current_prior(16.0)[1] > 0.9


def test_posteriors_under_another_prior():
    rng = np.random.default_rng(0)
    here = world(rng)
    scores, _ = here.draw(rng, 50, here.source)
    found = reference_posteriors(scores, here.source, here.target)
    mass = np.exp(scores) / here.source * here.target
    np.testing.assert_allclose(found, mass / mass.sum(axis=1, keepdims=True))
    # Differences that no exponential could hold:
    far = reference_posteriors(np.array([[3000.0, 0.0], [-np.inf, 0.0]]), *np.full((2, 2), 0.5))
    np.testing.assert_array_equal(far, [[1, 0], [0, 1]])


def test_measured_ratios_are_1_for_a_model_that_is_right():
    rng = np.random.default_rng(1)
    here = world(rng, 3, 1.5)
    scores, labels = here.draw(rng, 100_000, here.source)
    seen = reference_posteriors(scores, here.source, here.target)
    found = measure_ratios(seen, labels, here.target)
    errors = np.sqrt(np.diag(found.covariance))
    assert (errors < 0.02).all()
    np.testing.assert_array_less(np.abs(found.mean - 1), 4 * errors)
    slow = [
        sum(here.target[j] * (seen[labels == j, k] / here.target[k]).mean() for j in range(3))
        for k in range(3)
    ]
    np.testing.assert_allclose(found.mean, slow)


def test_the_covariance_of_measured_ratios():
    rng = np.random.default_rng(2)
    here = world(rng, 3, 1.5)
    labels = np.repeat([0, 1, 2], [100, 60, 40])  # their mix is of no consequence
    found = []
    for _ in range(300):
        x = here.means[labels] + rng.normal(size=(200, 2))
        scores = -0.5 * ((x[:, None] - here.means) ** 2).sum(axis=-1) + np.log(here.source)
        found.append(
            measure_ratios(
                reference_posteriors(scores, here.source, here.target), labels, here.target
            )
        )
    spread = np.cov(np.array([each.mean for each in found]).T)
    mean = np.mean([each.covariance for each in found], axis=0)
    # A variance of 300 is known to √(2/300) = 8 %: three times that.
    np.testing.assert_allclose(mean, spread, atol=0.25 * np.abs(spread).max())
    # The reference itself has the ratio 1, and no error.
    assert found[0].upper_bound(here.target) == pytest.approx(1)
    assert found[0].upper_bound(here.source) > found[0].mean @ here.source


def test_blocks():
    assert [block_size(h) for h in (0.5, 16, 160, 10_000)] == [1, 1, 10, 625]


def runs(here: World, rng, n_runs, n, options, mix, wrong=0.0):
    """Tell how many of some streams of n samples of a mix end in an alarm."""
    alarms = 0
    for _ in range(n_runs):
        scores, _ = here.draw(rng, n, mix)
        posterior = reference_posteriors(scores + wrong, here.source, options.reference)
        alarms += (
            track(TrackerState.start(options.reference), posterior, options).alarm_at is not None
        )
    return alarms


@pytest.mark.parametrize(
    "n_classes, half_life, separation, least",
    [(2, 64.0, 3.0, 5), (4, 64.0, 3.0, 5), (4, 640.0, 2.0, 0)],
)
def test_false_alarms_are_as_rare_as_stated(n_classes, half_life, separation, least):
    # 1,000 samples at a rate of 2e-4: at most 24 alarms are to be expected in 120 streams of their
    # own, and their number has a standard deviation of at most 4.4. Were the rate twice what is
    # stated, 48 would be expected. The noisier the tracked mix, the more of the rate is used up.
    rng = np.random.default_rng(n_classes)
    here = world(rng, n_classes, separation)
    options = options_for(here.source, half_life, 2e-4)
    found = runs(here, rng, 120, 1000, options, here.source)
    assert least <= found <= 24 + 3 * 4.4


def test_false_alarms_of_a_model_that_is_wrong():
    # One whose scores favour a class: what it says about the reference's own samples is taken for
    # a shift, unless labelled scores tell what to expect. At 1,000 × 1e-5, 1 in 100 streams may
    # end in an alarm, and 2 in 100 sets of labels may be unlucky.
    rng = np.random.default_rng(8)
    here = world(rng, 3, 2.0)._replace(source=np.full(3, 1 / 3))
    wrong = np.array([0.0, 0.0, 0.7])
    trusting = options_for(here.source, 200.0, 1e-5)
    assert runs(here, rng, 40, 1000, trusting, here.source, wrong) > 20
    alarms = 0
    for _ in range(100):
        scores, labels = here.validation(rng, 150)
        seen = reference_posteriors(scores + wrong, here.source, here.source)
        measured = options_for(here.source, 200.0, 1e-5, measure_ratios(seen, labels, here.source))
        alarms += runs(here, rng, 1, 1000, measured, here.source, wrong)
    assert alarms <= 8


def test_a_shift_of_a_model_that_is_wrong_is_found():
    rng = np.random.default_rng(9)
    here = world(rng, 3, 2.5)
    wrong = np.array([0.0, 0.0, 0.7])
    scores, labels = here.validation(rng, 1000)
    seen = reference_posteriors(scores + wrong, here.source, here.source)
    options = options_for(here.source, 300.0, 1e-6, measure_ratios(seen, labels, here.source))
    assert runs(here, rng, 20, 3000, options, here.target, wrong) == 20


def test_a_shift_is_found():
    rng = np.random.default_rng(4)
    here = world(rng, 3, 2.5)
    options = options_for(here.source, 300.0, 1e-6)
    assert runs(here, rng, 20, 1500, options, here.target) == 20
