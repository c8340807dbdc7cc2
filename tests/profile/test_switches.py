"""The table of switches: from it follow all counts."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.tuning.shared import cases, random_case, switch_multiset

import reprior as rp
from reprior.exceptions import ProfileMismatchError
from reprior.profile import AFTER_ZERO, BinnedSwitches, ClassEvents, Switches, binning, grouped
from reprior.profile import switches as switches_module

N_CLASSES = 4
HIGH = 2.0


def plain_events(switches):
    """Sum what happens to each class at each position, one switch at a time."""
    total = {}
    amounts = np.ones(len(switches)) if switches.weight is None else switches.weight
    counts = np.ones(len(switches), int) if switches.count is None else switches.count
    for j in range(len(switches)):
        for klass, sign in ((switches.loser[j], -1), (switches.winner[j], 1)):
            entry = total.setdefault((switches.position[j], klass), np.zeros(4))
            right = klass == switches.label[j]
            amount = amounts[j] if switches.weight is not None else counts[j]
            entry += sign * np.array([counts[j], right * counts[j], amount, right * amount])
    return {key: entry for key, entry in total.items() if entry.any()}


def summed(events):
    """Sum events in the same form."""
    total = {}
    columns = zip(
        events.position, events.klass, events.predicted, events.true_positive,
        events.weighted_predicted, events.weighted_true_positive, strict=True,
    )  # fmt: skip
    for position, klass, *amounts in columns:
        total.setdefault((position, klass), np.zeros(4))
        total[position, klass] += amounts
    return {key: entry for key, entry in total.items() if entry.any()}


def assert_events_equal(a, b):
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_allclose(a[key], b[key], atol=1e-12)


@st.composite
def switch_lists(draw, *, weighted=None):
    n = draw(st.integers(0, 25))
    classes = hnp.arrays(np.int32, n, elements=st.integers(0, N_CLASSES - 1))
    position = draw(
        hnp.arrays(np.float64, n, elements=st.sampled_from([AFTER_ZERO, 0.1, 0.3, 0.5, 1.0, 1.95]))
    )
    loser = draw(classes)
    winner = (loser + draw(hnp.arrays(np.int32, n, elements=st.integers(1, 3)))) % N_CLASSES
    weight = None
    if weighted or (weighted is None and draw(st.booleans())):
        weight = draw(hnp.arrays(np.int64, n, elements=st.integers(1, 4))) / 2.0
    return Switches(position, draw(classes), loser, winner, weight=weight)


def some(switches, index):
    return Switches(**{name: column[index] for name, column in switches.arrays().items()})


# ----------------------------------------------------------------------------------- exact


@given(switch_lists())
def test_events_are_a_loss_and_a_gain_per_switch(switches):
    events = switches.events
    assert (np.diff(events.position) >= 0).all()
    assert_events_equal(summed(events), plain_events(switches))
    assert events.predicted.dtype.kind == "i"


@given(switch_lists(), st.integers(0, 25))
def test_parts_add_up_and_subtract_away(switches, cut):
    a, b = some(switches, slice(None, cut)), some(switches, slice(cut, None))
    both = a.plus(b)
    assert switch_multiset(both) == switch_multiset(switches)
    assert both.total == switches.total == len(switches)
    for left, part in (
        (both.minus(b), a),
        (both.minus(a), b),
        (both.minus(both), both.minus(both)),
    ):
        assert left.total == part.total
        assert_events_equal(summed(left.events), plain_events(part))
    again = both.minus(b).plus(b)
    assert again.total == both.total
    assert_events_equal(summed(again.events), plain_events(both))


def test_equal_switches_are_counted_one_by_one():
    one = Switches(np.array([1.0]), *(np.array([k], np.int32) for k in (1, 0, 1)))
    three = one.plus(one).plus(one)
    left = three.minus(one)
    assert (len(left), left.total) == (1, 2)
    assert left.minus(one).minus(one).total == 0
    with pytest.raises(ProfileMismatchError, match="only be subtracted from one that contains it"):
        one.minus(three)


@pytest.mark.parametrize("column, value", [("position", 0.5), ("label", 2), ("winner", 3)])
def test_another_switch_is_not_a_part(column, value):
    one = Switches(np.array([1.0]), *(np.array([k], np.int32) for k in (1, 0, 1)))
    other = Switches(**(one.arrays() | {column: np.array([value])}))
    with pytest.raises(ProfileMismatchError, match="only be subtracted"):
        one.minus(other)


def test_the_same_switch_with_another_weight_is_not_a_part():
    columns = [np.array([1.0]), *(np.array([k], np.int32) for k in (1, 0, 1))]
    light, heavy = (Switches(*columns, weight=np.array([w])) for w in (1.0, 2.0))
    for resolution in (None, 0.25):
        a, b = (
            s if resolution is None else BinnedSwitches.of(s, resolution, HIGH)
            for s in (light, heavy)
        )
        with pytest.raises(ProfileMismatchError, match="only be subtracted"):
            b.minus(a)
        assert b.plus(a).minus(a).total == 1


def test_errors_do_not_keep_what_they_were_raised_from():
    # An exception made once and raised often collects a traceback, and with it whole profiles.
    one = Switches(np.array([1.0]), *(np.array([k], np.int32) for k in (1, 0, 1)))
    caught = []
    for _ in range(2):
        with pytest.raises(ProfileMismatchError) as error:
            one.minus(one.plus(one))
        caught.append(error.value)
    assert caught[0] is not caught[1]


@given(switch_lists(), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.3, HIGH]), st.booleans())
def test_gains_are_the_sum_of_all_events_so_far(switches, strength, counted):
    if counted:
        switches = replace(switches, count=np.arange(1, len(switches) + 1))
    expected = np.zeros((4, N_CLASSES))
    for (position, klass), entry in plain_events(switches).items():
        expected[:, klass] += entry * (position <= strength)
    with mock.patch.object(switches_module, "SWITCHES_AT_ONCE", 3):
        found = switches.gains(strength, N_CLASSES)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert found.predicted.dtype == found.true_positive.dtype == np.int64
    binned = BinnedSwitches.of(switches, 0.25, HIGH)
    for point in (0.5, HIGH):
        np.testing.assert_allclose(
            binned.gains(point, N_CLASSES), switches.gains(point, N_CLASSES), atol=1e-9
        )


@given(switch_lists())
def test_sorted_ones_are_not_copied(switches):
    ordered = switches.ordered
    assert ordered.ordered is ordered
    right = (ordered.label == ordered.loser) | (ordered.label == ordered.winner)
    assert (ordered.hits is ordered) == right.all()
    assert switch_multiset(ordered.hits) == switch_multiset(switches.hits)
    assert (np.diff(ordered.hits.position) >= 0).all()


@given(switch_lists(), st.integers(0, 20), st.integers(0, 20))
def test_drained_parts_are_all_of_them_by_strength(switches, a, b):
    index = np.arange(len(switches))
    cuts = sorted((a % (len(switches) + 1), b % (len(switches) + 1)))
    parts = [some(switches, part) for part in np.split(index, cuts)]
    consumed = Switches.consume(given := list(parts))
    assert given == []
    assert switch_multiset(consumed) == switch_multiset(switches)
    assert consumed.is_ordered
    assert (consumed.weight is None) == (switches.weight is None)


def test_drained_parts_keep_their_counts():
    once = Switches(np.array([0.5, 0.1]), *np.array([[0, 1], [0, 1], [1, 0]], np.int32))
    twice = replace(once, count=np.array([2, 3]))
    consumed = Switches.consume([once, twice])
    assert consumed.total == 7
    assert consumed.position.tolist() == [0.1, 0.1, 0.5, 0.5]
    assert sorted(consumed.count.tolist()) == [1, 1, 2, 3]


def test_arrays_and_back():
    switches = Switches(
        np.array([1.0, 1.0]), *(np.array([k, k], np.int32) for k in (1, 0, 1)),
        weight=np.array([1.0, 0.5]),
    )  # fmt: skip
    again = Switches.from_arrays(switches.arrays())
    assert switch_multiset(again) == switch_multiset(switches)
    binned = BinnedSwitches.of(switches, 0.25, HIGH)
    back = BinnedSwitches.from_arrays(binned.arrays())
    assert_events_equal(summed(back.events), summed(binned.events))
    assert back.mass.tolist() == binned.mass.tolist() == [1.5]


def test_no_events():
    assert ClassEvents.none().position.size == 0
    nothing = Switches.concatenate([Switches(np.empty(0), *[np.empty(0, np.int32)] * 3)])
    assert BinnedSwitches.of(nothing, 0.1, HIGH).total == 0
    assert (
        BinnedSwitches.of(nothing, 0.1, HIGH).minus(BinnedSwitches.of(nothing, 0.1, HIGH)).total
        == 0
    )


# ---------------------------------------------------------------------------------- binned


@given(switch_lists(), st.sampled_from([0.1, 0.3, 0.25, 0.7, 3.0]))
def test_binned_counts_are_exact_at_grid_points_and_at_the_end(switches, resolution):
    binned = BinnedSwitches.of(switches, resolution, HIGH)
    grid = np.arange(0, int(HIGH / resolution) + 1) * resolution
    for at in [*grid[grid <= HIGH], HIGH]:
        exact, coarse = np.zeros((N_CLASSES, 4)), np.zeros((N_CLASSES, 4))
        for table, events in ((exact, switches.events), (coarse, binned.events)):
            for (position, klass), amounts in summed(events).items():
                table[klass] += amounts * (position <= at)
        np.testing.assert_allclose(coarse, exact, atol=1e-12)
    assert binned.total == switches.total
    assert (binned.point <= HIGH).all()


@given(switch_lists(weighted=True))
def test_weights_stay_where_plain_numbers_cancel(switches):
    binned = BinnedSwitches.of(switches, 3.0, HIGH)  # one bin for all
    assert_events_equal(
        {k: e for (_, k), e in summed(binned.events).items()},
        {
            k: e
            for (_, k), e in summed(
                Switches(
                    np.full(len(switches), HIGH), switches.label, switches.loser,
                    switches.winner, weight=switches.weight,
                ).events
            ).items()
        },
    )  # fmt: skip


@given(switch_lists(), st.sampled_from([None, 0.3, 3.0]))
def test_hits_are_all_that_changes_true_positives(switches, resolution):
    events = (
        switches.events
        if resolution is None
        else BinnedSwitches.of(switches, resolution, HIGH).events
    )
    want = {key: e[[1, 3]] for key, e in summed(events).items() if e[[1, 3]].any()}
    found = {key: e[[1, 3]] for key, e in summed(events.hits()).items() if e[[1, 3]].any()}
    assert_events_equal(found, want)


@given(switch_lists(), st.integers(0, 25), st.sampled_from([0.1, 0.3, 0.25]))
def test_binned_parts_add_up_and_subtract_away(switches, cut, resolution):
    a, b = some(switches, slice(None, cut)), some(switches, slice(cut, None))
    whole, part_a, part_b = (BinnedSwitches.of(s, resolution, HIGH) for s in (switches, a, b))
    both = part_a.plus(part_b)
    for mine, theirs in (
        (both, whole),
        (whole.minus(part_b), part_a),
        (whole.minus(part_a), part_b),
    ):
        assert_events_equal(summed(mine.events), summed(theirs.events))
        for name in ("point", "count"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        np.testing.assert_allclose(mine.mass, theirs.mass)
    assert whole.minus(whole).total == 0
    assert whole.minus(whole).events.position.size == 0


def test_memory_is_bounded_by_bins_and_classes(rng):
    n = 20_000
    loser = rng.integers(N_CLASSES, size=n).astype(np.int32)
    winner = ((loser + rng.integers(1, 4, n)) % N_CLASSES).astype(np.int32)
    switches = Switches(rng.uniform(0, HIGH, n), loser[::-1].copy(), loser, winner)
    binned = BinnedSwitches.of(switches, 0.1, HIGH)
    assert binned.point.size <= 20
    assert binned.events.position.size <= 20 * N_CLASSES
    more = binned.plus(binned)
    assert more.events.position.size == binned.events.position.size
    assert more.total == 2 * n


@pytest.mark.parametrize("resolution", [0.1, 0.3, 0.7, 1e-3])
def test_mass_of_the_bin_after_a_grid_point_whatever_rounding_does(resolution):
    # i·r + r is not (i + 1)·r in floating point: the bin must be found all the same.
    n = int(HIGH / resolution)
    points = np.arange(1, n + 1) * resolution
    classes = [np.zeros(n, np.int32), np.zeros(n, np.int32), np.ones(n, np.int32)]
    binned = BinnedSwitches.of(Switches(points, *classes), resolution, HIGH)
    for i in range(n):
        assert binned.mass_after(i * resolution, resolution) == 1.0
    assert binned.mass_after(points[-1], resolution) == 0.0


def test_binned_parts_that_are_none():
    def binned(winner, label=1):
        columns = (np.array([k], np.int32) for k in (label, 0, winner))
        return BinnedSwitches.of(Switches(np.array([1.0]), *columns), 0.25, HIGH)

    with pytest.raises(ProfileMismatchError, match="only be subtracted"):
        binned(1).minus(binned(1).plus(binned(1)))
    with pytest.raises(ProfileMismatchError, match="only be subtracted"):
        binned(1).minus(binned(2))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("low, high", [(0.0, 2.0), (-1.03, 0.55)])
def test_binning_by_table_and_by_sorting_agree(rng, monkeypatch, counted, weighted, low, high):
    n, n_classes = 500, 5
    loser = rng.integers(n_classes, size=n, dtype=np.int32)
    winner = ((loser + rng.integers(1, n_classes, n)) % n_classes).astype(np.int32)
    many = Switches(
        rng.uniform(low, high, n),
        rng.integers(n_classes, size=n, dtype=np.int32),
        loser,
        winner,
        rng.integers(1, 4, n) if counted else None,
        rng.integers(1, 9, n) / 4 if weighted else None,
    )
    found = []
    monkeypatch.setattr(binning, "SWITCHES_AT_ONCE", 70)
    for cells in (0, 4):
        monkeypatch.setattr(binning, "DENSE_CELLS", cells)
        found.append(BinnedSwitches.of(many, 0.05, high).arrays())
    for name, column in found[0].items():
        np.testing.assert_array_equal(found[1][name], column, err_msg=name)
        assert found[1][name].dtype.kind == column.dtype.kind


def test_sums_over_equal_keys(rng):
    a, b = rng.integers(3, size=50), rng.integers(2, size=50)
    amount = rng.integers(9, size=50)
    (keys_a, keys_b), (sums, nothing) = grouped([a, b], [amount, None])
    pairs = sorted(set(zip(a.tolist(), b.tolist(), strict=True)))
    assert list(zip(keys_a.tolist(), keys_b.tolist(), strict=True)) == pairs
    assert sums.tolist() == [amount[(a == i) & (b == j)].sum() for i, j in pairs]
    assert nothing is None


def test_nothing_to_sum():
    (keys,), (sums,) = grouped([np.empty(0)], [np.empty(0, np.int64)])
    assert keys.size == sums.size == 0
    assert sums.dtype == np.int64


@given(cases())
def test_counts_at_the_upper_bound_follow_from_the_table(case):
    profile = case.profile()
    table, low = profile.switches, profile.counts(case.bounds[0])
    assert len(table) == profile.n_switches
    assert (np.diff(table.position) >= 0).all()
    later = table.position > case.bounds[0]
    predicted, right = low.predicted.astype(float), low.true_positive.astype(float)
    np.add.at(predicted, table.after[later], table.weight[later])
    np.add.at(predicted, table.before[later], -table.weight[later])
    for classes, sign in ((table.after, 1), (table.before, -1)):
        hit = later & (classes == table.label)
        np.add.at(right, classes[hit], sign * table.weight[hit])
    high = profile.counts(case.bounds[1])
    np.testing.assert_allclose(predicted, high.predicted, atol=1e-9)
    np.testing.assert_allclose(right, high.true_positive, atol=1e-9)


def test_weights_are_counts_where_there_are_none(rng):
    table = random_case(rng).profile().switches
    np.testing.assert_array_equal(table.weight, table.count)
    assert table.count.dtype == np.int64


def test_counts_of_a_difference(rng):
    case = random_case(rng)
    part = case.rows(slice(0, 20)).profile()
    twice = part + part + case.rows(slice(20, 60)).profile()
    left = (twice - case.rows(slice(20, 60)).profile()).switches
    assert left.count.tolist() == [2] * part.n_switches


def test_equal_profiles_have_equal_tables(rng):
    case = random_case(rng, weighted=True)
    a = case.profile().switches
    b = (case.rows(slice(30, 60)).profile() + case.rows(slice(0, 30)).profile()).switches
    for name in ("position", "label", "before", "after"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_binned_profile_has_no_table(rng):
    with pytest.raises(rp.OptionError, match=r"exact profile. Got one with resolution=0.1"):
        _ = random_case(rng).profile(resolution=0.1).switches


@given(cases())
def test_binning_later_is_binning_at_once(case):
    later, once = case.profile().binned(0.125), case.profile(resolution=0.125)
    assert later.resolution == 0.125
    for name, column in once._switches.arrays().items():
        np.testing.assert_allclose(later._switches.arrays()[name], column, atol=1e-12)
    assert later.best("accuracy") == once.best("accuracy")
    assert once.binned(0.125) is once


@pytest.mark.parametrize(
    "start, width, words",
    [(0.1, 0.2, "that of the profile, 0.1, once it is binned. Got 0.2"), (None, 0, "above 0")],
)
def test_words(rng, start, width, words):
    profile = random_case(rng).profile(resolution=start)
    with pytest.raises(rp.OptionError, match=words):
        profile.binned(width)
