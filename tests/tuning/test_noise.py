"""The noise of a curve, told from its jumps, and averages of a curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from tests.tuning.shared import random_case

from reprior.profile.sweep import Steps
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.noise import (
    MOST_STEPS,
    REDRAWS,
    _normals,
    differences,
    plausible,
    redrawn_best,
    smoothed,
)

INTEGRATION = 1e-9
"""What the quadrature of the oracle is asked for, and the rounding of second antiderivatives."""


@st.composite
def curves(draw):
    n = draw(st.integers(1, 8))
    gaps = draw(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n))
    values = draw(st.lists(st.floats(0.0, 1.0), min_size=n, max_size=n))
    low = draw(st.sampled_from([0.0, -1.0, 0.5]))
    start = low + np.cumsum([0.0, *gaps[:-1]])
    return Steps(start, np.array(values)), float(start[-1] + gaps[-1])


def brute_force(steps, high, at, h):
    """Integrate piece by piece, as the formula is written."""

    def kernel(u):
        return max(0.0, 1 - abs(u - at) / h)

    ends = np.append(steps.start[1:], high)
    above = below = 0.0
    for a, b, value in zip(steps.start, ends, steps.value, strict=True):
        kinks = [x for x in (at - h, at, at + h) if a < x < b]
        area = quad(kernel, a, b, points=kinks or None)[0]
        above, below = above + value * area, below + area
    return above / below


@given(curves(), st.floats(0.05, 3.0), st.floats(0.0, 1.0))
def test_the_average_is_the_integral(curve, half_width, share):
    steps, high = curve
    at = steps.start[0] + share * (high - steps.start[0])
    found = smoothed(steps, high, np.array([at]), half_width)
    want = brute_force(steps, high, at, half_width)
    np.testing.assert_allclose(found, want, rtol=0, atol=INTEGRATION)


def test_a_narrow_average_is_the_curve_and_a_constant_stays():
    steps = Steps(np.array([0.0, 0.7]), np.array([0.2, 0.9]))
    np.testing.assert_allclose(smoothed(steps, 2.0, np.array([0.5, 1.5]), 1e-3), [0.2, 0.9])
    flat = Steps(np.array([0.0]), np.array([0.4]))
    np.testing.assert_allclose(smoothed(flat, 2.0, np.linspace(0, 2, 5), 0.3), 0.4)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "macro_f1"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_jumps_tell_the_error_of_a_difference(rng, metric, n_classes):
    case = random_case(rng, 1500, n_classes)
    bootstrap = StrengthBootstrap.from_scores(
        case.scores, case.labels, source_prior=case.source, n_replicates=400
    )
    drawn = bootstrap.replicates(metric)
    steps = Steps(*bootstrap.profile.curve(metric))
    ends = np.array([0.4, 0.7, 1.4, 1.9])
    columns = np.searchsorted(drawn.strengths, [1.0, *ends])
    want = (drawn.values[:, columns[1:]] - drawn.values[:, columns[:1]]).std(axis=0)
    at = int(np.searchsorted(steps.start, 1.0, side="right")) - 1
    found = differences(steps, at)[np.searchsorted(steps.start, ends, side="right") - 1]
    # Switches of one sample are not independent, and support is drawn too: alike, not equal.
    np.testing.assert_allclose(found, want, rtol=0.25)


def test_plausible_is_within_so_many_errors():
    # Jumps of 3 and 4: the error from the middle is 3 to the left, 4 to the right.
    steps = Steps(np.array([0.0, 0.5, 1.0]), np.array([2.0, 5.0, 1.0]))
    assert plausible(steps, 1).tolist() == [True, True, True]
    assert plausible(steps, 1, 0.99).tolist() == [False, True, False]
    far = Steps(np.arange(6.0), np.array([0.0, 1.0, 2.0, 3.0, 2.0, 1.0]))
    assert plausible(far, 3).tolist() == [False, False, True, True, True, False]


def test_maxima_of_other_noise_are_those_of_the_definition(rng):
    steps = Steps(*random_case(rng, 150, 3).profile().curve("accuracy"))
    jumps = np.diff(steps.value)
    ends = np.append(steps.start[1:], 2.0)
    normals = np.random.default_rng(0).standard_normal((REDRAWS // 2, MOST_STEPS))
    want = []
    for sign in (1, -1):
        for row in normals:
            curve, best = [steps.value[0]], 0
            for j, jump in enumerate(jumps):
                curve.append(curve[-1] + jump + sign * row[j + 1] * abs(jump))
                best = j + 1 if curve[j + 1] > curve[best] else best
            want.append((steps.start[best] + ends[best]) / 2)
    np.testing.assert_allclose(redrawn_best(steps, 2.0), want)


def test_maxima_of_other_noise_are_spread_like_those_of_other_samples(rng):
    case = random_case(rng, 600, 3)
    bootstrap = StrengthBootstrap.from_scores(
        case.scores, case.labels, source_prior=case.source, n_replicates=400
    )
    drawn = bootstrap.replicates("balanced_accuracy").best_strength
    found = redrawn_best(Steps(*bootstrap.profile.curve("balanced_accuracy")), 2.0)
    assert found.mean() == pytest.approx(drawn.mean(), abs=0.1)
    assert found.std() == pytest.approx(drawn.std(), rel=0.25)


def test_steps_beyond_number_are_taken_together(rng):
    case = random_case(rng, 30_000, 4, dtype="f8", spread=1.5)
    steps = Steps(*case.profile().curve("accuracy"))
    assert steps.start.size > 2 * MOST_STEPS
    found = redrawn_best(steps, 2.0)
    fine = steps.value.max() - steps.at(found)
    assert (fine < 0.01).all()
    assert found.std() < 0.2


def test_the_noise_that_all_share_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        _normals()[0, 0] = 0.0
