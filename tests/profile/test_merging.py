from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import oracles
from tests.tuning.shared import ROUNDING, assert_same_counts, cases, exact_cases, random_case

from reprior.exceptions import ProfileMismatchError
from reprior.profile import ProfileSum, StrengthProfile, merged, merging

RESOLUTIONS = [0.05, 0.3, 0.7, 3.0]


def assert_same(a, b, *, exact=True):
    """Curves, best strengths and counts agree: to the bit, or to the rounding of weights."""
    same = np.testing.assert_array_equal
    if not exact:

        def same(x, y):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)

    assert (a.n_samples, a.n_switches) == (b.n_samples, b.n_switches)
    at = np.linspace(*a.bounds, 23)
    for name in oracles.METRICS:
        same(a.evaluate(name, at), b.evaluate(name, at))
        if exact:
            assert a.best(name) == b.best(name)
            for mine, theirs in zip(a.curve(name), b.curve(name), strict=True):
                same(mine, theirs)
    for strength in at[::5]:
        if exact:
            assert_same_counts(a.counts(strength), b.counts(strength))
        for name in ("labelled", "seen"):
            np.testing.assert_array_equal(
                getattr(a.counts(strength), name), getattr(b.counts(strength), name)
            )
    same(a.baseline.predicted, b.baseline.predicted)


def shares(data, n):
    """Draw which of three parts each of n samples is in; no part is empty."""
    part = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    return [np.flatnonzero(part == i) for i in data.draw(st.permutations(range(3))) if i in part]


# -------------------------------------------------------------------------------- identities


@given(cases(weighted=False), st.data(), st.sampled_from([None, *RESOLUTIONS]))
def test_parts_in_any_order_equal_the_whole_to_the_bit(case, data, resolution):
    parts = [case.rows(i).profile(resolution=resolution) for i in shares(data, case.n)]
    whole = case.profile(resolution=resolution)
    assert_same(merged(parts), whole)
    assert_same(sum(parts[1:], start=parts[0]), whole)


@given(cases(weighted=True), st.data(), st.sampled_from([None, *RESOLUTIONS]))
def test_weighted_parts_equal_the_whole_but_for_rounding(case, data, resolution):
    parts = [case.rows(i).profile(resolution=resolution) for i in shares(data, case.n)]
    assert_same(merged(parts), case.profile(resolution=resolution), exact=False)


@settings(max_examples=40)
@given(exact_cases(weighted=True), st.integers(1, 11))
def test_parts_of_whole_weights_are_equal_to_the_bit(case, cut):
    def profile(index):
        return replace(
            case, scores=case.scores[index], labels=case.labels[index], weights=case.weights[index]
        ).profile()

    n = len(case.labels)
    cut = cut % n
    if cut:
        assert_same(profile(slice(cut, None)) + profile(slice(cut)), profile(slice(n)))


@given(cases(weighted=False), cases(weighted=False), st.sampled_from([None, *RESOLUTIONS]))
def test_what_was_added_can_be_taken_out(case, other, resolution):
    n = min(case.n, other.n)
    more = replace(case, scores=case.scores[:n], labels=other.labels[:n] % case.slopes.size)
    a, b = case.profile(resolution=resolution), more.profile(resolution=resolution)
    both = a + b
    assert_same(both - b, a)
    assert_same(both - a, b)
    assert_same((both - b) + b, both)
    empty = a - a
    assert (empty.n_samples, empty.n_switches) == (0, 0)
    assert_same(empty + b, b)


