"""A fit on Dask is the fit in memory, whatever the shards, the workers and their order."""

from __future__ import annotations

import os
import re
import signal
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from tests.support.chunked_scores import Data, assert_same_fit, flat, images, quietly, weighted
from tests.support.shards import NAMES, in_memory, named, npz_shards, write_shards

import reprior as rp
from reprior.engines import ShardOptions, dask_engine, dask_fit, dask_profiles
from reprior.exceptions import LabelsError, OptionError, RepriorWarning, ScoresError
from reprior.profile.dask_arrays import Bins
from reprior.tuning import bootstrap_profiles, nested


def known(data: Data, **options: Any) -> Any:
    """The fit in memory."""
    return quietly(data.calibrator(**options).fit, data.scores, data.labels, data.weight)


def known_by_name(data: Data) -> Any:
    """The fit in memory, of classes with names."""
    return quietly(named(data).fit, data.scores, np.array(NAMES)[data.labels], data.weight)


def lazy(data: Data, rows: Any = 13) -> tuple[Any, ...]:
    """Dask arrays of the data."""
    arrays = (data.scores, data.labels, data.weight)
    return tuple(
        None if each is None else da.from_array(each, chunks=(rows, *each.shape[1:]))
        for each in arrays
    )


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("where", [(), (10, 10, 25, 40), (1, 2, 59), (0, 60), range(3, 60, 3)])
def test_shards_in_any_order_are_the_whole(tmp_path, where, heavy):
    data = weighted(flat(3)) if heavy else flat(3)
    paths = write_shards(tmp_path, data, where)
    np.random.default_rng(0).shuffle(paths)
    reading = ShardOptions(weight_column="weight" if heavy else None)
    found, said = quietly(dask_fit, named(data), paths, reading=reading, scheduler="synchronous")
    want, words = known_by_name(data)
    assert_same_fit(found, want)
    assert found.provenance_ is None
    assert said == words


@pytest.mark.parametrize("make", [flat, images])
@pytest.mark.parametrize("rows", [60, 17, 1])
@pytest.mark.parametrize("heavy", [False, True])
def test_dask_arrays(make, rows, heavy):
    data = weighted(make(3)) if heavy else make(3)
    found, said = quietly(dask_fit, data.calibrator(), lazy(data, rows), scheduler="synchronous")
    want, words = known(data)
    assert_same_fit(found, want)
    assert said == words


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "fit"},
        {"temperature": "fit", "label_prior": [0.1, 0.2, 0.3, 0.4]},
        {"metric": "log_loss"},
        {"metric": "log_loss", "temperature": 1.5},
        {"separate": True},
        {"target_prior": [0.5, 0.5, 0.0, 0.0], "temperature": "fit"},
        {"selection": "one_se"},
    ],
)
def test_what_is_fitted_by_log_loss(tmp_path, options):
    data = flat(5)
    pattern = npz_shards(tmp_path, data, 4)
    found, _ = quietly(dask_fit, data.calibrator(**options), pattern, scheduler="synchronous")
    want, _ = known(data, **options)
    assert found.temperature_ == pytest.approx(want.temperature_, rel=1e-6)
    assert found.strength_ == pytest.approx(want.strength_, rel=1e-6)
    assert found.best_score_ == pytest.approx(want.best_score_, rel=1e-9)
    if want.log_loss_ is not None:
        np.testing.assert_allclose(found.log_loss_, want.log_loss_, rtol=1e-9)


def test_bounds_are_widened_over_shards(tmp_path):
    data = flat(3, shift=2.5).with_options(bounds=(0.1, 0.25))
    found, said = quietly(dask_fit, data.calibrator(), npz_shards(tmp_path, data, 5))
    want, words = known(data)
    assert found.profile_.bounds[1] > 0.25
    assert_same_fit(found, want)
    assert said == words


def test_urls_of_fsspec():
    data = flat(7)
    pattern = in_memory(data, "engine-urls")
    found, _ = quietly(dask_fit, named(data), pattern)
    assert_same_fit(found, known_by_name(data)[0])


