"""A sum of profiles that is saved and loaded continues unchanged."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support import oracles
from tests.tuning.shared import assert_same_counts, cases, random_case

from reprior.exceptions import FileFormatError
from reprior.profile import ProfileSum, StrengthProfile, merging, pack_sum, unpack_sum


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
        ({"format_version": 99}, "has format_version 99; this reprior reads up to 3"),
        ({"format_version": "1"}, "must have an integer format_version"),
        ({"format": "reprior calibrator"}, "without that mark"),
        ({"bounds": "missing"}, "[low, high] with low below high as 'bounds'. Got nothing"),
        ({"bounds": [0.0]}, "with low below high as 'bounds'. Got [0.0]"),
        ({"bounds": [2.0, 0.0]}, "with low below high as 'bounds'. Got [2.0, 0.0]"),
        ({"bounds": "ab"}, "with low below high as 'bounds'. Got 'ab'"),
        ({"resolution": "missing"}, "null or a positive number as 'resolution'. Got nothing"),
        ({"resolution": -0.1}, "null or a positive number as 'resolution'. Got -0.1"),
        ({"resolution": 0.1}, "no arrays but"),
        ({"bounds": [0.0, 0.5]}, "numbers in [0, 0.5] as 'switch_position'"),
        ({"strength": 1.0}, "no fields that its format_version does not know. Got 'strength'"),
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
    with pytest.raises(FileFormatError, match=f"must have an array '{name}'. Got a file without"):
        StrengthProfile.load(saved)


def test_a_file_with_unknown_arrays_is_refused_with_their_names(saved):
    rewritten(saved, lambda arrays: arrays | {"switch_colour": np.zeros(3)})
    with pytest.raises(FileFormatError, match=r"no arrays but .*Got \['switch_colour'\]"):
        StrengthProfile.load(saved)


def edited(array, index, value):
    """A copy of an array with one other value."""
    changed = array.copy()
    changed[index] = value
    return changed


FAULTS = {
    "a prior of text": ("source_prior", lambda a: a.astype(str), "64-bit floats on 1 axis"),
    "a prior of 32 bits": ("source_prior", lambda a: a.astype("f4"), "64-bit floats on 1 axis"),
    "a prior of one class": ("source_prior", lambda a: a[:1] / a[0], "one probability per class"),
    "another length": ("target_prior", lambda a: a[:2] / a[:2].sum(), "one probability per class"),
    "a source prior of 0": ("source_prior", lambda a: edited(a, 1, 0.0), "numbers above 0"),
    "a negative prior": ("target_prior", lambda a: edited(a, 1, -0.1), "numbers of at least 0"),
    "a prior that is not 1": ("target_prior", lambda a: a * 1.01, "a sum of 1"),
    "NaN in a prior": ("target_prior", lambda a: a * np.nan, "finite numbers"),
    "counts of other classes": ("counts", lambda a: a[:, :-1], r"shape \(5, 4\)"),
    "counts in one row": ("counts", lambda a: a.reshape(-1), "on 2 axes"),
    "counts in floats": ("counts", lambda a: a * 1.0, "integers of 32 or 64 bits"),
    "a negative count": ("counts", lambda a: edited(a, (0, 0), -1), "numbers from 0 to"),
    "more right than predicted": ("counts", lambda a: edited(a, (1, 0), 999), "no more right"),
    "lost samples": ("counts", lambda a: edited(a, (0, 0), a[0, 0] + 1), "as many predictions as"),
    "another model": ("counts", lambda a: edited(a, (3, slice(None)), 0), "counts at strength 0"),
}
OF_EXACT = {
    "too short": ("switch_label", lambda a: a[1:], "arrays of one length as switch_position"),
    "another class": ("switch_label", lambda a: edited(a, 0, 4), "classes from 0 to 3"),
    "a negative class": ("switch_loser", lambda a: edited(a, 0, -1), "classes from 0 to 3"),
    "outside": ("switch_position", lambda a: edited(a, 0, 2.5), r"numbers in \[0, 2\]"),
    "infinite": ("switch_position", lambda a: edited(a, 0, np.inf), "finite numbers"),
    "unsigned": ("switch_winner", lambda a: a.astype("u4"), "integers of 32 or 64 bits"),
    "downhill": ("switch_winner", lambda a: 0 * a, "a class of larger slope than the loser"),
    "wrong labels": ("switch_label", lambda a: 0 * a, "'counts' after all switches"),
}
OF_BINNED = {
    "events of other lengths": ("switch_event_klass", lambda a: a[1:], "as switch_event_position"),
    "points of other lengths": ("switch_point", lambda a: a[1:], "as switch_point"),
    "an event of no class": ("switch_event_klass", lambda a: a + 4, "classes from 0 to 3"),
    "too many at once": ("switch_event_predicted", lambda a: a + 2**60, "numbers up to"),
    "an unsorted event": ("switch_event_position", lambda a: a[::-1], "in ascending order"),
    "an unsorted point": ("switch_point", lambda a: a[::-1], "in ascending order"),
    "no switch in a bin": ("switch_count", lambda a: 0 * a, "numbers from 1 to"),
    "negative mass": ("switch_mass", lambda a: -a, "numbers of at least 0"),
    "another mass": ("switch_mass", lambda a: a + 1, "the numbers of 'switch_count'"),
    "lost predictions": ("switch_event_predicted", lambda a: a + 1, "numbers of 'switch_event_pre"),
}
OF_WEIGHTS = {
    "negative sums": ("sums", lambda a: -a, "numbers of at least 0"),
    "sums of other classes": ("sums", lambda a: a[:, :-1], r"shape \(5, 4\)"),
    "NaN in sums": ("sums", lambda a: a * np.nan, "finite numbers"),
    "endless sums": ("sums", lambda a: np.where(a, 1e308, 0.0), "a sum up to 1e[+]280"),
    "sums without samples": ("sums", lambda a: a + 1.0, "0 where 'counts' has 0"),
}


def refused(path, fault):
    name, change, words = fault
    rewritten(path, lambda arrays: arrays | {name: change(arrays[name])})
    with pytest.raises(FileFormatError, match=words) as caught:
        StrengthProfile.load(path)
    assert repr(str(path)) in str(caught.value)


@pytest.fixture
def few():
    """Samples of three of four classes, with a class that is never predicted."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(40, 4)) + np.array([2.0, 1.0, 0.0, -9.0])
    return {"scores": scores, "labels": rng.integers(3, size=40)}


