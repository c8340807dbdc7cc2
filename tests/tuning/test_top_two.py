from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tuning.bias_cases import UNIT, arrays_only, bias_cases
from tests.tuning.shared import assert_same_counts

from reprior.profile.samples import Block
from reprior.tuning.columns import Columns
from reprior.tuning.top_two import TopTwo

MOVES = st.lists(st.tuples(st.integers(0, 4), st.integers(-8, 8)), max_size=8)


@pytest.fixture(scope="module", params=[True, False], ids=["native", "arrays"])
def either(request):
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
def test_places_are_those_of_sorted_rows_whatever_moves(either, case, moves):
    two = TopTwo(case.data, case.start)
    assert_in_place(two)
    for k, steps in moves:
        two.move(k % case.n_classes, steps * UNIT / 2)
        assert_in_place(two)
        predictions = (np.asarray(case.scores, np.float64) + two.biases).argmax(axis=1)
        assert_same_counts(two.counts(), case.data.counts(predictions))


@pytest.mark.usefixtures("either")
def test_many_samples_and_a_class_out_of_play(rng):
    data = Columns(Block(rng.normal(size=(700, 9)), rng.integers(9, size=700), None))
    start = np.zeros(9)
    start[4] = -np.inf
    two = TopTwo(data, start)
    for k in (0, 3, 8, 3, 3, 7):
        two.move(k, float(rng.normal()))
        assert_in_place(two)
    assert 4 not in two.first
    assert start[3] == 0.0  # the caller's own