def test_labels_in_files_of_their_own(tmp_path):
    data = flat(1)
    for i, rows in enumerate(np.array_split(np.arange(60), 3)):
        np.save(tmp_path / f"scores-{i}.npy", data.scores[rows])
        np.save(tmp_path / f"labels-{i}.npy", data.labels[rows])
    files = str(tmp_path / "scores-*.npy"), str(tmp_path / "labels-*.npy")
    found, _ = quietly(dask_fit, data.calibrator(), files[0], labels=files[1])
    assert_same_fit(found, known(data)[0])
    with pytest.raises(LabelsError, match=r"as many files as there are shards"):
        dask_fit(data.calibrator(), files[0], labels=str(tmp_path / "labels-0.npy"))


def test_columns_are_chosen(tmp_path):
    data = weighted(flat(2))
    paths = write_shards(tmp_path, data)
    found, _ = quietly(dask_fit, named(data), paths, reading=ShardOptions(weight_column="weight"))
    assert_same_fit(found, known_by_name(data)[0])


# ----------------------------------------------------------------------------- bins


def test_many_switches_are_binned_and_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_engine, "AUTO_BINS", Bins(20, 1e-4))
    data = flat(4).with_options(bounds=(0.0, 8.0))  # as far as bounds are ever widened
    pattern = npz_shards(tmp_path, data, 6)
    with pytest.warns(RepriorWarning, match=r"more than 20 switches, too many to keep") as said:
        found = dask_fit(data.calibrator(), pattern)
    assert {each.filename for each in said} == {__file__}
    whole = known(data)[0].profile_
    assert found.profile_.resolution == 1e-4
    assert found.profile_.best("accuracy") == whole.binned(1e-4).best("accuracy")
    exact, _ = quietly(dask_fit, data.calibrator(), pattern, resolution=None)
    assert exact.profile_.resolution is None
    coarse, _ = quietly(dask_fit, data.calibrator(), pattern, resolution=0.1)
    assert coarse.profile_.best("accuracy") == whole.binned(0.1).best("accuracy")


# -------------------------------------------------------------------------- shards as units


def test_groups_of_shards_are_folds_and_blocks(tmp_path):
    data = flat(6, n=400)
    pattern = npz_shards(tmp_path, data, 24)
    profiles, _ = quietly(dask_profiles, data.calibrator(), pattern, n_groups=12)
    assert sum(profile.n_samples for profile in profiles) == 400
    assert len(profiles) == 12
    parts = np.array_split(np.arange(400), 24)
    rows = np.concatenate([parts[1], parts[13]])  # dealt out in turn
    want = rp.StrengthProfile.from_scores(
        data.scores[rows], data.labels[rows], source_prior=data.prior
    )
    assert profiles[1].best("accuracy") == want.best("accuracy")
    judged = nested(profiles, "accuracy")
    assert judged.best == known(data)[0].profile_.best("accuracy")
    assert len(judged.scores) == 12
    assert bootstrap_profiles(profiles, n_replicates=30).standard_error("accuracy", 1.0) > 0


def test_groups_are_all_binned_or_none(tmp_path, monkeypatch):
    data = flat(6, n=200)
    np.savez(tmp_path / "a.npz", scores=data.scores[:190], labels=data.labels[:190])
    np.savez(tmp_path / "b.npz", scores=data.scores[190:], labels=data.labels[190:])
    monkeypatch.setattr(dask_engine, "AUTO_BINS", Bins(50, 1e-4))
    pattern = str(tmp_path / "*.npz")
    profiles, _ = quietly(dask_profiles, data.calibrator(), pattern, n_groups=2)
    assert [profile.resolution for profile in profiles] == [1e-4, 1e-4]


def test_a_group_without_samples_is_refused_and_its_shards_are_named(tmp_path):
    data = flat(0)
    pattern = npz_shards(tmp_path, data, 6)
    for name in ("001.npz", "004.npz"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-40])
    groups = partial(dask_profiles, data.calibrator(), pattern, on_error="skip")
    with pytest.raises(OptionError, match=r"no shard could be read: '.*001.npz', '.*004.npz'\. L"):
        quietly(groups, n_groups=3)
    profiles, said = quietly(groups, n_groups=2)
    assert [profile.n_samples for profile in profiles] == [20, 20]
    assert any("2 of 6 shards could not be read" in sentence for sentence in said)
    data = data.with_options(ignore_index=9)
    for name in ("001.npz", "004.npz"):
        np.savez(tmp_path / name, scores=data.scores[:10], labels=np.full(10, 9))
    reading = ShardOptions(ignore_index=9)
    with pytest.raises(OptionError, match=r"no shard has samples that count: '.*001.npz'"):
        quietly(dask_profiles, data.calibrator(), pattern, n_groups=3, reading=reading)


