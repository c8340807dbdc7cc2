"""Profiles of Dask arrays: a task per chunk, a tree of sums, the result of memory to the bit."""

from __future__ import annotations

import pickle
import threading
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tuning.shared import assert_same_counts, random_case, switch_multiset

import reprior as rp
from reprior.core import shares_out
from reprior.core.logspace import FEW_SCORES
from reprior.exceptions import (
    LabelsError,
    ProfileMismatchError,
    RepriorError,
    RepriorWarning,
    ScoresError,
)
from reprior.profile import (
    Bins,
    DaskArrays,
    PackedProfile,
    StrengthProfile,
    is_lazy_frame,
    join_profiles,
    lazy_column,
    lazy_columns,
    lazy_names,
    lazy_parts,
    same_partitions,
    tree,
)
from reprior.profile.dask_arrays import FAN_IN

METRICS = ("accuracy", "balanced_accuracy", "mean_iou")


def assert_same(a: StrengthProfile, b: StrengthProfile) -> None:
    """Equal to the bit."""
    assert (a.n_samples, a.n_switches, a.resolution) == (b.n_samples, b.n_switches, b.resolution)
    assert_same_counts(a.baseline, b.baseline)
    for name in METRICS:
        assert a.best(name) == b.best(name)
        for mine, theirs in zip(a.curve(name), b.curve(name), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def cut(array: Any, *lengths: Any) -> Any:
    return None if array is None else da.from_array(array, chunks=lengths)


chunkings = st.lists(st.integers(1, 60), min_size=1, max_size=20)


@settings(max_examples=25)
@given(st.integers(0, 9), chunkings, st.integers(1, 5), st.booleans(), st.booleans())
def test_any_chunking_is_the_profile_in_memory(seed, lengths, of_classes, heavy, binned):
    n = sum(lengths)
    case = random_case(np.random.default_rng(seed), n, weighted=False)
    weight = np.arange(n) % 3 + 1.0 if heavy else None
    options = {"resolution": 0.01 if binned else None, "source_prior": case.source}
    found = StrengthProfile.from_scores(
        cut(case.scores, tuple(lengths), of_classes),
        cut(case.labels, 7),
        sample_weight=cut(weight, 11),
        **options,
    )
    assert_same(found, case.profile(sample_weight=weight, **options))


def test_images_cut_along_every_axis(rng):
    one = random_case(rng, 4 * 6 * 5, 3)
    scores = np.moveaxis(one.scores.reshape(4, 6, 5, 3), -1, 1)
    labels = one.labels.reshape(4, 6, 5)
    found = StrengthProfile.from_scores(
        da.from_array(scores, chunks=(3, 2, 4, 2)), da.from_array(labels, chunks=2),
        source_prior=one.source, class_axis=1,
    )  # fmt: skip
    assert switch_multiset(found._switches) == switch_multiset(one.profile()._switches)
    assert_same_counts(found.baseline, one.profile().baseline)


def test_chunks_of_unknown_sizes_go_with_labels_of_the_same(rng):
    case = random_case(rng, 60, 3)
    frame = da.from_array(np.c_[case.scores, case.labels], chunks=(25, 4))
    kept = case.scores[:, 0] > 0
    some = frame[da.from_array(kept, chunks=25)]
    found = StrengthProfile.from_scores(
        some[:, :3], some[:, 3].astype(int), source_prior=case.source
    )
    assert_same(found, case.rows(kept).profile())


class Sizes:
    """A pass that notes what its blocks are, and how many results are merged at once."""

    def __init__(self):
        self.blocks, self.merged = [], []

    def begin(self):
        return self

    def add(self, samples):
        self.blocks.append((samples.labels.size, type(samples.scores), shares_out()))

    def result(self):
        return 1

    def merge(self, results):
        self.merged.append(len(results))
        return sum(results)


def test_work_is_one_task_per_chunk_and_a_tree(rng):
    case, sizes = random_case(rng, 100, 3), Sizes()
    arrays = DaskArrays(cut(case.scores, 5, 3), cut(case.labels, 5), None, n_classes=3)
    with dask.config.set(scheduler="synchronous"):
        assert arrays.run(sizes) == 20
    assert sizes.blocks == [(5, np.ndarray, False)] * 20  # in one thread each
    assert sorted(sizes.merged) == [3, 4, 8, 8]  # 20 results by 8, 8 and 4, and these three


def test_tasks_run_on_the_scheduler_that_is_active(rng):
    case, threads = random_case(rng, 40, 3), set()

    def spy(block):
        threads.add(threading.get_ident())
        return block

    scores = cut(case.scores, 10, 3).map_blocks(spy, dtype=float)
    with dask.config.set(scheduler="synchronous"):
        StrengthProfile.from_scores(scores, cut(case.labels, 10), source_prior=case.source)
    assert threads == {threading.get_ident()}


def test_processes_give_the_same(rng):
    case = random_case(rng, 60, 3)
    with dask.config.set(scheduler="processes", num_workers=2):
        found = StrengthProfile.from_scores(
            cut(case.scores, 20, 3), cut(case.labels, 20), source_prior=case.source
        )
    assert_same(found, case.profile())


@pytest.mark.parametrize("n", [1, 2, 8, 9, 64, 65, 130])
def test_a_tree_has_every_item_once_and_in_order(n):
    items = [dask.delayed([i]) for i in range(n)]
    sizes: list[int] = []

    def join(parts):
        sizes.append(len(parts))
        return [item for part in parts for item in part]

    with dask.config.set(scheduler="synchronous"):
        assert tree(items, join).compute() == list(range(n))
    assert all(size <= FAN_IN for size in sizes)


# ---------------------------------------------------------------------------- bins


@settings(max_examples=25)
@given(st.integers(0, 5), st.integers(1, 40), st.integers(0, 200))
def test_bins_begin_at_a_number_of_switches_whatever_the_tree(seed, n_parts, limit):
    case = random_case(np.random.default_rng(seed), 120, 3)
    parts = [case.rows(slice(i, None, n_parts)).profile() for i in range(n_parts)]
    bins = Bins(limit, 0.05)
    level: list[Any] = [join_profiles([PackedProfile(part)], bins) for part in parts]
    while len(level) > 1:
        level = [join_profiles(level[i : i + 3], bins) for i in range(0, len(level), 3)]
    whole = case.profile()
    many = whole.n_switches > limit
    assert_same(level[0].unpacked(), whole.binned(0.05) if many else whole)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("resolution", [None, 0.01])
def test_joining_again_counts_nothing_twice(rng, heavy, resolution):
    """A task of which the result is lost is done again, with the same things given to it."""
    case, bins = random_case(rng, 90, 3), Bins.of(resolution)
    weight = np.arange(90) % 3 + 1.0 if heavy else None
    parts = []
    for rows in (slice(0, 50), slice(50, 52), slice(52, 90)):
        some = None if weight is None else weight[rows]
        profile = case.rows(rows).profile(sample_weight=some)
        parts.append(join_profiles([PackedProfile(profile)], bins))
    whole = case.profile(sample_weight=weight, resolution=resolution)
    for order in (parts, parts[::-1], parts):
        joined = join_profiles(order, bins)
        assert joined is not None
        for _ in range(2):
            assert_same(joined.unpacked(), whole)


def test_a_packed_profile_is_small_and_says_of_its_bins_no_less(rng):
    case = random_case(rng, 4000, 5)
    closed = case.profile(resolution=0.01)
    packed = join_profiles([PackedProfile(case.profile())], Bins.of(0.01))
    assert len(pickle.dumps(packed)) < len(pickle.dumps(closed)) / 4
    found = pickle.loads(pickle.dumps(packed)).unpacked()
    for name, column in closed._switches.arrays().items():
        np.testing.assert_array_equal(found._switches.arrays()[name], column, err_msg=name)
        assert found._switches.arrays()[name].dtype == column.dtype


def test_nothing_joins_to_nothing(rng):
    part = random_case(rng).profile()
    assert join_profiles([None, None]) is None
    joined = join_profiles([None, PackedProfile(part)])
    assert joined is not None
    assert_same(joined.unpacked(), part)


# ---------------------------------------------------------------------------- words


def profile(scores, labels, **options):
    return StrengthProfile.from_scores(
        scores, labels, **{"source_prior": [0.5, 0.3, 0.2], **options}
    )


def test_all_samples_ignored():
    with pytest.raises(LabelsError, match="Got 30 samples, all of them ignored"):
        profile(da.zeros((30, 3), chunks=10), da.zeros(30, dtype=int, chunks=10), ignore_index=0)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"kind": "scores"}, "`kind` must be"),
        ({"bounds": (1.0, 0.0)}, "`bounds` must be"),
        ({"resolution": -1.0}, "`resolution` must be"),
        ({"source_prior": [0.5, 0.6, 0.2]}, "`source_prior` must sum to 1"),
    ],
)
def test_options_are_refused_before_any_task(options, sentence):
    def never(block):
        raise AssertionError("a task ran")

    scores = da.zeros((30, 3), chunks=10).map_blocks(never, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=sentence):
        profile(scores, da.zeros(30, dtype=int, chunks=10), **options)


