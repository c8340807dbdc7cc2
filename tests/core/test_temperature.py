from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from tests.support.backends import EPS, WIDE_BACKENDS

from reprior import (
    LabelsError,
    OptionError,
    RepriorError,
    RepriorWarning,
    ScoresError,
    TemperatureFit,
    fit_temperature,
)
from reprior.core import (
    LogLoss,
    WeightedRows,
    log_loss_sums,
    minimise_temperature,
    temperature,
    weighted_rows,
)

FIT = 1e-7
"""Relative; Newton ends with an error of about the square of its last step of 1e-6, and scipy's
minimiser finds where the loss no longer falls by 1e-16: to the square root of that."""


def sample(rng, n=400, n_classes=4, truth=2.0):
    """Return logits and labels for which the best temperature is near ``truth``."""
    z = rng.normal(size=(n, n_classes)) * 2
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return z * truth, labels


def log_loss(z, labels, t, weights=None):
    chosen = scipy.special.log_softmax(z / t, axis=1)[np.arange(len(z)), labels]
    return -np.average(chosen, weights=weights)


def oracle(z, labels, weights=None):
    """Minimise over log T, without derivatives."""
    found = scipy.optimize.minimize_scalar(
        lambda a: log_loss(z, labels, np.exp(a), weights), bracket=(-1, 1), tol=1e-12
    )
    return np.exp(found.x), found.fun


# ---------------------------------------------------------------------------------- oracles


@pytest.mark.parametrize("n_classes", [2, 4, 30])
@pytest.mark.parametrize("truth", [0.03, 0.5, 1.0, 7.0, 50.0])
def test_the_temperature_is_that_of_a_plain_minimiser(n_classes, truth, rng):
    z, labels = sample(rng, n_classes=n_classes, truth=truth)
    fit = fit_temperature(z, labels)
    expected, loss = oracle(z, labels)
    assert fit.temperature == pytest.approx(expected, rel=FIT)
    assert fit.log_loss == pytest.approx(loss, rel=1e-12)
    assert fit.converged
    assert not fit.at_bound
    assert fit.n_iterations <= 12


def test_the_temperature_is_scikit_learns(rng):
    x = rng.normal(size=(600, 3))
    y = (x @ rng.normal(size=(3, 3)) + rng.gumbel(size=(600, 3))).argmax(axis=1)
    model = LogisticRegression().fit(x[:300], y[:300])
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method="temperature")
    calibrated.fit(x[300:], y[300:])
    fit = fit_temperature(model.decision_function(x[300:]), y[300:])
    theirs = scipy.special.softmax(model.decision_function(x) / fit.temperature, axis=1)
    # Theirs stops at a gradient of about 1e-5.
    np.testing.assert_allclose(calibrated.predict_proba(x), theirs, atol=1e-4)


@given(st.integers(0, 10**6), st.floats(0.02, 60))
def test_the_best_temperature_scales_with_the_scores(seed, scale):
    z, labels = sample(np.random.default_rng(seed), n=80, truth=1.0)
    plain = fit_temperature(z, labels, bounds=(1e-4, 1e4))
    scaled = fit_temperature(z * scale, labels, bounds=(1e-4, 1e4))
    assert scaled.temperature == pytest.approx(scale * plain.temperature, rel=FIT)
    assert scaled.log_loss == pytest.approx(plain.log_loss, rel=1e-9)


@given(st.integers(0, 10**6))
def test_no_temperature_nearby_is_better(seed):
    z, labels = sample(np.random.default_rng(seed), n=60, n_classes=3, truth=1.0)
    fit = fit_temperature(z, labels)
    for t in fit.temperature * np.array([0.9, 0.999, 1.001, 1.1]):
        assert log_loss(z, labels, t) > fit.log_loss


def test_weights_repeat_samples(rng):
    z, labels = sample(rng, n=50)
    weights = rng.integers(0, 4, size=50)
    weighted = fit_temperature(z, labels, sample_weight=weights)
    repeated = fit_temperature(np.repeat(z, weights, axis=0), np.repeat(labels, weights))
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=FIT)
    assert weighted.log_loss == pytest.approx(repeated.log_loss, rel=1e-12)