# ---------------------------------------------------------------------------- clusters


@pytest.fixture
def cluster(request):
    """A client of a cluster on this machine: (processes or threads, number of workers)."""
    distributed = pytest.importorskip("distributed")
    processes, n = request.param
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as found,
        distributed.Client(found) as client,
    ):
        yield client


def on(processes: bool, *numbers: int) -> Any:
    marks = [pytest.mark.heavy] if processes else []
    return [pytest.param((processes, n), marks=marks) for n in numbers]


@pytest.mark.parametrize("cluster", [*on(False, 1, 2, 4), *on(True, 1, 2, 4)], indirect=True)
def test_workers_do_not_matter(cluster, tmp_path):
    data = weighted(flat(8, n=200))
    plain = flat(8, n=200)
    found, _ = quietly(dask_fit, data.calibrator(), lazy(data, 21))
    assert_same_fit(found, known(data)[0])
    files, _ = quietly(
        dask_fit, plain.calibrator(temperature="fit"), npz_shards(tmp_path, plain, 11)
    )
    assert_same_fit(files, known(plain, temperature="fit")[0])
    for some in (data, plain):
        binned, _ = quietly(dask_fit, some.calibrator(), lazy(some, 21), resolution=0.01)
        chunks = [(some.scores, some.labels, *(() if some.weight is None else (some.weight,)))]
        want, _ = quietly(rp.engines.fit, some.calibrator(), chunks, resolution=0.01)
        assert_same_fit(binned, want)
        for name, column in want.profile_._switches.arrays().items():
            np.testing.assert_array_equal(binned.profile_._switches.arrays()[name], column)


@pytest.mark.parametrize("cluster", on(True, 2), indirect=True)
@pytest.mark.parametrize("resolution", [None, 0.01])
def test_a_worker_killed_in_the_middle_loses_nothing(cluster, tmp_path, resolution):
    data, flag = flat(9, n=200), tmp_path / "killed"

    def deadly(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 4 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    scores, labels, _ = lazy(data, 21)
    scores = scores.map_blocks(deadly, dtype=float, meta=np.empty((0, 0)))
    found, _ = quietly(dask_fit, data.calibrator(), (scores, labels), resolution=resolution)
    assert flag.exists()
    chunks = [(data.scores, data.labels)]
    want, _ = quietly(rp.engines.fit, data.calibrator(), chunks, resolution=resolution)
    assert_same_fit(found, want)


@pytest.mark.heavy
def test_a_cluster_is_started_on_request(tmp_path):
    pytest.importorskip("distributed")
    data = flat(8)
    found, _ = quietly(dask_fit, data.calibrator(), npz_shards(tmp_path, data, 3), n_workers=2)
    assert_same_fit(found, known(data)[0])


# -------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "options",
    [
        {"tune": "per_class"},
        {"cv": 3},
        {"n_bootstrap": 50},
        {"selection": "balanced_log_loss"},
        {"temperature": "vector", "metric": "log_loss"},
    ],
    ids=str,
)
def test_what_needs_all_scores_collects_them(tmp_path, options):
    data = flat(0)
    shards = npz_shards(tmp_path, data, 2)
    found, _ = quietly(dask_fit, data.calibrator(**options), shards, scheduler="synchronous")
    want, _ = known(data, **options)
    for mine, theirs in zip(found.as_affine(), want.as_affine(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert found.best_score_ == pytest.approx(want.best_score_)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"resolution": "fine"}, "`resolution` must be a number above 0, 'auto' or None"),
        ({"resolution": 0.0}, "`resolution` must be"),
        ({"on_error": "ignore"}, "`on_error` must be"),
        ({"n_workers": 0}, "`n_workers` must be a whole number"),
    ],
)
def test_options_are_refused(tmp_path, options, sentence):
    data = flat(0)
    with pytest.raises(OptionError, match=sentence):
        dask_fit(data.calibrator(), npz_shards(tmp_path, data, 2), **options)


