"""Packed bins add up to what switches counted one by one do, and are small."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprior.metrics import METRIC_NAMES, CountMetric, find_metric
from reprior.profile import BinTable, GainTable, PackedBins, StrengthProfile, Switches, narrowed

BOUNDS, WIDTH, N_CLASSES = (-0.3, 2.0), 0.1, 4


def random_switches(rng: np.random.Generator, n: int, weighted: bool) -> Switches:
    """Switches anywhere within the bounds; weights are whole, so that sums are exact."""
    loser = rng.integers(N_CLASSES, size=n, dtype=np.int32)
    winner = ((loser + rng.integers(1, N_CLASSES, n)) % N_CLASSES).astype(np.int32)
    label = rng.integers(N_CLASSES, size=n, dtype=np.int32)
    weight = rng.integers(1, 9, n).astype(float) if weighted else None
    return Switches(rng.uniform(*BOUNDS, n), label, loser, winner, weight=weight)


def table_of(*parts: Switches) -> BinTable:
    table = BinTable(BOUNDS, WIDTH, N_CLASSES, parts[0].weight is not None)
    for part in parts:
        table.add(part)
    return table


def unpacked(*packed: PackedBins, weighted: bool) -> BinTable:
    table = BinTable(BOUNDS, WIDTH, N_CLASSES, weighted)
    for each in packed:
        each.add_to(table)
    return table


def assert_equal_tables(a: BinTable, b: BinTable) -> None:
    """To the bit, and of the same types."""
    for mine, theirs in zip((*a._plain, *a._weighted), (*b._plain, *b._weighted), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


def one_by_one(switches: Switches) -> dict[tuple[float, int], list[float]]:
    """The oracle: gains of each class at each grid point, predicted and rightly so, by weight."""
    sums: dict[tuple[float, int], list[float]] = {}
    for i in range(len(switches)):
        x, label = switches.position[i], switches.label[i]
        grid = next(g * WIDTH for g in range(-10, 30) if g * WIDTH >= x)
        amount = 1.0 if switches.weight is None else float(switches.weight[i])
        for klass, sign in ((int(switches.loser[i]), -1), (int(switches.winner[i]), 1)):
            cell = sums.setdefault((min(grid, BOUNDS[1]), klass), [0.0, 0.0])
            cell[0] += sign * amount
            cell[1] += sign * amount * (klass == label)
    return {key: cell for key, cell in sums.items() if any(cell)}


# -------------------------------------------------------------------------------- identities


@given(
    st.integers(0, 99),
    st.lists(st.sampled_from([0, 1, 3, 40, 600]), min_size=1, max_size=6),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_packed_parts_in_any_order_are_the_table_of_all(seed, sizes, weighted, order):
    rng = np.random.default_rng(seed)
    parts = [random_switches(rng, n, weighted) for n in sizes]
    packed = [PackedBins.of(table_of(part)) for part in parts]
    order.shuffle(packed)
    assert_equal_tables(unpacked(*packed, weighted=weighted), table_of(*parts))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, 300])
def test_packed_parts_are_switches_counted_one_by_one(rng, n, weighted):
    parts = [random_switches(rng, n, weighted) for _ in range(3)]
    packed = [PackedBins.of(table_of(part)) for part in parts]
    assert all((each.cell is None) == (n == 300) for each in packed)
    closed = unpacked(*packed, weighted=weighted).closed()
    events = closed.events
    gains = zip(events.weighted_predicted, events.weighted_true_positive, strict=True)
    keys = zip(events.position.tolist(), events.klass.tolist(), strict=True)
    found = {key: [float(a), float(b)] for key, (a, b) in zip(keys, gains, strict=True) if a or b}
    assert found == one_by_one(Switches.concatenate(parts))
    assert closed.total == 3 * n


def test_weights_that_remain_where_numbers_cancel_are_kept():
    there_and_back = Switches(
        np.array([0.55, 0.55]), *np.array([[0, 0], [1, 2], [2, 1]], np.int32),
        weight=np.array([2.0, 5.0]),
    )  # fmt: skip
    table = table_of(there_and_back)
    assert not table._plain[1].any()
    packed = PackedBins.of(table)
    assert packed.cell is not None
    assert packed.cell.size == 2
    assert_equal_tables(unpacked(packed, weighted=True), table)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, 300])
def test_nothing_is_shared(rng, n, weighted):
    """A task that is done again finds what it was given as it was."""
    part = random_switches(rng, n, weighted)
    table = table_of(part)
    packed = PackedBins.of(table)
    before = pickle.dumps(packed)
    table.add(part)
    packed.add_to(table)
    assert pickle.dumps(packed) == before
    assert_equal_tables(table, table_of(part, part, part))


# ------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bits, kind", [(8, np.int8), (16, np.int16), (32, np.int32)])
def test_the_narrowest_integers_that_hold_all(bits, kind, sign):
    extreme = (1 << (bits - 1)) - 1 if sign > 0 else -(1 << (bits - 1))
    for value, fits in ((extreme, True), (extreme + sign, False)):
        values = np.array([0, value, 1])
        found = narrowed(values)
        assert (found.dtype == kind) == fits
        np.testing.assert_array_equal(found, values)
        assert not np.shares_memory(found, values)


@pytest.mark.parametrize("weighted", [False, True])
def test_packed_bins_are_no_larger_than_all_cells_or_the_taken_ones(rng, weighted):
    for n in (0, 1, 5, 10, 20, 40, 80, 2000):
        table = table_of(random_switches(rng, n, weighted))
        packed: Any = PackedBins.of(table)
        taken = int((table._plain[1].any(0) | table._weighted[1].any(0)).sum())
        each = 2 * packed.net.itemsize + (16 if weighted else 0)
        size = packed.net.nbytes
        size += 0 if packed.cell is None else packed.cell.nbytes
        size += packed.weighted.nbytes if weighted else 0
        assert size == min(table._plain[1].shape[1] * each, taken * (each + 4))


METRICS = [
    *(find_metric(name, n_classes=4) for name in (*METRIC_NAMES, "macro_fbeta(2)")),
    *(find_metric(f"{ratio}[0]", n_classes=4) for ratio in ("iou", "recall", "specificity")),
    find_metric("precision[1]", n_classes=4),
    CountMetric("least_iou", support=1, predicted=1, true_positive=-1, mean="least"),
    CountMetric("geometric_f1", gain=2, support=1, predicted=1, mean="geometric"),
    CountMetric(
        "some_weighted_f1", gain=2, support=1, predicted=1, average="weighted", classes=(0, 1)
    ),
    CountMetric("odd", gain=2, support=1, predicted=0.5, true_positive=1, average="seen"),
    CountMetric("pooled_iou", support=1, predicted=1, true_positive=-1, average="pooled"),
]

ROUNDING = 1e-12
"""Sums of ratios in another order differ by far less."""


def gain_table_of(profile: StrengthProfile, width: float) -> GainTable:
    table = GainTable(profile.bounds, width, profile.n_classes, profile.weighted)
    half = len(profile._switches) // 2
    for part in (slice(half), slice(half, None)):
        table.add(profile._switches.taken(part))
    return table


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1000),
    st.sampled_from([0.03, 0.25, 0.7]),
    st.sampled_from([(0.0, 2.0), (-0.5, 1.3), (0.1, 1.0)]),
    st.booleans(),
)
def test_every_value_is_within_reach(seed, width, bounds, weighted):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(40, 4)).round(1)
    labels = rng.integers(3, size=40)  # the last class has none
    profile = StrengthProfile.from_scores(
        scores, labels, source_prior=[0.5, 0.3, 0.15, 0.05], bounds=bounds,
        sample_weight=rng.integers(1, 5, 40).astype(float) if weighted else None,
    )  # fmt: skip
    binned, table = profile.binned(width), gain_table_of(profile, width)
    at = np.unique(np.concatenate([profile._switches.position, np.linspace(*bounds, 60)]))
    for metric in METRICS:
        reach = table.reach(binned, metric)
        assert reach.least.shape == reach.largest.shape == (table.n_bins,)
        values, bins = profile.evaluate(metric, at), table.bins_of(at)
        assert (values <= reach.largest[bins] + ROUNDING).all(), metric
        assert (values >= reach.least[bins] - ROUNDING).all(), metric


def test_samples_gained_and_lost_in_one_bin_stay_within_reach():
    """A class gains a sample and loses it again: it never holds fewer than none."""
    for seed in (0, 241):
        rng = np.random.default_rng(seed)
        scores, labels = rng.normal(size=(40, 4)).round(1), rng.integers(3, size=40)
        profile = StrengthProfile.from_scores(
            scores, labels, source_prior=[0.5, 0.3, 0.15, 0.05], bounds=(0.0, 2.0)
        )
        table = gain_table_of(profile, 0.7)
        for name in ("precision[1]", "gmean", "macro_precision"):
            metric = find_metric(name, n_classes=4)
            reach = table.reach(profile.binned(0.7), metric)
            at = profile._switches.position
            values, bins = profile.evaluate(metric, at), table.bins_of(at)
            assert (values <= reach.largest[bins] + ROUNDING).all()
            assert (values >= reach.least[bins] - ROUNDING).all()


def test_it_is_tight_where_nothing_happens():
    scores, labels = np.array([[3.0, 0.0], [0.0, 3.0]]), np.array([0, 1])
    profile = StrengthProfile.from_scores(
        scores, labels, source_prior=[0.6, 0.4], bounds=(0.0, 1.0)
    )
    reach = gain_table_of(profile, 0.5).reach(
        profile.binned(0.5), find_metric("mean_iou", n_classes=2)
    )
    assert reach.least.tolist() == reach.largest.tolist() == pytest.approx([1.0] * 3)
