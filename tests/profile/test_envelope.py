from __future__ import annotations

import array_api_compat.numpy as np_compat
import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import oracles
from tests.tuning.shared import BOUNDS, cases, exact_cases, random_case

from reprior.core import namespace
from reprior.profile import AFTER_ZERO
from reprior.profile.envelope import envelope

LIBRARIES = {"torch": torch.as_tensor, "strict": array_api_strict.asarray}


def find(scores, slopes, bounds):
    scores = np.asarray(scores)
    wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
    return envelope(wide, np.asarray(slopes, np.float64), bounds, np_compat)


def switches(found):
    """Return each sample's switches, in order of strength, as (position, loser, winner)."""
    by_row = {}
    for j in np.argsort(found.position, kind="stable"):
        step = (float(found.position[j]), int(found.loser[j]), int(found.winner[j]))
        by_row.setdefault(int(found.row[j]), []).append(step)
    return by_row


def winners_at(found, strength):
    """Follow every sample from the lower bound up to ``strength``."""
    here = found.start.copy()
    steps = switches(found)
    for row, path in steps.items():
        for position, loser, winner in path:
            if position <= strength:
                assert here[row] == loser
                here[row] = winner
    return here


# --------------------------------------------------------------------------------- oracle


@settings(max_examples=120)
@given(exact_cases())
def test_winners_equal_brute_force_at_and_beside_every_switch(case):
    found = find(case.scores, case.slopes, case.bounds)
    strengths = case.strengths()
    want = oracles.predictions(case.scores, case.slopes, strengths)
    for strength, row in list(zip(strengths, want, strict=True))[::3]:
        np.testing.assert_array_equal(winners_at(found, strength), row)
    np.testing.assert_array_equal(
        found.origin, oracles.predictions(case.scores, case.slopes, 0.0)[0]
    )


@given(cases())
def test_a_path_only_ever_rises_in_slope(case):
    found = find(case.scores, case.slopes, case.bounds)
    low, high = case.bounds
    n_classes = case.slopes.size
    for row, path in switches(found).items():
        positions, losers, winners = zip(*path, strict=True)
        assert len(path) <= n_classes
        assert losers[0] == found.start[row]
        assert losers[1:] == winners[:-1]
        assert all(low <= x <= max(high, AFTER_ZERO) for x in positions)
        slopes = case.slopes[[losers[0], *winners]]
        assert (slopes[1:] > slopes[:-1]).all()


def test_switches_of_three_lines_by_hand():
    # 2 + 0λ, 1 + 1λ, −1 + 2λ cross at 1, 1.5 and 2: the middle line wins between 1 and 2.
    found = find([[2.0, 1.0, -1.0]], [0.0, 1.0, 2.0], (0.0, 3.0))
    assert switches(found) == {0: [(1.0, 0, 1), (2.0, 1, 2)]}


def test_three_lines_through_one_point_skip_the_middle_one():
    found = find([[2.0, 1.0, 0.0]], [0.0, 1.0, 2.0], (0.0, 3.0))
    assert switches(found) == {0: [(1.0, 0, 2)]}


def test_a_tie_at_the_upper_bound_goes_to_the_larger_slope():
    found = find([[1.0, 0.0], [1.0, -0.5]], [0.0, 1.0], (0.0, 1.0))
    assert switches(found) == {0: [(1.0, 0, 1)]}


@pytest.mark.parametrize(
    "order, path",
    [
        ([0.0, 1.0, -1.0], [(0.0, 2, 0), (AFTER_ZERO, 0, 1)]),  # by way of its own arg max
        ([1.0, 0.0, -1.0], [(0.0, 2, 0)]),
        ([-1.0, 0.0, 1.0], [(AFTER_ZERO, 0, 2)]),
    ],
)
def test_a_tie_at_0_is_the_models_own_choice_at_0_itself(order, path):
    found = find(np.zeros((1, 3)), order, (-1.0, 1.0))
    assert switches(found) == {0: path}