@given(cases(weighted=True), st.sampled_from([None, *RESOLUTIONS]))
def test_weights_that_were_added_can_be_taken_out(case, resolution):
    a = case.profile(resolution=resolution)
    b = case.rows(slice(0, 1 + case.n // 2)).profile(resolution=resolution)
    both = a + b
    assert_same(both - b, a, exact=False)
    assert_same(both - a, b, exact=False)
    nothing = (both - a - b)._switches
    assert nothing.total == 0
    assert nothing.events.position.size == 0


def test_leave_one_fold_out(rng):
    case = random_case(rng, 200, 6)
    folds = [np.arange(i, 200, 5) for i in range(5)]
    parts = [case.rows(fold).profile() for fold in folds]
    whole = merged(parts)
    for i, part in enumerate(parts):
        rest = np.setdiff1d(np.arange(200), folds[i])
        assert_same(whole - part, case.rows(rest).profile())


def test_adding_changes_neither(rng):
    case = random_case(rng, 50, 3)
    a, b = case.rows(slice(0, 20)).profile(), case.rows(slice(20, None)).profile()
    before = a.evaluate("macro_f1", 1.0), a.n_switches, a.n_samples
    _ = (a + b) - b
    assert (a.evaluate("macro_f1", 1.0), a.n_switches, a.n_samples) == before


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8])
def test_many_are_merged_as_if_added_one_by_one(rng, n):
    case = random_case(rng, 64, 4)
    parts = [case.rows(index).profile() for index in np.array_split(np.arange(64), n)]
    assert_same(merged(iter(parts)), case.profile())


# ------------------------------------------------------------------------------------ bins


@settings(max_examples=80)
@given(exact_cases(), st.sampled_from([0.0625, 0.25, 0.5, 1.5]))
def test_a_binned_profile_is_exact_at_grid_points(case, resolution):
    exact, binned = case.profile(), case.profile(resolution)
    low, high = case.bounds
    grid = np.arange(np.ceil(low / resolution), np.floor(high / resolution) + 1) * resolution
    at = np.unique([low, *grid, high])
    for name in oracles.METRICS:
        np.testing.assert_array_equal(binned.evaluate(name, at), exact.evaluate(name, at))
    assert_same_counts(binned.baseline, exact.baseline)
    assert (binned.n_samples, binned.n_switches) == (exact.n_samples, exact.n_switches)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("resolution", [0.1, 0.3, 0.7])
def test_inside_a_bin_the_error_is_at_most_its_mass(rng, weighted, resolution):
    case = random_case(rng, 300, 5, weighted=weighted)
    exact, binned = case.profile(), case.profile(resolution=resolution)
    weight = np.ones(case.n) if case.weights is None else case.weights
    for strength in rng.uniform(0, 2, 200):
        mass = binned._switches.mass_after(strength, resolution)
        off = np.abs(binned.counts(strength).predicted - exact.counts(strength).predicted)
        assert off.max() <= mass + ROUNDING
        gap = binned.evaluate("accuracy", strength) - exact.evaluate("accuracy", strength)
        assert abs(gap) <= mass / weight.sum() + ROUNDING


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 1.0), (0.25, 1.75), (-1.0, 0.0)])
@pytest.mark.parametrize("resolution", [0.01, 0.1, 0.3, 0.7, 5.0])
def test_best_of_a_binned_profile(rng, weighted, bounds, resolution):
    case = random_case(rng, 200, 4, bounds=bounds, weighted=weighted)
    exact, binned = case.profile(), case.profile(resolution=resolution)
    low, high = bounds
    weight = np.ones(case.n) if case.weights is None else case.weights
    for name in oracles.METRICS:
        best = binned.best(name)
        assert low <= best.interval[0] <= best.strength <= best.interval[1] <= high
        for profile in (binned, exact):
            assert profile.evaluate(name, best.strength) == pytest.approx(best.value, abs=ROUNDING)
        at = best.strength
        index = np.floor(at / resolution + 1e-9) + 1
        end = min(index * resolution, high)
        inside = exact._switches.position
        inside = (inside > at) & (inside <= end + 1e-12)
        amount = np.ones(inside.size) if exact._switches.weight is None else exact._switches.weight
        want = amount[inside].sum() / weight.sum() if at < high else 0.0
        assert best.uncertainty == pytest.approx(want, abs=1e-9)
        front = binned.pareto(name, "accuracy")
        assert ((front.strengths >= low) & (front.strengths <= high)).all()
        np.testing.assert_array_equal(binned.evaluate(name, front.strengths), front.values_a)


def test_an_exact_profile_has_no_uncertainty(rng):
    assert random_case(rng).profile().best("accuracy").uncertainty == 0.0


