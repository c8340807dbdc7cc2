from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tuning.bias_cases import METRICS, ROUNDING, bias_cases, midpoints, with_bias
from tests.tuning.shared import assert_same_counts

from reprior.metrics.counts import ClassCounts
from reprior.profile.samples import Block
from reprior.tuning.bias_line import OUTSIDE, line_of, tallies_of
from reprior.tuning.columns import Columns
from reprior.tuning.top_two import TopTwo

CLASS = st.integers(0, 4)


def line(case, k, *box):
    two = TopTwo(case.data, case.start)
    return line_of(two, two.counts(), k % case.n_classes, *box)


def counts_at(stretch, bias):
    """Return true positives and predicted, one switch at a time."""
    tp, predicted = (
        np.array(x, float) for x in (stretch.counts.true_positive, stretch.counts.predicted)
    )
    switches = stretch.switches
    for i in np.flatnonzero(switches.position <= bias):
        weight = 1.0 if switches.weight is None else switches.weight[i]
        for party, sign in ((switches.loser[i], -1), (switches.winner[i], 1)):
            predicted[party] += sign * weight
            tp[party] += sign * weight * (switches.label[i] == party)
    return tp, predicted


@given(bias_cases(), CLASS)
def test_counts_along_a_line_are_those_of_the_arg_max(case, k):
    k %= case.n_classes
    stretch = line(case, k)
    for bias in midpoints(case, case.start, k):
        data = case.data
        want = data.counts(data.predictions(with_bias(case.start, k, bias)))
        if stretch is None:  # then no bias changes anything
            assert_same_counts(want, data.counts(data.predictions(case.start)))
            continue
        tp, predicted = counts_at(stretch, bias)
        np.testing.assert_array_equal(tp, want.true_positive)
        np.testing.assert_array_equal(predicted, want.predicted)


@given(bias_cases(), CLASS, st.integers(-8, 8), st.integers(1, 8))
def test_a_box_cuts_the_line(case, k, low, width):
    k %= case.n_classes
    box = (low / 4, (low + width) / 4)
    cut, whole = line(case, k, box), line(case, k)
    if cut is None:
        assert (
            whole is None
            or not ((whole.switches.position > box[0]) & (whole.switches.position <= box[1])).any()
        )
        return
    assert (cut.low, cut.high) == box
    assert ((cut.switches.position > box[0]) & (cut.switches.position <= box[1])).all()
    for bias in (box[0], (box[0] + box[1]) / 2, box[1]):
        for got, want in zip(counts_at(cut, bias), counts_at(whole, bias), strict=True):
            np.testing.assert_array_equal(got, want)


@given(bias_cases(), CLASS, st.sampled_from(METRICS))
def test_the_rank_along_a_line_is_the_metric_at_every_midpoint(case, k, metric):
    k %= case.n_classes
    stretch = line(case, k)
    if stretch is None:
        return
    home = float(case.start[k])
    steps = case.goal(metric).along(stretch, home)
    for bias in midpoints(case, case.start, k):
        want = case.value(metric, with_bias(case.start, k, bias))
        assert steps.at(bias - home) == pytest.approx(want, abs=ROUNDING)


def test_the_outermost_intervals_end_somewhere():
    case_scores = np.array([[0.0, 1.0], [0.0, 3.0]])
    data = Columns(Block(case_scores, np.array([0, 1]), None))
    two = TopTwo(data, np.zeros(2))
    stretch = line_of(two, two.counts(), 1)
    assert (stretch.low, stretch.high) == (-3.0 - OUTSIDE, -1.0 + OUTSIDE)


def test_tallies_are_copies_and_stand_without_plain_numbers():
    counts = ClassCounts(np.array([1, 0]), np.array([2, 1]), np.array([1, 2]))
    tallies, plain = tallies_of(counts)
    assert tallies.tolist() == [[1, 0], [2, 1]]
    assert plain.tolist() == [2, 1]
    plain[0] = 7
    assert counts.predicted[0] == 2
