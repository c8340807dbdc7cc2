"""Reliability on the page equals the metrics of the posterior itself, strength by strength."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.report_pages import chunked, fitted, make_scores, page_json, unpack

import reprior as rp
from reprior.metrics import expected_calibration_error, log_loss, reliability_curve
from reprior.report import write_report

#: Exponentials of sums against products of exponentials: a few roundings of float64.
ROUNDING = 1e-9


def posterior(calibrator, logits, strength, temperature):
    return rp.rebalance(
        logits, calibrator.source_prior_, target_prior=calibrator.target_prior_,
        strength=strength / temperature, temperature=temperature,
    )  # fmt: skip


def reliability(folder, calibrator, chunks, name="reliability"):
    """Return the figures of a page by name, with a row per strength."""
    path = write_report(folder / "r.html", calibrator, chunks)
    packed = page_json(path)["sets"][0][name]
    strengths = unpack(packed["strengths"])
    figures = {"strengths": strengths}
    for key in ("ece", "logLoss", "weight", "hits"):
        figures[key] = unpack(packed[key]).reshape(len(strengths), -1).squeeze()
    return figures


@pytest.mark.parametrize("temperature", [None, 0.6, 3.0])
def test_equals_the_metrics(tmp_path, temperature):
    rng = np.random.default_rng(3)
    logits, labels, counts = make_scores(rng, n=400, k=6)
    weight = rng.integers(1, 4, 400).astype(float)
    calibrator = fitted(logits, labels, counts, temperature=temperature)
    chunks = chunked(logits, labels, weight)
    figures = reliability(tmp_path, calibrator, chunks)
    t = calibrator.temperature_
    for g, strength in enumerate(figures["strengths"]):
        # Strength 0 is the uncorrected model, whatever temperature was fitted.
        p = posterior(calibrator, logits, strength, t if strength else 1.0)
        curve = reliability_curve(p, labels, sample_weight=weight)
        np.testing.assert_allclose(figures["weight"][g], curve.count, rtol=ROUNDING)
        filled = curve.count > 0
        right = figures["hits"][g][filled] / curve.count[filled]
        np.testing.assert_allclose(right, curve.accuracy[filled], rtol=ROUNDING)
        expected = expected_calibration_error(p, labels, sample_weight=weight)
        assert figures["ece"][g] == pytest.approx(expected, abs=ROUNDING)
        expected = log_loss(p, labels, sample_weight=weight)
        assert figures["logLoss"][g] == pytest.approx(expected, rel=ROUNDING)
    before = reliability(tmp_path, calibrator, chunks, "reliabilityBefore")
    p = posterior(calibrator, logits, 0.0, 1.0)
    expected = expected_calibration_error(p, labels, sample_weight=weight)
    assert before["strengths"].tolist() == [0.0]
    assert before["ece"] == pytest.approx(expected, abs=ROUNDING)


def test_a_chosen_strength_of_0_keeps_its_temperature(tmp_path):
    logits, labels, counts = make_scores(np.random.default_rng(2))
    calibrator = fitted(logits, labels, counts, temperature=3.0)
    calibrator.strength_ = 0.0
    chunks = chunked(logits, labels)
    figures = reliability(tmp_path, calibrator, chunks)
    (g,) = np.flatnonzero(figures["strengths"] == 0.0)
    expected = expected_calibration_error(posterior(calibrator, logits, 0.0, 3.0), labels)
    assert figures["ece"][g] == pytest.approx(expected, abs=ROUNDING)
    before = reliability(tmp_path, calibrator, chunks, "reliabilityBefore")
    assert before["ece"] != pytest.approx(expected, abs=0.01)


def test_the_grid_holds_0_and_the_chosen_strength(tmp_path):
    logits, labels, counts = make_scores(np.random.default_rng(0))
    calibrator = fitted(logits, labels, counts, bounds=(-0.33, 2.0))
    strengths = reliability(tmp_path, calibrator, chunked(logits, labels))["strengths"]
    assert {0.0, calibrator.strength_} <= set(strengths.tolist())
    assert 41 <= strengths.size <= 43
    assert (np.diff(strengths) > 0).all()


@pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")
def test_terms_that_underflow_are_summed_one_by_one(tmp_path):
    """The predicted class has the largest corrected score, but exp of its own score is 0."""
    logits = np.array([[0.0, -900.0, -2000.0], [0.0, -1000.0, -900.0], [5.0, 0.0, 0.0]])
    labels = np.array([0, 2, 1])
    prior = np.exp([0.0, -200.0, -300.0])
    calibrator = rp.PosteriorCalibrator(prior / prior.sum(), bounds=(0.0, 8.0))
    calibrator.fit(logits, labels)
    figures = reliability(tmp_path, calibrator, chunked(logits, labels))
    w = np.log(calibrator.target_prior_) - np.log(calibrator.source_prior_)
    for g, strength in enumerate(figures["strengths"]):
        lines = logits + strength * w
        top = lines.max(axis=1, keepdims=True)
        log_total = top[:, 0] + np.log(np.exp(lines - top).sum(axis=1))
        expected = (log_total - lines[np.arange(3), labels]).mean()
        assert figures["logLoss"][g] == pytest.approx(expected, rel=ROUNDING)
    assert np.isfinite(figures["ece"]).all()
