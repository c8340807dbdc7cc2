from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracles
from tests.tuning.bias_cases import F2, ROUNDING, UNIT, BiasCase, bias_cases, exhaustive

from reprior.tuning import bias_pairs
from reprior.tuning.bias_pairs import best_pair, pairs_worth_trying

METRICS = (*oracles.METRICS, F2)


def pair_of(case, metric, pair, *rules, rank=-np.inf):
    found = best_pair(case.data, case.goal(metric, *rules), np.asarray(case.start), pair, rank)
    if found is None:
        return None
    biases = np.array(case.start, np.float64)
    for k, bias in found.items():
        biases[k] = bias
    return biases


@settings(max_examples=60)
@given(bias_cases(classes=(3, 3), most=9, gone=False), st.sampled_from(METRICS))
def test_with_three_classes_a_pair_is_as_good_as_everything(case, metric):
    biases = pair_of(case, metric, (0, 2))
    assert case.value(metric, biases) == pytest.approx(exhaustive(case, metric), abs=ROUNDING)


@given(bias_cases(classes=(3, 5), most=7), st.sampled_from(METRICS), st.data())
def test_no_biases_of_the_two_are_better(case, metric, draw):
    j, k = sorted(draw.draw(st.sets(st.integers(0, case.n_classes - 1), min_size=2, max_size=2)))
    best = case.value(metric, pair_of(case, metric, (j, k)))
    offsets = draw.draw(st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=1, max_size=30))
    for a, b in offsets:
        biases = np.array(case.start, np.float64)
        biases[j], biases[k] = (a + 1 / 3) * UNIT / 2, (b + 1 / 7) * UNIT / 2
        assert case.value(metric, biases) <= best + ROUNDING


def test_none_where_nothing_is_better():
    case = BiasCase(np.eye(3), [0, 1, 2], np.zeros(3))
    assert pair_of(case, "accuracy", (0, 1), rank=1.0) is None


def test_a_constraint_may_be_mended_by_two_biases_only():
    # Class 0 holds everything by the same lead: neither of the others alone reaches a recall of
    # 1 for both.
    scores = np.array([[2.0, 0.0, 0.0], [2.0, 1.0, 0.0], [2.0, 0.0, 1.0]])
    case = BiasCase(scores, [0, 1, 2], np.zeros(3))
    rules = ("recall[1] >= 1", "recall[2] >= 1")
    biases = pair_of(case, "accuracy", (1, 2), *rules, rank=-2.0)
    assert (scores + biases).argmax(axis=1).tolist() == [0, 1, 2]


def test_of_equally_good_places_the_roomiest():
    scores = np.array([[0.0, 0.0, -9.0], [0.0, 3.0, -9.0], [0.0, -9.0, 0.0], [0.0, -9.0, 1.0]])
    case = BiasCase(scores, [0, 1, 0, 2], np.zeros(3))
    biases = pair_of(case, "accuracy", (1, 2))
    assert case.value("accuracy", biases) == 1.0
    assert -3 < biases[1] < 0
    assert -1 < biases[2] < 0
    # No place is further from the three edges of the cell at once.
    assert biases.tolist() == [0.0, pytest.approx(-1.5, abs=0.5), -0.5]


def test_in_parts(monkeypatch):
    rng = np.random.default_rng(1)
    case = BiasCase(rng.normal(size=(9, 3)), rng.integers(3, size=9), np.zeros(3))
    whole = pair_of(case, "macro_f1", (0, 1))
    monkeypatch.setattr(bias_pairs, "AT_ONCE", 1)
    np.testing.assert_array_equal(pair_of(case, "macro_f1", (0, 1)), whole)


def test_samples_that_nobody_can_have_do_not_matter():
    scores = np.array([[0.0, -np.inf, -np.inf], [0.0, 1.0, -np.inf], [0.0, -np.inf, 1.0]])
    case = BiasCase(scores, [0, 1, 2], np.array([5.0, 0.0, 0.0]))
    biases = pair_of(case, "accuracy", (1, 2))
    assert case.value("accuracy", biases) == 1.0
    alone = BiasCase(scores[:1], [0], np.zeros(3))
    assert pair_of(alone, "accuracy", (1, 2), rank=1.0) is None


def test_pairs_are_tried_with_few_samples_and_more_than_two_classes(rng):
    def pairs(n, k, movable, **options):
        case = BiasCase(rng.normal(size=(n, k)), rng.integers(k, size=n), np.zeros(k))
        return pairs_worth_trying(case.data, movable, **options)

    assert pairs(9, 2, [0, 1]) == ([], None)
    assert pairs(9, 3, [0, 1, 2]) == ([(0, 1)], None)
    assert pairs(9, 4, [0, 2, 3]) == ([(0, 2), (0, 3), (2, 3)], None)
    assert pairs(1000, 3, [0, 1, 2]) == ([], None)
    assert pairs(9, 3, [0, 1, 2], some=True) == ([(0, 1)], None)
    assert pairs(1000, 3, [0, 1, 2], some=True) == ([(0, 1)], 128)
    assert pairs(10_000, 3, [0, 1, 2], some=True) == ([(0, 1)], 34)
    assert pairs(50_000, 3, [0, 1, 2], some=True) == ([], None)


def test_some_places_are_no_worse_than_the_start_and_no_better_than_all(rng):
    scores, labels = rng.normal(size=(30, 3)), rng.integers(3, size=30)
    case = BiasCase(scores, labels, np.zeros(3))
    goal = case.goal("macro_f1")
    start = goal.rank(case.data.counts(case.data.predictions(np.zeros(3))))
    values = [start]
    for places in (1, 20, 10**6):
        found = best_pair(case.data, goal, np.zeros(3), (0, 1), start, places)
        biases = np.array([0.0, 0, 0] if found is None else [found[0], found[1], 0.0])
        values.append(goal.rank(case.data.counts(case.data.predictions(biases))))
    everywhere = best_pair(case.data, goal, np.zeros(3), (0, 1), start)
    biases = np.array([everywhere[0], everywhere[1], 0.0])
    assert values[1] <= values[2] + ROUNDING
    assert values[0] <= min(values)
    assert values[3] == goal.rank(case.data.counts(case.data.predictions(biases)))
