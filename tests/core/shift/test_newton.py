"""The most likely prior where EM crawls."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.label_shift import world

from reprior.core.shift import (
    EMResult,
    Likelihood,
    derivatives,
    em,
    maximum_likelihood,
    minimise_nonnegative,
    newton,
    run_em,
    run_newton,
)
from reprior.core.shift.em import CHANGE_TOLERANCE

GAP = 1e-9
"""By how much the likelihood may be below its maximum, which the slopes bound from above."""

CLOSE = 1e-8
"""EM ends where the estimate of all further steps is below 1e-9."""


def at(prior):
    """As if EM had led there."""
    return EMResult(prior[None], np.array([1.0]), np.array([1.0]), np.array([0]))


def gap(likelihood, prior):
    """Return what the likelihood can still rise by: it is concave."""
    return float((likelihood.ratio / (likelihood.ratio @ prior)[:, None]).mean(axis=0).max() - 1)


def likelihood_of(seed, n, n_classes, separation, dtype=np.float64):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    scores, _ = here.draw(rng, n, here.target)
    return Likelihood(scores.astype(dtype), here.source), here.source


@given(
    st.integers(0, 300),
    st.sampled_from([3, 60]),
    st.sampled_from([2, 4, 10]),
    st.sampled_from([0.0, 0.1, 0.7, 4.0]),
)
def test_it_is_the_maximum(seed, n, n_classes, separation):
    likelihood, source = likelihood_of(seed, n, n_classes, separation)
    found = run_newton(likelihood, at(source))
    assert gap(likelihood, found.priors[0]) <= GAP
    assert found.remaining_change[0] <= CHANGE_TOLERANCE
    assert found.priors.min() >= 0
    assert found.priors.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_em_ends_at_the_same(seed):
    likelihood, source = likelihood_of(seed, 400, 4, 2.0)
    expected = run_em(likelihood, source[None])
    found = run_newton(likelihood, at(source))
    np.testing.assert_allclose(found.priors, expected.priors, atol=CLOSE)
    assert found.iterations[0] < expected.iterations[0]


def test_a_class_that_em_set_to_0_recovers():
    likelihood, source = likelihood_of(1, 400, 4, 2.0)
    expected = run_em(likelihood, source[None]).priors
    found = run_newton(likelihood, at(np.array([0.0, 0.5, 0.5, 0.0])))
    np.testing.assert_allclose(found.priors, expected, atol=CLOSE)


def test_an_impossible_sample_is_not_stepped_into():
    # All of the mass on class 1 would make the last sample impossible.
    likelihood = Likelihood(np.log([[0.5, 0.5], [0.01, 0.99], [0.01, 0.99]]), np.full(2, 0.5))
    likelihood.ratio = np.array([[1e-3, 1.0]] * 500 + [[1.0, 0.0]])
    found = run_newton(likelihood, at(np.array([0.999, 0.001])))
    assert gap(likelihood, found.priors[0]) <= GAP
    assert 0 < found.priors[0, 0] < 0.01


def test_blocks_and_float32(monkeypatch):
    whole, source = likelihood_of(2, 300, 3, 1.5)
    narrow, _ = likelihood_of(2, 300, 3, 1.5, np.float32)
    expected = run_newton(whole, at(source)).priors
    monkeypatch.setattr(em, "BLOCK_ITEMS", 50)
    np.testing.assert_allclose(run_newton(whole, at(source)).priors, expected, atol=CLOSE)
    np.testing.assert_allclose(run_newton(narrow, at(source)).priors, expected, atol=1e-4)


def test_an_interrupted_climb_is_not_converged(monkeypatch):
    likelihood, source = likelihood_of(0, 60, 4, 0.7)
    monkeypatch.setattr(newton, "MAX_STEPS", 1)
    assert run_newton(likelihood, at(source)).remaining_change[0] > CHANGE_TOLERANCE


@given(st.integers(0, 1000), st.integers(1, 5))
def test_the_quadratic_model_is_minimised_on_the_positive_numbers(seed, size):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size + 1, size))
    curvature, target = root.T @ root + 1e-3 * np.eye(size), rng.normal(size=size)
    start = np.maximum(rng.normal(size=size), 0)
    found = minimise_nonnegative(curvature, target, start)
    best = 0.0
    for n_free in range(1, size + 1):  # every choice of what is held at 0
        for free in map(list, combinations(range(size), n_free)):
            q = np.linalg.solve(curvature[np.ix_(free, free)], target[free])
            if (q >= 0).all():
                best = min(best, -0.5 * target[free] @ q)
    assert (found >= 0).all()
    assert 0.5 * found @ curvature @ found - target @ found == pytest.approx(best, abs=1e-9)


class TestMostLikely:
    def test_em_alone_where_it_converges(self):
        likelihood, source = likelihood_of(3, 400, 3, 3.0)
        found, expected = maximum_likelihood(likelihood, source), run_em(likelihood, source[None])
        np.testing.assert_array_equal(found.priors, expected.priors)
        assert found.iterations == expected.iterations

    def test_newton_where_em_crawls(self, monkeypatch):
        likelihood, source = likelihood_of(0, 60, 4, 0.7)
        monkeypatch.setattr(newton, "EM_PATIENCE", 6)
        found = maximum_likelihood(likelihood, source)
        assert gap(likelihood, found.priors[0]) <= GAP
        assert 6 < found.iterations[0] < 50

    def test_em_continues_with_many_classes(self, monkeypatch):
        likelihood, source = likelihood_of(3, 400, 3, 3.0)
        monkeypatch.setattr(newton, "EM_PATIENCE", 6)
        monkeypatch.setattr(newton, "MAX_CLASSES", 2)
        found = maximum_likelihood(likelihood, source)
        expected = run_em(likelihood, source[None])
        np.testing.assert_allclose(found.priors, expected.priors, atol=CLOSE)
        assert found.iterations[0] > 6
        monkeypatch.setattr(em, "MAX_ITERATIONS", 6)
        assert maximum_likelihood(likelihood, source).iterations.tolist() == [6]


def test_a_class_near_0_recovers():
    # Each step doubles it at most: small steps are not the end.
    likelihood, source = likelihood_of(1, 60, 3, 6.0)
    start = np.array([1.0, 1e-12, 1e-12])
    found = run_newton(likelihood, at(start))
    np.testing.assert_allclose(found.priors, run_em(likelihood, source[None]).priors, atol=CLOSE)
    assert found.remaining_change[0] <= CHANGE_TOLERANCE


@pytest.mark.parametrize("counted", [False, True])
def test_derivatives_are_those_of_the_samples_one_by_one(monkeypatch, counted):
    monkeypatch.setattr(em, "BLOCK_ITEMS", 40)
    rng = np.random.default_rng(0)
    ratio, p = rng.random((50, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    counts = rng.integers(0, 256, 50).astype(np.uint8) if counted else None
    slope, curvature = np.ones(4), np.zeros((4, 4))
    for i, row in enumerate(ratio):
        times = 1 if counts is None else int(counts[i])
        slope -= times * row / (row @ p) / 50
        curvature += times * np.outer(row, row) / (row @ p) ** 2 / 50
    found = derivatives(ratio, p, counts)
    np.testing.assert_allclose(found[0], slope, rtol=1e-12)
    np.testing.assert_allclose(found[1], curvature, rtol=1e-12)