def test_ignored_samples_do_not_count(rng):
    z, labels = sample(rng)
    ignored = np.where(np.arange(labels.size) % 3 == 0, -100, labels)
    kept = ignored != -100
    fit = fit_temperature(z, ignored, ignore_index=-100)
    assert fit.temperature == pytest.approx(
        fit_temperature(z[kept], labels[kept]).temperature, rel=FIT
    )


def unseen(rng, n_classes, kind):
    """Return scores and labels, which rows to keep, and the scores with rubbish in the others."""
    z, labels = sample(rng, n=60, n_classes=n_classes)
    if kind != "logits":
        z = scipy.special.log_softmax(z, axis=1)
    z = np.exp(z) if kind == "probs" else z
    keep = np.arange(60) % 3 != 0
    rubbish = z.copy()
    rubbish[~keep] = rng.choice([np.nan, np.inf, -np.inf, 7.0], size=(20, n_classes))
    return z, labels, keep, rubbish


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("n_classes", [2, 30])
def test_scores_of_samples_left_out_are_not_looked_at(n_classes, kind, rng):
    z, labels, keep, rubbish = unseen(rng, n_classes, kind)
    expected = fit_temperature(z[keep], labels[keep], kind=kind)
    ignored = np.where(keep, labels, -100)
    assert fit_temperature(rubbish, ignored, ignore_index=-100, kind=kind) == expected
    assert fit_temperature(rubbish, labels, sample_weight=keep, kind=kind) == expected
    images, maps = np.moveaxis(rubbish.reshape(3, 4, 5, -1), -1, 1), ignored.reshape(3, 4, 5)
    assert expected == fit_temperature(images, maps, ignore_index=-100, kind=kind, class_axis=1)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_single_scores_of_samples_left_out_are_not_looked_at(kind, rng):
    z, labels, keep, rubbish = unseen(rng, 2, kind)
    expected = fit_temperature(z[keep, 1], labels[keep], kind=kind)
    assert fit_temperature(rubbish[:, 1], labels, sample_weight=keep, kind=kind) == expected


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_every_library_leaves_samples_out(backend, rng):
    z, labels, keep, rubbish = unseen(rng, 4, "logits")
    expected = fit_temperature(backend.make(z[keep]), backend.make_integers(labels[keep]))
    assert expected == fit_temperature(
        backend.make(rubbish),
        backend.make_integers(np.where(keep, labels, 255)),
        ignore_index=255,
    )


def test_a_class_of_target_prior_zero_that_labels_name(rng):
    """Class 0 has no mass under the target, and its samples the weight 0."""
    z, labels = sample(rng, n_classes=3)
    with np.errstate(divide="ignore"):
        log_p = scipy.special.log_softmax(z + np.log([0.0, 0.5, 0.5]), axis=1)
    keep = labels != 0
    fit = fit_temperature(log_p, labels, sample_weight=keep, kind="log_probs")
    assert fit == fit_temperature(log_p[keep], labels[keep], kind="log_probs")
    assert fit.temperature == pytest.approx(
        fit_temperature(z[keep, 1:], labels[keep] - 1).temperature, rel=FIT
    )


def test_integer_scores_with_samples_left_out():
    z, labels = np.array([[4, 0], [4, 0], [9, 9], [0, 4]]), np.array([0, 0, 7, 0])
    assert fit_temperature(z, labels, ignore_index=7) == fit_temperature(z[[0, 1, 3]], [0, 0, 0])


def test_samples_left_out_do_not_hide_probabilities_taken_for_logits(rng):
    _, labels, keep, rubbish = unseen(rng, 3, "probs")
    with pytest.warns(RepriorWarning, match="declared as kind='logits'"):
        fit_temperature(rubbish, labels, sample_weight=keep)


def test_huge_and_tiny_weights(rng):
    z, labels = sample(rng, n=50)
    expected = fit_temperature(z, labels)
    for size in (1e148, 1e-308):
        fit = fit_temperature(z, labels, sample_weight=np.full(50, size))
        assert fit.temperature == pytest.approx(expected.temperature, rel=FIT)