def profiled(few, path, **options):
    prior = np.array([0.5, 0.3, 0.15, 0.05])
    StrengthProfile.from_scores(**few, source_prior=prior, **options).save(path)
    return path


@pytest.mark.parametrize("fault", (FAULTS | OF_EXACT).values(), ids=FAULTS | OF_EXACT)
def test_what_no_exact_profile_can_hold_is_refused(few, tmp_path, fault):
    refused(profiled(few, tmp_path / "a"), fault)


@pytest.mark.parametrize("fault", OF_BINNED.values(), ids=OF_BINNED)
def test_what_no_binned_profile_can_hold_is_refused(few, tmp_path, fault):
    refused(profiled(few, tmp_path / "a", resolution=0.01), fault)


@pytest.mark.parametrize("fault", OF_WEIGHTS.values(), ids=OF_WEIGHTS)
def test_what_no_weighted_profile_can_hold_is_refused(few, tmp_path, fault):
    refused(profiled(few, tmp_path / "a", sample_weight=np.linspace(0.5, 1.5, 40)), fault)


@pytest.mark.parametrize("name, words", [("weight", "at least 0"), ("count", "numbers from 1 to")])
def test_weights_and_counts_of_switches_are_checked(few, tmp_path, name, words):
    prior, weights = np.array([0.5, 0.3, 0.15, 0.05]), np.linspace(0.5, 1.5, 40)
    whole = StrengthProfile.from_scores(**few, source_prior=prior, sample_weight=weights)
    part = {key: column[:10] for key, column in few.items()}
    rest = StrengthProfile.from_scores(**part, source_prior=prior, sample_weight=weights[:10])
    (whole - rest).save(tmp_path / "a")
    refused(tmp_path / "a", (f"switch_{name}", lambda a: -a, words))


