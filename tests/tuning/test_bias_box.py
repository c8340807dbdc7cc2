from __future__ import annotations

import numpy as np
import pytest
from tests.tuning.bias_cases import random_biases

from reprior.tuning.bias_box import Box
from reprior.tuning.sweep import value_of
from reprior.tuning.top_two import TopTwo


def box_of(case, metric, radius):
    two = TopTwo(case.data, case.start, compiled=True)
    counts = two.counts()
    goal = case.goal(metric)
    return Box(two, counts, radius), goal.metric, value_of(counts, goal.metric)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("radius", [0.01, 0.1, 1.0])
def test_climbing_stays_in_the_box_and_tells_the_truth(rng, weighted, radius):
    case = random_biases(rng, 800, 6, lead=1.0, weighted=weighted)
    box, metric, value = box_of(case, "macro_f1", radius)
    steps, cycles = box.climb(metric, case.start, np.arange(6), value, 20)
    assert 1 < cycles < 20
    assert (np.diff([value, *steps]) > 0).all()
    assert (np.abs(box.biases - case.start) <= radius).all()
    assert steps[-1] == pytest.approx(case.value("macro_f1", box.biases), abs=1e-12)


def test_classes_that_are_not_asked_stay(rng):
    case = random_biases(rng, 500, 5, lead=1.0)
    box, metric, value = box_of(case, "accuracy", 0.5)
    steps, _ = box.climb(metric, case.start, np.array([1, 3]), value, 20)
    assert steps
    assert (box.biases[[0, 2, 4]] == 0).all()


def test_nobody_to_ask(rng):
    box, metric, value = box_of(random_biases(rng, 50, 3), "accuracy", 0.5)
    assert box.climb(metric, np.zeros(3), np.empty(0, np.int64), value, 20) == ([], 0)
