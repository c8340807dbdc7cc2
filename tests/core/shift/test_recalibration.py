"""The calibration that EM fits to validation labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from tests.support.label_shift import world
from tests.support.miscalibrated import log_loss

import reprior as rp
from reprior import LabelsError, ScoresError, fit_scaling
from reprior.core.shift import (
    AffineCalibration,
    Validation,
    fit_calibration,
    recalibration,
    refit_calibration,
)
from reprior.core.shift.recalibration import within_class_resampler


def wrong(scores):
    """Three times too sure, and in favour of the first class."""
    return 3 * scores + np.r_[2.0, np.zeros(scores.shape[1] - 1)]


def problem(seed=0, n=4000, n_classes=3):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, 1.5)
    scores, _ = here.draw(rng, n, here.target)
    return here, scores, here.validation(rng, n), rng


def off(prior, truth):
    return 0.5 * np.abs(prior - truth).sum()


def test_it_is_bcts_moved_to_the_source_prior():
    here, _, (scores, labels), rng = problem()
    source = rng.dirichlet(np.full(3, 5.0))  # not what the labels follow
    found = fit_calibration(Validation(wrong(scores), labels), source)
    mix = np.bincount(labels) / labels.size
    assert isinstance(found, AffineCalibration)
    # Under the labels' mix it is as good as the true model: the densities are exact.
    under_mix = found(wrong(scores)) + np.log(mix) - np.log(source)
    each = np.full(labels.size, 1 / labels.size)
    truth = log_loss(scores + np.log(mix) - np.log(here.source), labels, each)
    assert log_loss(under_mix, labels, each) == pytest.approx(truth, abs=2e-3)
    fit = fit_scaling(wrong(scores), labels, source_prior=source, target_prior=mix)
    np.testing.assert_allclose(found.scale, fit.scale)
    np.testing.assert_allclose(found.bias, fit.bias + np.log(source / mix))


def test_the_mix_of_the_labels_is_of_no_consequence():
    here, _, (scores, labels), rng = problem(1, 20_000)
    kept = rng.random(labels.size) < np.array([1.0, 0.3, 0.1])[labels]
    all_, some = (
        fit_calibration(Validation(wrong(scores[at]), labels[at]), here.source)
        for at in (slice(None), kept)
    )
    posterior = [softmax(map_(wrong(scores)), axis=1) for map_ in (all_, some)]
    np.testing.assert_allclose(*posterior, atol=0.05)
    np.testing.assert_allclose(posterior[0], softmax(scores, axis=1), atol=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_em_with_labels_mends_a_model_that_is_wrong(seed):
    here, scores, (known, labels), _ = problem(seed)
    without = rp.estimate_target_prior(wrong(scores), source_prior=here.source)
    found = rp.estimate_target_prior(
        wrong(scores), source_prior=here.source, validation=(wrong(known), labels)
    )
    assert off(found, here.target) < 0.06
    assert off(found, here.target) < off(without, here.target)


def test_target_and_validation_are_calibrated_alike():
    here, scores, (known, labels), _ = problem(2)
    options = {"source_prior": here.source, "validation": (wrong(known), labels)}
    report = rp.estimate_target_prior_report(wrong(scores), n_replicates=20, **options)
    scale, bias = report.calibration
    by_hand = rp.estimate_target_prior_report(
        scale * wrong(scores) + bias,
        source_prior=here.source,
        validation=(scale * wrong(known) + bias, labels),
        calibration=(1, 0),
        n_replicates=20,
    )
    np.testing.assert_allclose(report.prior, by_hand.prior, atol=1e-8)
    # Only a calibration that was fitted here is fitted again in every replicate.
    assert (np.diff(report.intervals) > 0.9 * np.diff(by_hand.intervals)).all()
    assert not np.allclose(report.intervals, by_hand.intervals, atol=1e-6)
    assert report.conditioning.condition_number == pytest.approx(
        by_hand.conditioning.condition_number, rel=1e-9
    )
    assert by_hand.calibration is None
    again = rp.estimate_target_prior(wrong(scores), calibration=report.calibration, **options)
    np.testing.assert_allclose(again, report.prior, atol=1e-8)
    assert "calibration  fitted: temperature" in report.summary()


def test_a_given_calibration_is_used_unchanged():
    here, scores, (known, labels), _ = problem(3)
    plain = rp.estimate_target_prior(wrong(scores), source_prior=here.source)
    kept = rp.estimate_target_prior(
        wrong(scores),
        source_prior=here.source,
        validation=(wrong(known), labels),
        calibration=(1, 0),
    )
    np.testing.assert_array_equal(kept, plain)


@pytest.mark.parametrize("method", ["bbse", "bbse_soft", "rlls", "rlls_soft"])
def test_the_others_take_the_scores_as_they_are(method):
    here, scores, (known, labels), _ = problem(4)
    report = rp.estimate_target_prior_report(
        wrong(scores),
        source_prior=here.source,
        method=method,
        validation=(wrong(known), labels),
        n_replicates=2,
    )
    assert report.calibration is None


def test_probabilities_with_zeros():
    here, scores, (known, labels), _ = problem(5)
    expected = rp.estimate_target_prior(
        scores, source_prior=here.source, validation=(known, labels)
    )
    p, q = softmax(scores, axis=1), softmax(known, axis=1)
    other = np.arange(labels.size), (labels + 1) % 3
    tiny = q[other] < 1e-4
    q[other[0][tiny], other[1][tiny]] = 0.0
    assert tiny.any()
    found = rp.estimate_target_prior(
        p, source_prior=here.source, validation=(q, labels), kind="probs"
    )
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_error_sentences():
    here, scores, (known, labels), _ = problem(6, 300)
    with pytest.raises(ScoresError, match=r"`validation\[0\]` must rise .* best scale of -") as e:
        fit_calibration(Validation(-known, labels), here.source)
    assert "pass calibration=(1, 0)" in str(e.value)
    impossible = log_softmax(known, axis=1)
    impossible[0, labels[0]] = -np.inf
    with pytest.raises(ScoresError, match=r"`validation\[0\]` must leave every sample's own class"):
        fit_calibration(Validation(impossible, labels), here.source)
    with pytest.raises(LabelsError, match="Got none of class 2"):
        rp.estimate_target_prior(
            scores, source_prior=here.source, validation=(known, np.minimum(labels, 1))
        )


CENTRES = 0.02
"""Of scales and biases: the fit from the beginning is held near a centre of its own by the weight
of one sample."""


def refit_problem(seed=0, n=600, n_classes=3, separation=1.5):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    scores, labels = here.validation(rng, n)
    known = Validation(2 * scores + np.arange(n_classes), labels)
    fit = fit_calibration(known, here.source)
    return here, known, fit, known._replace(rows=fit(known.rows))


def centred(x):
    return x - x.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize("seed", range(4))
def test_a_refit_is_the_fit_to_the_resampled_labels(seed):
    here, known, fit, calibrated = refit_problem(seed)
    found = refit_calibration(calibrated, here.source, 5, np.random.default_rng(seed))
    rng, draw = np.random.default_rng(seed), within_class_resampler(known.labels)
    for i in range(5):
        again = np.repeat(np.arange(known.labels.size), draw(rng))
        refit = fit_calibration(Validation(known.rows[again], known.labels[again]), here.source)
        scale = fit.scale * found.scales[i]
        np.testing.assert_allclose(scale, refit.scale, rtol=CENTRES)
        # The map is of likelihoods: log-posteriors less the log of the source prior.
        log_source = np.log(here.source)
        bias = found.scales[i] * (fit.bias - log_source) + found.biases[i] + log_source
        np.testing.assert_allclose(centred(bias), centred(refit.bias), atol=CENTRES)


def test_one_step_is_close_with_many_labels(monkeypatch):
    here, _, _, calibrated = refit_problem(1, 20_000)
    steps = refit_calibration(calibrated, here.source, 10, np.random.default_rng(0))
    monkeypatch.setattr(recalibration, "SMALL_STEP", 0.0)
    all_ = refit_calibration(calibrated, here.source, 10, np.random.default_rng(0))
    monkeypatch.setattr(recalibration, "REFIT_MAX_CLASSES", 2)
    one = refit_calibration(calibrated, here.source, 10, np.random.default_rng(0))
    spread = all_.scales.std()
    for found in (steps, one):
        np.testing.assert_allclose(found.scales, all_.scales, atol=0.1 * spread)
        np.testing.assert_allclose(centred(found.biases), centred(all_.biases), atol=0.01)


def test_samples_are_resampled_within_their_classes():
    labels = np.array([1, 0, 1, 2, 1, 0])
    draw, rng = within_class_resampler(labels), np.random.default_rng(0)
    counts = np.array([draw(rng) for _ in range(2000)])
    for k in range(3):
        assert (counts[:, labels == k].sum(axis=1) == (labels == k).sum()).all()
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.1)


def test_impossible_classes_and_separable_ones_stay_finite():
    here, _, _, calibrated = refit_problem(2, 40, 3, 8.0)
    rows = calibrated.rows.copy()
    away = softmax(rows, axis=1) < 1e-9
    rows[away] = -np.inf
    assert away.any()
    found = refit_calibration(
        calibrated._replace(rows=rows), here.source, 50, np.random.default_rng(0)
    )
    assert np.isfinite(found.scales).all()
    assert (found.scales > 0).all()
    assert np.isfinite(found.biases).all()
    np.testing.assert_allclose(
        found.scales,
        refit_calibration(calibrated, here.source, 50, np.random.default_rng(0)).scales,
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
