"""A sum of profiles that is put aside goes on as if it had not been."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tests import oracles
from tests.tuning.shared import assert_same_counts, random_case

from reprior.exceptions import FileFormatError
from reprior.profile import merging
from reprior.profile.merging import ProfileSum
from reprior.profile.profile import StrengthProfile
from reprior.profile.storage import pack_sum, unpack_sum


def rewritten(path, change):
    """Save an npz file again with some of its arrays changed."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path.with_suffix(".npz"), **change(arrays))
    os.replace(path.with_suffix(".npz"), path)


def header_with(**changes):
    def change(arrays):
        header = json.loads(arrays["header"].tobytes().decode()) | changes
        header = {key: value for key, value in header.items() if value != "missing"}
        return arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}

    return change


@pytest.fixture
def saved(rng, tmp_path):
    path = tmp_path / "profile.bin"
    random_case(rng, 40, 3).profile().save(path)
    return path


# ------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("resolution", [None, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("subtracted", [False, True])
def test_what_was_saved_is_loaded_to_the_bit(rng, tmp_path, resolution, weighted, subtracted):
    case = random_case(rng, 90, 4, weighted=weighted, bounds=(-0.3, 1.7))
    profile = case.profile(resolution=resolution)
    if subtracted:
        profile = profile - case.rows(slice(0, 30)).profile(resolution=resolution)
    profile.save(tmp_path / "a")
    again = StrengthProfile.load(str(tmp_path / "a"))
    assert repr(again) == repr(profile)
    assert (again.bounds, again.resolution) == (profile.bounds, profile.resolution)
    for name in ("source_prior", "target_prior"):
        np.testing.assert_array_equal(getattr(again, name), getattr(profile, name))
    for name in oracles.METRICS:
        assert again.best(name) == profile.best(name)
        for mine, theirs in zip(again.curve(name), profile.curve(name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert_same_counts(again.counts(0.5), profile.counts(0.5))
    assert_same_counts(again.baseline, profile.baseline)
    assert (again + profile).n_samples == 2 * profile.n_samples
    assert (again - profile).n_samples == 0


def test_a_loaded_profile_needs_no_pickle(saved):
    with np.load(saved, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


# ------------------------------------------------------------------------------------ words


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(FileFormatError, match="truncated, damaged or something else"):
        StrengthProfile.load(saved)


@pytest.mark.parametrize("content", [b"hello", b"\x93NUMPY", b'{"format": "x"}'])
def test_another_file_is_refused(saved, content):
    saved.write_bytes(content)
    with pytest.raises(FileFormatError, match="must be a reprior strength profile file"):
        StrengthProfile.load(saved)


def test_an_array_file_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.savez(tmp_path / "b.npz", scores=np.zeros(3))
    for name in ("a.npy", "b.npz"):
        with pytest.raises(FileFormatError, match="must be a reprior strength profile file"):
            StrengthProfile.load(tmp_path / name)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"format_version": 99}, "has format_version 99; this reprior reads up to 1"),
        ({"format_version": "1"}, "must have an integer format_version"),
        ({"format": "reprior calibrator"}, "without that mark"),
        ({"bounds": "missing"}, "must hold everything a strength profile is made of"),
        ({"bounds": [0.0]}, "must hold everything"),
        ({"bounds": "ab"}, "must hold everything"),
        ({"resolution": "missing"}, "must hold everything"),
        ({"resolution": 0.1}, "must hold everything"),
    ],
)
def test_a_header_that_is_newer_or_wrong_is_refused(saved, change, sentence):
    rewritten(saved, header_with(**change))
    with pytest.raises(FileFormatError) as caught:
        StrengthProfile.load(saved)
    assert sentence in str(caught.value)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize("name", ["counts", "source_prior", "target_prior", "switch_winner"])
def test_a_file_without_one_of_its_arrays_is_refused(saved, name):
    rewritten(saved, lambda arrays: {key: a for key, a in arrays.items() if key != name})
    with pytest.raises(FileFormatError, match="must hold everything a strength profile"):
        StrengthProfile.load(saved)


