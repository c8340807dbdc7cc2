from __future__ import annotations

import pickle

import numpy as np
import pytest

from reprior.exceptions import InfeasibleError, LabelsError, OptionError, RepriorError
from reprior.profile import (
    EQUAL_VALUES,
    Constraint,
    Steps,
    best_interval,
    best_of_steps,
    feasible_steps,
    middle,
    pareto_front,
    widest_best,
)


def steps(start, value):
    return Steps(np.array(start, float), np.array(value, float))


# ----------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    "text, metric, relation, threshold",
    [
        ("mean_iou >= baseline - 0.005", "mean_iou", ">=", 0.495),
        ("accuracy>=baseline", "accuracy", ">=", 0.5),
        (" accuracy >= 0.98 * baseline ", "accuracy", ">=", 0.49),
        ("accuracy >= 0.5*baseline+1e-2", "accuracy", ">=", 0.26),
        ("recall[2] >= .9", "recall[2]", ">=", 0.9),
        ("recall [ 2 ] >= 0.9", "recall[2]", ">=", 0.9),
        ("precision[0] <= 0.25", "precision[0]", "<=", 0.25),
        ("macro_f1 >= -1", "macro_f1", ">=", -1.0),
        ("macro_f1 >= -0.5 * baseline - 2.", "macro_f1", ">=", -2.25),
    ],
)
def test_constraints_read_as_they_are_written(text, metric, relation, threshold):
    rule = Constraint.parse(text)
    assert (rule.metric, rule.relation) == (metric, relation)
    assert rule.threshold(baseline=0.5) == pytest.approx(threshold)
    assert rule.text == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "", "accuracy", "accuracy > 0.5", "accuracy >= ", ">= 0.5", "accuracy == 0.5",
        "0.5 <= accuracy", "accuracy >= base", "accuracy >= 0.5 * 0.5", "accuracy >= baseline 0.1",
        "accuracy >= 2 * baseline * 0.9", "accuracy >= nan", "accuracy >= 0.5 or mean_iou >= 0.5",
        "recall[] >= 0.5", 5, 0.5, {"accuracy": 0.5}, b"accuracy >= 0.5", [["accuracy >= 0.5"]],
    ],
)  # fmt: skip
def test_malformed_constraints_are_refused_with_an_example(text):
    with pytest.raises(OptionError, match="must read like 'mean_iou >= baseline"):
        Constraint.parse_all(text)


def test_none_one_or_several():
    rule = Constraint.parse("accuracy >= 0.5")
    assert Constraint.parse_all(None) == []
    assert Constraint.parse_all([]) == []
    assert Constraint.parse_all("accuracy >= 0.5") == [rule]
    assert Constraint.parse_all(rule) == [rule]
    assert Constraint.parse_all(("accuracy >= 0.5", rule)) == [rule, rule]


def test_a_value_of_exactly_the_threshold_holds_whatever_rounding_does():
    baseline = 0.1 + 0.2
    at_least, at_most = (Constraint.parse(f"accuracy {r} baseline - 0.1") for r in (">=", "<="))
    values = np.array([0.2, 0.2 - 1e-9, 0.2 + 1e-9])
    assert at_least.holds(values, baseline).tolist() == [True, False, True]
    assert at_most.holds(values, baseline).tolist() == [True, True, False]


@pytest.mark.parametrize(
    "text, nearest, strength",
    [
        ("accuracy >= 0.9", "0.75 at strength 1, which misses it by 0.15", 1.0),
        ("accuracy <= 0.1", "0.25 at strength 0, which misses it by 0.15", 0.0),
    ],
)
def test_an_impossible_constraint_says_what_is_nearest(text, nearest, strength):
    rule = Constraint.parse(text)
    with pytest.raises(InfeasibleError) as caught:
        rule.refuse(steps([0, 1, 2], [0.25, 0.75, 0.5]), baseline=0.5)
    assert f"Got {text!r}, a threshold of {text[-3:]}; the nearest is {nearest}." in str(
        caught.value
    )
    assert caught.value.strength == strength
    assert caught.value.shortfall == pytest.approx(0.15)