@pytest.mark.parametrize("n_classes", [3, 30])
def test_any_class_axis(n_classes, rng):
    z, labels = sample(rng, n=24, n_classes=n_classes)
    expected = fit_temperature(z, labels).temperature
    images = np.moveaxis(z.reshape(2, 3, 4, n_classes), -1, 1)
    fit = fit_temperature(images, labels.reshape(2, 3, 4), class_axis=1)
    assert fit.temperature == pytest.approx(expected, rel=FIT)


def test_kinds_agree(rng):
    z, labels = sample(rng)
    expected = fit_temperature(z, labels).temperature
    log_p = scipy.special.log_softmax(z, axis=1)
    for scores, kind in ((log_p, "log_probs"), (np.exp(log_p), "probs")):
        assert fit_temperature(scores, labels, kind=kind).temperature == pytest.approx(
            expected, rel=FIT
        )


def test_one_score_per_sample_is_two_columns(rng):
    z, labels = sample(rng, n_classes=2)
    margin = z[:, 1] - z[:, 0]
    expected = fit_temperature(z, labels).temperature
    for scores in (margin, margin[:, None]):
        assert fit_temperature(scores, labels).temperature == pytest.approx(expected, rel=FIT)
    p = scipy.special.expit(margin)
    assert fit_temperature(p, labels == 1, kind="probs").temperature == pytest.approx(
        expected,
        rel=1e-5,  # 1 − p of a stored p
    )


def test_impossible_classes_do_not_count(rng):
    z, labels = sample(rng, n_classes=3)
    masked = np.concatenate([z, np.full((len(z), 1), -np.inf)], axis=1)
    assert fit_temperature(masked, labels) == fit_temperature(z, labels)


def test_blocks_do_not_matter(rng, monkeypatch):
    z, labels = sample(rng, n_classes=30)
    whole = fit_temperature(z, labels)
    monkeypatch.setattr(log_loss_sums, "BLOCK_ITEMS", 64)
    monkeypatch.setattr(log_loss_sums, "KERNEL_SCORES", 64)
    monkeypatch.setattr(log_loss_sums, "KERNEL_ROWS", 1)
    assert fit_temperature(z, labels).temperature == pytest.approx(whole.temperature, rel=FIT)


# --------------------------------------------------------------------------- never diverges


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_separable_data_end_at_the_bound_with_a_warning(scale):
    z = np.eye(3) * scale + 2.0
    with pytest.warns(RepriorWarning, match=r"bound T=0\.01 .* every sample is classified right"):
        fit = fit_temperature(z, np.arange(3))
    assert fit.temperature == 0.01
    assert fit.at_bound
    assert fit.converged
    assert fit.log_loss == pytest.approx(log_loss(z, np.arange(3), 0.01), abs=1e-13)


def test_misleading_scores_end_at_the_other_bound():
    with pytest.warns(RepriorWarning, match=r"bound T=20 .* less about these labels than no"):
        fit = fit_temperature(np.eye(3) + 2.0, np.array([1, 2, 0]), bounds=(0.05, 20))
    assert fit.temperature == 20
    assert fit.at_bound


def test_flat_scores_are_indifferent():
    fit = fit_temperature(np.full((4, 3), 2.0), np.array([0, 1, 2, 0]))
    assert fit == TemperatureFit(1.0, pytest.approx(np.log(3)), True, 1, False)


@pytest.mark.parametrize("bounds", [(2.0, 8.0), (0.01, 0.5), (0.9, 1.5)])
def test_bounds_that_leave_out_the_start(bounds, rng):
    z, labels = sample(rng, truth=np.sqrt(bounds[0] * bounds[1]))
    fit = fit_temperature(z, labels, bounds=bounds)
    assert fit.temperature == pytest.approx(oracle(z, labels)[0], rel=FIT)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 6), st.floats(-2, 4))
