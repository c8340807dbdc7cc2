"""RLLS: the exact minimum of a sum of norms under bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from reprior.core.shift.moments import Moments, bbse
from reprior.core.shift.rlls import _BoundedRidge, rlls, strength_of_penalty, weights

ROUNDING = 1e-11
"""By how much our objective may be above that of another optimiser. It is of the order of 1; where
an exact fit is best, ours misses it by a λ that is not quite 0."""


def problem(seed, n_classes, told_apart):
    """A confusion matrix, a source prior, and frequencies of predictions that need not fit."""
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(n_classes), n_classes).T
    matrix = told_apart * np.eye(n_classes) + (1 - told_apart) * matrix
    source = rng.dirichlet(np.full(n_classes, 2.0))
    target = rng.dirichlet(np.full(n_classes, 0.3))
    predicted = rng.multinomial(200, matrix @ target) / 200
    return matrix * source, predicted - matrix @ source


def objective(theta, joint, excess, rho):
    return float(np.linalg.norm(joint @ theta - excess) + rho * np.linalg.norm(theta))


def gradient(theta, joint, excess, rho):
    residual, tiny = joint @ theta - excess, np.finfo(float).tiny
    first = joint.T @ residual / max(np.linalg.norm(residual), tiny)
    return first + rho * theta / max(np.linalg.norm(theta), tiny)


def generic(joint, excess, rho):
    """The best that a generic bounded optimiser finds from several starts."""
    n = excess.size
    starts = [np.full(n, 0.1), np.full(n, -0.5), np.linalg.lstsq(joint, excess, rcond=None)[0]]
    found = [
        minimize(
            objective, np.maximum(start, -1), args=(joint, excess, rho), jac=gradient,
            method="L-BFGS-B", bounds=[(-1, None)] * n, options={"maxiter": 5000, "ftol": 1e-15},
        ).x
        for start in starts
    ]  # fmt: skip
    return min((*found, np.zeros(n)), key=lambda theta: objective(theta, joint, excess, rho))


@given(
    st.integers(0, 1000),
    st.integers(2, 7),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.floats(-4.0, -0.3),
)
def test_no_generic_optimiser_finds_less(seed, n_classes, told_apart, exponent):
    joint, excess = problem(seed, n_classes, told_apart)
    rho = 10.0**exponent
    theta = weights(joint, excess, rho)
    assert theta.min() >= -1
    ours = objective(theta, joint, excess, rho)
    assert ours <= objective(generic(joint, excess, rho), joint, excess, rho) + ROUNDING


@pytest.mark.parametrize("seed", range(20))
def test_where_both_norms_are_smooth_the_slope_is_0(seed):
    joint, excess = problem(seed, 5, 0.2)
    rho = 0.05
    theta = weights(joint, excess, rho)
    residual = np.linalg.norm(joint @ theta - excess)
    if residual < 1e-6 or np.linalg.norm(theta) < 1e-6:
        return  # a corner, where there is no slope
    slope = gradient(theta, joint, excess, rho)
    free = theta > -1
    np.testing.assert_allclose(slope[free], 0, atol=1e-8)
    assert (slope[~free] >= -1e-8).all()


def test_some_of_these_are_bounded_and_some_are_corners():
    # So that the tests above are about something.
    bounded = exact = nothing = 0
    for seed in range(60):
        joint, excess = problem(seed, 5, (0.0, 0.5, 0.9)[seed % 3])
        theta = weights(joint, excess, 10.0 ** (-3 + seed % 4))
        bounded += bool((theta == -1).any())
        exact += bool(np.linalg.norm(joint @ theta - excess) < 1e-12)
        nothing += bool((theta == 0).all())
    assert min(bounded, exact, nothing) >= 3


def test_a_small_penalty_changes_nothing():
    matrix = np.array([[0.9, 0.1, 0.1], [0.05, 0.8, 0.1], [0.05, 0.1, 0.8]])
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    found = Moments(matrix @ target, matrix, 100_000)
    np.testing.assert_allclose(rlls(found, source), target, atol=1e-10)
    np.testing.assert_allclose(bbse(found, source), target, atol=1e-10)


def test_a_large_penalty_leaves_the_source():
    joint, excess = problem(0, 4, 0.5)
    np.testing.assert_array_equal(weights(joint, excess, 10.0), np.zeros(4))


def test_nothing_to_explain():
    joint, _ = problem(0, 4, 0.5)
    np.testing.assert_allclose(weights(joint, np.zeros(4), 0.01), 0, atol=1e-12)


def test_stacks_are_solved_one_by_one():
    each = [problem(seed, 4, 0.3) for seed in range(12)]
    found = weights(np.stack([a for a, _ in each]), np.stack([b for _, b in each]), 0.02)
    for (joint, excess), theta in zip(each, found, strict=True):
        np.testing.assert_allclose(theta, weights(joint, excess, 0.02), atol=1e-9)
    assert (found == -1).any()  # some need the bounds


def test_classes_that_are_never_predicted():
    matrix = np.array([[0.9, 0.2, 0.3], [0.1, 0.8, 0.7], [0.0, 0.0, 0.0]])
    source = np.array([0.5, 0.3, 0.2])
    # On the target it is: no prior explains that.
    found = rlls(Moments(np.array([0.4, 0.4, 0.2]), matrix, 500), source)
    assert np.isfinite(found).all()
    assert found.min() >= 0


def test_penalty():
    n, k = 1000, 3
    log_term = 2 * math.log(2 * k / 0.05)
    expected = 0.01 * 3 * (log_term / (3 * n) + math.sqrt(log_term / n))
    assert strength_of_penalty(k, n) == pytest.approx(expected)


def test_pivoting_that_goes_round_in_circles_ends():
    # Kostreva's matrix: exchanging all wrong variables at once cycles between the same two sets.
    ridge = object.__new__(_BoundedRidge)
    ridge.joint, ridge.excess = np.eye(3), np.zeros(3)
    ridge.square = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]])
    ridge.linear = np.array([1.0, 1.0, 1.0])
    ridge.free = np.zeros(3, dtype=bool)
    w = ridge(math.log(1e-12)) + 1.0
    np.testing.assert_allclose(w, 1 / 3, atol=1e-9)
