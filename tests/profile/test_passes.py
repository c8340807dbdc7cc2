from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import fields

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from tests.support import oracles
from tests.tuning.shared import cases, random_case, rows_of, switch_multiset

from reprior.core import namespace, threads
from reprior.exceptions import ScoresError
from reprior.profile import Switches, Table, passes, run_parts, run_pass


def assert_same_bits(a, b):
    (counts, sums, switches), (counts_too, sums_too, switches_too) = a[:3], b[:3]
    np.testing.assert_array_equal(counts, counts_too)
    np.testing.assert_array_equal(sums, sums_too)
    for name, column in switches.arrays().items():
        np.testing.assert_array_equal(column, switches_too.arrays()[name])


def assert_equal(a, b):
    (counts, sums, switches), (counts_too, sums_too, switches_too) = a[:3], b[:3]
    np.testing.assert_array_equal(counts, counts_too)
    assert switch_multiset(switches) == switch_multiset(switches_too)
    if sums is not None:
        np.testing.assert_allclose(sums, sums_too, rtol=1e-13)


@pytest.fixture(params=["native", "arrays"])
def either_path(request):
    if request.param == "arrays":
        request.getfixturevalue("without_native")


@pytest.fixture
def small_blocks(monkeypatch):
    """Make many blocks, groups and threads of few samples."""
    for name in ("HOST_BLOCK", "DEVICE_BLOCK", "FIRST_CAPACITY"):
        monkeypatch.setattr(passes, name, 64)
    monkeypatch.setattr(passes, "GROUP_ROWS", 20)
    monkeypatch.setattr(threads, "SCORES_PER_THREAD", 64)


# --------------------------------------------------------------------------------- oracle


@given(cases())
def test_the_table_counts_at_the_lower_bound_and_at_0(case):
    rows = rows_of(case.scores, case.labels, case.weights)
    counts, sums, switches, pairs = run_pass(rows, case.slopes, case.bounds)
    low = case.bounds[0]
    if low not in oracles.clear_strengths(case.scores, case.slopes, np.array([low]), 1e-9):
        return
    at_low, at_zero = oracles.predictions(case.scores, case.slopes, [low, 0.0])
    for table, weights in ((counts, None), (sums, case.weights)):
        if table is None:
            continue
        matrix = oracles.confusion(case.labels, at_low, case.slopes.size, weights)
        zero = oracles.confusion(case.labels, at_zero, case.slopes.size, weights)
        np.testing.assert_allclose(table[Table.SUPPORT], matrix.sum(axis=1))
        np.testing.assert_allclose(table[Table.TRUE_POSITIVE], np.diag(matrix))
        np.testing.assert_allclose(table[Table.PREDICTED], matrix.sum(axis=0))
        np.testing.assert_allclose(table[Table.TRUE_POSITIVE_AT_0], np.diag(zero))
        np.testing.assert_allclose(table[Table.PREDICTED_AT_0], zero.sum(axis=0))
    for known, decided in ((pairs.start, at_low), (pairs.origin, at_zero)):
        matrix = oracles.confusion(case.labels, decided, case.slopes.size, case.weights)
        np.testing.assert_allclose(known.matrix(case.slopes.size), matrix)
    assert (sums is None) == (case.weights is None) == (switches.weight is None)


# --------------------------------------------------------------------- blocks and threads


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(300,), (20, 15), (3, 5, 20)])
def test_blocks_and_threads_change_nothing(
    monkeypatch, rng, either_path, small_blocks, weighted, shape
):
    case = random_case(rng, 300, 5, weighted=weighted)
    weights = None if case.weights is None else case.weights.reshape(shape)
    labels = case.labels.copy()
    labels[:40] = 9  # whole blocks with nothing to count
    rows = rows_of(case.scores.reshape(*shape, 5), labels.reshape(shape), weights, ignore_index=9)
    found = []
    for n_threads in ("1", "2", "3", "4"):
        monkeypatch.setenv("REPRIOR_NUM_THREADS", n_threads)
        found.append(run_pass(rows, case.slopes, (0.0, 2.0)))
        assert_same_bits(found[-1], found[0])
    whole = rows_of(case.scores[40:], labels[40:], None if weights is None else case.weights[40:])
    with monkeypatch.context() as patch:
        patch.setattr(passes, "HOST_BLOCK", 1 << 20)
        patch.setattr(threads, "SCORES_PER_THREAD", 1 << 20)
        want = run_pass(whole, case.slopes, (0.0, 2.0))
    assert_equal(found[0], want)


def copied(counted):
    counts, sums, switches = counted[:3]
    columns = {field.name: getattr(switches, field.name) for field in fields(switches)}
    own = {name: None if column is None else column.copy() for name, column in columns.items()}
    return counts, sums, Switches(**own)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 2.0)])