def test_among_equal_slopes_the_larger_score_then_the_lower_index():
    scores = [[2.0, 0.5, 1.0, 1.0], [2.0, 1.0, 1.0, 0.5]]
    found = find(scores, [0.0, 1.0, 1.0, 1.0], (0.0, 2.0))
    assert switches(found) == {0: [(1.0, 0, 2)], 1: [(1.0, 0, 1)]}


def test_a_class_of_slope_minus_infinity_leaves_right_after_0():
    found = find([[3.0, 1.0, 1.0], [0.0, 2.0, 1.0]], [-np.inf, 0.0, 1.0], (0.0, 2.0))
    assert found.start.tolist() == found.origin.tolist() == [0, 1]
    assert winners_at(found, 0.0).tolist() == [0, 1]
    assert winners_at(found, AFTER_ZERO).tolist() == [2, 1]
    assert winners_at(found, 1.0).tolist() == [2, 2]


def test_without_a_finite_score_there_is_no_envelope():
    assert find([[0.0, 1.0], [-np.inf, -np.inf]], [0.0, 1.0], (0.0, 1.0)) is None
    assert find([[0.0, 1.0], [1.0, -np.inf]], [-np.inf, 1.0], (0.0, 1.0)) is None


# ------------------------------------------------------------------------------ near-ties


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize("n_classes", [3, 40, 200])
def test_near_ties_end_after_at_most_k_switches(rng, dtype, bounds, n_classes):
    # Lines that all but meet in one point, at λ = 1, moved by a unit in the last place or two.
    slopes = np.sort(rng.uniform(-3, 3, n_classes))
    scores = (10 - slopes + np.zeros((50, 1))).astype(dtype)
    steps = rng.integers(-2, 3, scores.shape)
    scores = (scores + steps * np.spacing(scores)).astype(dtype)
    found = find(scores, slopes, bounds)
    per_row = np.bincount(found.row, minlength=50)
    assert per_row.max() <= n_classes
    for row, path in switches(found).items():
        positions = [x for x, _, _ in path]
        assert positions == sorted(positions)
        np.testing.assert_array_equal([found.start[row], *(w for _, _, w in path)][:-1],
                                      [loser for _, loser, _ in path])  # fmt: skip


@given(st.integers(0, 2**32 - 1), st.sampled_from(BOUNDS))
def test_slopes_that_differ_by_rounding_alone_end_too(seed, bounds):
    rng = np.random.default_rng(seed)
    slopes = 1.0 + np.spacing(1.0) * rng.integers(0, 3, 6)
    scores = rng.integers(0, 2, (20, 6)) + np.spacing(1.0) * rng.integers(0, 3, (20, 6))
    found = find(scores, slopes, bounds)
    assert np.bincount(found.row, minlength=20).max() <= 6


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
def test_scores_of_any_size(rng, size):
    scores = rng.normal(size=(40, 5)) * size
    found = find(scores, [0.0, 0.5, 1.0, 1.5, 2.0], (0.0, 2.0))
    assert np.isfinite(found.position).all()
    assert np.bincount(found.row, minlength=40).max() <= 5


# --------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("zero", [False, True])
def test_other_libraries_equal_numpy(rng, library, dtype, zero):
    case = random_case(rng, 80, 6, dtype=dtype)
    scores = np.round(case.scores * 2) / 2  # ties
    slopes = np.round(case.slopes * 4) / 4
    if zero:
        slopes[2] = -np.inf
    for bounds in BOUNDS if not zero else [(0.0, 2.0), (0.5, 3.0)]:
        theirs = LIBRARIES[library](scores.astype(dtype))
        a = find(scores.astype(dtype), slopes, bounds)
        b = envelope(theirs, slopes, bounds, namespace(theirs))
        np.testing.assert_array_equal(a.origin, b.origin)
        np.testing.assert_array_equal(a.start, b.start)
        assert switches(a) == switches(b)
        assert isinstance(b.position, np.ndarray)


def test_a_row_without_a_finite_score_has_no_envelope_on_either_side_of_0():
    scores = np.array([[0.0, 1.0], [-np.inf, -np.inf]])
    for bounds in ((-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0)):
        assert envelope(scores, np.array([0.0, 1.0]), bounds, np_compat) is None