def test_small_samples_of_any_scale_always_converge(seed, n_classes, n, magnitude):
    rng = np.random.default_rng(seed)
    z = rng.standard_t(1.5, size=(n, n_classes)) * 10**magnitude + 2.0
    labels = rng.integers(n_classes, size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepriorWarning)  # many of these are separable
        fit = fit_temperature(z, labels)
    assert fit.converged
    assert 0.01 <= fit.temperature <= 100
    assert np.isfinite(fit.log_loss)
    for t in (0.01, 1.0, 100.0):
        assert fit.log_loss <= log_loss(z, labels, t) * (1 + 1e-9) + 1e-12


def test_a_loss_that_lies_about_its_slope_ends_unconverged():
    """No convex loss does this: the sign flips with every look."""
    looks = []

    def liar(inverse):
        looks.append(inverse)
        return temperature.Loss(1.0, (-1.0) ** len(looks), 1e-9)

    fit = temperature._bracketed_newton(liar, 0.01, 100.0)
    assert not fit.converged
    assert fit.n_iterations == len(looks) == temperature.MAX_ITERATIONS + 1


def test_newton_that_crawls_is_overtaken():
    """A curvature that is far too large makes tiny steps: the end of the bracket is sought."""

    def crawl(inverse):
        return temperature.Loss(1.0, np.tanh(50 * np.log(inverse / 3.0)), 60.0)

    fit = temperature._bracketed_newton(crawl, 0.01, 100.0)
    assert fit.converged
    assert 1 / fit.temperature == pytest.approx(3.0, rel=1e-4)


def test_nearly_separable_data_take_few_passes():
    """One mistake of tiny weight: the slope falls like an exponential, on which Newton crawls."""
    z = np.array([[2.0, 3.0], [3.0, 2.0], [2.0, 3.0]])
    fit = fit_temperature(z, np.array([1, 0, 0]), sample_weight=np.array([1.0, 1.0, 1e-12]))
    assert fit.temperature == pytest.approx(1 / np.log(2e12), rel=1e-6)
    assert fit.n_iterations <= 15


# ----------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_every_library_agrees(backend, rng):
    z, labels = sample(rng)
    fit = fit_temperature(
        backend.make(z),
        backend.make_integers(labels),
        sample_weight=backend.make(np.ones(labels.size)),
    )
    expected = fit_temperature(z, labels).temperature
    tolerance = FIT if backend.dtype == "float64" else 30 * EPS["float32"]
    assert fit.temperature == pytest.approx(expected, rel=tolerance)


def test_half_precision_and_gradients(rng):
    z, labels = sample(rng)
    expected = fit_temperature(z, labels).temperature
    half = torch.tensor(z, dtype=torch.float16, requires_grad=True)
    fit = fit_temperature(half, torch.tensor(labels))
    assert fit.temperature == pytest.approx(expected, rel=EPS["float16"])


def test_nothing_is_mutated(rng):
    z, labels = sample(rng)
    weights = np.ones(labels.size)
    copies = z.copy(), labels.copy(), weights.copy()
    fit_temperature(z, labels, sample_weight=weights, ignore_index=0)
    for given_array, copy in zip((z, labels, weights), copies, strict=True):
        np.testing.assert_array_equal(given_array, copy)


# ------------------------------------------------------------------------------------ words

Z = np.array([[3.0, 2.0], [4.0, -1.0]])