def test_a_file_with_strange_switches_is_refused(saved):
    rewritten(saved, lambda arrays: arrays | {"switch_of_heart": np.zeros(3)})
    with pytest.raises(FileFormatError, match="must hold everything a strength profile"):
        StrengthProfile.load(saved)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        StrengthProfile.load(tmp_path / "nowhere")


# ----------------------------------------------------------------------------------- atomic


@pytest.mark.parametrize("target", ["os.replace", "os.fsync", "numpy.savez_compressed"])
def test_a_save_that_fails_leaves_what_was_there(monkeypatch, rng, saved, target):
    def fail(*_args, **_options):
        raise OSError("the disk is full")

    before = saved.read_bytes()
    profile = random_case(rng, 30, 3).profile()
    monkeypatch.setattr(target, fail)
    with pytest.raises(OSError, match="the disk is full"):
        profile.save(saved)
    with pytest.raises(OSError, match="the disk is full"):
        profile.save(saved.parent / "new")
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


def test_bytes_are_the_file_without_a_file_system(tmp_path, rng):
    for options in ({}, {"resolution": 0.1}):
        profile = random_case(rng, weighted=True).profile(**options)
        again = StrengthProfile.from_bytes(profile.to_bytes())
        assert (again.bounds, again.resolution) == (profile.bounds, profile.resolution)
        assert again.best("accuracy") == profile.best("accuracy")
        profile.save(tmp_path / "profile.npz")
        assert StrengthProfile.load(tmp_path / "profile.npz").n_switches == again.n_switches


def test_bytes_that_are_no_profile():
    content = random_case(np.random.default_rng(0)).profile().to_bytes()
    with pytest.raises(FileFormatError, match=r"'100 bytes' must be a reprior strength profile"):
        StrengthProfile.from_bytes(content[:100])


PRIOR = np.array([0.6, 0.3, 0.1])


def parts(n: int, weighted: bool) -> list[StrengthProfile]:
    rng = np.random.default_rng(n)
    found = []
    for _ in range(n):
        scores, labels = rng.normal(size=(8, 3)), rng.integers(3, size=8)
        weight = rng.random(8) if weighted else None
        found.append(
            StrengthProfile.from_scores(
                scores, labels, source_prior=PRIOR, sample_weight=weight
            )
        )  # fmt: skip
    return found


def put_aside(total: ProfileSum) -> ProfileSum:
    header, arrays = pack_sum(total)
    return unpack_sum(json.loads(json.dumps(header)), arrays)


def same(a: StrengthProfile, b: StrengthProfile) -> None:
    assert (a.bounds, a.resolution, a.n_switches) == (b.bounds, b.resolution, b.n_switches)
    np.testing.assert_array_equal(a._counts, b._counts)
    np.testing.assert_array_equal(a._table, b._table)
    mine, theirs = a._switches.arrays(), b._switches.arrays()
    assert mine.keys() == theirs.keys()
    for name, column in mine.items():
        np.testing.assert_array_equal(column, theirs[name])
    assert_same_counts(a.counts(1.0), b.counts(1.0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", [1 << 22, 10])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"exact_up_to": 30, "resolution": 0.01},
        {"exact_up_to": 0, "resolution": 0.01},
        {"exact_up_to": 10**6, "resolution": 0.01},
    ],
)
def test_at_any_time(how, cells, weighted, monkeypatch):
    monkeypatch.setattr(merging, "MOST_CELLS", cells)  # in a table of bins, or in pairs
    plain, interrupted = ProfileSum(**how), ProfileSum(**how)
    for part in parts(11, weighted):
        plain.add(part)
        interrupted = put_aside(interrupted) if interrupted else interrupted
        interrupted.add(part)
        assert interrupted.coarse == plain.coarse
        same(interrupted.total(), plain.total())


def test_an_empty_sum():
    assert not put_aside(ProfileSum(exact_up_to=5, resolution=0.1))
