"""``reproduce synthia-rgbd``: fused once, tables from small files alone, sentences."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from lab.tests.support.tiny_networks import SETTINGS
from lab.tests.synthia.test_rgb import small_files

from reprior.exceptions import OptionError
from reprior_lab.synthia import rgbd
from reprior_lab.synthia.settings import rgbd_networks


def test_what_is_made(made):
    names = {path.name for path in made.rgbd.files}
    assert {"synthia-rgbd-miou.md", "synthia-rgbd-macc.json", "synthia-examples.png"} <= names
    assert all(path.exists() for path in made.rgbd.files)
    assert "regions of the rarer half of the classes" in made.rgbd.notes[0]
    titles = [title for title, _, _ in made.told]
    # The network of colour is that of Table 4: it is scored under weather, not trained again.
    assert "network 1 of 2: rgb-ce/s0, scores: fog" in titles
    assert "network 1 of 2: rgb-ce/s0" not in titles
    assert "network 2 of 2: depth-ce/s0" in titles
    # Fourteen rows are fitted, nine conditions judged.
    assert [what for what in made.told if what[0] == "fusing"] == [
        ("fusing", done, 23) for done in range(1, 24)
    ]


def test_tables_need_no_scores_and_no_frames(made, tmp_path):
    copy = small_files(made.folder, tmp_path / "copy")
    found = rgbd.reproduce(copy, settings=SETTINGS, train=False)
    assert found.tables == made.rgbd.tables
    assert "was not drawn" in found.notes[0]
    assert not (copy / "synthia-examples.png").exists()


def test_a_fusion_that_was_lost_is_made_from_the_scores(made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made.folder / "networks", copy / "networks")
    found = rgbd.reproduce(copy, settings=SETTINGS, train=False)
    assert found.tables == made.rgbd.tables


def with_scores(made, tmp_path):
    copy = tmp_path / "copy"
    for part in ("networks", "fusions"):
        shutil.copytree(made.folder / part, copy / part)
    return copy


def test_a_fusion_of_other_scores_is_made_anew(made, tmp_path):
    copy = with_scores(made, tmp_path)
    for home in copy.glob("networks/*-ce-*"):
        shutil.copy(home / "scores/rain.npz", home / "scores/fog.npz")
    tables = {
        table.name: table for table in rgbd.reproduce(copy, settings=SETTINGS, train=False).tables
    }
    for _, cells in tables["synthia-rgbd-miou"].rows:
        values = dict(zip(tables["synthia-rgbd-miou"].columns, cells, strict=True))
        assert values["fog"].value == values["rain"].value


def test_a_fusion_of_some_conditions_is_not_kept(made, tmp_path):
    copy = with_scores(made, tmp_path)
    shutil.rmtree(copy / "fusions")
    lost = next(copy.glob("networks/depth-*")) / "scores" / "soft_rain.npz"
    kept = lost.read_bytes()
    lost.unlink()
    found = rgbd.reproduce(copy, settings=SETTINGS, train=False)
    assert found.notes[0].startswith("The tables are without soft rain:")
    assert not (copy / "fusions").exists()
    lost.write_bytes(kept)
    found = rgbd.reproduce(copy, settings=SETTINGS, train=False)
    assert found.tables == made.rgbd.tables
    assert list(copy.glob("fusions/*/fusion.json"))


def test_a_fusion_of_fewer_conditions_than_the_frames_have_is_made_anew(made, tmp_path):
    copy = with_scores(made, tmp_path)
    path = next(copy.glob("fusions/*/fusion.json"))
    document = json.loads(path.read_text())
    del document["n_test"]["fog"]
    path.write_text(json.dumps(document))
    found = rgbd.reproduce(copy, root=made.root, settings=SETTINGS, train=False)
    assert found.tables == made.rgbd.tables
    assert "fog" in json.loads(path.read_text())["n_test"]


def test_networks_that_are_not_there_are_named(made, tmp_path):
    with pytest.raises(OptionError, match="none of the 2 that the table needs"):
        rgbd.reproduce(tmp_path, train=False)
    copy = small_files(made.folder, tmp_path / "copy")
    shutil.rmtree(copy / "networks" / rgbd_networks(settings=SETTINGS)[1].id)
    with pytest.raises(OptionError, match="which lacks that of depth"):
        rgbd.reproduce(copy, settings=SETTINGS, train=False)


def test_the_frames_are_asked_for_where_they_are_needed(made, tmp_path):
    copy = small_files(made.folder, tmp_path / "copy")
    shutil.rmtree(copy / "fusions")
    with pytest.raises(OptionError, match="`root` must be given for the networks to be scored"):
        rgbd.reproduce(copy, settings=SETTINGS, train=False)
