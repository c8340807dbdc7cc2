from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.backends import EPS, WIDE_BACKENDS
from tests.core.drawn import labelled, log_loss

from reprior.core.moments import tilted_moments
from reprior.core.weighted_rows import Labelled

STEP = 1e-4
"""Of central differences: they are wrong by its square, and by 1e-16 over it."""


def problem(seed, n_classes=4):
    rng = np.random.default_rng(seed)
    z = 3 * rng.normal(size=(30, n_classes))
    weights = rng.uniform(0.1, 1, size=30)
    return z, rng.integers(n_classes, size=30), weights / weights.sum(), rng.normal(size=n_classes)


@given(st.integers(0, 10**6), st.floats(0.05, 4), st.floats(-2, 2), st.sampled_from([2, 5, 40]))
def test_derivatives_are_those_of_finite_differences(seed, scale, strength, n_classes):
    z, y, v, w = problem(seed, n_classes)

    def loss(a, b):
        return log_loss(a * z + b * w, y, v)

    found = tilted_moments(labelled(z, y, v), scale, strength * w, w)
    a, b, h = scale, strength, STEP
    assert found[0] == pytest.approx(loss(a, b), abs=1e-12)
    by_a = (loss(a + h, b) - loss(a - h, b)) / (2 * h)
    by_b = (loss(a, b + h) - loss(a, b - h)) / (2 * h)
    np.testing.assert_allclose(found[1:3], [by_a, by_b], atol=1e-5, rtol=1e-5)
    aa = (loss(a + h, b) - 2 * loss(a, b) + loss(a - h, b)) / h**2
    bb = (loss(a, b + h) - 2 * loss(a, b) + loss(a, b - h)) / h**2
    corners = loss(a + h, b + h) - loss(a + h, b - h) - loss(a - h, b + h) + loss(a - h, b - h)
    np.testing.assert_allclose(found[3:], [aa, corners / (4 * h * h), bb], atol=1e-4, rtol=1e-4)


@given(st.integers(0, 10**6))
def test_the_curvature_is_that_of_a_convex_function(seed):
    z, y, v, w = problem(seed)
    _, _, _, aa, ab, bb = tilted_moments(labelled(z, y, v), 0.7, 0.5 * w, w)
    assert min(aa, bb, aa * bb - ab * ab) >= 0.0


@pytest.mark.parametrize("n_classes", [4, 40])
def test_a_constant_per_row_and_the_order_of_classes_do_not_matter(n_classes, rng):
    z, y, v, w = problem(1, n_classes)
    expected = tilted_moments(labelled(z, y, v), 0.7, w, w)
    shifted = z + 100 * rng.normal(size=(30, 1))
    np.testing.assert_allclose(tilted_moments(labelled(shifted, y, v), 0.7, w, w), expected)
    order = rng.permutation(n_classes)
    turned = labelled(z[:, order], np.argsort(order)[y], v)
    np.testing.assert_allclose(tilted_moments(turned, 0.7, w[order], w[order]), expected)


def test_parts_add():
    z, y, v, w = problem(2)
    parts = [
        tilted_moments(labelled(z[p], y[p], v[p]), 1.0, w, w) for p in (slice(9), slice(9, 30))
    ]
    np.testing.assert_allclose(sum(parts), tilted_moments(labelled(z, y, v), 1.0, w, w))


def test_impossible_classes_do_not_count():
    z, y, v, w = problem(3)
    more = np.concatenate([z, np.full((30, 1), -np.inf)], axis=1)
    w_more = np.append(w, 7.0)
    found = tilted_moments(labelled(more, y, v), 1.3, w_more, w_more)
    np.testing.assert_allclose(found, tilted_moments(labelled(z, y, v), 1.3, w, w))


def test_far_apart_scores_and_slopes_neither_overflow_nor_vanish():
    z = np.array([[0.0, -2000.0], [-2000.0, 0.0]], dtype=np.float32)
    found = tilted_moments(
        labelled(z, np.array([0, 1])), 1.0, np.array([0.0, 900.0]), np.array([0.0, 900.0])
    )
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_every_library_agrees(backend):
    z, y, v, w = problem(4)
    made = Labelled.read(
        backend.make(z),
        backend.make_integers(y),
        sample_weight=backend.make(v),
        kind="logits",
        class_axis=-1,
        ignore_index=None,
    )
    found = tilted_moments(made, 0.8, 0.5 * w, w)
    tolerance = 1e-12 if backend.dtype == "float64" else 200 * EPS["float32"]
    np.testing.assert_allclose(
        found, tilted_moments(labelled(z, y, v), 0.8, 0.5 * w, w), rtol=tolerance, atol=tolerance
    )
