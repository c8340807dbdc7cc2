"""Moments and tallies of parts add up to those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprior.fusion.counting import Moments, Tally, merged

numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=20).map(np.array)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_moments_of_parts_are_those_of_the_whole(parts):
    found, whole = merged(Moments.of(part) for part in parts), np.concatenate(parts)
    assert found.n == whole.size
    assert found.mean == pytest.approx(whole.mean(), abs=1e-11)
    assert found.std == pytest.approx(whole.std(), abs=1e-6)  # the root of a rounding is larger


def test_parts_without_numbers_are_left_out():
    one = Moments.of(np.array([1.0, 3.0]))
    assert merged([None, one, None]) == one == (2, 2.0, 2.0)
    assert one.std == 1.0
    assert merged([None]) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_tallies_count_as_loops_do(weighted):
    rng = np.random.default_rng(0)
    y, found = rng.integers(0, 3, (2, 50)), rng.integers(0, 3, (2, 50))
    v = rng.random((2, 50)) if weighted else [None, None]
    parts = []
    for part in range(2):
        tally = Tally.empty(2, 3, weighted)
        tally.add(0, y[part], found[part], v[part])
        tally.add(1, y[part], y[part], v[part])
        parts.append(tally)
    total = parts[0].merged(parts[1])
    for k in range(3):
        assert total.counts[0, 0, k] == ((y == k) & (found == k)).sum()
        assert total.counts[1, 0, k] == (found == k).sum()
        assert total.counts[0, 1, k] == total.counts[1, 1, k] == (y == k).sum()
        if weighted:
            assert total.sums[0, 0, k] == pytest.approx(v[(y == k) & (found == k)].sum())
            assert total.sums[1, 0, k] == pytest.approx(v[found == k].sum())
    assert (total.sums is not None) == weighted
