"""Dataframes of Dask as arrays: columns in the order of the classes, names as they are."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

from reprior.exceptions import ScoresError
from reprior.profile.lazy_frames import (
    is_lazy_frame,
    lazy_column,
    lazy_columns,
    lazy_names,
    same_partitions,
)

pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture
def frame():
    columns = {"b": [1.0, 2.0, 3.0], "a": [4.0, 5.0, 6.0], "name": ["x", "y", "x"]}
    return dd.from_pandas(pd.DataFrame(columns), npartitions=2)


def test_what_is_a_frame(frame):
    assert is_lazy_frame(frame)
    assert not is_lazy_frame(frame["a"])
    assert not is_lazy_frame(pd.DataFrame())
    assert not is_lazy_frame(da.zeros(3))


def test_columns_go_in_the_order_of_the_classes(frame):
    scores = frame[["b", "a"]]
    assert lazy_columns(scores, None).compute().tolist() == [[1, 4], [2, 5], [3, 6]]
    ordered = lazy_columns(scores, np.array(["a", "b"]))
    assert ordered.compute().tolist() == [[4, 1], [5, 2], [6, 3]]
    other = lazy_columns(scores, np.array(["cat", "dog"]))  # taken as it stands
    assert other.compute().tolist() == [[1, 4], [2, 5], [3, 6]]


def test_columns_that_are_no_numbers(frame):
    with pytest.raises(ScoresError, match=r"numbers in every column.*'name'"):
        lazy_columns(frame, None)


def test_series_become_arrays_and_others_stay(frame):
    assert lazy_column(frame["b"]).compute().tolist() == [1, 2, 3]
    assert lazy_column(None) is None
    assert lazy_column([1]) == [1]


def test_names_are_found_once_each(frame):
    assert sorted(lazy_names(lazy_column(frame["name"]))) == ["x", "y"]
    many = da.from_array(np.arange(40) % 7, chunks=3)
    found = lazy_names(many)
    assert sorted(found) == list(range(7))
    assert {type(name) for name in found} == {int}


def test_what_is_no_series_stays_as_it_is(frame):
    labels = da.zeros(3)
    assert same_partitions(frame, labels, None) == (frame, labels, None)
    assert same_partitions([1.0], frame["a"], None)[0] == [1.0]
    scores, found, weight = same_partitions(frame[["b"]], frame["a"], labels)
    assert (list(scores.columns), weight is labels) == (["b"], True)
    assert found.compute().tolist() == [4.0, 5.0, 6.0]