@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_parts_are_the_whole_pass(
    monkeypatch, rng, either_path, small_blocks, weighted, bounds, n_threads
):
    case = random_case(rng, 300, 5, weighted=weighted)
    rows = rows_of(case.scores, case.labels, case.weights)
    want = run_pass(rows, case.slopes, bounds)
    monkeypatch.setenv("REPRIOR_NUM_THREADS", n_threads)
    monkeypatch.setattr(passes, "GROUPS_PER_PART", 4)
    found = [copied(part) for part in run_parts(rows, case.slopes, bounds)]
    assert len(found) >= 300 * 5 // (4 * 2 * 64)  # 4 groups of 1 or 2 blocks
    counts, sums, switches = zip(*found, strict=True)
    total = np.sum(sums, axis=0) if weighted else None
    assert_equal((np.sum(counts, axis=0), total, Switches.concatenate(switches)), want)
    assert weighted or sums == (None,) * len(found)


def test_parts_of_a_native_pass_share_their_memory(monkeypatch, rng, small_blocks):
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "1")
    monkeypatch.setattr(passes, "FIRST_CAPACITY", 1 << 12)
    case = random_case(rng, 3000, 5)
    rows = rows_of(case.scores, case.labels)
    first, *others = run_parts(rows, case.slopes, (0.0, 2.0))
    assert others
    for part in others:
        assert np.shares_memory(part.switches.position, first[2].position)


def test_classes_without_target_prior_in_blocks_and_threads(monkeypatch, rng, small_blocks):
    case = random_case(rng, 200, 4)
    slopes = case.slopes.copy()
    slopes[1] = -np.inf
    rows = rows_of(case.scores, case.labels)
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "3")
    found = run_pass(rows, slopes, (0.0, 2.0))
    with monkeypatch.context() as patch:
        patch.setattr(passes, "HOST_BLOCK", 1 << 20)
        assert_equal(found, run_pass(rows, slopes, (0.0, 2.0)))


@pytest.mark.parametrize("zero", [False, True])
def test_a_device_of_its_own_never_leaves_its_library(rng, small_blocks, zero):
    case = random_case(rng, 100, 4, weighted=True)
    slopes = case.slopes.copy()
    if zero:
        slopes[0] = -np.inf
    scores = array_api_strict.asarray(case.scores)
    rows = rows_of(scores, case.labels, case.weights, xp=namespace(scores))
    found = run_pass(rows, slopes, (0.0, 2.0))
    assert_equal(
        found, run_pass(rows_of(case.scores, case.labels, case.weights), slopes, (0.0, 2.0))
    )


@pytest.mark.parametrize("slope", [0.5, -np.inf])
def test_a_row_without_a_finite_score_is_refused_from_any_thread(
    monkeypatch, rng, either_path, small_blocks, slope
):
    scores = rng.normal(size=(200, 3))
    scores[150] = -np.inf
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "4")
    with pytest.raises(ScoresError, match=r"Got scores\[150, :\]"):
        run_pass(rows_of(scores, np.zeros(200)), np.array([slope, 0.0, 1.0]), (0.0, 1.0))


def test_nothing_switches(either_path):
    rows = rows_of(np.array([[5.0, 0.0]]), [0], [2.0])
    counts, sums, switches, _ = run_pass(rows, np.array([0.0, 1.0]), (0.0, 1.0))
    assert len(switches) == 0
    assert switches.weight.shape == (0,)
    assert counts[Table.SUPPORT].tolist() == [1, 0]
    assert sums[Table.PREDICTED].tolist() == [2.0, 0.0]


# ---------------------------------------------------------------------------- environment


FORKED = """
    import multiprocessing, os
    import numpy as np
    from reprior.core import kernels, threads
    from reprior.profile import passes
    from reprior.profile.profile import StrengthProfile

    os.environ["REPRIOR_NUM_THREADS"] = "2"
    threads.SCORES_PER_THREAD = 64
    passes.HOST_BLOCK = 64
    passes.GROUP_ROWS = 20
    if not {native}:
        kernels.native = None
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(500, 3)), rng.integers(3, size=500)

    def best(_):
        profile = StrengthProfile.from_scores(scores, labels, source_prior=[0.7, 0.2, 0.1])
        return profile.best("macro_f1")

    here = best(0)
    assert threads._pool.cache_info().currsize == 1
    with multiprocessing.get_context("fork").Pool(1) as pool:
        there = pool.map_async(best, [0, 1]).get(timeout=100)
    assert there == [here, here]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize("native", [True, False])
def test_a_forked_child_has_threads_of_its_own(native):
    # In a process of its own: pytest's has other libraries' threads, which a fork warns about.
    script = textwrap.dedent(FORKED).format(native=native)
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)
