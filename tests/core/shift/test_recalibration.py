"""The calibration of EM on validation samples drawn again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from tests.core.shift.shifted import world

import reprior as rp
from reprior.core.shift import recalibration
from reprior.core.shift.calibration import fitted_calibration
from reprior.core.shift.recalibration import _within_classes, recalibrated
from reprior.core.shift.rows import Validation

CENTRES = 0.02
"""Of scales and biases: the fit from the beginning is held near a centre of its own by the weight
of one sample."""


def problem(seed=0, n=600, n_classes=3, separation=1.5):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    scores, labels = here.validation(rng, n)
    known = Validation(2 * scores + np.arange(n_classes), labels)
    fit = fitted_calibration(known, here.source)
    return here, known, fit, known._replace(rows=fit(known.rows))


def centred(x):
    return x - x.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_fit_to_the_samples_drawn_again(seed):
    here, known, fit, calibrated = problem(seed)
    found = recalibrated(calibrated, here.source, 5, np.random.default_rng(seed))
    rng, draw = np.random.default_rng(seed), _within_classes(known.labels)
    for i in range(5):
        again = np.repeat(np.arange(known.labels.size), draw(rng))
        refit = fitted_calibration(Validation(known.rows[again], known.labels[again]), here.source)
        scale = fit.scale * found.scales[i]
        np.testing.assert_allclose(scale, refit.scale, rtol=CENTRES)
        # The map is of likelihoods: log-posteriors less the log of the source prior.
        log_source = np.log(here.source)
        bias = found.scales[i] * (fit.bias - log_source) + found.biases[i] + log_source
        np.testing.assert_allclose(centred(bias), centred(refit.bias), atol=CENTRES)


def test_one_step_is_nearly_that_where_there_are_many_labels(monkeypatch):
    here, _, _, calibrated = problem(1, 20_000)
    steps = recalibrated(calibrated, here.source, 10, np.random.default_rng(0))
    monkeypatch.setattr(recalibration, "NEAR", 0.0)
    all_ = recalibrated(calibrated, here.source, 10, np.random.default_rng(0))
    monkeypatch.setattr(recalibration, "MOST_CLASSES", 2)
    one = recalibrated(calibrated, here.source, 10, np.random.default_rng(0))
    spread = all_.scales.std()
    for found in (steps, one):
        np.testing.assert_allclose(found.scales, all_.scales, atol=0.1 * spread)
        np.testing.assert_allclose(centred(found.biases), centred(all_.biases), atol=0.01)


def test_samples_are_drawn_within_their_classes():
    labels = np.array([1, 0, 1, 2, 1, 0])
    draw, rng = _within_classes(labels), np.random.default_rng(0)
    counts = np.array([draw(rng) for _ in range(2000)])
    for k in range(3):
        assert (counts[:, labels == k].sum(axis=1) == (labels == k).sum()).all()
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.1)


def test_impossible_classes_and_separable_ones_stay_finite():
    here, _, _, calibrated = problem(2, 40, 3, 8.0)
    rows = calibrated.rows.copy()
    away = softmax(rows, axis=1) < 1e-9
    rows[away] = -np.inf
    assert away.any()
    found = recalibrated(calibrated._replace(rows=rows), here.source, 50, np.random.default_rng(0))
    assert np.isfinite(found.scales).all()
    assert (found.scales > 0).all()
    assert np.isfinite(found.biases).all()
    np.testing.assert_allclose(
        found.scales,
        recalibrated(calibrated, here.source, 50, np.random.default_rng(0)).scales,
        rtol=1e-3,
    )


def coverage(n_rounds):
    """Return how often intervals hold the truth, and how often ones of a given calibration do."""
    rng = np.random.default_rng(11)
    here = world(rng, 4, 2.0)
    held, given = np.zeros(4), np.zeros(4)
    for i in range(n_rounds):
        scores, _ = here.draw(rng, 500, here.target)
        known, labels = here.validation(rng, 800)
        options = {
            "source_prior": here.source,
            "validation": (0.5 * known, labels),
            "random_state": i,
        }
        report = rp.estimate_target_prior_report(0.5 * scores, **options)
        fixed = rp.estimate_target_prior_report(
            0.5 * scores, calibration=report.calibration, **options
        )
        for found, count in ((report, held), (fixed, given)):
            low, high = found.intervals.T
            count += (low <= here.target) & (here.target <= high)
    return held / n_rounds, given / n_rounds


@pytest.mark.heavy
def test_intervals_cover_what_they_say():
    # 300 rounds know a coverage to 0.02 per class; an exact bootstrap of so few samples has 0.87.
    held, given = coverage(300)
    assert 0.85 <= held.mean() <= 0.95
    assert (held >= 0.83).all()
    assert given.mean() < held.mean() - 0.02


def test_intervals_are_wider_for_few_labels():
    rng = np.random.default_rng(0)
    here = world(rng, 3, 1.5)
    scores, _ = here.draw(rng, 2000, here.target)
    known, labels = here.validation(rng, 2000)
    few = slice(100)
    wide, narrow = (
        rp.estimate_target_prior_report(
            scores, source_prior=here.source, validation=(known[some], labels[some])
        )
        for some in (few, slice(None))
    )
    assert (np.diff(wide.intervals) > np.diff(narrow.intervals)).all()
