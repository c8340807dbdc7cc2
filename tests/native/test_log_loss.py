"""The kernels of the log-loss are equal to array code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from tests.support.miscalibrated import labelled, log_loss

from reprior.core import kernels, log_loss_moments, posterior_sums, threads

EQUAL = 1e-12
"""Relative; sums of 40 terms in another order, of exponentials known to 2^-52."""


@pytest.fixture(autouse=True, params=kernels.native.levels())
def level(request):
    """Use every instruction set that this processor has."""
    before = kernels.native.level()
    kernels.native.set_level(request.param)
    yield request.param
    kernels.native.set_level(before)


@pytest.fixture(params=["1", "2"])
def both(request, monkeypatch):
    """Return a function that gives a pass in array code and by the kernels."""
    monkeypatch.setenv("REPRIOR_NUM_THREADS", request.param)
    monkeypatch.setattr(threads, "SCORES_PER_THREAD", 100)

    def run(work):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "native", None)
            plain = work()
        return plain, work()

    return run


def rows(rng, n_classes, spread, dtype="float64"):
    z = (spread * rng.normal(size=(90, n_classes))).astype(dtype)
    weights = rng.uniform(0.1, 1, size=90)
    return labelled(z, rng.integers(n_classes, size=90), weights / weights.sum())


@pytest.mark.parametrize("spread", [0.1, 3.0, 300.0, 1e5])
@pytest.mark.parametrize("n_classes", [24, 37, 100])
def test_moments(n_classes, spread, both, rng):
    data, w = rows(rng, n_classes, spread), rng.normal(size=n_classes)
    plain, native = both(lambda: log_loss_moments(data, 0.7, 1.3 * w, w))
    np.testing.assert_allclose(native, plain, rtol=EQUAL, atol=EQUAL * spread)


@pytest.mark.parametrize("spread", [0.1, 3.0, 300.0])
def test_sums_of_posteriors(spread, both, rng):
    data = rows(rng, 37, spread)
    scale, bias = rng.uniform(-1, 2, size=37), rng.normal(size=37)
    plain, native = both(lambda: np.concatenate(
        [np.atleast_1d(x) for x in posterior_sums(data, scale, bias)]
    ))  # fmt: skip
    np.testing.assert_allclose(native, plain, rtol=EQUAL, atol=EQUAL * spread)


def test_float32_rows_are_summed_in_float64(both, rng):
    data, w = rows(rng, 40, 3.0, "float32"), rng.normal(size=40)
    _, native = both(lambda: log_loss_moments(data, 0.7, w, w))
    exact = labelled(data.rows.astype(np.float64), data.labels, data.weights)
    expected, _ = both(lambda: log_loss_moments(exact, 0.7, w, w))
    np.testing.assert_allclose(native, expected, rtol=EQUAL)


def test_the_exponential_over_its_whole_range(both):
    """One class at 0 and others below: their shares of the posterior are the exponentials."""
    z = np.concatenate([[0.0], -np.geomspace(1e-12, 700.0, 999)])[None, :]
    data = labelled(z, np.array([0]))
    _, native = both(lambda: posterior_sums(data, np.ones(1000), np.zeros(1000)))
    expected = softmax(z[0])
    expected[0] -= 1.0
    np.testing.assert_allclose(native[2], expected, rtol=1e-13, atol=1e-304)


def test_what_is_far_below_the_peak_is_nothing(both):
    z = np.zeros((1, 30))
    z[0, 1:] = -1e9
    data = labelled(z, np.array([0]))
    _, native = both(lambda: log_loss_moments(data, 1.0, np.zeros(30), np.zeros(30)))
    assert native[0] == 0.0
    assert native[1] == pytest.approx(0.0, abs=1e-290)
    assert log_loss(z, np.array([0]), np.ones(1)) == 0.0
