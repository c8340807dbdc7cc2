"""ScoreMap: strength, biases and scales as one map from scores to a posterior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

import reprior as rp
from reprior import ScoreMap

SOURCE, TARGET = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])
W = np.log(TARGET) - np.log(SOURCE)

#: Two float64 routes to the same posterior.
ROUNDING = 1e-12


@pytest.fixture
def scores():
    return 3.0 * np.random.default_rng(0).normal(size=(40, 3))


def posterior(at, z, **options):
    return at.posterior(z, SOURCE, TARGET, **{"kind": "logits", "class_axis": -1, **options})


def test_a_plain_map_is_rebalance(scores):
    at = ScoreMap(0.7, 1.6)
    expected = rp.rebalance(
        scores, SOURCE, target_prior=TARGET, strength=0.7 / 1.6, temperature=1.6
    )
    np.testing.assert_array_equal(posterior(at, scores), expected)
    assert at.plain


@pytest.mark.parametrize("scales", [None, np.array([0.5, 1.0, 1.5])], ids=["one", "vector"])
@pytest.mark.parametrize("biases", [None, np.array([0.1, -0.4, 2.0])], ids=["strength", "biases"])
@pytest.mark.parametrize("log", [False, True])
def test_the_formula(scores, scales, biases, log):
    at = ScoreMap(0.7, 1.6, biases, scales)
    a = 1.0 if scales is None else scales
    b = 0.7 * W if biases is None else biases
    wanted = (log_softmax if log else softmax)((a * scores + b) / 1.6, axis=1)
    np.testing.assert_allclose(posterior(at, scores, log=log), wanted, atol=ROUNDING)
    scale, bias = at.affine(SOURCE, TARGET)
    np.testing.assert_allclose(
        softmax(scale * scores + bias, axis=1), posterior(at, scores), atol=ROUNDING
    )
    assert np.ndim(scale) == (0 if scales is None else 1)
    np.testing.assert_array_equal(
        at.decisions(scores, SOURCE, TARGET), posterior(at, scores).argmax(1)
    )


def test_a_class_of_target_prior_0_is_out_of_play():
    at = ScoreMap(0.5)
    assert at.shifts([0.5, 0.3, 0.2], [0.5, 0.5, 0.0])[2] == -np.inf
    assert (ScoreMap(0.0).shifts([0.5, 0.3, 0.2], [0.5, 0.5, 0.0]) == 0.0).all()


def test_a_class_that_is_impossible_stays_so_under_a_negative_scale():
    at = ScoreMap(1.0, biases=np.zeros(3), scales=np.array([1.0, -1.0, 1.0]))
    rows = np.array([[0.0, -np.inf, -1.0]])
    assert at.decisions(rows, SOURCE, TARGET).tolist() == [0]


@given(st.floats(-1, 3), st.floats(0.2, 5))
def test_biases_that_are_the_strengths_move_as_it_does(strength, temperature):
    other = np.array([0.6, 0.3, 0.1])
    plain = ScoreMap(strength, temperature)
    biased = ScoreMap(strength, temperature, biases=strength * W)
    moved = biased.retargeted(SOURCE, TARGET, other)
    np.testing.assert_allclose(
        moved.shifts(SOURCE, other), plain.shifts(SOURCE, other), atol=ROUNDING
    )
    assert plain.retargeted(SOURCE, TARGET, other) is plain


def test_classes_enter_and_leave_with_the_target_prior():
    old, new = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.4, 0.6])
    biased = ScoreMap(2.0, biases=np.array([1.0, 3.0, -np.inf]))
    moved = biased.retargeted(SOURCE, old, new).biases
    assert moved[0] == -np.inf
    assert moved[1] == pytest.approx(3.0 + 2.0 * np.log(0.4 / 0.5))
    assert moved[2] == pytest.approx(2.0 * np.log(0.6 / 0.1))


@given(st.floats(-1, 3), st.floats(0.2, 5))
def test_calibrated_maps_move_by_the_rule_of_bayes(strength, temperature):
    other, z = np.array([0.6, 0.4, 0.0]), np.array([[1.0, -2.0, 0.5]])
    at = ScoreMap(strength, temperature)
    moved = at.retargeted(SOURCE, TARGET, other, calibrated=True)
    p = posterior(at, z) * other / TARGET
    found = moved.posterior(z, SOURCE, other, kind="logits", class_axis=-1)
    np.testing.assert_allclose(found, p / p.sum(), atol=ROUNDING)
    assert moved.biases[2] == -np.inf
    assert at.retargeted(SOURCE, TARGET, TARGET, calibrated=True) is at


def test_a_class_that_enters_a_calibrated_map_gets_the_priors_bias():
    old, new = np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.2, 0.6])
    moved = ScoreMap(2.0, 3.0).retargeted(SOURCE, old, new, calibrated=True).biases
    assert moved[0] == pytest.approx(2.0 * np.log(0.5 / 0.7) + 3.0 * np.log(0.2 / 0.5))
    assert moved[2] == pytest.approx(2.0 * np.log(0.6 / 0.1))


def test_untouched():
    assert ScoreMap(0.0).untouched
    touched = [ScoreMap(0.1), ScoreMap(0.0, 2.0), ScoreMap(0.0, biases=np.zeros(3))]
    assert not any(each.untouched for each in touched)
