from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from tests.profile.test_merging import added, assert_same
from tests.tuning.shared import random_case

from reprior.engines import PreallocatedSum
from reprior.profile import ProfileSum, pack_sum, unpack_sum

N = 300


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def parts_of(rng, *, weighted=False, size=37):
    case = random_case(rng, N, weighted=weighted)
    if weighted:  # whole ones: sums in any order agree to the bit
        case = type(case)(**{**vars(case), "weights": np.ceil(case.weights * 5)})
    return [case.rows(slice(i, i + size)).profile() for i in range(0, N, size)]


def lean(parts, limit):
    total = PreallocatedSum(exact_up_to=limit, resolution=0.05)
    for part in parts:
        total.add(part)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [1, 40, 10**4])
def test_it_is_the_plain_sum(rng, weighted, limit):
    parts = parts_of(rng, weighted=weighted)
    plain = added(parts, exact_up_to=limit, resolution=0.05)
    total = lean(parts, limit)
    assert total.coarse == plain.coarse
    assert_same(total.total(), plain.total())
    assert_same(total.consume(), plain.total())


def test_as_many_as_fit_are_kept(rng):
    parts = parts_of(rng)
    n = sum(part.n_switches for part in parts)
    assert not lean(parts, n).coarse
    assert lean(parts, n - 1).coarse


@pytest.mark.parametrize("cut", [1, 4])
def test_it_goes_on_from_a_checkpoint(rng, cut):
    parts = parts_of(rng)
    saved = pack_sum(lean(parts[:cut], 10**4))
    total = unpack_sum(*saved, into=PreallocatedSum(exact_up_to=10**4, resolution=0.05))
    for part in parts[cut:]:
        total.add(part)
    assert_same(total.consume(), added(parts).total())


def test_what_is_saved_is_not_changed_by_what_comes_after(rng):
    parts = parts_of(rng)
    total = lean(parts[:2], 10**4)
    first = total.total()
    for part in parts[2:]:
        total.add(part)
    assert_same(first, added(parts[:2]).total())


def test_sums_merge(rng):
    parts = parts_of(rng)
    total = lean(parts[:3], 10**4)
    total.merge(lean(parts[3:], 10**4))
    assert_same(total.total(), added(parts).total())


def test_the_switches_are_held_once(rng):
    """Beside what is added, at the end: the columns, an order, and one column more."""
    case = random_case(rng, 60_000)
    parts = [case.rows(slice(i, i + 500)).profile() for i in range(0, 60_000, 500)]
    n = sum(part.n_switches for part in parts)
    total, plain = PreallocatedSum(exact_up_to=n, resolution=0.05), ProfileSum()

    def peak(grow, finish):
        tracemalloc.start()
        for part in parts:
            grow(part)
        finish()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most / n

    per_switch = peak(total.add, total.consume)
    assert per_switch < 20 + 8 + 8 + 4  # and a little of everything else
    assert per_switch < 0.8 * peak(plain.add, lambda: plain.total()._switches.ordered)