def test_the_nearest_strength_is_the_middle_of_the_widest_interval():
    rule = Constraint.parse("accuracy >= 0.9")
    with pytest.raises(InfeasibleError, match=r"0\.75 at strength 2\.5, which misses") as caught:
        rule.refuse(steps([0, 0.5, 1, 2], [0.25, 0.75, 0.5, 0.75]), baseline=0.5, high=3.0)
    assert caught.value.strength == 2.5


def test_what_is_missed_and_by_how_much():
    at_least, at_most = Constraint.parse("accuracy >= 0.5"), Constraint.parse("accuracy <= 0.5")
    values = np.array([0.25, 0.5, 0.75])
    assert at_least.misses(values, 0.0).tolist() == [0.25, 0.0, 0.0]
    assert at_most.misses(values, 0.0).tolist() == [0.0, 0.0, 0.25]
    assert at_least.misses(0.5 - 1e-13, 0.0) == 0.0


def limits(*values, start=(0.0, 1.0, 1.5)):
    """Constraints of at least 0.9 on recalls that go by these steps."""
    rules = [Constraint.parse(f"recall[{k}] >= 0.9") for k in range(len(values))]
    return [(rule, steps(start, each), 0.5) for rule, each in zip(rules, values, strict=True)]


WORDS = (
    "Got constraints that no strength satisfies together, {}. The nearest is strength 1.25, where "
    "the largest miss is least: "
)


def test_constraints_that_exclude_each_other_say_what_is_nearest():
    several = limits([0.4, 0.65, 1.0], [0.95, 0.775, 0.5], [1.0, 1.0, 1.0])
    with pytest.raises(InfeasibleError, match="no strength satisfies together") as caught:
        feasible_steps(steps([0.0], [0.5]), several, 2.0)
    assert WORDS.format("though each can be satisfied alone") + (
        "'recall[0] >= 0.9' missed by 0.25 (0.65), 'recall[1] >= 0.9' missed by 0.125 (0.775), "
        "'recall[2] >= 0.9' kept (1). Loosen what is missed, widen `bounds`, or tune a bias for "
        "every class (tune='per_class'), which may satisfy more."
    ) in str(caught.value)
    assert (caught.value.strength, caught.value.shortfall) == (1.25, 0.25)


def test_what_is_nearest_does_not_depend_on_the_order_of_the_constraints():
    several = limits([0.4, 0.65, 0.8], [0.95, 0.775, 0.05])  # the first is not possible alone
    found = []
    for order in (several, several[::-1]):
        with pytest.raises(InfeasibleError) as caught:
            feasible_steps(steps([0.0], [0.5]), order, 8.0)
        assert WORDS.format("and 'recall[0] >= 0.9' not even alone") in str(caught.value)
        assert "bounds`," not in str(caught.value)  # wider ones are not tried
        found.append((caught.value.strength, caught.value.shortfall))
    assert found[0] == found[1] == (1.25, pytest.approx(0.25))


def test_constraints_that_hold_together_somewhere_are_cut_where_they_do():
    several = limits([0.95, 0.95, 0.2], [0.5, 1.0, 1.0])
    cut, feasible = feasible_steps(steps([0.0, 1.2], [0.5, 0.6]), several, 2.0)
    assert cut.start.tolist() == [0.0, 1.0, 1.2, 1.5]
    assert cut.value.tolist() == [0.5, 0.5, 0.6, 0.6]
    assert feasible.tolist() == [False, True, True, False]


def test_who_writes_per_cent_is_told_of_fractions():
    for text, hint in (("accuracy >= 90", True), ("accuracy <= -1", False)):
        with pytest.raises(InfeasibleError) as caught:
            Constraint.parse(text).refuse(steps([0, 1], [0.25, 0.75]), baseline=0.5, high=2.0)
        assert ("Metrics are fractions: 90 % is 0.9. Loosen" in str(caught.value)) == hint


def test_a_class_goes_by_its_name_where_names_are_known():
    rule = Constraint.parse("recall [ traffic light ] >= 0.9")
    assert rule.metric == "recall[traffic light]"
    names = ["road", "traffic light"]
    found = rule.resolved(n_classes=2, classes=names)
    assert found.metric.of_class == 1
    assert found.text == rule.text
    assert found.resolved(n_classes=2, classes=names) == found
    assert Constraint.parse("recall[1] >= 0.9").resolved(n_classes=2).metric.of_class == 1
    with pytest.raises(LabelsError, match="must name a class that exists, one of 'road'"):
        Constraint.parse("recall[sky] >= 0.9").resolved(n_classes=2, classes=names)