def test_an_error_without_an_index_says_no_place():
    labels = da.from_array(np.zeros(30), chunks=10)
    with pytest.raises(LabelsError, match=r"integers.*PyTorch\.$"):
        profile(da.zeros((30, 3), chunks=10), labels)


def test_an_error_in_a_corner_says_where_it_counts_from():
    scores = np.zeros((4, 4, 3))
    scores[3, 3, 1] = np.nan
    with pytest.raises(ScoresError, match=r"scores\[1, 1, 1\]=nan.*from sample \(2, 2\), where"):
        profile(da.from_array(scores, chunks=(2, 2, 3)), da.zeros((4, 4), dtype=int, chunks=2))


def test_an_error_in_a_chunk_of_unknown_size_names_the_chunk():
    scores = np.zeros((30, 3))
    scores[25, 1] = np.nan
    both = da.from_array(np.c_[scores, np.zeros(30)], chunks=(10, 4))
    both = both[both[:, 3] == 0]
    with pytest.raises(ScoresError, match=r"scores\[5, 1\]=nan.*beginning of chunk 2\."):
        profile(both[:, :3], both[:, 3].astype(int))


def test_logits_that_look_like_probabilities_in_every_chunk():
    even = np.full((30, 3), 1 / 3)
    labels = da.zeros(30, dtype=int, chunks=10)
    with pytest.warns(RepriorWarning, match="every row lies in") as said:
        profile(da.from_array(even, chunks=(10, 3)), labels)
    assert [each.filename for each in said] == [__file__]
    for row in (20, 29):  # one chunk does not, in its first row or in another: no warning
        odd = even.copy()
        odd[row] = 2.0
        profile(da.from_array(odd, chunks=(10, 3)), labels)


