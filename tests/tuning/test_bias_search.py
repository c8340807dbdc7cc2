from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import oracles
from tests.tuning.bias_cases import (
    F2,
    METRICS,
    ROUNDING,
    UNIT,
    BiasCase,
    arrays_only,
    bias_cases,
    exhaustive,
    midpoints,
    random_biases,
    with_bias,
)
from tests.tuning.shared import assert_same_counts, rows_of

from reprior import ClassCounts
from reprior.metrics import COUNT_METRICS
from reprior.tuning import (
    Ascent,
    Columns,
    Goal,
    TopTwo,
    best_pair,
    bias_search,
    line_of,
    pairs_worth_trying,
    tallies_of,
)
from reprior.tuning.bias_search import OUTSIDE


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
    assert ascent._radius() == leads[int(bias_search.DOUBTFUL * 1000)] / 2


def data_of(rng, n=600, k=37, *, weighted=False, dtype="f4"):
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    scores = rng.normal(size=(n, k)).astype(dtype)
    return Columns(rows_of(scores, rng.integers(k, size=n), weights))


@pytest.mark.parametrize("k", [2, 15, 16, 17, 37])
def test_columns_are_the_columns_in_any_order(rng, k):
    data = data_of(rng, k=k)
    for j in rng.permutation(k):
        column = data.column(int(j))
        np.testing.assert_array_equal(column, data.rows[:, j])
        assert column.flags.c_contiguous


def test_neighbouring_columns_are_read_once(rng, monkeypatch):
    data = data_of(rng)
    first = data.column(17)
    assert data.column(30).base is first.base
    assert data.column(33).base is not first.base


def test_the_scores_of_the_caller_stay_as_they_are(rng):
    scores = rng.normal(size=(5, 3))
    data = Columns(rows_of(scores, np.zeros(5, np.int64), None))
    assert np.shares_memory(data.rows, scores)
    assert scores.flags.writeable
    assert not data.rows.flags.writeable


def test_predictions_are_the_first_arg_max_of_scores_and_biases(rng):
    data = data_of(rng, n=bias_search.SAMPLES_AT_ONCE * 2 + 3, k=4)
    biases = np.array([0.0, -np.inf, 0.5, 0.25])
    want = (data.rows.astype(np.float64) + biases).argmax(axis=1)
    np.testing.assert_array_equal(data.predictions(biases), want)
    level = Columns(rows_of(np.zeros((3, 4)), np.zeros(3, np.int64), None))
    assert level.predictions(np.zeros(4)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_predictions(rng, weighted):
    data = data_of(rng, k=5, weighted=weighted)
    predictions = rng.integers(5, size=600)
    want = ClassCounts.from_predictions(
        data.labels, predictions, n_classes=5, sample_weight=data.weights
    )
    assert_same_counts(data.counts(predictions), want)


@pytest.mark.parametrize("weighted", [False, True])
def test_some_of_the_samples(rng, weighted):
    data, index = data_of(rng, k=3, weighted=weighted), np.array([5, 2, 9])
    some = data.taken(index)
    assert (some.n_samples, some.n_classes) == (3, 3)
    np.testing.assert_array_equal(some.rows, data.rows[index])
    np.testing.assert_array_equal(some.labels, data.labels[index])
    if weighted:
        np.testing.assert_array_equal(some.weights, data.weights[index])
    else:
        assert some.weights is None


MOVES = st.lists(st.tuples(st.integers(0, 4), st.integers(-8, 8)), max_size=8)


@pytest.fixture(scope="module", params=[True, False], ids=["native", "arrays"])
def either_kernel(request):
    with nullcontext() if request.param else arrays_only():
        yield


def places(data, biases):
    """Return both classes and their scores, by sorting every row."""
    found = []
    for row in data.rows.astype(np.float64) + biases:
        by = sorted(range(row.size), key=lambda k: (-row[k], k))
        found.append((by[0], by[1], row[by[0]], row[by[1]]))
    return found


def assert_in_place(two):
    columns = two.first, two.second, two.top, two.following
    got = list(zip(*(column.tolist() for column in columns), strict=True))
    for (a, b, x, y), want in zip(got, places(two.data, two.biases), strict=True):
        assert (a, x, y) == (want[0], want[2], want[3])
        assert b == want[1] or y == -np.inf  # classes out of play have no order
        assert a != b


@given(case=bias_cases(), moves=MOVES)
def test_places_are_those_of_sorted_rows_whatever_moves(either_kernel, case, moves):
    two = TopTwo(case.data, case.start)
    assert_in_place(two)
    for k, steps in moves:
        two.move(k % case.n_classes, steps * UNIT / 2)
        assert_in_place(two)
        predictions = (np.asarray(case.scores, np.float64) + two.biases).argmax(axis=1)
        assert_same_counts(two.counts(), case.data.counts(predictions))


@pytest.mark.usefixtures("either_kernel")
def test_many_samples_and_a_class_out_of_play(rng):
    data = Columns(rows_of(rng.normal(size=(700, 9)), rng.integers(9, size=700), None))
    start = np.zeros(9)
    start[4] = -np.inf
    two = TopTwo(data, start)
    for k in (0, 3, 8, 3, 3, 7):
        two.move(k, float(rng.normal()))
        assert_in_place(two)
    assert 4 not in two.first
    assert start[3] == 0.0  # the caller's own


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
    data = Columns(rows_of(case_scores, np.array([0, 1]), None))
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
    monkeypatch.setattr(bias_search, "AT_ONCE", 1)
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