@pytest.mark.parametrize(
    "options, got",
    [
        ({"labels": "labels-*.npy"}, "'labels-\\*.npy'"),
        ({"labels": da.zeros(60, dtype=int)}, "Array"),
        ({"reading": ShardOptions(weight_column="w")}, "ShardOptions"),
        ({"on_error": "skip"}, "'skip'"),
    ],
)
def test_what_is_about_files_is_refused_for_arrays(options, got):
    data, (name,) = flat(0), options
    with pytest.raises(OptionError, match=rf"`{name}` must be left out .*about files. Got {got}"):
        dask_fit(data.calibrator(), lazy(data), **options)


@pytest.mark.parametrize("n_groups", [0, 3, 1.5, True])
def test_groups_are_at_most_as_many_as_shards(tmp_path, n_groups):
    data = flat(0)
    with pytest.raises(OptionError, match=r"from 1 to the number of shards, 2"):
        dask_profiles(data.calibrator(), npz_shards(tmp_path, data, 2), n_groups=n_groups)


def test_logits_that_look_like_probabilities(tmp_path):
    data = Data(np.full((30, 4), 0.25), np.arange(30) % 4)
    _, said = quietly(dask_fit, data.calibrator(), npz_shards(tmp_path, data, 2))
    assert any("every row lies in [0, 1] and sums to 1" in sentence for sentence in said)


def test_no_file_matches(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"no file matches the pattern"):
        dask_fit(flat().calibrator(), str(tmp_path / "*.npz"))


def test_a_shard_that_is_named_twice(tmp_path):
    data = flat(3)
    pattern = npz_shards(tmp_path, data, 3)
    first = str(min(tmp_path.iterdir()))
    with pytest.raises(OptionError, match=rf"named once each\. Got '{re.escape(first)}' twice"):
        dask_fit(data.calibrator(), [pattern, first])
    (tmp_path / "link.npz").symlink_to(first)
    with pytest.raises(OptionError, match=r"which are the same file"):
        dask_fit(data.calibrator(), [first, str(tmp_path / "link.npz")])
    url = in_memory(data, "named-twice").replace("*", "part-000")
    with pytest.raises(OptionError, match=r"twice"):
        dask_fit(named(data), [url, url])


def test_why_refine_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"Got 'refine', which reads the shards once more"):
        dask_fit(flat(3).calibrator(), tmp_path / "a.npz", resolution="refine")


def test_dataframes_of_dask():
    frames, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    data = flat(5)
    names = list(NAMES[: data.scores.shape[1]])
    table = pd.DataFrame(data.scores, columns=names).assign(
        label=np.array(names)[data.labels], weight=2
    )
    frame = frames.from_pandas(table, npartitions=3)
    given = (frame[names], frame["label"])
    found, _ = quietly(dask_fit, named(data), given, scheduler="synchronous")
    assert_same_fit(found, known_by_name(data)[0])
    found, _ = quietly(dask_fit, named(data), (*given, frame["weight"]), scheduler="synchronous")
    assert found.strength_ == known_by_name(data)[0].strength_


def test_a_dataframe_with_a_renamed_column_is_refused():
    frames, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    data = flat(5)
    labels = pd.Series(np.array(NAMES)[data.labels])

    def fitted(columns, scores):
        table = pd.DataFrame(scores, columns=columns)
        lazy = frames.from_pandas(table, npartitions=3), frames.from_pandas(labels, npartitions=3)
        return quietly(dask_fit, named(data), lazy, scheduler="synchronous")[0]

    words = r"columns of `scores` must be the classes.* Got 'wasp', which .*to_dask_array"
    with pytest.raises(ScoresError, match=words):
        fitted(["wasp", *NAMES[1:]], data.scores)
    with pytest.raises(ScoresError, match="Got no 'dog'"):
        fitted(NAMES[:-1], data.scores[:, :-1])
    assert_same_fit(fitted(NAMES[::-1], data.scores[:, ::-1]), known_by_name(data)[0])
    assert_same_fit(fitted(list("abcd"), data.scores), known_by_name(data)[0])  # by position


@pytest.mark.parametrize("wrong", [np.eye(3), (np.eye(3), np.arange(3)), da.ones((3, 3)), 5])
def test_arrays_that_are_no_tuple_of_dask(wrong):
    words = r"a tuple of Dask arrays or dataframes, .* Got (ndarray|ndarray first|Array|int)\. Pass"
    with pytest.raises(OptionError, match=words):
        dask_fit(flat(3).calibrator(), wrong)