def test_a_binned_profile_keeps_no_more_than_bins_times_classes(rng):
    case = random_case(rng, 5_000, 5)
    binned = case.profile(resolution=0.1)
    for profile in (binned, binned + binned):
        assert profile._switches.events.position.size <= 20 * 5
        assert profile._switches.point.size <= 20
    assert (binned + binned).n_switches == 2 * case.profile().n_switches


# ----------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "field, options",
    [
        ("n_classes", {"source_prior": [0.5, 0.5], "target_prior": [0.5, 0.5]}),
        ("source_prior", {"source_prior": [0.5, 0.25, 0.25]}),
        ("target_prior", {"target_prior": [0.5, 0.25, 0.25]}),
        ("bounds", {"bounds": (0.0, 3.0)}),
        ("resolution", {"resolution": 0.1}),
    ],
)
def test_profiles_that_do_not_match_are_refused(field, options):
    def profile(**given):
        settings = {"source_prior": [0.6, 0.3, 0.1]} | given
        n_classes = len(settings["source_prior"])
        return StrengthProfile.from_scores(5 * np.eye(n_classes), np.arange(n_classes), **settings)

    a, b = profile(), profile(**options)
    for verb, combine in (("add", lambda: a + b), ("subtract", lambda: a - b)):
        with pytest.raises(
            ProfileMismatchError, match=f"must have equal {field} to {verb}. Got .* and "
        ):
            combine()


def test_with_and_without_weights_do_not_match(rng):
    case = random_case(rng, 20, 3)
    weighted = case.profile(sample_weight=np.ones(20))
    with pytest.raises(ProfileMismatchError, match="both have sample weights, or neither, to add"):
        case.profile() + weighted


@pytest.mark.parametrize("other", [0, None, "profile", np.zeros(3)])
def test_only_profiles_add_and_subtract(rng, other):
    profile = random_case(rng, 20, 3).profile()
    with pytest.raises(ProfileMismatchError, match=r"Only profiles add\. Got"):
        profile.__add__(other)
    with pytest.raises(ProfileMismatchError, match=r"Only profiles subtract\. Got"):
        profile.__sub__(other)


@pytest.mark.parametrize("resolution", [None, 0.1])
def test_what_is_not_a_part_cannot_be_taken_out(rng, resolution):
    case = random_case(rng, 60, 4)
    a = case.rows(slice(0, 30)).profile(resolution=resolution)
    b = case.rows(slice(30, None)).profile(resolution=resolution)
    with pytest.raises(ProfileMismatchError, match="only be subtracted from one that contains it"):
        a - b
    with pytest.raises(ProfileMismatchError, match="only be subtracted from one that contains it"):
        a - (a + b)


def test_more_samples_than_there_are_cannot_be_taken_out():
    def profile(labels):  # nothing switches: only the counts can tell
        scores = 50 * np.eye(2)[labels]
        return StrengthProfile.from_scores(scores, labels, source_prior=[0.6, 0.4])

    with pytest.raises(ProfileMismatchError, match="more samples of a class"):
        profile([0, 1]) - profile([0, 0])


@pytest.mark.parametrize("resolution", [None, 0.1])
def test_the_same_samples_with_other_weights_are_not_a_part(rng, resolution):
    case = random_case(rng, 60, 4, weighted=True)
    a = case.profile(resolution=resolution)
    b = replace(case, weights=case.weights * 2).profile(resolution=resolution)
    with pytest.raises(ProfileMismatchError, match="only be subtracted from one that contains it"):
        b - a


def test_sum_needs_no_start(rng):
    parts = [random_case(rng, 20, 3).profile() for _ in range(3)]
    parts = [parts[0], parts[0], parts[0]]
    assert sum(parts).n_samples == 3 * parts[0].n_samples
    with pytest.raises(ProfileMismatchError, match="Only profiles add"):
        1 + parts[0]


def added(profiles, **options):
    total = ProfileSum(**options)
    for profile in profiles:
        total.add(profile)
    return total


def assert_same_switches(a, b):
    for name, column in b._switches.arrays().items():
        np.testing.assert_array_equal(a._switches.arrays()[name], column, err_msg=name)