@pytest.mark.parametrize("n", [30, 12])
def test_single_logits_that_look_like_probabilities(n):
    ask = partial(
        profile, da.full(n, 0.5, chunks=6), da.zeros(n, dtype=int, chunks=6),
        source_prior=[0.6, 0.4],
    )  # fmt: skip
    if n < FEW_SCORES:
        ask()
    else:
        with pytest.warns(RepriorWarning, match="every one of them lies in"):
            ask()


def test_a_fit_warns_of_single_logits_that_look_like_probabilities():
    labels = da.from_array(np.arange(30) % 2, chunks=6)
    calibrator = rp.PosteriorCalibrator([0.6, 0.4])
    scores = da.from_array(np.linspace(0, 1, 30), chunks=6)
    with pytest.warns(RepriorWarning, match="every one of them lies in") as caught:
        calibrator.fit(scores, labels)
    assert __file__ in [each.filename for each in caught]
    declared = rp.PosteriorCalibrator([0.6, 0.4], kind="probs").fit(scores, labels)
    assert declared.profile_.n_samples == 30


@pytest.mark.parametrize("row", [24, 29])
def test_single_logits_of_which_one_is_no_probability(row):
    scores = np.full(30, 0.5)
    scores[row] = -0.1
    labels = da.zeros(30, dtype=int, chunks=6)
    found = profile(da.from_array(scores, chunks=6), labels, source_prior=[0.6, 0.4])
    assert found.n_samples == 30


def test_an_odd_resolution_of_parts_is_refused(rng):
    part = random_case(rng).profile()
    with pytest.raises(ProfileMismatchError, match="equal resolution to add"):
        join_profiles([PackedProfile(part.binned(0.1)), PackedProfile(part)], Bins(0, 0.05))
    packed = join_profiles([PackedProfile(part)], Bins(0, 0.1))
    with pytest.raises(ProfileMismatchError, match="equal resolution to add"):
        join_profiles([packed], Bins(0, 0.05))


def test_probabilities_that_are_declared_bring_no_warning():
    even = da.full((30, 3), 1 / 3, chunks=(10, 3))
    assert profile(even, da.zeros(30, dtype=int, chunks=10), kind="probs").n_samples == 30


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
