from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracles
from tests.tuning.bias_cases import (
    METRICS,
    ROUNDING,
    BiasCase,
    arrays_only,
    bias_cases,
    exhaustive,
    midpoints,
    random_biases,
    with_bias,
)

from reprior.tuning import bias_ascent
from reprior.tuning.bias_ascent import Ascent


def run(case, metric, *rules, cycles=50):
    ascent = case.ascent(metric, *rules)
    ascent.run(cycles)
    return ascent


@pytest.fixture(params=[True, False], ids=["native", "arrays"])
def either(request):
    if request.param:
        yield
    else:
        with arrays_only():
            yield


@settings(max_examples=80)
@given(bias_cases(), st.sampled_from(METRICS))
def test_no_other_bias_of_any_class_is_better_in_the_end(case, metric):
    for ascent in (run(case, metric), _in_arrays(case, metric)):
        assert ascent.converged
        value = case.value(metric, ascent.biases)
        assert ascent.rank == pytest.approx(value, abs=ROUNDING)
        for k in range(case.n_classes):
            for bias in midpoints(case, ascent.biases, k):
                other = case.value(metric, with_bias(ascent.biases, k, bias))
                assert other <= value + ROUNDING


def _in_arrays(case, metric):
    with arrays_only():
        return run(case, metric)


@given(bias_cases(), st.sampled_from(METRICS))
def test_history_rises_from_the_start_to_the_end(case, metric):
    ascent = run(case, metric)
    assert ascent.history[0] == pytest.approx(case.value(metric, case.start), abs=ROUNDING)
    assert (np.diff(ascent.history) > 0).all()
    assert ascent.rank == ascent.history[-1]


@settings(max_examples=100)
@given(bias_cases(classes=(2, 2), gone=False), st.sampled_from(METRICS))
def test_two_classes_are_tuned_exhaustively(case, metric):
    assert run(case, metric).rank == pytest.approx(exhaustive(case, metric), abs=ROUNDING)


@settings(max_examples=60)
@given(bias_cases(classes=(3, 3), most=9, gone=False), st.sampled_from(oracles.METRICS))
def test_three_classes_are_tuned_exhaustively(case, metric):
    assert run(case, metric).rank == pytest.approx(exhaustive(case, metric), abs=ROUNDING)


@pytest.mark.usefixtures("either")
def test_it_stops_after_so_many_rounds(rng):
    case = random_biases(rng, 500, 6, lead=1.0)
    full = run(case, "macro_f1")
    assert full.converged
    for cycles in range(1, full.n_cycles):
        short = run(case, "macro_f1", cycles=cycles)
        assert short.n_cycles == cycles
        assert not short.converged
        assert short.history == full.history[: len(short.history)]


@pytest.mark.usefixtures("either")
def test_classes_out_of_play_and_those_that_must_stay_do_not_move(rng):
    case = random_biases(rng, 300, 5)
    start = np.array([0.0, -np.inf, 0.5, -0.5, 0.0])
    movable = np.array([True, True, False, True, True])
    ascent = Ascent(case.data, case.goal("macro_f1"), start, movable)
    ascent.run(20)
    assert ascent.biases[1] == -np.inf
    assert ascent.biases[2] == 0.5
    assert ascent.rank > ascent.history[0]


@pytest.mark.usefixtures("either")
def test_nothing_to_move_is_the_end():
    case = BiasCase(np.eye(3), [0, 1, 2], np.zeros(3))
    ascent = Ascent(case.data, case.goal("accuracy"), np.zeros(3), np.zeros(3, bool))
    ascent.run(5)
    assert ascent.converged
    assert ascent.history == [1.0]


@pytest.mark.usefixtures("either")
def test_a_bias_far_away_is_found(rng):
    # Class 2 is 40 behind: far outside of any box.
    case = random_biases(rng, 400, 3, lead=3.0)
    scores = case.scores - [0.0, 0.0, 40.0]
    ascent = run(BiasCase(scores, case.labels, case.start), "balanced_accuracy")
    want = run(case, "balanced_accuracy")
    assert ascent.rank > 0.75
    assert ascent.rank >= want.rank - 0.02


@pytest.mark.usefixtures("either")
def test_constraints_hold_in_the_end_where_they_did_not_in_the_beginning(rng):
    case = random_biases(rng, 400, 4, lead=1.0)
    free = run(case, "accuracy")
    ascent = run(case, "accuracy", "recall[3] >= 0.9", "recall[0] >= baseline - 0.25")
    assert ascent.history[0] < 0 < ascent.rank < free.rank
    assert case.value("recall[3]", ascent.biases) >= 0.9 - ROUNDING
    limit = case.value("recall[0]", np.zeros(4)) - 0.25
    assert case.value("recall[0]", ascent.biases) >= limit - ROUNDING
    assert (np.diff(ascent.history) > 0).all()
    for k in range(4):
        for bias in midpoints(case, ascent.biases, k):
            there = with_bias(ascent.biases, k, bias)
            holds = case.value("recall[3]", there) >= 0.9 - ROUNDING
            if holds and case.value("recall[0]", there) >= limit - ROUNDING:
                assert case.value("accuracy", there) <= ascent.rank + ROUNDING


def test_constrained_ascents_are_the_same_in_arrays(rng):
    case = random_biases(rng, 600, 5, lead=1.0)
    native = run(case, "macro_f1", "recall[4] >= 0.8")
    with arrays_only():
        arrays = run(case, "macro_f1", "recall[4] >= 0.8")
    np.testing.assert_array_equal(native.biases, arrays.biases)
    assert native.history == arrays.history


@pytest.mark.usefixtures("either")
def test_a_step_that_rounding_spoils_is_taken_back(rng, monkeypatch):
    case = random_biases(rng, 60, 3)
    ascent = case.ascent("accuracy")
    before = ascent.biases
    # Everything to class 0: worse, whatever the line search may have thought.
    assert not ascent._jump({0: 99.0, 1: -99.0})
    np.testing.assert_array_equal(ascent.biases, before)
    assert len(ascent.history) == 1
    want = (case.scores + before).argmax(axis=1)
    np.testing.assert_array_equal(ascent._two.first, want)


@pytest.mark.usefixtures("either")
def test_without_a_box_only_whole_lines_are_searched(rng):
    # Every sample's first two classes are level: no radius makes a quarter of them doubtful.
    scores = np.repeat(rng.integers(-3, 4, (80, 1)) * 1.0, 3, axis=1)
    case = BiasCase(scores, rng.integers(3, size=80), np.zeros(3))
    ascent = run(case, "accuracy")
    assert ascent._radius() == 0.0 or ascent.converged
    assert ascent.rank == pytest.approx(np.bincount(case.labels).max() / 80)


def test_the_box_is_as_wide_as_a_share_of_the_leads(rng):
    case = random_biases(rng, 1000, 4)
    ascent = case.ascent("accuracy")
    top = np.sort(case.scores, axis=1)
    leads = np.sort(top[:, -1] - top[:, -2])
    assert ascent._radius() == leads[int(bias_ascent.DOUBTFUL * 1000)] / 2
