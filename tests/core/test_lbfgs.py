"""L-BFGS on functions whose minima are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from reprior.core import lbfgs
from reprior.core.lbfgs import minimise_smooth

ROUNDING = 1e-15


def soft_maximum(seed, size=8):
    """A smooth convex function, not quadratic: log Σ exp(A x + b) + ½·0.1·‖x‖²."""
    rng = np.random.default_rng(seed)
    a, b = 3 * rng.normal(size=(3 * size, size)), rng.normal(size=3 * size)

    def function(x):
        u = a @ x + b
        return float(logsumexp(u) + 0.05 * x @ x), softmax(u) @ a + 0.1 * x

    return function


@given(st.integers(0, 10**6))
def test_the_minimum_is_scipys(seed):
    function = soft_maximum(seed)
    found = minimise_smooth(
        function, np.zeros(8), lambda g: g / 10, tolerance=1e-14, noise=ROUNDING
    )
    expected = minimize(function, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert found.converged
    assert found.value == pytest.approx(expected.fun, abs=1e-10)
    np.testing.assert_allclose(found.point, expected.x, atol=1e-5)


def test_a_perfect_preconditioner_needs_one_step():
    h = np.diag([1.0, 100.0, 1e4])
    centre = np.array([1.0, 2.0, 3.0])

    def function(x):
        return float(0.5 * (x - centre) @ h @ (x - centre)), h @ (x - centre)

    found = minimise_smooth(
        function, np.zeros(3), lambda g: np.linalg.solve(h, g), tolerance=1e-12, noise=ROUNDING
    )
    np.testing.assert_allclose(found.point, centre)
    assert (found.converged, found.n_iterations) == (True, 2)


def test_the_start_is_left_alone_and_may_be_the_end():
    start = np.zeros(2)
    found = minimise_smooth(
        lambda x: (float(x @ x), 2 * x), start, lambda g: g, tolerance=1e-12, noise=ROUNDING
    )
    assert (found.converged, found.n_iterations, found.value) == (True, 1, 0.0)
    np.testing.assert_array_equal(start, 0.0)


def test_steps_that_rise_are_halved():
    # A preconditioner that is a hundred times too sure of itself.
    found = minimise_smooth(
        lambda x: (float(x @ x), 2 * x), np.ones(3), lambda g: 50 * g, tolerance=1e-14,
        noise=ROUNDING,
    )  # fmt: skip
    assert found.converged
    np.testing.assert_allclose(found.point, 0.0, atol=1e-7)


def test_where_no_step_brings_more_than_is_known():
    # The gradient promises a little that the value, which is constant but for noise, never keeps.
    def function(x):
        return (0.0 if not x.any() else 1e-9), np.full(2, -1e-5)

    found = minimise_smooth(function, np.zeros(2), lambda g: g, tolerance=0.0, noise=1e-10)
    assert found.converged
    assert not found.point.any()


@pytest.mark.parametrize("limit", [2, 3])
def test_passes_are_limited(limit, monkeypatch):
    monkeypatch.setattr(lbfgs, "MAX_PASSES", limit)
    found = minimise_smooth(
        soft_maximum(0), np.ones(8), lambda g: 100 * g, tolerance=1e-14, noise=ROUNDING
    )
    assert not found.converged
    assert found.n_iterations == limit


def test_a_step_without_curvature_teaches_nothing():
    # Linear between the two first points: there is no curvature to learn from.
    def function(x):
        value = abs(x[0] - 3) if abs(x[0] - 3) > 1 else 0.5 + 0.5 * (x[0] - 3) ** 2
        slope = np.sign(x[0] - 3) if abs(x[0] - 3) > 1 else x[0] - 3
        return float(value), np.array([float(slope)])

    found = minimise_smooth(function, np.zeros(1), lambda g: g, tolerance=1e-12, noise=ROUNDING)
    assert found.converged
    assert found.point[0] == pytest.approx(3.0)
