from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from tests.support.backends import EPS, WIDE_BACKENDS
from tests.support.miscalibrated import labelled, log_loss

from reprior.core import (
    WeightedRows,
    kernels,
    log_loss_moments,
    log_loss_sums,
    posterior_curvature,
    posterior_sums,
    posterior_variances,
    sum_blocks,
    takes_native,
    threads,
)


def problem(seed, n_classes=4):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(40, n_classes)) + 1.0
    weights = rng.uniform(0.1, 1, size=40)
    scale, bias = rng.uniform(-0.2, 2, size=n_classes), rng.normal(size=n_classes)
    return z, rng.integers(n_classes, size=40), weights / weights.sum(), scale, bias


def gradient(data, scale, bias):
    return np.concatenate(posterior_sums(data, scale, bias)[1:])


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 40]))
def test_the_gradient_is_that_of_finite_differences(seed, n_classes):
    z, y, v, scale, bias = problem(seed, n_classes)
    value, by_scale, by_bias = posterior_sums(labelled(z, y, v), scale, bias)
    assert value == pytest.approx(log_loss(scale * z + bias, y, v), rel=1e-12)
    both = np.concatenate([scale, bias])
    expected = approx_fprime(
        both, lambda t: log_loss(t[:n_classes] * z + t[n_classes:], y, v), 1e-7
    )
    np.testing.assert_allclose(np.concatenate([by_scale, by_bias]), expected, atol=1e-5)


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 30]))
def test_the_curvature_is_that_of_finite_differences(seed, n_classes):
    z, y, v, scale, bias = problem(seed, n_classes)
    data = labelled(z, y, v)
    both = np.concatenate([scale, bias])
    expected = approx_fprime(both, lambda t: gradient(data, t[:n_classes], t[n_classes:]), 1e-6)
    found = posterior_curvature(data, scale, bias, per_class=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    own = np.arange(n_classes)
    np.testing.assert_allclose(
        posterior_variances(data, scale, bias),
        [found[own, own], found[own, n_classes + own], found[n_classes + own, n_classes + own]],
        atol=1e-12,
    )


def test_the_curvature_by_one_scale_for_all_is_summed_over_the_classes():
    z, y, v, scale, bias = problem(0)
    data = labelled(z, y, v)
    whole = posterior_curvature(data, scale, bias, per_class=True)
    merge = np.zeros((8, 5))
    merge[:4, 0] = 1.0
    merge[4:, 1:] = np.eye(4)
    found = posterior_curvature(data, scale, bias, per_class=False)
    np.testing.assert_allclose(found, merge.T @ whole @ merge, atol=1e-14)


def test_an_impossible_class_stays_so_whatever_its_scale():
    z, y, v, scale, bias = problem(1)
    more = np.concatenate([z, np.full((40, 1), -np.inf)], axis=1)
    data = labelled(more, y, v)
    for extra in (-1.0, 0.0, 2.0):
        found = posterior_sums(data, np.append(scale, extra), np.append(bias, 50.0))
        expected = posterior_sums(labelled(z, y, v), scale, bias)
        assert found[0] == pytest.approx(expected[0])
        for mine, known in zip(found[1:], expected[1:], strict=True):
            np.testing.assert_allclose(mine, np.append(known, 0.0), atol=1e-14)
    curvature = posterior_curvature(
        data, np.append(scale, -1.0), np.append(bias, 0.0), per_class=True
    )
    np.testing.assert_array_equal(curvature[[4, 9]], 0.0)


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_every_library_agrees(backend):
    z, y, v, scale, bias = problem(2)
    made = WeightedRows.read(
        backend.make(z),
        backend.make_integers(y),
        sample_weight=backend.make(v),
        kind="logits",
        class_axis=-1,
        ignore_index=None,
    )
    data = labelled(z, y, v)
    tolerance = 1e-12 if backend.dtype == "float64" else 200 * EPS["float32"]
    np.testing.assert_allclose(
        gradient(made, scale, bias), gradient(data, scale, bias), atol=tolerance
    )
    for per_class in (True, False):
        np.testing.assert_allclose(
            posterior_curvature(made, scale, bias, per_class=per_class),
            posterior_curvature(data, scale, bias, per_class=per_class),
            atol=tolerance * 10,
        )


STEP = 1e-4
"""Of central differences: they are wrong by its square, and by 1e-16 over it."""


def moments_problem(seed, n_classes=4):
    rng = np.random.default_rng(seed)
    z = 3 * rng.normal(size=(30, n_classes))
    weights = rng.uniform(0.1, 1, size=30)
    return z, rng.integers(n_classes, size=30), weights / weights.sum(), rng.normal(size=n_classes)


@given(st.integers(0, 10**6), st.floats(0.05, 4), st.floats(-2, 2), st.sampled_from([2, 5, 40]))
def test_derivatives_are_those_of_finite_differences(seed, scale, strength, n_classes):
    z, y, v, w = moments_problem(seed, n_classes)

    def loss(a, b):
        return log_loss(a * z + b * w, y, v)

    found = log_loss_moments(labelled(z, y, v), scale, strength * w, w)
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
    z, y, v, w = moments_problem(seed)
    _, _, _, aa, ab, bb = log_loss_moments(labelled(z, y, v), 0.7, 0.5 * w, w)
    assert min(aa, bb, aa * bb - ab * ab) >= 0.0


@pytest.mark.parametrize("n_classes", [4, 40])
def test_a_constant_per_row_and_the_order_of_classes_do_not_matter(n_classes, rng):
    z, y, v, w = moments_problem(1, n_classes)
    expected = log_loss_moments(labelled(z, y, v), 0.7, w, w)
    shifted = z + 100 * rng.normal(size=(30, 1))
    np.testing.assert_allclose(log_loss_moments(labelled(shifted, y, v), 0.7, w, w), expected)
    order = rng.permutation(n_classes)
    turned = labelled(z[:, order], np.argsort(order)[y], v)
    np.testing.assert_allclose(log_loss_moments(turned, 0.7, w[order], w[order]), expected)


def test_parts_add():
    z, y, v, w = moments_problem(2)
    parts = [
        log_loss_moments(labelled(z[p], y[p], v[p]), 1.0, w, w) for p in (slice(9), slice(9, 30))
    ]
    np.testing.assert_allclose(sum(parts), log_loss_moments(labelled(z, y, v), 1.0, w, w))


def test_impossible_classes_do_not_count():
    z, y, v, w = moments_problem(3)
    more = np.concatenate([z, np.full((30, 1), -np.inf)], axis=1)
    w_more = np.append(w, 7.0)
    found = log_loss_moments(labelled(more, y, v), 1.3, w_more, w_more)
    np.testing.assert_allclose(found, log_loss_moments(labelled(z, y, v), 1.3, w, w))


def test_far_apart_scores_and_slopes_neither_overflow_nor_vanish():
    z = np.array([[0.0, -2000.0], [-2000.0, 0.0]], dtype=np.float32)
    found = log_loss_moments(
        labelled(z, np.array([0, 1])), 1.0, np.array([0.0, 900.0]), np.array([0.0, 900.0])
    )
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_every_library_agrees_on_moments(backend):
    z, y, v, w = moments_problem(4)
    made = WeightedRows.read(
        backend.make(z),
        backend.make_integers(y),
        sample_weight=backend.make(v),
        kind="logits",
        class_axis=-1,
        ignore_index=None,
    )
    found = log_loss_moments(made, 0.8, 0.5 * w, w)
    tolerance = 1e-12 if backend.dtype == "float64" else 200 * EPS["float32"]
    np.testing.assert_allclose(
        found, log_loss_moments(labelled(z, y, v), 0.8, 0.5 * w, w), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("n_threads, items", [("1", 1 << 16), ("3", 40), ("50", 1)])
def test_every_row_is_counted_once(n_threads, items, rng, monkeypatch):
    monkeypatch.setenv("REPRIOR_NUM_THREADS", n_threads)
    monkeypatch.setattr(threads, "SCORES_PER_THREAD", 4)
    monkeypatch.setattr(log_loss_sums, "BLOCK_ITEMS", items)
    data = labelled(rng.normal(size=(23, 4)), np.arange(23) % 4)
    counted = sum_blocks(data, lambda part: np.bincount(data.labels[part], minlength=4) * 1.0)
    assert counted.tolist() == [6.0, 6.0, 6.0, 5.0]


def test_what_the_kernels_take(rng):
    y = np.arange(10)
    z = rng.normal(size=(10, 40))
    for dtype in (np.float16, np.float32, np.float64):
        assert takes_native(labelled(z.astype(dtype), y))
    assert takes_native(labelled(z[:, :10], y))  # lies class by class
    made = WeightedRows.read(
        torch.tensor(z, requires_grad=True),
        torch.tensor(y),
        sample_weight=None,
        kind="logits",
        class_axis=-1,
        ignore_index=None,
    )
    assert not takes_native(made)


@pytest.mark.parametrize("native", [True, False])
def test_a_part_without_rows_adds_nothing(native, monkeypatch):
    if not native:
        monkeypatch.setattr(kernels, "native", None)
    data = labelled(np.zeros((0, 3)), np.zeros(0, int), np.zeros(0))
    assert not log_loss_moments(data, 0.5, np.ones(3), np.ones(3)).any()
