"""The penalised log-loss of per-class scales and biases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.backends import EPS
from tests.core.drawn import balanced, drawn, labelled, log_loss

from reprior.core import scaling_loss
from reprior.core.scaling_loss import ScalingLoss

PENALTY = 0.03


def problem(seed, *, per_class, n=120, n_classes=4, penalty=PENALTY, dtype=np.float64):
    rng = np.random.default_rng(seed)
    z, y, prior = drawn(rng, n, n_classes)
    v = balanced(y, n_classes)
    data, centre = labelled(z.astype(dtype), y, v), (0.6, -np.log(prior))
    loss = ScalingLoss(data, centre, penalty=penalty, per_class=per_class)
    return loss, (z, y, v), 0.3 * rng.normal(size=loss.size)


@given(st.integers(0, 10**6), st.booleans())
def test_it_is_its_definition(seed, per_class):
    loss, (z, y, v), point = problem(seed, per_class=per_class)
    s, r = (point[:4], point[4:]) if per_class else (point[0], point[1:])
    scale, bias = loss.unpacked(point)
    np.testing.assert_allclose(scale, np.broadcast_to(0.6 * (1 + s), 4))
    np.testing.assert_allclose(bias, loss.centre[1] + r)
    value = log_loss(scale * z + bias, y, v)
    expected = value + 0.5 * PENALTY * (np.sum(np.square(s)) + np.sum(r**2))
    assert loss(point)[0] == pytest.approx(expected, abs=1e-12)
    assert loss.penalised(point) == pytest.approx(expected - value, abs=1e-12)


@given(st.integers(0, 10**6), st.booleans())
def test_the_gradient_is_that_of_finite_differences(seed, per_class):
    loss, _, point = problem(seed, per_class=per_class)
    steps = 1e-6 * np.eye(loss.size)
    expected = [(loss(point + h)[0] - loss(point - h)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(loss(point)[1], expected, atol=1e-8)


@pytest.mark.parametrize("per_class", [True, False])
def test_a_number_added_to_all_biases_is_left_out(per_class):
    loss, _, point = problem(5, per_class=per_class)
    found = loss.centred(point)
    value, gained = loss(point)[0], loss.penalised(point) - loss.penalised(found)
    assert loss(found)[0] == pytest.approx(value - gained, abs=1e-12)
    assert gained > 0
    np.testing.assert_array_equal(found[: loss.n_scales], point[: loss.n_scales])
    assert np.ptp(point[loss.n_scales :] - found[loss.n_scales :]) < 1e-12
    assert found[loss.n_scales :].sum() == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 10**6), st.booleans(), st.floats(0, 1))
def test_it_is_convex_along_any_segment(seed, per_class, share):
    loss, _, a = problem(seed, per_class=per_class)
    b = np.random.default_rng(seed + 1).normal(size=loss.size)
    between = loss(share * a + (1 - share) * b)[0]
    assert between <= share * loss(a)[0] + (1 - share) * loss(b)[0] + 1e-12


def hessian(loss, point):
    steps = 1e-5 * np.eye(loss.size)
    return np.array([(loss(point + h)[1] - loss(point - h)[1]) / 2e-5 for h in steps])


@pytest.mark.parametrize("per_class", [True, False])
def test_the_preconditioner_inverts_the_second_derivatives(per_class):
    loss, _, point = problem(1, per_class=per_class)
    solve, h = loss.preconditioner(point, loss.data), hessian(loss, point)
    rng = np.random.default_rng(2)
    # Steps and gradients do not add a number to all biases; nor do these.
    for _ in range(5):
        step = rng.normal(size=loss.size)
        step[loss.n_scales :] -= step[loss.n_scales :].mean()
        np.testing.assert_allclose(solve(h @ step), step, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("per_class", [True, False])
def test_of_many_numbers_it_inverts_those_of_each_class(per_class, monkeypatch):
    loss, _, point = problem(1, per_class=per_class)
    monkeypatch.setattr(scaling_loss, "MOST_INVERTED", 3)
    solve, h = loss.preconditioner(point, loss.data), hessian(loss, point)
    kept = np.eye(loss.size, dtype=bool)
    if per_class:
        kept |= np.roll(kept, 4, axis=0)
    gradient = np.random.default_rng(2).normal(size=loss.size)
    expected = np.linalg.solve(np.where(kept, h, 0.0), gradient)
    np.testing.assert_allclose(solve(gradient), expected, rtol=1e-4)


def test_a_class_without_curvature_can_be_solved_by():
    rng = np.random.default_rng(0)
    z, y, _ = drawn(rng, 60, 4)
    z[:, 3] = -1e4  # no mass, no labels, no penalty
    kept = y != 3
    data = labelled(z[kept], y[kept])
    loss = ScalingLoss(data, (1.0, np.zeros(4)), penalty=0.0, per_class=True)
    assert np.isfinite(loss.preconditioner(np.zeros(8), data)(loss(np.zeros(8))[1])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_knows_how_exact_it_is(dtype):
    loss, _, point = problem(3, per_class=True, dtype=dtype)
    exact, _, _ = problem(3, per_class=True)
    assert loss.noise == 8 * EPS[np.dtype(dtype).name]
    assert abs(loss(point)[0] - exact(point)[0]) <= loss.noise * max(1.0, exact(point)[0])
