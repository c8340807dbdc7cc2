"""Newton's method between bounds, on functions whose minima are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from reprior.core import Box, Quadratic, minimise, minimise_in_box, minimise_smooth

WIDE = Box(np.array([1e-3, -100.0]), np.array([1e3, 100.0]))


def quadratic(centre, curvature):
    """A quadratic function with its minimum, 1, at ``centre``."""
    h = np.asarray(curvature, dtype=float)

    def function(x, y):
        d = np.array([x, y]) - centre
        return Quadratic(1 + 0.5 * d @ h @ d, *(h @ d), h[0, 0], h[0, 1], h[1, 1])

    return function


def exponentials(rng, n=6):
    """A sum of exponentials, as stiff as log-losses are, with derivatives."""
    a = rng.normal(size=(n, 2))
    a = np.concatenate([a, -a])  # with a minimum
    c = rng.normal(size=2 * n)

    def function(x, y):
        e = np.exp(a @ [x, y] + c)
        h = (a * e[:, None]).T @ a
        return Quadratic(e.sum(), *(e @ a), h[0, 0], h[0, 1], h[1, 1])

    return function


@given(
    st.floats(0.01, 50), st.floats(-20, 20), st.floats(0.1, 10), st.floats(0.1, 10),
    st.floats(-0.99, 0.99),
)  # fmt: skip
def test_a_quadratic_function_is_solved(x, y, xx, yy, correlation):
    mixed = correlation * np.sqrt(xx * yy)
    found = minimise_in_box(quadratic([x, y], [[xx, mixed], [mixed, yy]]), WIDE, (1.0, 1.0))
    np.testing.assert_allclose(found.point, [x, y], rtol=1e-7, atol=1e-7)
    assert found.value == pytest.approx(1.0)
    assert found.converged
    assert found.at_bound == (False, False)


@given(st.integers(0, 10**6))
def test_the_minimum_is_scipys(seed):
    rng = np.random.default_rng(seed)
    function = exponentials(rng)
    low, high = np.array([0.1, -1.0]), np.array([3.0, 1.0])
    found = minimise_in_box(function, Box(low, high), (1.0, 0.0))
    expected = minimize(
        lambda p: function(*p).value,
        [1.0, 0.0],
        jac=lambda p: function(*p).slope,
        bounds=list(zip(low, high, strict=True)),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-12},
    )
    assert found.converged
    assert found.value <= expected.fun * (1 + 1e-9)
    np.testing.assert_allclose(found.point, expected.x, atol=1e-4)
    held = np.isclose(found.point, low, atol=1e-12) | np.isclose(found.point, high, atol=1e-12)
    assert (held | ~np.array(found.at_bound)).all()
    slope = function(*found.point).slope
    np.testing.assert_allclose(np.where(found.at_bound, 0.0, slope), 0.0, atol=1e-4)


@pytest.mark.parametrize(
    "centre, point, at_bound",
    [
        ([5.0, 0.0], (2.0, 0.0), (True, False)),
        ([0.1, 0.0], (0.5, 0.0), (True, False)),
        ([1.0, 9.0], (1.0, 3.0), (False, True)),
        ([1.0, -9.0], (1.0, -3.0), (False, True)),
        ([5.0, 9.0], (2.0, 3.0), (True, True)),
        ([2.0, 3.0], (2.0, 3.0), (False, False)),  # on the bound, but not held by it
    ],
)
def test_bounds(centre, point, at_bound):
    box = Box(np.array([0.5, -3.0]), np.array([2.0, 3.0]))
    found = minimise_in_box(quadratic(centre, np.eye(2)), box, (1.0, 1.0))
    np.testing.assert_allclose(found.point, point)
    assert found.at_bound == at_bound
    assert found.converged


def test_a_start_outside_begins_inside():
    found = minimise_in_box(quadratic([2.0, 1.0], np.eye(2)), WIDE, (1e9, -1e9))
    np.testing.assert_allclose(found.point, [2.0, 1.0])


@pytest.mark.parametrize("curvature", [[[1, 0], [0, 0]], [[0, 0], [0, 1]], [[1, 1], [1, 1]]])
def test_where_it_is_flat_across(curvature):
    found = minimise_in_box(quadratic([3.0, 2.0], curvature), WIDE, (1.0, 1.0))
    assert found.converged
    assert found.value == pytest.approx(1.0)


def test_a_minimum_at_infinity_is_run_to():
    def function(x, y):  # falls for ever in x
        e = np.exp(-0.01 * x)
        return Quadratic(1 + e + y * y, -0.01 * e, 2 * y, 1e-4 * e, 0.0, 2.0)

    found = minimise_in_box(function, WIDE, (0.01, 5.0))
    assert found.point[0] == WIDE.high[0]
    assert found.at_bound == (True, False)
    assert found.n_iterations < 40


def test_steps_that_rise_are_halved():
    def function(x, y):  # Newton from 1 goes far beyond: atan's model is too flat there
        u = 3 * (x - 5)
        return Quadratic(
            1 + np.sqrt(1 + u * u) + y * y, 3 * u / np.sqrt(1 + u * u), 2 * y,
            9 * (1 + u * u) ** -1.5, 0.0, 2.0,
        )  # fmt: skip

    found = minimise_in_box(function, WIDE, (1.0, 1.0))
    np.testing.assert_allclose(found.point, [5.0, 0.0], atol=1e-6)
    assert found.converged


@pytest.mark.parametrize("ends_at_zero", [True, False])
def test_a_value_of_zero_is_the_end(ends_at_zero):
    seen = []

    def function(x, y):
        seen.append((x, y))
        gone = x == 1.0 or (ends_at_zero and x > 1.0)
        return Quadratic(0.0 if gone else 0.5, *[0.0] * 5)

    found = minimise_in_box(function, WIDE, (1.0, 2.0))
    assert found.value == 0.0
    assert found.converged
    assert seen == [(1.0, 2.0), (1e3, 2.0)]
    assert found.point == ((1e3, 2.0) if ends_at_zero else (1.0, 2.0))
    assert found.at_bound == (ends_at_zero, False)


@pytest.mark.parametrize("lie, converged", [(1e-13, True), (1.0, False)])
def test_where_no_step_descends(lie, converged):
    # A slope that promises what the value does not keep: rounding if it is little.
    def function(x, y):
        return Quadratic(1.0 if (x, y) == (1.0, 1.0) else 2.0, -lie, 0.0, lie * 1e-2, 0.0, lie)

    found = minimise_in_box(function, WIDE, (1.0, 1.0))
    assert found.point == (1.0, 1.0)
    assert found.converged is converged


def test_passes_are_limited(monkeypatch):
    monkeypatch.setattr(minimise, "MAX_PASSES", 2)
    found = minimise_in_box(exponentials(np.random.default_rng(0)), WIDE, (100.0, 5.0))
    assert not found.converged
    assert found.n_iterations >= 2


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_fit_that_is_cut_short_at_a_bound_is_at_the_bound(monkeypatch, end):
    monkeypatch.setattr(minimise, "MAX_PASSES", 1)
    sign = 1.0 if end == "low" else -1.0

    def function(x, y):
        return Quadratic(1.0 + sign * y, 0.0, sign, 1.0, 0.0, 1e-3)

    y = float(getattr(WIDE, end)[1])
    found = minimise_in_box(function, WIDE, (1.0, y))
    assert (found.converged, found.at_bound) == (False, (False, True))


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
def test_the_smooth_minimum_is_scipys(seed):
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


def test_smooth_steps_that_rise_are_halved():
    # A preconditioner that is a hundred times too sure of itself.
    found = minimise_smooth(
        lambda x: (float(x @ x), 2 * x), np.ones(3), lambda g: 50 * g, tolerance=1e-14,
        noise=ROUNDING,
    )  # fmt: skip
    assert found.converged
    np.testing.assert_allclose(found.point, 0.0, atol=1e-7)


def test_it_ends_where_steps_gain_less_than_rounding():
    # The gradient predicts a small descent, but the value is constant up to noise.
    def function(x):
        return (0.0 if not x.any() else 1e-9), np.full(2, -1e-5)

    found = minimise_smooth(function, np.zeros(2), lambda g: g, tolerance=0.0, noise=1e-10)
    assert found.converged
    assert not found.point.any()


@pytest.mark.parametrize("limit", [2, 3])
def test_smooth_passes_are_limited(limit, monkeypatch):
    monkeypatch.setattr(minimise, "MAX_LBFGS_PASSES", limit)
    found = minimise_smooth(
        soft_maximum(0), np.ones(8), lambda g: 100 * g, tolerance=1e-14, noise=ROUNDING
    )
    assert not found.converged
    assert found.n_iterations == limit


def test_a_step_without_curvature_teaches_nothing():
    # Linear between the first two points: they show no curvature.
    def function(x):
        value = abs(x[0] - 3) if abs(x[0] - 3) > 1 else 0.5 + 0.5 * (x[0] - 3) ** 2
        slope = np.sign(x[0] - 3) if abs(x[0] - 3) > 1 else x[0] - 3
        return float(value), np.array([float(slope)])

    found = minimise_smooth(function, np.zeros(1), lambda g: g, tolerance=1e-12, noise=ROUNDING)
    assert found.converged
    assert found.point[0] == pytest.approx(3.0)