WORDS = {
    "kind": (lambda: fit_temperature(Z, [0, 1], kind="logit"), OptionError, "Did you mean"),
    "bounds": (
        lambda: fit_temperature(Z, [0, 1], bounds=(5, 1)),
        OptionError,
        "bounds reversed. Pass bounds=(1, 5).",
    ),
    "bounds of zero": (
        lambda: fit_temperature(Z, [0, 1], bounds=(0, 1)),
        OptionError,
        "`bounds[0]` must be a finite number above 0. Got 0.",
    ),
    "labels": (lambda: fit_temperature(Z, [0, 2]), LabelsError, "Got labels[1]=2."),
    "labels shape": (lambda: fit_temperature(Z, [0]), LabelsError, "Got shape (1,)"),
    "libraries": (
        lambda: fit_temperature(torch.tensor(Z), np.array([0, 1])),
        RepriorError,
        "must come from one array library. Got numpy and torch.",
    ),
    "weights": (
        lambda: fit_temperature(Z, [0, 1], sample_weight=[1, -1]),
        LabelsError,
        "Got sample_weight[1]=-1.",
    ),
    "nothing left": (
        lambda: fit_temperature(Z, [0, 1], sample_weight=[1, 0], ignore_index=0),
        LabelsError,
        "must hold at least one sample of positive weight that is not ignored. Got none.",
    ),
    "NaN": (lambda: fit_temperature(Z * np.nan, [0, 1]), ScoresError, "Got scores[0, 0]=nan."),
    "NaN after a sample left out": (
        lambda: fit_temperature(Z * [[np.nan], [np.nan]], [7, 1], ignore_index=7),
        ScoresError,
        "Got scores[1, 0]=nan.",
    ),
    "own class impossible after a sample left out": (
        lambda: fit_temperature(
            np.array([[0.0, 1.0], [0.0, 1.0]]), [0, 0], kind="probs", sample_weight=[0, 1]
        ),
        ScoresError,
        "Got probability 0 for class 0 of sample 1",
    ),
    "own class impossible": (
        lambda: fit_temperature(np.array([[0.5, 0.5], [0.0, 1.0]]), [0, 0], kind="probs"),
        ScoresError,
        "Got probability 0 for class 0 of sample 1",
    ),
    "empty": (
        lambda: fit_temperature(np.empty((0, 2)), np.empty(0, int)),
        ScoresError,
        "`scores` must hold at least one sample",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)


@pytest.mark.parametrize("n_classes", [4, 80])
def test_losses_of_parts_add_to_that_of_the_whole(rng, n_classes):
    z, y = sample(rng, 200, n_classes)
    v = rng.uniform(0.5, 2.0, 200)
    parts = [
        LogLoss(WeightedRows.of_rows(z[part], y[part], v[part] / v.sum()))
        for part in (slice(0, 30), slice(30, 200))
    ]

    def total(inverse):
        return temperature.Loss(*np.sum([loss(inverse) for loss in parts], axis=0).tolist())

    known = fit_temperature(z, y, sample_weight=v)
    found = minimise_temperature(total, temperature.BOUNDS, 1.0)
    assert found.temperature == pytest.approx(known.temperature, rel=FIT)
    assert found.log_loss == pytest.approx(known.log_loss, rel=FIT)


def test_a_part_refuses_an_impossible_label():
    rows = np.array([[0.0, 1.0], [-np.inf, 0.0]])
    with pytest.raises(ScoresError, match="probability 0 for class 0 of sample 1"):
        WeightedRows.of_rows(rows, np.array([0, 0]), np.array([0.5, 0.5]))


def test_many_rows_start_from_a_sample(rng, monkeypatch):
    z, y = sample(rng, 4000)
    expected = fit_temperature(z, y)
    monkeypatch.setattr(weighted_rows, "SAMPLE_FROM", 1)
    monkeypatch.setattr(weighted_rows, "SAMPLE_ITEMS", 500)
    monkeypatch.setattr(weighted_rows, "SAMPLE_ROWS", 100)
    found = fit_temperature(z, y)
    assert found.temperature == pytest.approx(expected.temperature, rel=FIT)
    assert found.n_iterations < expected.n_iterations


def test_a_given_loss_that_falls_to_the_bound_is_there():
    def loss(inverse):
        return temperature.Loss(1 + np.exp(-inverse), -np.exp(-inverse), np.exp(-inverse))

    found = minimise_temperature(loss, (0.5, 2.0), 1.0)
    assert found.at_bound
    assert found.temperature == 0.5


def test_the_warning_of_a_bound_is_at_the_users_line():
    z = np.array([[9.0, 0.0], [0.0, 9.0]])
    with pytest.warns(RepriorWarning, match="bound T=0.5 of `bounds`") as caught:
        fit_temperature(z, np.array([0, 1]), bounds=(0.5, 2.0))
    assert caught[0].filename == __file__
