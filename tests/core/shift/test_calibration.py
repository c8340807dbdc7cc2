"""The calibration that EM fits to validation labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from tests.core.drawn import log_loss
from tests.core.shift.shifted import world

import reprior as rp
from reprior.core.scaling import fit_scaling
from reprior.core.shift.calibration import fitted_calibration
from reprior.core.shift.rows import Affine, Validation
from reprior.exceptions import LabelsError, ScoresError


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
    found = fitted_calibration(Validation(wrong(scores), labels), source)
    mix = np.bincount(labels) / labels.size
    assert isinstance(found, Affine)
    # Under the labels' mix it is as good as the model that knows: the densities are true.
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
        fitted_calibration(Validation(wrong(scores[at]), labels[at]), here.source)
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


def test_a_given_calibration_is_taken_as_it_is():
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


def test_words():
    here, scores, (known, labels), _ = problem(6, 300)
    with pytest.raises(ScoresError, match=r"`validation\[0\]` must rise .* best scale of -") as e:
        fitted_calibration(Validation(-known, labels), here.source)
    assert "pass calibration=(1, 0)" in str(e.value)
    impossible = log_softmax(known, axis=1)
    impossible[0, labels[0]] = -np.inf
    with pytest.raises(ScoresError, match=r"`validation\[0\]` must leave every sample's own class"):
        fitted_calibration(Validation(impossible, labels), here.source)
    with pytest.raises(LabelsError, match="Got none of class 2"):
        rp.estimate_target_prior(
            scores, source_prior=here.source, validation=(known, np.minimum(labels, 1))
        )
