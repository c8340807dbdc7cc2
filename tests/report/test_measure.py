"""Reliability on the grid equals the metrics of the posterior itself, strength by strength."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.shared import chunked, fitted, make_scores

import reprior as rp
from reprior.core.prior import slopes
from reprior.metrics import expected_calibration_error, log_loss, reliability_curve
from reprior.profile.envelope import envelope
from reprior.report.measure import GridReliability, measure, predictions_along, strength_grid

#: Exponentials of sums against products of exponentials: a few roundings of float64.
ROUNDING = 1e-9


def posterior(calibrator, logits, strength, temperature):
    return rp.rebalance(
        logits, calibrator.source_prior_, target_prior=calibrator.target_prior_,
        strength=strength / temperature, temperature=temperature,
    )  # fmt: skip


@pytest.mark.parametrize("temperature", [None, 0.6, 3.0])
def test_equals_the_metrics(temperature):
    rng = np.random.default_rng(3)
    logits, labels, counts = make_scores(rng, n=400, k=6)
    weight = rng.integers(1, 4, 400).astype(float)
    calibrator = fitted(logits, labels, counts, temperature=temperature)
    found = measure(calibrator, chunked(logits, labels, weight), name="validation")
    t = calibrator.temperature_
    for g, strength in enumerate(found.grid.strengths):
        p = posterior(calibrator, logits, strength, t)
        curve = reliability_curve(p, labels, sample_weight=weight)
        np.testing.assert_allclose(found.grid.weight[g], curve.count, rtol=ROUNDING)
        filled = curve.count > 0
        right = found.grid.hits[g][filled] / curve.count[filled]
        np.testing.assert_allclose(right, curve.accuracy[filled], rtol=ROUNDING)
        wanted = expected_calibration_error(p, labels, sample_weight=weight)
        assert found.grid.ece[g] == pytest.approx(wanted, abs=ROUNDING)
        wanted = log_loss(p, labels, sample_weight=weight)
        assert found.grid.log_loss[g] == pytest.approx(wanted, rel=ROUNDING)
    p = posterior(calibrator, logits, 0.0, 1.0)
    wanted = expected_calibration_error(p, labels, sample_weight=weight)
    assert found.before.strengths.tolist() == [0.0]
    assert found.before.ece[0] == pytest.approx(wanted, abs=ROUNDING)


def test_the_grid_holds_0_and_the_chosen_strength():
    logits, labels, counts = make_scores(np.random.default_rng(0))
    calibrator = fitted(logits, labels, counts, bounds=(-0.33, 2.0))
    grid = strength_grid(calibrator)
    assert {0.0, calibrator.strength_} <= set(grid.tolist())
    assert 41 <= grid.size <= 43
    assert (np.diff(grid) > 0).all()


def test_terms_that_underflow_are_summed_one_by_one():
    scores = np.array([[0.0, -900.0, -2000.0], [0.0, -1000.0, -900.0]])
    w = np.array([-1.0, 0.0, 0.5])
    grid = GridReliability(np.array([0.0, 1000.0]), w)
    lines = scores[:, None] + grid.strengths[:, None] * w
    grid.add(scores, np.array([0, 2]), None, lines.argmax(axis=2))
    top = lines.max(axis=2, keepdims=True)
    total = top[..., 0] + np.log(np.exp(lines - top).sum(axis=2))
    own = lines[[0, 1], :, [0, 2]]
    np.testing.assert_allclose(grid.loss, (total - own).sum(axis=0), rtol=ROUNDING)
    assert np.isfinite(grid.ece).all()


def test_predictions_along_equal_the_arg_max():
    rng = np.random.default_rng(5)
    logits, _, counts = make_scores(rng, n=200, k=9)
    w = slopes(rp.prior_from_counts(counts), np.full(9, 1 / 9))
    found = envelope(logits, w, (0.0, 2.0), np)
    strengths = np.sort(rng.uniform(0, 2, 30))
    chosen = predictions_along(found, strengths)
    for g, strength in enumerate(strengths):
        assert np.array_equal(chosen[:, g], (logits + strength * w).argmax(axis=1))


def test_one_strength_alone():
    logits, labels, counts = make_scores(np.random.default_rng(1))
    grid = measure(fitted(logits, labels, counts), [(logits, labels)], name="test").grid
    assert grid.only(0.0).ece.tolist() == [grid.ece[0]]