def test_bounds_below_0_need_a_target_prior_without_0(few, tmp_path):
    path = profiled(few, tmp_path / "a", bounds=(-1.0, 1.0))
    refused(
        path, ("target_prior", lambda a: np.array([0.5, 0.5, 0.0, 0.0]), "bounds of at least 0")
    )


@settings(max_examples=150, phases=[Phase.generate])
@given(st.data())
def test_any_change_is_refused_or_can_be_used(data):
    case = data.draw(cases())
    width = data.draw(st.sampled_from([None, 0.25]))
    content = case.profile(resolution=width).to_bytes()
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    name = data.draw(st.sampled_from(sorted(arrays.keys() - {"header"})))
    array = arrays[name].copy()
    if array.size:
        values = [-1.0, 0.0, 0.5, 1e300, 5e-324]
        if array.dtype.kind == "i":
            values = [-1, 0, 1, 3, np.iinfo(array.dtype).max]
        array.reshape(-1)[data.draw(st.integers(0, array.size - 1))] = data.draw(
            st.sampled_from(values)
        )
    changed = io.BytesIO()
    np.savez(changed, **(arrays | {name: array}))
    try:
        profile = StrengthProfile.from_bytes(changed.getvalue())
    except FileFormatError:
        return
    low, high = profile.bounds
    assert low <= profile.best("accuracy").strength <= high
    assert np.isfinite(profile.evaluate("mean_iou", [low, high])).all()
    assert (profile - profile).n_samples == 0


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        StrengthProfile.load(tmp_path / "nowhere")


# ----------------------------------------------------------------------------------- atomic


@pytest.mark.parametrize("target", ["os.replace", "os.fsync", "numpy.lib.format.write_array"])
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


@pytest.mark.parametrize(
    "change, words",
    [
        ({"parts": [["exact", 0]]}, "a list of .stack, rank, resolution.,.* as 'parts'"),
        ({"parts": [["tally", 0, 0.1], ["exact", 0, None]]}, "at the end, 'tally' as 'parts'"),
        ({"parts": [["other", 0, None]]}, "as 'parts'"),
        ({"parts": [["exact", 0, 0.1]]}, "as 'parts'"),
        ({"parts": [["binned", 0, None]]}, "as 'parts'"),
        ({"waiting": 10**6}, "the number of switches in exact parts, .* as 'waiting'"),
        ({"waiting": -1}, "an integer of at least 0 as 'waiting'"),
        ({"coarse": 1}, "true or false as 'coarse'"),
        ({"exact_up_to": "1"}, "null or an integer of at least 0 as 'exact_up_to'"),
        ({"resolution": None}, "a number of at least 0 as 'resolution'"),
        ({"more": 1}, "no fields that its format_version does not know"),
        ({"parts": [["exact", 0, None]] * 20}, "must have an array 'counts'"),
    ],
)
def test_a_sum_that_cannot_be_is_refused(change, words):
    total = ProfileSum(exact_up_to=10**6, resolution=0.01)
    for part in parts(5, False):
        total.add(part)
    header, arrays = pack_sum(total)
    with pytest.raises(FileFormatError, match=words):
        unpack_sum(header | change, arrays)
    with pytest.raises(FileFormatError, match="as 'bounds'"):
        unpack_sum(header, {name: a for name, a in arrays.items() if name != "bounds"})
    with pytest.raises(FileFormatError, match="as 'bounds'"):
        unpack_sum(header, arrays | {"bounds": arrays["bounds"][::-1]})
    with pytest.raises(FileFormatError, match="classes from 0 to 2 as 'switch_label'"):
        unpack_sum(header, arrays | {"0.switch.label": arrays["0.switch.label"] + 9})