@pytest.mark.parametrize("text", ["recall[sky] >= 0.9", "recall >= 0.9", "nll >= 0.9", "ab >= 1"])
def test_a_metric_that_is_none_is_said_to_be_of_the_constraint(text):
    with pytest.raises(RepriorError, match=r"^`subject_to` must"):
        Constraint.parse(text).resolved(n_classes=3)


def test_the_error_survives_a_process_boundary():
    error = InfeasibleError("no", strength=0.5, shortfall=0.25)
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.strength, back.shortfall, back.biases) == ("no", 0.5, 0.25, None)


def test_a_possible_constraint_is_not_refused():
    Constraint.parse("accuracy >= 0.7").refuse(steps([0, 1], [0.5, 0.75]), baseline=0.5)


# ---------------------------------------------------------------------------- best interval


@pytest.mark.parametrize(
    "start, value, high, want",
    [
        ([0.0], [0.5], 2.0, (0.0, 2.0)),
        ([0, 1, 1.5], [1, 2, 1], 2.0, (1.0, 1.5)),
        ([0, 1, 1.25, 1.75], [0, 1, 0, 1], 2.0, (1.0, 1.25)),  # equally wide: nearest 0
        ([0, 0.25, 1, 1.5], [1, 0, 1, 0], 2.0, (1.0, 1.5)),  # the widest
        ([0, 1, 1.25, 1.5], [0, 1, 1, 0], 2.0, (1.0, 1.5)),  # neighbours are one interval
        ([-2, -1.5, 1, 1.5], [1, 0, 1, 0], 2.0, (1.0, 1.5)),
        ([-2, -1, -0.5, 1.5], [0, 1, 0, 1], 2.0, (-1.0, -0.5)),
        ([-2, -0.5, 0.5, 1, 2], [0, 1, 0, 1, 0], 3.0, (-0.5, 0.5)),  # around 0 is distance 0
        ([0, 1, 2], [0, 0, 1], 2.0, (2.0, 2.0)),  # the upper bound alone
    ],
)
def test_the_widest_then_the_one_nearest_0(start, value, high, want):
    for feasible in (None, np.ones(len(start), bool)):
        a, b, top = best_interval(steps(start, value), high, feasible)
        assert (a, b) == want
        assert top == max(value)


def test_values_within_rounding_are_one_interval():
    near = 1.0 - EQUAL_VALUES / 2
    assert best_interval(steps([0, 1, 1.5], [near, 1.0, 0.5]), 2.0) == (0.0, 1.5, 1.0)


def test_only_the_feasible_counts():
    feasible = np.array([True, False, True])
    assert best_interval(steps([0, 1, 1.5], [1, 2, 0]), 2.0, feasible) == (0.0, 1.0, 1.0)
    with pytest.raises(InfeasibleError, match="no strength satisfies together"):
        best_interval(steps([0, 1, 1.5], [1, 2, 0]), 2.0, np.zeros(3, bool))


def test_a_sliver_that_is_better_does_not_take_the_place_of_0():
    # Wider than what 0 has for itself, and no prediction could aim at it.
    found = best_interval(steps([0, 5e-324, 1, 1 + 2e-16], [2, 1, 3, 1]), 2.0)
    assert found == (0.0, 5e-324, 2.0)


def test_a_narrow_step_counts_only_where_it_is_spared():
    narrow = steps([0, 1e-12, 1], [2, 1, 0])
    assert best_interval(narrow, 2.0) == (0.0, 1e-12, 2.0)
    assert best_interval(narrow, 2.0, spared=np.nan) == (0.0, 1.0, 1.0)


def test_the_middle_is_inside():
    above = np.nextafter(1.0, 2.0)
    higher = np.nextafter(above, 2.0)
    assert middle(0.0, 1.0) == 0.5
    assert middle(1.0, above) == 1.0
    assert middle(above, higher) == above
    assert middle(5e-324, 1e-323) == 5e-324
    assert middle(2.0, 2.0) == 2.0
    np.testing.assert_array_equal(
        middle(np.array([0.0, above]), np.array([1.0, higher])), [0.5, above]
    )


