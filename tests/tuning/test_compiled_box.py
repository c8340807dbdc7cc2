from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tuning.bias_cases import METRICS, arrays_only, bias_cases, random_biases

from reprior.tuning.compiled_box import best_step
from reprior.tuning.constants import EQUAL_VALUES, NARROWEST
from reprior.tuning.objective import best_interval
from reprior.tuning.sweep import Steps

GAPS = st.sampled_from([NARROWEST / 4, NARROWEST, 0.25, 0.5, 1.0])
VALUES = st.sampled_from([0.25, 0.5, 0.5 + EQUAL_VALUES / 2, 0.75, 0.75 - EQUAL_VALUES / 2])


@settings(max_examples=300)
@given(st.lists(st.tuples(GAPS, VALUES), min_size=1, max_size=8), st.integers(-4, 1), GAPS)
def test_the_best_step_is_that_of_the_array_code(pairs, low, last):
    start = low / 2 + np.cumsum([0.0, *(gap for gap, _ in pairs[1:])])
    value = np.array([value for _, value in pairs])
    high = float(start[-1] + last)
    want = best_interval(Steps(start, value), high, spared=np.nan)
    assert best_step(start, value, high) == want


def test_the_best_step_may_be_the_upper_end_alone():
    start, value = np.array([0.0, 1.0]), np.array([0.5, 0.75])
    assert best_step(start, value, 1.0) == best_interval(Steps(start, value), 1.0, spared=np.nan)


def test_only_narrow_steps_are_better_than_none():
    start, value = np.array([0.0, NARROWEST / 4]), np.array([0.5, 0.75])
    high = NARROWEST / 2
    assert best_step(start, value, high) == best_interval(Steps(start, value), high, spared=np.nan)


def both(case, metric, cycles):
    """Return ascents in compiled loops and in arrays."""
    found = []
    for context in (None, arrays_only()):
        if context is None:
            ascent = case.ascent(metric)
            ascent.run(cycles)
        else:
            with context:
                ascent = case.ascent(metric)
                ascent.run(cycles)
        found.append(ascent)
    return found


def assert_same_ascent(a, b):
    np.testing.assert_array_equal(a.biases, b.biases)
    assert a.history == b.history
    assert (a.n_cycles, a.converged) == (b.n_cycles, b.converged)


@settings(max_examples=100)
@given(bias_cases(), st.sampled_from(METRICS), st.integers(1, 6))
def test_equal_to_the_array_code_with_ties(case, metric, cycles):
    assert_same_ascent(*both(case, metric, cycles))


@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("absent", [0, 2])
def test_equal_to_the_array_code_on_many_samples(rng, metric, weighted, absent):
    case = random_biases(rng, 1500, 7, weighted=weighted, absent=absent)
    assert_same_ascent(*both(case, metric, 30))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_equal_to_the_array_code_in_either_precision(rng, dtype):
    assert_same_ascent(*both(random_biases(rng, 1000, 40, dtype=dtype), "macro_f1", 30))


def test_equal_to_the_array_code_where_a_step_ends_in_rounding(rng):
    # Scores so large that the middle of an interval may round to its end: the step is taken back.
    case = random_biases(rng, 400, 4)
    scores = np.round(case.scores * 8) / 8 + 2.0**48
    case = type(case)(scores, case.labels, case.start)
    a, b = both(case, "balanced_accuracy", 10)
    assert_same_ascent(a, b)
    assert a.rank == pytest.approx(case.value("balanced_accuracy", a.biases), abs=1e-12)