@pytest.mark.parametrize("limit", [0, 1, 7, 40, 10**6])
@pytest.mark.parametrize("at_once", [1, 30, 1 << 20])
@pytest.mark.parametrize("cells", [0, merging.MOST_CELLS])
def test_a_sum_that_bins_is_the_binned_sum(rng, monkeypatch, limit, at_once, cells):
    monkeypatch.setattr(merging, "SWITCHES_PER_BINNING", at_once)
    monkeypatch.setattr(merging, "MOST_CELLS", cells)
    case = random_case(rng, 90)
    parts = [case.rows(slice(i, i + 7)).profile() for i in range(0, 90, 7)]
    total = added(parts, exact_up_to=limit, resolution=0.05)
    assert total.coarse == (limit < case.profile().n_switches)
    whole = case.profile(resolution=0.05 if total.coarse else None)
    found = total.total()
    assert found.resolution == whole.resolution
    assert_same_counts(found.baseline, whole.baseline)
    assert found.best("accuracy") == whole.best("accuracy")
    assert found.n_switches == whole.n_switches
    if total.coarse:
        assert_same_switches(found, whole)
    assert total.total().n_samples == found.n_samples  # asked again, the same


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.03, 0.55)])
def test_a_table_and_a_stack_of_bins_agree(rng, monkeypatch, weighted, bounds):
    case = random_case(rng, 200, 5, bounds=bounds, weighted=weighted)
    if weighted:  # whole ones: sums in any order agree to the bit
        case = replace(case, weights=np.ceil(case.weights * 5))
    parts = [case.rows(slice(i, i + 40)).profile() for i in range(0, 200, 40)]
    table = added(parts, exact_up_to=0, resolution=0.05).total()
    monkeypatch.setattr(merging, "MOST_CELLS", 0)
    stack = added(parts, exact_up_to=0, resolution=0.05).total()
    assert_same_switches(table, stack)
    assert_same(table, stack)


def test_sums_of_other_bins_do_not_merge(rng):
    parts = [random_case(rng, 20).profile()]
    fine, coarse = (added(parts, exact_up_to=0, resolution=width) for width in (0.05, 0.1))
    known = fine.total().n_samples
    coarse.total()
    with pytest.raises(ProfileMismatchError, match="equal resolution to add"):
        fine.merge(coarse)
    assert fine.total().n_samples == known


def test_a_refused_profile_leaves_the_sum_as_it_was(rng):
    profile = random_case(rng, 20).profile()
    total = ProfileSum(exact_up_to=0, resolution=0.1)
    with pytest.raises(ProfileMismatchError, match="equal resolution to add"):
        total.bin(profile.binned(0.05))
    assert not total
    total.add(profile)
    assert_same(total.total(), profile.binned(0.1))


def test_a_refused_merge_leaves_the_sum_as_it_was(rng):
    here, other = random_case(rng, 20), random_case(rng, 20)
    sums = [
        added([here.profile()], exact_up_to=1000, resolution=0.1),
        added([replace(other, bounds=(0.0, 1.5)).profile()], exact_up_to=0, resolution=0.1),
        added([here.profile()], exact_up_to=0, resolution=0.05),
    ]
    for theirs in sums[1:]:
        with pytest.raises(ProfileMismatchError, match="must have equal"):
            sums[0].merge(theirs)
        assert sums[0].total().resolution is None
    sums[0].merge(ProfileSum(exact_up_to=0, resolution=0.1))  # nothing in it
    assert_same(sums[0].total(), here.profile())


@pytest.mark.parametrize("first", [0, 5, None])
@pytest.mark.parametrize("second", [0, 5, None])
@pytest.mark.parametrize("cells", [0, merging.MOST_CELLS])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_merge(rng, monkeypatch, first, second, cells, weighted):
    monkeypatch.setattr(merging, "MOST_CELLS", cells)
    case = random_case(rng, 60, weighted=weighted)
    if weighted:  # whole ones: sums in any order agree to the bit
        case = replace(case, weights=np.ceil(case.weights * 5))
    a, b = (
        added([case.rows(slice(i, i + 10)).profile() for i in where], exact_up_to=limit,
              resolution=0.05)
        for where, limit in ((range(0, 20, 10), first), (range(20, 60, 10), second))
    )  # fmt: skip
    known = b.total().n_samples
    a.merge(b)
    coarse = (first, second) != (None, None)
    whole = case.profile(resolution=0.05 if coarse else None)
    assert a.total().best("mean_iou") == whole.best("mean_iou")
    assert a.total().resolution == whole.resolution
    assert b.total().n_samples == known


