from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from tests.core.backends import EPS, WIDE_BACKENDS
from tests.core.drawn import labelled, log_loss

from reprior.core.log_loss_sums import posterior_curvature, posterior_sums, posterior_variances
from reprior.core.weighted_rows import Labelled


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
    made = Labelled.read(
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
