"""Layouts of SYNTHIA and of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from lab.tests.support.drives import HEIGHT, SKY, WIDTH, scene, write_sequence, write_sf

from reprior.exceptions import FileFormatError, OptionError, RepriorWarning
from reprior_lab.synthia.frames import (
    SEQUENCE_CLASSES,
    SF_CLASSES,
    open_folders,
    open_sequences,
    open_sf,
)


def test_frames_are_paired_by_name_and_sorted_by_number(tmp_path):
    write_sf(tmp_path, "train", [10, 9, 100, 2])
    (tmp_path / "train" / "RGB" / "notes.txt").write_text("no image")
    assert open_sf(tmp_path).names == ("000002", "000009", "000010", "000100")
    for kind in ("RGB", "GT", "Depth"):
        for number in (2, 9, 10, 100):
            old = tmp_path / "train" / kind / f"{number:06d}.png"
            old.rename(old.with_name(f"f{number}.png"))
    assert open_sf(tmp_path).names == ("f2", "f9", "f10", "f100")


def test_the_publishers_layout_and_names(tmp_path):
    write_sf(tmp_path, "SEQ1", [0])
    for kind in ("RGB", "GT", "Depth"):
        (tmp_path / "SEQ1" / kind).rename(tmp_path / "SEQ1" / f"{kind}Left")
    frames = open_sf(tmp_path, "SEQ1")
    assert frames.has_depth
    assert frames.classes == tuple(SF_CLASSES.values())
    assert frames.classes[frames[0].labels[0, 0]] == "sky"
    assert SF_CLASSES[SKY] == "sky"


def test_a_list_of_classes_beside_the_data_goes_first(tmp_path):
    write_sf(tmp_path, "train", [0])
    (tmp_path / "classes.txt").write_text("void\nstreet\nnothing\nhouse\n")
    assert open_sf(tmp_path).classes == ("street", "nothing", "house")


def test_frames_without_depth(tmp_path):
    write_sf(tmp_path, "train", [0])
    root = tmp_path / "train"
    frames = open_folders(root / "RGB", root / "GT", classes={11: "sky", 1: "road"})
    assert frames[0].depth is None
    assert not frames.has_depth
    assert frames.classes == ("sky", "road")


def test_what_is_not_there_says_how_to_get_it(tmp_path):
    with pytest.raises(FileFormatError, match=r"no train/RGB and no train/RGBLeft. Get SYNTHIA-SF"):
        open_sf(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="`rgb` must be a folder of images"):
        open_folders(tmp_path / "empty", tmp_path, classes={1: "road"})
    with pytest.raises(OptionError, match="`on_error` must be one of"):
        open_folders(tmp_path, tmp_path, classes={1: "road"}, on_error="ignore")


def test_a_frame_that_lacks_a_file(tmp_path):
    write_sf(tmp_path, "train", range(3))
    (tmp_path / "train" / "Depth" / "000001.png").unlink()
    with pytest.raises(FileFormatError, match=r"Got '000001', which is not in .*Depth.*skip"):
        open_sf(tmp_path)
    with pytest.warns(RepriorWarning, match="A frame is left out. .*'000001'") as caught:
        assert open_sf(tmp_path, on_error="skip").names == ("000000", "000002")
    assert caught[0].filename == __file__


def test_a_damaged_frame_is_skipped_only_when_asked(tmp_path):
    write_sf(tmp_path, "train", range(3))
    (tmp_path / "train" / "GT" / "000002.png").write_bytes(b"no image")
    with pytest.raises(FileFormatError, match=r"GT.000002\.png"):
        open_sf(tmp_path).pixels()
    with pytest.warns(RepriorWarning, match=r"A frame is left out. .*GT.000002\.png"):
        assert open_sf(tmp_path, on_error="skip").names == ("000000", "000001")


def test_at_least_one_frame_must_be_whole(tmp_path):
    write_sf(tmp_path, "train", [0])
    (tmp_path / "train" / "RGB" / "000000.png").write_bytes(b"no image")
    with (
        pytest.warns(RepriorWarning, match="left out"),
        pytest.raises(FileFormatError, match=r"At least one frame must be complete. Got none of 1"),
    ):
        open_sf(tmp_path, on_error="skip")


def test_sequences_of_several_conditions(tmp_path):
    write_sequence(tmp_path, "FOG", [3])
    write_sequence(tmp_path, "RAIN", [1, 2])
    frames = open_sequences(tmp_path, ["FOG", "RAIN"])
    place = "Stereo_Left/Omni_F"
    assert frames.names == (f"FOG/{place}/000003", f"RAIN/{place}/000001", f"RAIN/{place}/000002")
    assert frames.classes == tuple(SEQUENCE_CLASSES.values())
    rgb, ids, depth = scene(1, pole=False)
    assert np.array_equal(frames[1].rgb, rgb)
    assert np.array_equal(frames[1].labels == 0, ids == SKY)
    assert frames[1].labels.shape == (HEIGHT, WIDTH)
    np.testing.assert_allclose(frames[1].depth, np.minimum(depth, 655.35), atol=0.01)


def test_sequences_need_a_condition(tmp_path):
    with pytest.raises(OptionError, match="must name at least one drive"):
        open_sequences(tmp_path, [])
    with pytest.raises(FileFormatError, match="SYNTHIA-SEQS-05-FOG"):
        open_sequences(tmp_path, ["FOG"])
