"""Binomial tails against SciPy and against sums in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from reprior.core import binomial_tail, certain_count, rate_bound, trials_needed

RATES = (1e-12, 1e-6, 0.001, 0.03, 0.3, 0.5, 0.77, 0.95, 0.999, 1 - 1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 17, 100, 1_000, 30_011, 10**6])
def test_tails_are_those_of_scipy(n):
    for p in RATES:
        spread = max(1.0, np.sqrt(n * p * (1 - p)))
        k = np.unique(np.clip(np.round(n * p + spread * np.linspace(-12, 12, 41)), 0, n))
        expected = stats.binom.sf(k - 1, n, p)
        kept = expected > 1e-290
        np.testing.assert_allclose(binomial_tail(k, n, p)[kept], expected[kept], rtol=1e-10)


@pytest.mark.parametrize("n", [1, 3, 14, 15, 16, 40])
def test_tails_are_those_of_rational_arithmetic(n):
    for p in (Fraction(1, 10), Fraction(1, 2), Fraction(19, 20)):
        for k in range(n + 2):
            exact = sum(
                (comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)), Fraction(0)
            )
            assert float(binomial_tail(k, n, float(p))) == pytest.approx(float(exact), rel=1e-12)


def test_ends():
    np.testing.assert_array_equal(binomial_tail([0, 1, 5, 6], 5, 0.0), [1, 0, 0, 0])
    np.testing.assert_array_equal(binomial_tail([-1, 0, 5, 6], 5, 1.0), [1, 1, 1, 0])
    np.testing.assert_array_equal(binomial_tail([0, 1], 0, 0.5), [1, 0])
    assert binomial_tail(np.ones((2, 3)), np.full((2, 1), 4), 0.5).shape == (2, 3)


@pytest.mark.parametrize("level", [0.0125, 0.05, 0.3])
def test_certain_count_is_the_largest_that_is_seldom_missed(level):
    for n, p in ((1, 0.5), (20, 0.03), (500, 0.03), (5_000, 0.2), (100, 1.0)):
        w = certain_count(n, p, level)
        assert stats.binom.cdf(w - 1, n, p) <= level
        assert w == n or stats.binom.cdf(w, n, p) > level


def test_rate_bound_is_that_of_clopper_and_pearson():
    for k, n in ((90, 100), (1, 7), (500, 500), (0, 10)):
        expected = 0.0 if k == 0 else stats.beta.ppf(0.05, k, n - k + 1)
        assert rate_bound(k, n, 0.05) == pytest.approx(expected, abs=1e-12)


def test_trials_needed_reject_and_fewer_by_far_do_not():
    for observed, rate in ((0.95, 0.9), (0.52, 0.5), (1.0, 0.99)):
        n = trials_needed(observed, rate, 0.05)
        assert n is not None
        assert stats.binom.sf(np.floor(observed * n + 1e-9) - 1, n, rate) <= 0.05
        few = int(0.8 * n)
        assert stats.binom.sf(np.floor(observed * few) - 1, few, rate) > 0.05
    assert trials_needed(0.9, 0.9, 0.05) is None
    assert trials_needed(0.9, 0.95, 0.05) is None
    assert trials_needed(0.5 + 1e-6, 0.5, 0.05) is None
