"""Faults of shards: each is named, and counted wholly or not at all."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest
from tests.support.chunked_scores import Data, assert_same_fit, flat, quietly
from tests.support.shards import (
    NAMES,
    in_memory,
    named,
    npz_shards,
    parquet_bytes,
    write_shards,
)

import reprior as rp
from reprior.engines import dask_fit
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    OptionError,
    RepriorWarning,
    ScoresError,
)


def without(data: Data, a: int, b: int):
    """The fit in memory without some samples."""
    kept = np.r_[0:a, b:60]
    labels = np.array(NAMES)[data.labels[kept]]
    return quietly(named(data).fit, data.scores[kept], labels)[0]


def fit(data, paths, **options):
    return dask_fit(named(data), paths, scheduler="synchronous", **options)


def break_off(path):
    path.write_bytes(path.read_bytes()[:-40])


def damage_a_page(path):
    """Leave header and footer whole, so that only reading the rows finds out."""
    content = bytearray(path.read_bytes())
    content[40:140] = bytes(100)
    path.write_bytes(content)


def lose(path):
    path.unlink()


FAULTS = {
    break_off: (FileFormatError, "truncated|damaged|broken|complete"),
    damage_a_page: (FileFormatError, "damaged|truncated|broken|complete"),
    lose: (FileNotFoundError, "No such file"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("which", [0, 3])
def test_a_shard_that_cannot_be_read_is_named(tmp_path, fault, which):
    data = flat(3)
    paths = write_shards(tmp_path, data)
    fault(paths[which])
    error, words = FAULTS[fault]
    with pytest.raises(error, match=words) as raised:
        fit(data, paths)
    assert str(paths[which]) in str(raised.value)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("which, rows", [(0, (0, 10)), (3, (25, 40))])
def test_the_rest_goes_on_when_asked(tmp_path, fault, which, rows):
    data = flat(3)
    paths = write_shards(tmp_path, data)
    fault(paths[which])
    found, said = quietly(fit, data, paths, on_error="skip")
    assert_same_fit(found, without(data, *rows))
    (sentence,) = (each for each in said if "could not be read" in each)
    assert sentence.startswith("1 of 5 shards could not be read and were left out: ")
    assert str(paths[which]) in sentence
    assert found.provenance_ == {
        "digest": "",
        "n_samples": 60 - (rows[1] - rows[0]),
        "left_out": {"files": [str(paths[which])], "n_samples": None},
    }
    found.save(tmp_path / "cal.json")
    assert rp.load(tmp_path / "cal.json").provenance_ == found.provenance_


def test_a_shard_left_out_stays_out_in_later_passes(tmp_path):
    data = flat(3)
    paths = write_shards(tmp_path, data)
    break_off(paths[3])
    calibrator = named(data, temperature="fit", bounds=(0.0, 0.1))  # widened, and Newton's passes
    found, said = quietly(dask_fit, calibrator, paths, on_error="skip", scheduler="synchronous")
    kept = np.r_[0:25, 40:60]
    same = named(data, temperature="fit", bounds=(0.0, 0.1))
    want, _ = quietly(same.fit, data.scores[kept], np.array(NAMES)[data.labels[kept]])
    assert_same_fit(found, want)
    assert sum("could not be read" in each for each in said) == 1


def test_a_shard_that_breaks_after_the_first_pass_is_no_longer_passed_over(tmp_path, monkeypatch):
    from reprior.engines import dask_shards

    data = flat(3)
    paths = write_shards(tmp_path, data)
    settle = dask_shards.Shards._settle

    def then_break(self, failures):
        settle(self, failures)
        lose(paths[4]) if paths[4].exists() else None

    monkeypatch.setattr(dask_shards.Shards, "_settle", then_break)
    calibrator = named(data, temperature="fit")
    with pytest.raises(FileNotFoundError, match=r"part-004\.parquet"):
        quietly(dask_fit, calibrator, paths, on_error="skip", scheduler="synchronous")
    assert not hasattr(calibrator, "strength_")


def change_after_the_first_pass(monkeypatch, change):
    from reprior.engines import dask_shards

    settle, done = dask_shards.Shards._settle, []

    def then_change(self, failures):
        settle(self, failures)
        if not done:
            done.append(change())

    monkeypatch.setattr(dask_shards.Shards, "_settle", then_change)


def other_rows(path, rows):
    np.savez(path, scores=flat(5).scores[rows], labels=flat(5).labels[rows])


@pytest.mark.parametrize(
    "rows, words",
    [
        (slice(0, 23), r"Got 30 samples in '.*1\.npz', and then 23\. Leave the files alone"),
        (slice(0, 30), r"Got '.*1\.npz', which was changed since\. Leave the files alone"),
    ],
)
def test_shards_that_change_between_two_passes_are_refused(tmp_path, monkeypatch, rows, words):
    data = flat(3)
    pattern = npz_shards(tmp_path, data, 2)
    change_after_the_first_pass(monkeypatch, lambda: other_rows(tmp_path / "001.npz", rows))
    calibrator = data.calibrator(temperature="fit")
    with pytest.raises(OptionError, match=r"same samples in every pass\. " + words):
        quietly(dask_fit, calibrator, pattern, scheduler="synchronous")
    assert not hasattr(calibrator, "strength_")


def test_shards_elsewhere_that_change_between_two_passes_are_refused(monkeypatch):
    data = flat(3)
    pattern = in_memory(data, "changing")
    content = parquet_bytes(flat(5), slice(40, 60))

    def change():
        fsspec.filesystem("memory").pipe("/changing/part-004.parquet", content)

    change_after_the_first_pass(monkeypatch, change)
    with pytest.raises(OptionError, match=r"part-004.parquet', which was (changed|\d+ bytes)"):
        quietly(dask_fit, named(data, temperature="fit"), pattern, scheduler="synchronous")


def test_labels_that_change_between_two_passes_are_refused(tmp_path, monkeypatch):
    data = flat(3)
    np.save(tmp_path / "z.npy", data.scores)
    np.save(tmp_path / "y.npy", data.labels)
    change_after_the_first_pass(
        monkeypatch, lambda: np.save(tmp_path / "y.npy", np.roll(data.labels, 1))
    )
    paths = {"scores": tmp_path / "z.npy", "labels": tmp_path / "y.npy"}
    with pytest.raises(OptionError, match=r"y\.npy', which was changed since"):
        quietly(dask_fit, data.calibrator(temperature="fit"), scheduler="synchronous", **paths)


def test_one_file_with_two_files_of_labels_of_which_one_is_broken(tmp_path):
    # Told apart by their labels: one is left out, the other one stays, in every pass.
    data = flat(3)
    np.save(tmp_path / "z.npy", data.scores)
    np.save(tmp_path / "y.npy", data.labels)
    (tmp_path / "no.npy").write_bytes((tmp_path / "y.npy").read_bytes()[:-40])
    found, said = quietly(
        dask_fit,
        data.calibrator(temperature="fit"),
        [tmp_path / "z.npy"] * 2,
        labels=[tmp_path / "y.npy", tmp_path / "no.npy"],
        on_error="skip",
        scheduler="synchronous",
    )
    want, _ = quietly(data.calibrator(temperature="fit").fit, data.scores, data.labels)
    assert_same_fit(found, want)
    assert sum("1 of 2 shards could not be read" in each for each in said) == 1
    assert found.provenance_["n_samples"] == 60


def test_many_damaged_shards_are_not_all_named(tmp_path):
    data = flat(3)
    paths = write_shards(tmp_path, data, range(5, 60, 5))
    for path in paths[:7]:
        break_off(path)
    _, said = quietly(fit, data, paths, on_error="skip")
    assert any(each.endswith(" And 2 more.") for each in said)  # after five by name


def test_no_readable_shard_is_left(tmp_path):
    data = flat(3)
    paths = write_shards(tmp_path, data)
    for path in paths:
        break_off(path)
    with pytest.raises(
        FileFormatError, match=r"Some shard must have rows. Got 5 shards, each empty"
    ):
        fit(data, paths, on_error="skip")


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_shards_of_other_classes_are_refused_in_any_case(tmp_path, on_error):
    data = flat(3)
    paths = write_shards(tmp_path, data)
    fewer = Data(data.scores[:, :3], np.minimum(data.labels, 2))
    paths[2].write_bytes(parquet_bytes(fewer, slice(0, 20)))
    with pytest.raises(FileFormatError) as raised:
        fit(data, paths, on_error=on_error)
    assert str(raised.value) == (
        f"All shards must have the same classes. Those of {str(paths[0])!r} and "
        f"{str(paths[2])!r} differ: 'dog' in {str(paths[0])!r} alone. Every numeric column of a "
        f"table is a class, unless `classes` names these. Make them alike, or fit them apart."
    )


def test_empty_shards_are_fine_first_and_last(tmp_path):
    data = flat(3)
    paths = write_shards(tmp_path, data, (0, 30, 60))
    found, said = quietly(fit, data, paths)
    labels = np.array(NAMES)[data.labels]
    want, words = quietly(named(data).fit, data.scores, labels)
    assert_same_fit(found, want)
    assert said == words


def test_a_wrong_label_is_never_passed_over_and_names_the_shard(tmp_path):
    data = flat(3)
    for i in range(2):
        np.savez(tmp_path / f"{i}.npz", scores=data.scores[:30], labels=data.labels[:30] + 2 * i)
    with pytest.raises(LabelsError, match=r"1\.npz"):
        dask_fit(data.calibrator(), str(tmp_path / "*.npz"), on_error="skip")


def test_a_score_that_is_no_number_names_the_shard(tmp_path):
    data = flat(3)
    scores = data.scores.copy()
    scores[40, 1] = np.nan
    for i in range(2):
        rows = slice(30 * i, 30 * i + 30)
        np.savez(tmp_path / f"{i}.npz", scores=scores[rows], labels=data.labels[rows])
    with pytest.raises(ScoresError, match=r"NaN in .*1\.npz"):
        dask_fit(data.calibrator(), str(tmp_path / "*.npz"), on_error="skip")


def test_the_warning_is_a_reprior_warning(tmp_path):
    data = flat(3)
    paths = write_shards(tmp_path, data)
    break_off(paths[1])
    with pytest.warns(RepriorWarning, match=r"left out"):
        quietly_named(data, paths)


def quietly_named(data, paths):
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(classes have no|upper bound).*")
        fit(data, paths, on_error="skip")
