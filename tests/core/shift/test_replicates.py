"""The most likely priors of samples drawn again."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.core.shift.shifted import world

from reprior.core.shift import replicates
from reprior.core.shift.bootstrap import em_replicates
from reprior.core.shift.em import Likelihood
from reprior.core.shift.newton import most_likely
from reprior.core.shift.recalibration import Recalibrated
from reprior.core.shift.replicates import Nearby, Redrawn

SAME = 1e-6
"""Steps end where less than 1e-8 is to come, by an estimate; EM likewise."""


def problem(seed, n, n_classes, separation):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    likelihood = Likelihood(here.draw(rng, n, here.target)[0], here.source)
    return likelihood, most_likely(likelihood, here.source).priors[0], here.source, rng


def drawn(rng, n):
    return np.bincount(rng.integers(n, size=n), minlength=n).astype(np.uint8)


def by_em(ratio, counts, source):
    """EM to its end in plain NumPy, without any skill: the oracle."""
    rows, weights = ratio[counts > 0].astype(np.float64), counts[counts > 0] / counts.sum()
    prior = source
    for _ in range(200_000):
        joint = rows * prior
        after = weights @ (joint / joint.sum(axis=1, keepdims=True))
        # Where the log-likelihood rises along no class by more than this, it is at its top.
        slopes = weights @ (rows / joint.sum(axis=1, keepdims=True))
        if slopes.max() <= 1.0 + 1e-10 and np.abs(after - prior).max() <= 1e-13:
            break
        prior = after
    return prior


CASES = [(60, 3, 2.0), (500, 4, 4.0), (60, 6, 1.0), (800, 8, 2.0)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n, n_classes, separation", CASES)
def test_a_replicate_is_where_em_ends(seed, n, n_classes, separation):
    likelihood, estimate, source, rng = problem(seed, n, n_classes, separation)
    nearby = Nearby(likelihood, estimate, source)
    for _ in range(5):
        counts = drawn(rng, n)
        found = nearby(Redrawn(likelihood.ratio, counts))
        expected = by_em(likelihood.ratio, counts, source)
        np.testing.assert_allclose(found, expected, atol=SAME)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)


def test_some_of_these_have_classes_at_0_that_leave_it_and_others_that_come():
    likelihood, estimate, source, rng = problem(0, 60, 6, 1.0)
    found = em_replicates(likelihood, estimate, source, 40, rng)
    gone = estimate < 1e-6
    assert gone.any()
    assert (found[:, gone] > 0.01).any()
    assert (found[:, ~gone] == 0).any()


@pytest.mark.parametrize("why", ["too many", "impossible"])
def test_where_steps_do_not_end_damped_ones_come_to_the_same(monkeypatch, why):
    likelihood, estimate, source, rng = problem(1, 60, 4, 1.5)
    if why == "impossible":  # the likelihood of some sample is 0 where the steps begin
        likelihood.ratio[0] = [0.0, 0.0, 0.0, 1.0]
        estimate = np.array([0.5, 0.5, 0.0, 0.0])
        monkeypatch.setattr(replicates, "derivatives", lambda *_: (None, np.eye(4)))
    else:
        monkeypatch.setattr(replicates, "MAX_STEPS", 1)
    counts = drawn(rng, 60)
    found = Nearby(likelihood, estimate, source)(Redrawn(likelihood.ratio, counts))
    np.testing.assert_allclose(found, by_em(likelihood.ratio, counts, source), atol=SAME)


def test_a_start_that_is_far_off_comes_to_the_same():
    rng = np.random.default_rng(3)
    here = world(rng)._replace(
        means=np.array([[0.0, 0.0], [1.0, 0.0], [6.0, 0.0]]), source=np.full(3, 1 / 3)
    )
    likelihood = Likelihood(here.draw(rng, 60, np.array([0.97, 0.0, 0.03]))[0], here.source)
    nearby = Nearby(likelihood, here.source, here.source)
    for _ in range(40):
        counts = drawn(rng, 60)
        found = nearby(Redrawn(likelihood.ratio, counts))
        expected = by_em(likelihood.ratio, counts, here.source)
        np.testing.assert_allclose(found, expected, atol=SAME)


def test_a_curvature_of_its_own_that_cannot_be_is_left(monkeypatch):
    likelihood, estimate, source, rng = problem(0, 30, 4, 0.7)
    nearby = Nearby(likelihood, estimate, source)
    monkeypatch.setattr(replicates, "COST_OF_CURVATURE", -1.0)
    counts = drawn(rng, 30)
    expected = by_em(likelihood.ratio, counts, source)
    np.testing.assert_allclose(nearby(Redrawn(likelihood.ratio, counts)), expected, atol=SAME)
    monkeypatch.setattr(replicates, "_curvature", lambda *_: np.full((4, 4), np.inf))
    np.testing.assert_allclose(nearby(Redrawn(likelihood.ratio, counts)), expected, atol=SAME)


def test_classes_that_cannot_be_told_apart():
    likelihood, _, _, rng = problem(2, 200, 3, 2.0)
    ratio = likelihood.ratio[:, [0, 1, 2, 2]]
    source = np.full(4, 0.25)
    twice = Likelihood.of_ratio(ratio)
    estimate = most_likely(twice, source).priors[0]
    counts = drawn(rng, 200)
    found = Nearby(twice, estimate, source)(Redrawn(ratio, counts))
    expected = by_em(ratio, counts, source)
    np.testing.assert_allclose(
        [*found[:2], found[2:].sum()], [*expected[:2], expected[2:].sum()], atol=SAME
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_calibration_of_its_own(dtype):
    likelihood, estimate, source, rng = problem(3, 300, 4, 2.0)
    likelihood.ratio = likelihood.ratio.astype(dtype)
    seen = Recalibrated(np.array([0.8, 1.3]), rng.normal(scale=0.5, size=(2, 4)))
    told = []
    found = em_replicates(
        likelihood, estimate, source, 2, np.random.default_rng(7), seen=seen, progress=told.append
    )
    again = np.random.default_rng(7)
    for i in range(2):
        counts = drawn(again, 300)
        own = likelihood.ratio.astype(float) ** seen.scales[i] * np.exp(seen.biases[i])
        np.testing.assert_allclose(found[i], by_em(own, counts, source), atol=20 * SAME)
    assert told == [1, 2]


@pytest.mark.heavy
def test_replicates_of_a_large_sample_take_seconds():
    rng = np.random.default_rng(0)
    n, k = 420_000, 10
    source = np.geomspace(1, 0.01, k)
    source /= source.sum()
    labels = rng.integers(k, size=n)
    timid = 0.4 * (2 * rng.normal(size=(n, k)) + 4 * np.eye(k)[labels] + np.log(source))
    likelihood = Likelihood(timid.astype(np.float32), source)
    start = time.process_time()
    estimate = most_likely(likelihood, source).priors[0]
    em_replicates(likelihood, estimate, source, 200, rng)
    assert time.process_time() - start < 20
