"""Frames are read when they are wanted, and scaled without mixing labels."""

from __future__ import annotations

import numpy as np
import pytest
from lab.tests.support.drives import CAR, HEIGHT, ROAD, WIDTH, png16, scene, write_sf
from PIL import Image

from reprior.exceptions import FileFormatError, LabelsError, OptionError
from reprior_lab.synthia import frames as module
from reprior_lab.synthia.frames import IGNORED, FrameFiles, Frames, open_sf, resized


@pytest.fixture
def drive(tmp_path):
    write_sf(tmp_path, "train", range(3), poles=[1])
    return tmp_path


def test_a_frame_is_what_was_drawn(drive):
    frames = open_sf(drive)
    rgb, ids, depth = scene(1, pole=True)
    frame = frames[1]
    assert frame.name == "000001"
    assert np.array_equal(frame.rgb, rgb)
    assert np.array_equal(np.array(frames.ids)[frame.labels], ids)
    assert frame.depth.dtype == np.float32
    np.testing.assert_allclose(frame.depth, depth, atol=1e-4)
    assert frames.has_depth


def test_classes_that_are_not_asked_for_are_ignored(drive):
    frames = open_sf(drive).of_classes(["car", "road"])
    _, ids, _ = scene(0, pole=False)
    labels = frames[0].labels
    assert np.array_equal(labels == 0, ids == CAR)
    assert np.array_equal(labels == 1, ids == ROAD)
    assert np.array_equal(labels == IGNORED, (ids != CAR) & (ids != ROAD))
    assert frames.pixels()[0].tolist() == [(ids == CAR).sum(), (ids == ROAD).sum()]


def test_scaling_invents_neither_labels_nor_depths(drive):
    whole, small = open_sf(drive), open_sf(drive, size=(20, 30))
    assert small[0].rgb.shape == (20, 30, 3)
    assert set(np.unique(small[1].labels)) <= set(np.unique(whole[1].labels))
    assert set(np.unique(small[1].depth)) <= set(np.unique(whole[1].depth))
    assert abs(float(small[0].rgb.mean()) - float(whole[0].rgb.mean())) < 3.0


def test_resized_takes_the_nearest_pixel():
    values = np.arange(35).reshape(5, 7)
    found = resized(values, (3, 4))
    for i in range(3):
        for j in range(4):
            assert found[i, j] == values[int((i + 0.5) * 5 / 3), int((j + 0.5) * 7 / 4)]
    assert np.array_equal(resized(values, (5, 7)), values)


def test_subsets_share_what_was_read(drive, monkeypatch):
    frames = open_sf(drive)
    first = frames[0]
    monkeypatch.setattr(Frames, "_read", None)
    assert frames.subset([0])[0] is first
    assert frames.subset([2, 0]).names == ("000002", "000000")


def test_above_the_limit_frames_are_read_again(drive, monkeypatch):
    frames = open_sf(drive)
    monkeypatch.setattr(module, "IN_MEMORY", int(1.5 * 8 * HEIGHT * WIDTH))
    assert frames[0] is frames[0]
    assert frames[1] is not frames[1]
    assert np.array_equal(frames[1].rgb, frames[1].rgb)


@pytest.mark.parametrize("code, metres", [("cm16", 0.01), ("mm16", 0.001)])
def test_depth_of_sixteen_bits(tmp_path, code, metres):
    write_sf(tmp_path, "train", [0])
    values = np.arange(HEIGHT * WIDTH * 3, dtype=np.uint16).reshape(HEIGHT, WIDTH, 3)
    path = png16(tmp_path / "depth.png", values, [4] * HEIGHT)
    files = open_sf(tmp_path).files[0]._replace(depth=path)
    frame = Frames((files,), (1,), ("road",), depth_format=code)[0]
    np.testing.assert_allclose(frame.depth, values[..., 0] * metres, rtol=1e-6)


@pytest.mark.parametrize("kind", ["GT", "Depth"])
def test_sizes_must_agree(drive, kind):
    path = drive / "train" / kind / "000001.png"
    Image.fromarray(np.zeros((HEIGHT, WIDTH + 1, 3), np.uint8)).save(path)
    frames = open_sf(drive)
    with pytest.raises(
        LabelsError, match=rf"size of their colour image, 48 × 32. Got 49 × 32 in .*{kind}"
    ):
        frames[1]


@pytest.mark.parametrize("kind", ["RGB", "GT", "Depth"])
def test_a_damaged_image_is_named(drive, kind):
    path = drive / "train" / kind / "000001.png"
    path.write_bytes(path.read_bytes()[:60])
    frames = open_sf(drive)
    assert frames[0].name == "000000"
    with pytest.raises(FileFormatError, match=rf"Got .*{kind}.000001\.png"):
        frames[1]


def test_what_frames_are_made_of_is_checked(tmp_path):
    files = (FrameFiles("a", tmp_path / "a.png", tmp_path / "b.png"),)
    with pytest.raises(OptionError, match="`ids` must have one number for each"):
        Frames(files, (1, 2), ("road",))
    with pytest.raises(OptionError, match="`depth_format` must be one of"):
        Frames(files, (1,), ("road",), depth_format="feet")
    with pytest.raises(OptionError, match="`classes` must be"):
        Frames(files, (1, 2), ("road", "sky")).of_classes(["rode"])
    assert not Frames(files, (1,), ("road",)).has_depth
    with pytest.raises(FileNotFoundError):
        Frames(files, (1,), ("road",))[0]
