"""SYNTHIA in a folder, whichever it is; parts to tune on and to judge on; sentences."""

from __future__ import annotations

import pickle
import shutil

import pytest

pytest.importorskip("PIL", reason="pillow is not installed")

from lab.tests.support.drives import write_cameras, write_drives, write_sequence

from reprior.exceptions import FileFormatError
from reprior_lab.synthia import data as sources
from reprior_lab.synthia.data import DataSource
from reprior_lab.synthia.settings import CAMERAS, NetworkSettings
from reprior_lab.synthia.weather import CONDITIONS


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(sources, "SIZE", (32, 48))


def names_of(parts):
    return {name: [frames[i].name for i in range(len(frames))] for name, frames in parts.items()}


def test_sf_has_its_weather_simulated(drives):
    parts = DataSource(drives).open()
    found = parts.conditions()
    assert list(found) == ["held_out", "clear", *CONDITIONS]
    assert list(parts.conditions(weather=False)) == ["held_out", "clear"]
    assert parts.name == "SYNTHIA-SF"
    assert len(found["clear"]) == len(found["fog"]) == 6
    assert not {*parts.data.train.names} & {*parts.data.validation.names}


def test_sf_may_lie_in_the_folder(tmp_path):
    write_drives(tmp_path / "SYNTHIA-SF")
    assert DataSource(tmp_path).open().name == "SYNTHIA-SF"


def test_it_is_opened_once_and_sent_as_its_folder(drives):
    source = DataSource(drives)
    assert source.open() is source.open()
    sent = pickle.loads(pickle.dumps(source))
    assert sent.root == drives
    assert sent._parts is None


@pytest.mark.heavy
def test_sequences_are_tuned_and_judged_on_other_stretches(tmp_path, small):
    for condition in ("SUMMER", "NIGHT"):
        write_sequence(tmp_path, condition, range(60))
    for condition in ("FOG", "RAIN"):
        write_sequence(tmp_path, condition, range(3))
    parts = DataSource(tmp_path).open()
    found = names_of(parts.conditions())
    assert list(found) == ["held_out", "clear", "fog", "rain"]
    assert all(name.startswith("FOG/") for name in found["fog"])
    tuned, judged = ({int(name[-6:]) for name in found[part]} for part in ("held_out", "clear"))
    learnt = {int(name[-6:]) for name in parts.data.train.names}
    assert max(tuned) < min(judged)
    assert not learnt & (tuned | judged)
    assert {name.partition("/")[0] for name in found["clear"]} == {"SUMMER", "NIGHT"}
    assert f"{len(found['held_out'])} are tuned on" in parts.data.notes[-1]


def test_all_cameras_of_the_sequences_share_their_stretches(tmp_path):
    write_cameras(tmp_path, "SUMMER", range(30), CAMERAS["all"])
    write_cameras(tmp_path, "FOG", range(7), CAMERAS["all"])
    settings = NetworkSettings(cameras="all", size=(16, 24), test_every=5)
    parts = pickle.loads(pickle.dumps(DataSource.of_settings(tmp_path, settings))).open()
    found = {"train": list(parts.data.train.names), **names_of(parts.conditions())}
    places = {}
    for part, names in found.items():
        by_camera = {}
        for name in names:
            camera, _, number = name.partition("/")[2].rpartition("/")
            by_camera.setdefault(camera, []).append(int(number))
        assert sorted(by_camera) == sorted(
            f"{side}/{view}" for side in CAMERAS["all"][0] for view in CAMERAS["all"][1]
        )
        first, *others = by_camera.values()
        assert all(other == first for other in others)
        places[part] = set(first)
    assert places["fog"] == {0, 5}
    assert not places["train"] & (places["held_out"] | places["clear"])
    assert parts.data.train[0].labels.shape == (16, 24)
    assert len(DataSource(tmp_path, size=(16, 24)).open().data.recorded["fog"]) == 7


@pytest.mark.heavy
def test_sequences_without_unseen_conditions_have_them_simulated(tmp_path, small):
    write_sequence(tmp_path, "SUMMER", range(60))
    parts = DataSource(tmp_path).open()
    found = names_of(parts.conditions())
    assert list(found) == ["held_out", "clear", *CONDITIONS]
    assert found["fog"] == found["clear"]
    assert not {*found["clear"]} & {*parts.data.train.names, *found["held_out"]}


def test_one_stretch_is_parted_in_its_middle_with_a_gap(drives, monkeypatch):
    frames = DataSource(drives).open().data.test
    first, second = sources._stretches(frames)
    assert (first.names, second.names) == (frames.names[:2], frames.names[4:])
    first, second = sources._stretches(frames.subset([0, 1]))
    assert (first.names, second.names) == (frames.names[:1], frames.names[1:2])
    # Nothing is lost where the way has a gap that is wide enough.
    first, second = sources._stretches(frames.subset([0, 1, 2, 5]))
    assert (first.names, second.names) == (frames.names[:3], frames.names[5:])
    monkeypatch.setattr(sources, "GAP", 1)
    first, second = sources._stretches(frames)
    assert (first.names, second.names) == (frames.names[:2], frames.names[3:])
    with pytest.raises(FileFormatError, match="must be of two places at least"):
        sources._stretches(frames.subset([0]))


def test_names_that_tell_no_place_are_refused():
    assert sources._number("SUMMER/000012") == 12
    with pytest.raises(FileFormatError, match=r"must end in a number.*Got 'SUMMER/last'"):
        sources._number("SUMMER/last")


def test_names_of_frames_are_those_of_the_conditions(drives, tmp_path, small):
    parts = DataSource(drives).open()
    assert {n: list(v) for n, v in parts.frame_names().items()} == names_of(parts.conditions())
    for condition, numbers in (("SUMMER", range(60)), ("FOG", range(3))):
        write_sequence(tmp_path, condition, numbers)
    parts = DataSource(tmp_path).open()
    assert {n: list(v) for n, v in parts.frame_names().items()} == names_of(parts.conditions())


@pytest.mark.parametrize("root, got", [(None, "none, and nothing is downloaded"), ("x", "'")])
def test_where_to_get_it_is_said(tmp_path, root, got):
    with pytest.raises(FileFormatError, match=r"`root` must be the folder of SYNTHIA") as error:
        DataSource(None if root is None else tmp_path / root).open()
    assert f"Got {got}" in str(error.value)
    assert "https://synthia-dataset.net" in str(error.value)
    assert "train/ and test/ with RGB, GT and Depth" in str(error.value)


def test_frames_without_depth_are_refused(tmp_path):
    write_drives(tmp_path)
    shutil.rmtree(tmp_path / "test" / "Depth")
    with pytest.raises(FileFormatError, match="Every frame must have depth"):
        DataSource(tmp_path).open()
