from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.tuning.shared import ROUNDING, cases, exact_cases, random_case, rows_of

from reprior import ClassCounts, CountMetric
from reprior.core import kernels
from reprior.metrics import COUNT_METRICS, METRIC_NAMES, find_metric
from reprior.profile import Steps, Switches, Table, run_pass, value_of
from reprior.profile.sweep import sweep

NAMES = [*METRIC_NAMES, "macro_fbeta(2)", "weighted_fbeta(0.5)"]
ODD = [
    CountMetric("macro_f2", gain=5, support=4, predicted=1),
    CountMetric("macro_specificity", support=1, complement=True),
    CountMetric("worst_iou", support=1, predicted=1, true_positive=-1, mean="least"),
    CountMetric("geometric_f1", gain=2, support=1, predicted=1, mean="geometric"),
    CountMetric("some_precision", predicted=1, classes=(0, 1)),
    CountMetric(
        "some_weighted_f1", gain=2, support=1, predicted=1, average="weighted", classes=(0, 1)
    ),
]


def prepared(scores, labels, slopes, bounds, weights=None):
    """Return the counts at the lower bound, and the switches."""
    counts, sums, switches, pairs = run_pass(
        rows_of(np.asarray(scores), labels, weights), np.asarray(slopes, float), bounds
    )
    table = counts if sums is None else sums
    start = ClassCounts(
        table[Table.TRUE_POSITIVE], table[Table.PREDICTED], table[Table.SUPPORT],
        n_predicted=counts[Table.PREDICTED], n_labelled=counts[Table.SUPPORT],
        pairs=pairs.start,
    )  # fmt: skip
    return start, switches


