"""The strength of least balanced log-loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from tests.tuning.shared import Case, random_case
from tests.tuning.test_resampling import reading_of

from reprior.core.prior import slopes
from reprior.tuning.balanced_loss import log_loss_strength

CLOSE = 1e-6
"""Brent's search is good to the square root of rounding."""


def loss_of(case, strength, kept=slice(None)):
    """Write the definition out, for some of the samples."""
    z, y = case.scores[kept].astype(float), case.labels[kept]
    w = slopes(case.source, case.target)
    active = np.isfinite(w)
    weight = np.ones(len(y)) if case.weights is None else case.weights[kept]
    support = np.bincount(case.labels, case.weights, minlength=len(w))
    v = weight * case.target[y] / support[y]
    lines = z[:, active] + strength * w[active]
    own = z[np.arange(len(y)), y] + strength * np.where(active, w, 0.0)[y]
    return float(np.sum(v * (logsumexp(lines, axis=1) - own)))


def brute_force(case, kept=slice(None)):
    return minimize_scalar(
        lambda x: loss_of(case, x, kept), bounds=case.bounds, method="bounded",
        options={"xatol": 1e-10},
    ).x  # fmt: skip


@pytest.mark.parametrize("n_classes", [2, 3, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_minimum(rng, n_classes, weighted):
    case = random_case(rng, 300, n_classes, bounds=(-1.0, 4.0), weighted=weighted)
    assert log_loss_strength(reading_of(case)) == pytest.approx(brute_force(case), abs=CLOSE)


def test_far_from_1_newton_needs_its_bracket(rng):
    # Scores that are much too sure: a strength of 1 is on a plain where Newton overshoots.
    case = random_case(rng, 200, 3, bounds=(0.0, 500.0))
    sure = Case(60 * case.scores, case.labels, case.source, case.target, case.bounds)
    assert log_loss_strength(reading_of(sure)) == pytest.approx(brute_force(sure), rel=CLOSE)


def test_newton_that_leaves_its_bracket_gives_way_to_halves():
    # Flat between two far walls: log(1 + e^(20 − cλ)) + log(1 + e^(cλ − 44)), with c = log 4.
    scores = np.array([[0.0, -44.0], [0.0, -20.0]])
    case = Case(
        scores, np.array([0, 1]), np.array([0.8, 0.2]), np.array([0.5, 0.5]), bounds=(0.0, 60.0)
    )
    assert log_loss_strength(reading_of(case)) == pytest.approx(32 / np.log(4), rel=CLOSE)


@pytest.mark.parametrize("bounds, want", [((2.5, 3.0), 2.5), ((-3.0, -2.5), -2.5)])
def test_it_stays_within_the_bounds(rng, bounds, want):
    assert log_loss_strength(reading_of(random_case(rng, 200, 3, bounds=bounds))) == want


def test_classes_out_of_play_and_impossible_labels_say_nothing(rng):
    case = random_case(rng, 300, 4)
    case = Case(case.scores, case.labels, case.source, np.array([0.5, 0.25, 0.0, 0.25]))
    case.scores[0] = [0.0, 1.0, 2.0, -np.inf]
    case.labels[0] = 3
    kept = np.flatnonzero(case.labels != 2)[1:]
    # The sample that is left out counts for the frequencies of its class all the same.
    found = log_loss_strength(reading_of(case))
    assert found == pytest.approx(brute_force(case, kept), abs=CLOSE)


def test_samples_that_are_left_out(rng, monkeypatch):
    monkeypatch.setattr("reprior.tuning.balanced_loss.HOST_BLOCK", 90)
    case = random_case(rng, 120, 3)
    half = Case(case.scores, case.labels.copy(), case.source, case.target)
    half.labels[30:] = 255
    found = log_loss_strength(reading_of(half, ignore_index=255))
    assert found == log_loss_strength(reading_of(case.rows(slice(0, 30))))


def test_a_prior_of_the_labels_that_is_known(rng):
    case = random_case(rng, 300, 3, bounds=(-1.0, 4.0))
    reading = reading_of(case)
    own = np.bincount(case.labels, minlength=3)
    same = log_loss_strength(replace(reading, label_prior=own / own.sum()))
    assert same == pytest.approx(log_loss_strength(reading), abs=CLOSE)
    prior = np.array([0.2, 0.1, 0.7])
    weight = 1.0 / prior[case.labels]
    weighted = Case(case.scores, case.labels, case.source, case.target, case.bounds, weights=weight)
    # Weights v make the definition divide by Σ v of the class: take that off again.
    total = np.bincount(case.labels, weight, minlength=3)
    known = minimize_scalar(
        lambda x: sum(
            loss_of(weighted, x, np.flatnonzero(case.labels == k)) * total[k] for k in range(3)
        ),
        bounds=case.bounds, method="bounded", options={"xatol": 1e-10},
    ).x  # fmt: skip
    found = log_loss_strength(replace(reading, label_prior=prior))
    assert found == pytest.approx(known, abs=CLOSE)
    assert abs(found - same) > 1e-3
