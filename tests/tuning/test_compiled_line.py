from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tuning.bias_cases import METRICS, bias_cases, random_biases

from reprior.metrics.count_metrics import find_metric
from reprior.tuning.bias_line import Desk, line_of, promising_part
from reprior.tuning.constants import EQUAL_VALUES
from reprior.tuning.objective import best_interval
from reprior.tuning.sweep import value_of
from reprior.tuning.top_two import TopTwo


def searches(case, k, metric, biases=None):
    """Return the best interval of the whole line, of the promising part, and the value now."""
    data, goal = case.data, case.goal(metric)
    two = TopTwo(data, case.start if biases is None else biases, compiled=True)
    counts = two.counts()
    now = value_of(counts, goal.metric)
    parts = (
        line_of(two, counts, k),
        promising_part(two, counts, k, goal.metric, now, Desk(data)),
    )
    found = []
    for part in parts:
        if part is None:
            found.append(None)
            continue
        steps = goal.along(part, 0.0)
        found.append((best_interval(steps, part.high, spared=np.nan), len(part.switches)))
    return *found, now


def assert_same_find(whole, part, now):
    """Nothing better is passed by, and what is found is the same to the bit."""
    if whole is None or not whole[0][2] > now + EQUAL_VALUES:
        assert part is None or not part[0][2] > now + EQUAL_VALUES
        return
    assert part is not None
    assert part[0] == whole[0]


@settings(max_examples=150)
@given(bias_cases(), st.integers(0, 4), st.sampled_from(METRICS))
def test_few_samples_with_ties(case, k, metric):
    assert_same_find(*searches(case, k % case.n_classes, metric))


@pytest.mark.parametrize("metric", METRICS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("absent", [0, 2])
def test_many_samples_wherever_the_biases_are(rng, metric, weighted, absent):
    for lead in (0.5, 2.0, 5.0):
        case = random_biases(rng, 3000, 8, lead=lead, weighted=weighted, absent=absent)
        for spread in (0.0, 0.5, 2.0):
            biases = rng.normal(scale=spread, size=8)
            for k in range(8):
                assert_same_find(*searches(case, k, metric, biases))


@pytest.mark.parametrize("name", ["recall[2]", "precision[0]", "iou[5]", "f1[7]"])
def test_metrics_of_one_class(rng, name):
    case = random_biases(rng, 2000, 8)
    for k in range(8):
        assert_same_find(*searches(case, k, find_metric(name, n_classes=8)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_scores_of_any_size(rng, scale):
    case = random_biases(rng, 2000, 5)
    case = type(case)(case.scores * scale, case.labels, case.start)
    for k in range(5):
        assert_same_find(*searches(case, k, "macro_f1"))


def test_most_of_a_line_is_passed_by(rng):
    case = random_biases(rng, 20_000, 10)
    for _ in range(2):  # near the best place only
        ascent = case.ascent("macro_f1")
        ascent.run(20)
    for k in range(10):
        whole, part, now = searches(case, k, "macro_f1", ascent.biases)
        assert_same_find(whole, part, now)
        assert part is None or part[1] < whole[1] / 5
