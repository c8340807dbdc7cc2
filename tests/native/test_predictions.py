"""The kernels that check, decide and add up rows, against NumPy, at every instruction set."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reprior.core import kernels

native = kernels.native
CLASSES = [1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000]
DTYPES = ["f2", "f4", "f8"]
TOLERANCE = {"f2": 1e-2, "f4": 1e-5, "f8": 1e-12}
"""Rows that were rounded sum to 1 as closely; sums are float64."""


@pytest.fixture(autouse=True, params=native.levels())
def level(request):
    """Use every instruction set that this processor has."""
    before = native.level()
    native.set_level(request.param)
    yield request.param
    native.set_level(before)


@pytest.fixture
def rng():
    """Return random numbers that are the same in every run."""
    return np.random.default_rng(20201206)


def layouts(rows):
    """Give equal views (outer, inner, K): contiguous, the classes first, every second score."""
    n, k = rows.shape
    yield rows.reshape(1, n, k)
    yield np.ascontiguousarray(rows.T).T.reshape(1, n, k)
    spread = np.full((n, 2 * k), np.nan, rows.dtype)
    spread[:, ::2] = rows
    yield spread.reshape(1, n, 2 * k)[:, :, ::2]


def distributions(rng, n, n_classes, dtype):
    return rng.dirichlet(np.ones(n_classes), n).astype(dtype)


@pytest.mark.parametrize("n", [0, 1, 37])
def test_sums_of_distributions(rng, n):
    for n_classes, dtype in itertools.product(CLASSES if n > 1 else CLASSES[:-1], DTYPES):
        p = distributions(rng, n, n_classes, dtype)
        wide, weights, labels = p.astype(float), rng.random(n), rng.integers(n_classes, size=n)
        for rows in layouts(p):
            totals, factors = np.empty(n), np.empty(n)
            assert native.row_totals(rows, TOLERANCE[dtype], totals)
            np.testing.assert_allclose(totals, wide.sum(axis=1), rtol=1e-14)
            normalised, weighted = np.zeros(n_classes), np.zeros((1, n_classes))
            assert native.add_normalised(rows, TOLERANCE[dtype], factors, normalised)
            np.testing.assert_allclose(factors, 1 / wide.sum(axis=1), rtol=1e-14)
            np.testing.assert_allclose(normalised, factors @ wide, rtol=1e-13, atol=1e-300)
            native.add_rows(rows, weights, None, weighted)
            np.testing.assert_allclose(weighted[0], weights @ wide, rtol=1e-13, atol=1e-300)
            by_label, expected = np.zeros((n_classes,) * 2), np.zeros((n_classes,) * 2)
            native.add_rows(rows, weights, labels, by_label)
            np.add.at(expected, labels, weights[:, None] * wide)
            np.testing.assert_allclose(by_label, expected, rtol=1e-13, atol=1e-300)


def test_the_first_of_the_largest(rng):
    for n_classes, dtype in itertools.product(CLASSES, DTYPES):
        z = rng.integers(-3, 4, size=(37, n_classes)).astype(dtype)  # many are equal
        z[::5] = np.where(z[::5] < 3, -np.inf, z[::5])
        z[:, -1] = np.maximum(z[:, -1], -3)
        for rows in layouts(z):
            classes = np.empty(37, np.int64)
            assert native.largest_classes(rows, -1.0, classes)
            np.testing.assert_array_equal(classes, z.argmax(axis=1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, "nothing"])
def test_rows_without_a_largest_class_are_refused(rng, bad):
    for n_classes, dtype in itertools.product(CLASSES, DTYPES):
        for where in {0, n_classes // 2, n_classes - 1}:
            z = rng.normal(size=(5, n_classes)).astype(dtype)
            if bad == "nothing":
                z[3] = -np.inf
            else:
                z[3, where] = bad
            for rows in layouts(z):
                assert not native.largest_classes(rows, -1.0, np.empty(5, np.int64))


def test_rows_that_are_no_distributions_are_refused(rng):
    for n_classes, dtype in itertools.product([2, 3, 9, 17, 129], DTYPES):
        p = distributions(rng, 6, n_classes, dtype)
        tolerance = TOLERANCE[dtype]
        assert native.largest_classes(p[None], tolerance, np.empty(6, np.int64))
        for where, value in ((0, np.nan), (n_classes - 1, 1.5), (n_classes - 1, -0.5)):
            q = p.copy()
            q[5, where] = value
            if value == -0.5:
                q[5, 0] = 1.5  # the sum may be 1
            for rows in layouts(q):
                assert not native.row_totals(rows, tolerance, np.empty(6))
                assert not native.add_normalised(rows, tolerance, np.empty(6), np.zeros(n_classes))
                assert not native.largest_classes(rows, tolerance, np.empty(6, np.int64))


def test_many_rows_are_added_in_their_order(rng):
    """They are added by pieces, so that Ctrl-C is answered: to the bit as all at once."""
    z = rng.normal(size=(2, 300, 9001)).transpose(0, 2, 1)[:, :, :70]
    weights, sums = rng.random(z.shape[0] * z.shape[1]), np.zeros((1, 70))
    native.add_rows(z, weights, None, sums)
    rows = np.ascontiguousarray(z).reshape(1, -1, 70)
    once = np.zeros((1, 70))
    for i in range(rows.shape[1]):
        native.add_rows(rows[:, i : i + 1], weights[i : i + 1], None, once)
    np.testing.assert_array_equal(sums, once)
