"""Switches that a page can hold: exact, or exact at the points of a stated grid."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.report_pages import chunked, fitted, make_scores, page_json, replay, unpack

from reprior.report import thinning, write_report
from reprior.report.classes import describe_classes
from reprior.report.measure import measure
from reprior.report.payload import MOST_BYTES, SizeLimits, _rows, script_json
from reprior.report.thinning import RowBuffer, SwitchRows, grid_points, grouped, thinned


def random_rows(rng, n=2000, k=6, weighted=False):
    before, after = rng.integers(0, k, n), rng.integers(0, k, n)
    rows = SwitchRows(
        np.sort(rng.uniform(0, 2, n)), rng.integers(0, k, n), before, after, np.ones(n, int),
        rng.integers(1, 5, n) / 4 if weighted else None,
    )  # fmt: skip
    return rows


def changes(rows, strength, k):
    """What the switches up to a strength do to predicted and true positives."""
    until = rows.position <= strength
    predicted, right = np.zeros(k + 1), np.zeros(k + 1)
    mass = rows.count if rows.weight is None else rows.weight
    for klass, sign in ((rows.before, -1), (rows.after, 1)):
        np.add.at(predicted, klass[until], sign * mass[until])
        hit = until & (rows.label == klass)
        np.add.at(right, klass[hit], sign * mass[hit])
    return np.stack([predicted[:k], right[:k]])


def test_few_rows_stay_as_they_are():
    rows = random_rows(np.random.default_rng(0))
    assert thinned(rows, 2000, 6, [0.0, 1.234], 2.0) == (rows, None, False)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit, per_class", [(1800, False), (200, True)])
def test_counts_are_exact_at_the_points_of_the_grid(limit, per_class, weighted):
    rng = np.random.default_rng(1)
    rows, chosen = random_rows(rng, weighted=weighted), 0.7654321
    summed, width, found_per_class = thinned(rows, limit, 6, [0.0, chosen], 2.0)
    assert len(summed) <= limit
    assert found_per_class is per_class
    for strength in [0.0, chosen, 2.0, *(width * rng.integers(0, round(2 / width), 20))]:
        np.testing.assert_allclose(
            changes(summed, strength, 6), changes(rows, strength, 6), atol=1e-9
        )
    # In between, those of the point before.
    last = width * np.floor(1.9999 / width)
    np.testing.assert_allclose(changes(summed, 1.9999, 6), changes(rows, last, 6), atol=1e-9)


def test_the_coarsest_grid_is_the_last_resort():
    rows = random_rows(np.random.default_rng(2))
    summed, width, per_class = thinned(rows, 1, 6, [0.0], 2.0)
    assert (width, per_class) == (thinning.COARSER[-1], True)
    assert len(summed) < 100


def test_points_of_the_grid():
    points = grid_points(0.5, [-0.2, 0.3], 1.2)
    np.testing.assert_allclose(points, [-0.5, -0.2, 0, 0.3, 0.5, 1.0, 1.2])


def test_equal_rows_are_one_and_cancelling_ones_none():
    one = np.ones(4, int)
    rows = SwitchRows(
        np.array([0.5, 0.5, 1.0, 1.0]), one, 2 * one, 3 * one, np.array([1, 2, 4, -4])
    )
    summed = grouped(rows)
    assert (summed.position.tolist(), summed.count.tolist()) == ([0.5], [3])
    assert len(grouped(rows.taken(np.empty(0, int)))) == 0


def test_a_full_buffer_sums_up(monkeypatch):
    monkeypatch.setattr(thinning, "COMPACT_FROM", 500)
    rows = random_rows(np.random.default_rng(3), k=2)
    buffer = RowBuffer([0.0, 0.25], 2.0)
    for i in range(0, 2000, 100):
        buffer.add(rows.taken(np.arange(i, i + 100)))
    summed, width = buffer.closed()
    assert width == thinning.RESOLUTIONS[0]
    assert (np.diff(summed.position) >= 0).all()
    for strength in (0.25, 0.5, 1.5, 2.0):
        np.testing.assert_allclose(changes(summed, strength, 2), changes(rows, strength, 2))


@pytest.mark.parametrize("limits", [(150, 10**6), (40, 10**6), (10**6, 10)])
def test_a_thinned_page_is_exact_where_it_says(tmp_path, monkeypatch, limits):
    most_rows, most_cells = limits
    limits_of_page = (SizeLimits(rows=most_rows, pairs=most_cells),)
    monkeypatch.setattr("reprior.report.payload.SIZE_LIMITS", limits_of_page)
    rng = np.random.default_rng(4)
    k = 40
    logits, labels, counts = make_scores(rng, n=400, k=k)
    calibrator = fitted(logits, labels, counts)
    path = write_report(tmp_path / "r.html", calibrator, chunked(logits, labels))
    data = page_json(path)
    one_set = data["sets"][0]
    width = one_set["resolution"]
    points = [0.0, calibrator.strength_, 2.0] + ([] if width is None else [2 * width])
    whole = measure(calibrator, [(logits, labels)], name="validation")
    for strength in points:
        joint = replay(one_set, strength, k)
        wanted = whole.profile.counts(strength)
        assert np.array_equal(np.diag(joint)[:k], wanted.true_positive)
        assert np.array_equal(joint.sum(axis=0)[:k], wanted.predicted)
    assert one_set["perClass"]
    cell = unpack(data["classes"]["cell"])
    found = replay(one_set["cells"], calibrator.strength_, 10)[:10, :10]
    predicted = (logits + calibrator.strength_ * -np.log(calibrator.source_prior_)).argmax(1)
    groups = np.zeros((10, 10))
    np.add.at(groups, (cell[labels], cell[predicted]), 1)
    assert np.array_equal(found, groups)


@pytest.mark.parametrize("n_cells, n_switches", [(75_000, 125_000), (300_000, 60_000)])
def test_the_largest_page_stays_below_15_mb(n_cells, n_switches):
    """Two weighted sets of 8,142 classes, at or beyond every limit: numbers and Plotly."""
    rng, k = np.random.default_rng(6), 8142
    calibrator = SimpleNamespace(
        classes_=np.arange(k), source_prior_=np.full(k, 1 / k), target_prior_=np.full(k, 1 / k),
        strength_=0.7, profile_=None,
        bounds=(0.0, 2.0), strength_interval_=(0.6, 0.8),
    )  # fmt: skip

    def rows(n, position):
        return SwitchRows(
            position, rng.integers(0, k, n), rng.integers(0, k, n), rng.integers(0, k, n),
            np.full(n, 2), rng.random(n),
        )  # fmt: skip

    joint = replace(rows(n_cells, np.zeros(n_cells)), before=np.full(n_cells, k))
    measured = SimpleNamespace(
        joint=joint, switches=rows(n_switches, np.sort(rng.uniform(0, 2, n_switches))),
        resolution=None, profile=SimpleNamespace(weighted=True),
    )  # fmt: skip
    found = _rows(calibrator, describe_classes(calibrator, None), measured, 2, SizeLimits())
    plotly = resources.files("reprior.report") / "assets" / "plotly" / "plotly-cartesian.min.js"
    size = 2 * len(script_json(found)) + len(plotly.read_bytes())
    assert size < 0.97 * MOST_BYTES
    for strength in (0.0, 0.7, 2.0):
        joint_now = replay_counts(found, strength, k)
        wanted = changes(measured.switches, strength, k)[0]
        start = np.bincount(joint.after, joint.weight, minlength=k)
        np.testing.assert_allclose(joint_now, start + wanted, atol=1e-6)


def replay_counts(table, strength, k):
    """Weighted predictions per class, without a table of all pairs."""
    predicted = np.zeros(k + 1)
    base, switches = table["joint"], table["switches"]
    np.add.at(predicted, unpack(base["after"]), unpack(base["weight"]))
    until = np.searchsorted(unpack(switches["position"]), strength, side="right")
    for name, sign in (("after", 1), ("before", -1)):
        np.add.at(
            predicted, unpack(switches[name])[:until], sign * unpack(switches["weight"])[:until]
        )
    return predicted[:k]


def test_many_classes_stay_small(tmp_path):
    rng = np.random.default_rng(5)
    logits, labels, counts = make_scores(rng, n=1500, k=1200, imbalance=300.0)
    with pytest.warns(UserWarning, match="classes have no tuning labels"):
        calibrator = fitted(logits, labels, counts)
    path = write_report(
        tmp_path / "r.html", calibrator, chunked(logits, labels, size=500),
        test=chunked(logits, labels, np.ones(1500) / 3, size=500), counts=counts,
    )  # fmt: skip
    data = page_json(path)
    assert path.stat().st_size < MOST_BYTES
    assert len(data["classes"]["cellNames"]) == 10
    assert not data["classes"]["whole"]
    assert sum(one_set["joint"]["size"] for one_set in data["sets"]) <= 3000
