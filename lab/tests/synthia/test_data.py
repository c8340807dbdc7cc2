"""Three parts of the data, and weather on the test frames only."""

from __future__ import annotations

import numpy as np
import pytest
from lab.tests.support.drives import write_drives, write_sequence, write_sf

from reprior.exceptions import LabelsError, OptionError
from reprior_lab.synthia.data import (
    WeatherFrames,
    open_data,
    open_sequence_data,
    split_data,
)
from reprior_lab.synthia.frames import open_sf
from reprior_lab.synthia.weather import CONDITIONS, apply_weather


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_drives(tmp_path_factory.mktemp("drives"))


def test_the_parts_and_their_classes(root):
    data = open_data(root, gap=1)
    assert data.classes == ("road", "building", "pole", "sky", "car")
    assert data.test.classes == data.classes
    assert len(data.validation) == 4
    places = {int(name) % 50 for name in data.validation.names}
    assert len(places) == 2  # the same places of both drives
    assert not places & {int(name) % 50 for name in data.train.names}
    assert (data.class_counts == data.train.pixels().sum(axis=0)).all()
    assert data.class_counts.min() > 0


def test_what_is_absent_is_said(tmp_path):
    write_sf(tmp_path, "train", range(10))
    write_sf(tmp_path, "test", [20, 21], poles=[20])
    data = open_data(tmp_path, gap=0, n_blocks=1)
    assert "pole" not in data.classes
    assert data.notes == ("Ignored in the test part, as training has none: pole.",)
    assert (data.test[0].labels == 255).any()
    write_sf(tmp_path, "test", [20, 21])
    write_sf(tmp_path, "train", [4], poles=[4])
    data = open_data(tmp_path, gap=0, n_blocks=1)
    assert data.notes == (
        "Absent from the 2 frames of validation: pole.",
        "Absent from the 2 frames of test: pole.",
    )


def test_the_digest_tells_training_parts_apart(root):
    data, same = open_data(root, gap=1), open_data(root, gap=1)
    assert data.digest == same.digest
    assert data.digest != open_data(root, gap=0).digest
    assert data.digest != open_data(root, gap=1, size=(16, 24)).digest


def test_conditions_are_made_of_the_test_frames(root):
    data = open_data(root)
    made = data.conditions(["fog", "night"], severity=0.7, seed=4)
    assert list(made) == ["clear", "fog", "night"]
    assert made["clear"] is data.test
    expected = apply_weather(data.test[2], "night", severity=0.7, seed=4)
    assert np.array_equal(made["night"][2].rgb, expected.rgb)
    assert len(made["fog"]) == len(data.test)
    assert list(data.conditions()) == ["clear", *CONDITIONS]
    with pytest.raises(OptionError, match="`severity` must be"):
        data.conditions(severity=-1.0)
    with pytest.raises(IndexError):
        WeatherFrames(data.test, "fog")[6]


def test_recorded_conditions_are_not_simulated(tmp_path):
    for condition in ("DAWN", "SUMMER"):
        write_sequence(tmp_path, condition, range(8))
    for condition in ("FOG", "SOFTRAIN"):
        write_sequence(tmp_path, condition, [30, 31])
    data = open_sequence_data(
        tmp_path,
        seen=["DAWN", "SUMMER"],
        unseen={"fog": "FOG", "soft_rain": "SOFTRAIN"},
        size=None,
        gap=1,
        n_blocks=1,
        share=0.25,
    )
    assert data.classes == ("sky", "road")
    assert {name.partition("/")[0] for name in data.validation.names} == {"DAWN", "SUMMER"}
    assert len({name.rpartition("/")[2] for name in data.validation.names}) == 2
    made = data.conditions()
    assert list(made) == ["fog", "soft_rain"]
    assert made["soft_rain"].names == tuple(
        f"SOFTRAIN/Stereo_Left/Omni_F/0000{number}" for number in (30, 31)
    )
    assert list(data.conditions(["fog"])) == ["fog"]
    with pytest.raises(OptionError, match="`condition` must be one of 'fog', 'soft_rain'"):
        data.conditions(["night"])


def test_parts_of_other_classes_are_refused(root):
    train, test = open_sf(root), open_sf(root, "test").of_classes(["road", "sky"])
    with pytest.raises(LabelsError, match="`train` and `test` must have the same classes"):
        split_data(train, test)