@pytest.mark.parametrize("limits", [(0, 0), (0, None), (None, None), (5, 10**6)])
@pytest.mark.parametrize("cells", [0, merging.MOST_CELLS])
@pytest.mark.parametrize("weighted", [False, True])
def test_packed_sums_add_up(rng, monkeypatch, limits, cells, weighted):
    monkeypatch.setattr(merging, "MOST_CELLS", cells)
    case = random_case(rng, 60, weighted=weighted)
    if weighted:  # whole ones: sums in any order agree to the bit
        case = replace(case, weights=np.ceil(case.weights * 5))
    total = ProfileSum(exact_up_to=0, resolution=0.05)
    for i in range(0, 60, 20):
        rows = (slice(i, i + 12), slice(i + 12, i + 20))
        for limit, part in zip(limits, rows, strict=True):
            one = added([case.rows(part).profile()], exact_up_to=limit, resolution=0.05)
            packed = one.packed()
            assert (packed.bins is not None) == (one.coarse and cells > 0)
            assert packed.unpacked().n_samples == one.total().n_samples
            total.bin_packed(packed)
    whole = case.profile(resolution=0.05)
    assert_same_switches(total.total(), whole)
    assert_same(total.total(), whole)


def test_a_sum_of_nothing_is_false(rng):
    assert not ProfileSum()
    assert added([random_case(rng).profile()])
    assert added([random_case(rng).profile()], exact_up_to=0, resolution=0.1)


def test_a_profile_that_does_not_match_leaves_the_sum_as_it_was():
    scores, labels = 3 * np.eye(2), np.array([0, 1])
    plain = StrengthProfile.from_scores(scores, labels, source_prior=[0.8, 0.2])
    weighted = StrengthProfile.from_scores(
        scores, labels, source_prior=[0.8, 0.2], sample_weight=np.ones(2)
    )
    total = ProfileSum()
    for n in (1, 2, 3):
        total.add(plain)
        with pytest.raises(ProfileMismatchError, match="sample weights"):
            total.add(weighted)
        assert total.total().n_samples == 2 * n


def test_a_sum_can_be_merged_with_itself():
    profile = StrengthProfile.from_scores(3 * np.eye(2), [0, 1], source_prior=[0.8, 0.2])
    for options in ({}, {"exact_up_to": 0, "resolution": 0.1}):
        total = ProfileSum(**options)
        for _ in range(3):
            total.add(profile)
        total.merge(total)
        assert total.total().n_samples == 12


@pytest.mark.parametrize("weighted", [False, True])
def test_large_parts_are_kept_side_by_side(rng, monkeypatch, weighted):
    monkeypatch.setattr(merging, "LARGE", 12)
    case = random_case(rng, 600, 3, weighted=weighted)
    total = ProfileSum()
    for start in range(0, 600, 20):
        total.add(case.rows(np.arange(start, start + 20)).profile())
    sizes = [profile.n_switches for _, profile in total._exact]
    assert len(sizes) > 5
    assert max(sizes) < 2 * 12 + 20  # a pair of small ones, of twenty rows or more
    assert_same(total.total(), case.profile(), exact=not weighted)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [None, 10**6, 5])
def test_a_drained_sum_is_the_sum_and_lets_go_of_its_parts(rng, monkeypatch, weighted, limit):
    monkeypatch.setattr(merging, "LARGE", 8)
    case = random_case(rng, 300, weighted=weighted)
    parts = [case.rows(slice(i, i + 43)).profile() for i in range(0, 300, 43)]
    whole, drained = (added(parts, exact_up_to=limit, resolution=0.05) for _ in range(2))
    total = whole.total()
    assert_same(drained.consume(), total, exact=not weighted)
    assert_same(whole.total(), total)
    assert drained._exact == []
