"""The search on a grid, of metrics that are made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprior.exceptions import InfeasibleError
from reprior.fusion.grid import COARSE, Grid
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.metrics.counts import ClassCounts
from reprior.profile.objective import Constraint

ACCURACY = COUNT_METRICS["accuracy"]
TOTAL = 10**6


def counts(share, first=0.5):
    """Of two classes, with that accuracy; ``first`` of the hits are of class 0."""
    hits = np.array([round(share * TOTAL * first), round(share * TOTAL * (1 - first))])
    return ClassCounts(hits, np.full(2, TOTAL // 2), np.full(2, TOTAL // 2))


class Curve:
    """Counts at a strength, each asked for once."""

    def __init__(self, accuracy, first=lambda strength: 0.5):
        self.accuracy, self.first, self.asked, self.passes = accuracy, first, [], 0

    def __call__(self, strengths):
        self.passes += bool(strengths)
        self.asked += list(strengths)
        return [counts(self.accuracy(s), self.first(s)) for s in strengths]

    def grid(self, bounds=(0.0, 2.0)):
        return Grid(self, bounds, lambda: counts(self.accuracy(0.0), self.first(0.0)))


@given(st.floats(0.0, 2.0))
def test_a_single_peak_is_found_to_a_thousandth(peak):
    curve = Curve(lambda s: 1 - 0.3 * abs(s - peak))
    best = curve.grid().best(ACCURACY)
    assert best.strength == pytest.approx(peak, abs=1e-3)
    assert curve.passes <= 3
    # Twice ten new ones on either side; two neighbours that tie are both gone around.
    assert len(curve.asked) == len(set(curve.asked)) <= COARSE + 1 + 60


def test_a_peak_between_two_strengths_of_the_grid_is_found_too():
    curve = Curve(lambda s: 1 - 0.3 * abs(s - 1.25))
    assert curve.grid().best(ACCURACY).strength == pytest.approx(1.25, abs=1e-3)


def test_strengths_are_round_numbers():
    curve = Curve(lambda s: 1 - 0.3 * abs(s - 0.3))
    assert curve.grid().best(ACCURACY).strength == 0.3
    assert {0.1, 0.2, 0.3, 0.7, 1.1, 2.0} <= set(curve.asked)


def test_the_middle_of_a_plateau():
    best = Curve(lambda s: 0.9 if 0.45 <= s <= 1.05 else 0.5).grid().best(ACCURACY)
    assert best.strength == 0.7  # of 0.7 and 0.8, beside the middle, the one nearer 0
    assert best.interval == (pytest.approx(0.45, abs=0.002), pytest.approx(1.05, abs=0.002))
    assert not best.at_bound


def test_of_two_plateaus_the_wider_then_the_nearer_to_0():
    best = Curve(lambda s: 0.9 if s <= 0.2 or 1.0 <= s <= 1.5 else 0.5).grid().best(ACCURACY)
    assert 1.0 <= best.strength <= 1.5
    best = Curve(lambda s: 0.9 if s in (0.4, 1.6) else 0.5).grid().best(ACCURACY)
    assert best.strength == 0.4
    best = Curve(lambda s: 0.9 if s in (-0.5, 1.0) else 0.5).grid((-1.0, 1.0)).best(ACCURACY)
    assert best.strength == -0.5


def test_bounds_are_told():
    grid = Curve(lambda s: 0.1 * s).grid((0.5, 2.0))
    best = grid.best(ACCURACY)
    assert (best.strength, best.at_bound, best.interval) == (2.0, True, (2.0, 2.0))
    assert ACCURACY(grid.baseline) == 0.0
    flat = Curve(lambda s: 0.5).grid().best(ACCURACY)
    assert flat.interval == (0.0, 2.0)


def test_constraints_limit_the_choice():
    curve = Curve(lambda s: 0.5 + 0.2 * s, first=lambda s: 0.5 - 0.2 * s)
    rule = Constraint.parse("recall[0] >= baseline - 0.1")
    recall = COUNT_METRICS["accuracy"].__class__("r", support=1, average="one", of_class=0)
    rule = Constraint(rule.text, recall, rule.relation, rule.factor, rule.offset)
    best = curve.grid().best(ACCURACY, subject_to=[rule])
    allowed = [s for s in np.linspace(0, 2, 2001)
               if recall(curve([s])[0]) >= recall(curve([0.0])[0]) - 0.1]  # fmt: skip
    assert best.strength == pytest.approx(max(allowed), abs=1e-3)
    never = Constraint("accuracy >= 2", ACCURACY, ">=", 0.0, 2.0)
    with pytest.raises(InfeasibleError, match="the nearest is"):
        curve.grid().best(ACCURACY, subject_to=[never])
    low = Constraint("accuracy <= 0.5", ACCURACY, "<=", 0.0, 0.5)
    high = Constraint("accuracy >= 0.9", ACCURACY, ">=", 0.0, 0.9)
    with pytest.raises(InfeasibleError, match="satisfies together"):
        curve.grid().best(ACCURACY, subject_to=[low, high])


def test_a_constraint_that_holds_between_the_coarse_points_only():
    """Feasible from 0.443 to 0.447 alone, and nearly so beside it."""
    curve = Curve(lambda s: 0.9 - abs(s - 0.445))
    rule = Constraint("accuracy >= 0.898", ACCURACY, ">=", 0.0, 0.898)
    assert 0.443 <= curve.grid().best(ACCURACY, subject_to=[rule]).strength <= 0.447


def test_the_curve_is_what_was_evaluated():
    curve = Curve(lambda s: 1 - 0.3 * abs(s - 0.6))
    grid = curve.grid()
    best = grid.best(ACCURACY)
    strengths, values = grid.curve(ACCURACY)
    assert strengths.tolist() == sorted(curve.asked)
    assert values.max() == best.value
    np.testing.assert_allclose(values, 1 - 0.3 * np.abs(strengths - 0.6), atol=2e-6)
