from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import oracles
from tests.tuning.bias_cases import ROUNDING, BiasCase, bias_cases, midpoints, with_bias

from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.tuning.bias_goal import Goal
from reprior.tuning.bias_line import line_of
from reprior.tuning.top_two import TopTwo

RULES = ("accuracy >= baseline - 0.125", "mean_iou >= 0.5", "macro_f1 <= 0.75")


def plain_rank(case, metric, rules, biases):
    """Return the metric, or minus what is missing, from confusion matrices."""
    missing = 0.0
    for rule in rules:
        name, relation, threshold = rule.split(maxsplit=2)
        limit = 0.5 if threshold == "0.5" else 0.75
        if "baseline" in threshold:
            limit = case.value(name, np.zeros(case.n_classes)) - 0.125
        short = limit - case.value(name, biases)
        missing += max(short if relation == ">=" else -short, 0.0)
    return -missing if missing > ROUNDING else case.value(metric, biases)


@given(
    bias_cases(),
    st.integers(0, 4),
    st.sampled_from(oracles.METRICS),
    st.lists(st.sampled_from(RULES), unique=True),
)
def test_the_rank_is_the_metric_or_what_is_missing(case, k, metric, rules):
    k %= case.n_classes
    goal, data = case.goal(metric, *rules), case.data
    two = TopTwo(data, case.start)
    assert goal.rank(two.counts()) == pytest.approx(
        plain_rank(case, metric, rules, case.start), abs=ROUNDING
    )
    stretch = line_of(two, two.counts(), k)
    if stretch is None:
        return
    steps = goal.along(stretch, 0.25)
    for bias in midpoints(case, case.start, k):
        want = plain_rank(case, metric, rules, with_bias(case.start, k, bias))
        assert steps.at(bias - 0.25) == pytest.approx(want, abs=ROUNDING)


def test_misses_are_told_apart():
    case = BiasCase(np.array([[1.0, 0.0], [1.0, 0.0]]), [0, 1], np.zeros(2))
    goal = case.goal("accuracy", "recall[1] >= 0.75", "recall[0] >= 0.75")
    counts = case.data.counts(np.array([0, 0]))
    assert goal.misses(counts) == [0.75, 0.0]
    assert goal.rank(counts) == -0.75


def test_without_constraints_no_baseline_is_needed():
    case = BiasCase(np.array([[1.0, 0.0], [1.0, 0.0]]), [0, 1], np.zeros(2))
    goal = Goal(COUNT_METRICS["accuracy"])
    assert goal.rank(case.data.counts(np.array([0, 0]))) == 0.5
    assert goal.misses(case.data.counts(np.array([0, 0]))) == []