# ---------------------------------------------------------------------------------- pareto


def test_the_front_falls_in_a_and_rises_in_b():
    a = steps([0, 1, 2, 3], [3, 2, 2, 1])
    b = steps([0, 1, 2, 3], [1, 1.5, 2, 1.9])
    front = pareto_front(a, b, 4.0)
    assert front.strengths.tolist() == [0.5, 2.5]
    assert front.values_a.tolist() == [3, 2]
    assert front.values_b.tolist() == [1, 2]
    assert len(front) == 2


def test_of_equal_points_the_widest_is_shown():
    a, b = steps([0, 1, 2, 4], [1, 0, 1, 0]), steps([0, 1, 2, 4], [1, 0, 1, 0])
    front = pareto_front(a, b, 4.5)
    assert front.strengths.tolist() == [3.0]


def test_two_metrics_may_have_steps_of_their_own():
    front = pareto_front(steps([0, 1], [2, 1]), steps([0, 0.5, 1.5], [0, 1, 3]), 2.0)
    assert front.strengths.tolist() == [0.75, 1.75]
    assert front.values_a.tolist() == [2, 1]
    assert front.values_b.tolist() == [1, 3]


# ---------------------------------------------------------------- ties and switches


def test_strength_0_needs_no_place_in_the_widest_interval():
    curve = steps([-1, -0.5, 0.5, 1, 2], [0.9, 0.8, 0.9, 0.8, 0.9])
    assert best_of_steps(curve, (-1.0, 9.0)).strength == 5.5
    near = steps([-1, -0.5, 0.5, 1, 2], [0.8, 0.9 - EQUAL_VALUES / 2, 0.8, 0.8, 0.9])
    best = best_of_steps(near, (-1.0, 9.0))
    assert (best.strength, best.interval, best.at_bound) == (0.0, (-0.5, 0.5), False)
    assert best.value == 0.9 - EQUAL_VALUES / 2
    assert widest_best(near, (-1.0, 9.0)).interval == (2.0, 9.0)


def test_the_interval_of_strength_0_joins_equally_good_steps():
    curve = steps([-3, -2, -1, 0, 1, 2], [0.5, 0.9, 0.9 + EQUAL_VALUES / 4, 0.9, 0.9, 0.1])
    assert best_of_steps(curve, (-3.0, 3.0)).interval == (-2.0, 2.0)
    assert best_of_steps(curve, (-3.0, 1.5)).interval == (-2.0, 2.0)
    flat = steps([-1.0], [0.5])
    assert best_of_steps(flat, (-1.0, 0.0)).interval == (-1.0, 0.0)


@pytest.mark.parametrize("bounds", [(0.5, 2.0), (-2.0, -0.5), (5e-324, 2.0)])
def test_strength_0_outside_the_bounds_is_not_chosen(bounds):
    curve = steps([bounds[0]], [0.5])
    assert best_of_steps(curve, bounds) == widest_best(curve, bounds)
    assert best_of_steps(curve, bounds).at_bound


def test_strength_0_must_satisfy_the_constraints():
    curve, feasible = steps([0, 1, 2], [0.9, 0.5, 0.9]), np.array([False, True, True])
    assert best_of_steps(curve, (0.0, 3.0), feasible).strength == 2.5
    assert best_of_steps(curve, (0.0, 3.0), ~feasible).strength == 0.0


def test_a_switch_in_the_middle_moves_the_strength_to_the_widest_gap():
    curve = steps([0, 1, 3], [0.5, 0.9, 0.5])

    def strength(*switches):
        return widest_best(curve, (0.0, 4.0), switches=np.array(switches, float)).strength

    assert strength() == strength(1.2, 2.5) == 2.0
    assert strength(0.1, 3.5, 2.0) == 1.5  # of two gaps the one nearest 0
    assert strength(2.0 + 5e-10, 1.5) == pytest.approx(2.5)
    assert strength(2.0 + 5e-9) == 2.0
    assert strength(2.0, 2.0, 1.25, 2.2) == 2.6
    assert widest_best(steps([0, 2], [0.1, 0.5]), (0.0, 2.0), switches=np.array([2.0])) == (
        widest_best(steps([0, 2], [0.1, 0.5]), (0.0, 2.0))
    )