def both(start, switches, low, metric):
    """Return the sweep of the kernel and that of array code."""
    assert kernels.native is not None
    native = sweep(start, switches, low, metric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native", None)
        arrays = sweep(start, switches, low, metric)
    return native, arrays


def metrics_of(start):
    labelled = np.flatnonzero(start.labelled)[0]
    one = [f"{ratio}[{labelled}]" for ratio in ("f1", "precision", "specificity", "fbeta(2)")]
    named = [find_metric(name, n_classes=start.n_classes) for name in (*NAMES, *one)]
    return [*named, *ODD]


@settings(max_examples=120)
@given(exact_cases())
def test_the_native_sweep_equals_the_array_sweep_to_the_bit(case):
    start, switches = prepared(case.scores, case.labels, case.slopes, case.bounds)
    for metric in metrics_of(start):
        a, b = both(start, switches, case.bounds[0], metric)
        np.testing.assert_array_equal(a.start, b.start)
        np.testing.assert_array_equal(a.value, b.value)


@given(cases(weighted=True))
def test_the_native_sweep_equals_the_array_sweep_with_weights(case):
    start, switches = prepared(case.scores, case.labels, case.slopes, case.bounds, case.weights)
    for metric in metrics_of(start):
        a, b = both(start, switches, case.bounds[0], metric)
        # The last bits of a sum of weights may divide a step in two.
        strengths = np.union1d(a.start, b.start)
        np.testing.assert_allclose(a.at(strengths), b.at(strengths), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("n_classes", [2, 30, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_step_is_the_metric_of_its_counts(rng, n_classes, weighted):
    case = random_case(rng, 80, n_classes, weighted=weighted)
    profile = case.profile()
    for metric in metrics_of(profile.baseline):
        strengths, values = profile.curve(metric)
        want = [metric(profile.counts(x)) for x in strengths]
        np.testing.assert_allclose(values, want, rtol=0, atol=ROUNDING)


def test_counted_switches_weigh_as_much_as_they_count(rng):
    case = random_case(rng, 50, 4)
    part = case.rows(slice(0, 20)).profile()
    whole = part + case.rows(slice(20, None)).profile()
    left = whole - case.rows(slice(20, None)).profile()
    assert left._switches.count is not None
    for metric in metrics_of(left.baseline):
        a, b = both(
            left._class_counts(Table.TRUE_POSITIVE, Table.PREDICTED), left._switches, 0.0, metric
        )
        np.testing.assert_array_equal(a.start, b.start)
        np.testing.assert_array_equal(a.value, b.value)
        np.testing.assert_array_equal(part.curve(metric)[1], left.curve(metric)[1])


@pytest.mark.parametrize("native", [True, False])
def test_weights_that_cancel_do_not_decide_a_precision(request, native):
    # Class 0 loses 0.1, 0.2 and 0.3 one by one: 2.8e-17 of it would remain, all of it right.
    if not native:
        request.getfixturevalue("without_native")
    for weights in ([0.1, 0.2, 0.3], [0.3, 0.1, 0.2], [0.7, 0.1, 0.3]):
        start, switches = prepared(
            [[0.25, 0.0], [0.5, 0.0], [0.75, 0.0]], [0, 0, 0], [0.0, 1.0], (0.0, 2.0), weights
        )
        for name in ("macro_precision", "precision[0]"):
            steps = sweep(start, switches, 0.0, find_metric(name, n_classes=2))
            assert steps.value[-1] == 0.0


@pytest.mark.parametrize("native", [True, False])
def test_a_class_may_leave_and_return_at_one_strength(request, native):
    # The only sample of class 1 goes as another comes: whichever is met first, its weight is 2.
    if not native:
        request.getfixturevalue("without_native")
    for order in ([0, 1], [1, 0]):
        columns = [np.array([1.0, 1.0]), np.array([1, 1]), np.array([1, 0]), np.array([2, 1])]
        weight = np.array([5.0, 2.0])
        switches = Switches(*(c[order] for c in columns), weight=weight[order])
        start = ClassCounts(
            np.array([0.0, 5.0, 0.0]), np.array([2.0, 5.0, 0.0]), np.array([0.0, 7.0, 0.0]),
            n_predicted=np.array([1, 1, 0]), n_labelled=np.array([0, 2, 0]),
        )  # fmt: skip
        iou = sweep(start, switches, 0.0, find_metric("iou[1]", n_classes=3))
        np.testing.assert_allclose(iou.value, [5 / 7, 2 / 7])


@pytest.mark.parametrize("native", [True, False])
def test_a_switch_at_the_lower_bound_itself_holds_there(request, native):
    if not native:
        request.getfixturevalue("without_native")
    switches = Switches(np.array([1.0, 2.0]), *(np.array([k, k]) for k in (1, 0, 1)))
    start = ClassCounts(np.array([0, 0]), np.array([2, 0]), np.array([0, 2]))
    steps = sweep(start, switches, 1.0, COUNT_METRICS["accuracy"])
    assert steps.start.tolist() == [1.0, 2.0]
    assert steps.value.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("name", NAMES)
def test_without_switches_the_value_is_that_of_the_counts(name):
    counts = ClassCounts(np.array([3, 1, 0]), np.array([4, 2, 0]), np.array([3, 3, 0]))
    metric = find_metric(name, n_classes=3)
    assert value_of(counts, metric) == pytest.approx(metric(counts), abs=ROUNDING)
    empty = np.empty(0, np.int32)
    for steps in both(counts, Switches(np.empty(0), empty, empty, empty), 0.5, metric):
        assert steps.start.tolist() == [0.5]
        assert steps.value[0] == value_of(counts, metric)


def test_equal_counts_give_equal_values_by_any_path(rng):
    # There and back: the first and the last step have the same counts, so the same bits.
    n = 400
    label, loser, winner = (rng.integers(9, size=n) for _ in range(3))
    switches = Switches(
        np.concatenate([np.arange(n), n + rng.permutation(n)]) / n,
        *(np.concatenate(pair).astype(np.int32) for pair in
          ((label, label), (loser, winner), (winner, loser))),
    )  # fmt: skip
    start = ClassCounts(*(np.full(9, c) for c in (100, 500, 300)))
    for metric in metrics_of(start):
        for steps in both(start, switches, 0.0, metric):
            assert steps.value[-1] == value_of(start, metric)


def test_steps_hold_from_their_start_to_the_next():
    steps = Steps(np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0, 7.0]))
    assert steps.at([0.0, 0.5, 1.0, 1.999, 2.0, 9.0]).tolist() == [5, 5, 6, 6, 7, 7]
    assert steps.at(-1.0) == 5.0


def test_classes_beyond_16_bits():
    many = 70_000
    columns = (np.array([k]) for k in (many - 1, 0, many - 1))
    switches = Switches(np.array([1.0]), *columns)
    zeros = np.zeros(many, np.int64)
    start = ClassCounts(
        zeros, zeros + (np.arange(many) == 0), zeros + (np.arange(many) == many - 1)
    )
    for steps in both(start, switches, 0.0, COUNT_METRICS["balanced_accuracy"]):
        assert steps.value.tolist() == [0.0, 1.0]


def test_a_class_may_lose_before_it_gains_at_one_position():
    """A sample of class 1 goes from 0 over 1 to 2 at one strength, in either order of the rows."""
    start = ClassCounts(np.array([0, 0, 0]), np.array([1, 1, 0]), np.array([1, 1, 0]))
    after = ClassCounts(np.array([0, 0, 0]), np.array([0, 1, 1]), start.support)
    label, loser, winner = np.array([1, 1]), np.array([1, 0]), np.array([2, 1])
    for order in ([0, 1], [1, 0]):
        columns = (column[order].astype(np.int32) for column in (label, loser, winner))
        switches = Switches(np.full(2, 0.5), *columns)
        for name in NAMES:
            metric = find_metric(name, n_classes=3)
            for steps in both(start, switches, 0.0, metric):
                assert steps.at(1.0) == value_of(after, metric), name
