"""Dask arrays in parts: labels and weights are cut as the scores are."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprior.exceptions import LabelsError, RepriorError, ScoresError
from reprior.profile.lazy_parts import lazy_parts

lengths = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@settings(max_examples=15)
@given(lengths, lengths, st.booleans())
def test_parts_hold_every_sample_once(rows, columns, listed):
    shape = sum(rows), sum(columns)
    labels = np.arange(shape[0] * shape[1]).reshape(shape)
    scores = np.stack([labels, -labels], axis=1)
    parts = lazy_parts(
        da.from_array(scores, chunks=(tuple(rows), 1, tuple(columns))),
        labels.tolist() if listed else da.from_array(labels, chunks=3),
        da.from_array(labels * 2.0, chunks=shape),
        class_axis=1,
    )
    assert len(parts) == len(rows) * len(columns)
    seen = []
    with dask.config.set(scheduler="synchronous"):
        for part in dask.compute(*parts):
            np.testing.assert_array_equal(part[1], np.stack([part[2], -part[2]], axis=1))
            np.testing.assert_array_equal(part[3], 2.0 * part[2])
            seen.extend(part[2].reshape(-1).tolist())
    assert sorted(seen) == labels.reshape(-1).tolist()


def test_places_say_where_indices_count_from():
    scores = da.zeros((4, 2, 6), chunks=(2, 2, 3))
    parts = lazy_parts(scores, np.zeros((4, 6), int).tolist(), None, class_axis=1)
    assert [part.place for part in parts] == [
        "",
        "Indices count from sample (0, 3), where its chunk begins.",
        "Indices count from sample 2, where its chunk begins.",
        "Indices count from sample (2, 3), where its chunk begins.",
    ]
    assert all(part.weight is None for part in parts)


def test_one_sample_is_one_part():
    (part,) = lazy_parts(da.arange(5, chunks=2), [3], None, class_axis=-1)
    assert part.scores.compute().tolist() == [0, 1, 2, 3, 4]
    assert part.labels.tolist() == [3]


def test_scores_and_labels_of_two_libraries():
    with pytest.raises(RepriorError, match="one array library"):
        lazy_parts(da.zeros((3, 2)), np.zeros(3, int), None, class_axis=-1)


@pytest.mark.parametrize("name", ["labels", "sample_weight"])
def test_other_shapes_are_refused(name):
    arrays = {"labels": da.zeros(6, dtype=int), "sample_weight": da.ones(6), name: da.zeros(7)}
    with pytest.raises(LabelsError, match=rf"`{name}` must have one entry.* \(7,\) for scores of"):
        lazy_parts(da.zeros((6, 2)), **arrays, class_axis=-1)


def unknown(array):
    return array[array == 0]


@pytest.mark.parametrize(
    "scores, labels",
    [
        (unknown(da.zeros(6, chunks=2)), da.zeros(6, chunks=2)),  # only one knows
        (da.zeros(6, chunks=2), unknown(da.zeros(6, chunks=2))),
        (unknown(da.zeros(6, chunks=2)), unknown(da.zeros(6, chunks=3))),  # other chunks
        (unknown(da.zeros(6, chunks=2)), [0] * 6),
    ],
)
def test_unknown_sizes_are_refused_unless_both_are_alike(scores, labels):
    scores = da.stack([scores, scores], axis=1)
    with pytest.raises(ScoresError, match=r"must have chunks of known sizes.*compute_chunk_sizes"):
        lazy_parts(scores, labels, None, class_axis=-1)
