"""``reproduce synthia-rgb``: trained once, tables from run files alone, sentences."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from lab.tests.support.drives import write_sf
from lab.tests.support.tiny_networks import SETTINGS

from reprior.exceptions import OptionError
from reprior_lab.synthia import rgb
from reprior_lab.synthia.correction import read_correction


def small_files(folder, copy):
    """Copy what is small enough to be committed: no checkpoints, no score files."""
    for path in folder.glob("*/*/*.json"):
        home = copy / path.relative_to(folder).parent
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, home)
    return copy


def test_what_is_made(made):
    names = {path.name for path in made.rgb.files}
    assert {"synthia-rgb.md", "synthia-rgb-gains.tex", "synthia-curves.png"} <= names
    assert all(path.exists() for path in made.rgb.files)
    assert made.rgb.notes[0].startswith("λ is tuned on 4 frames held out of training")
    titles = [title for title, _, _ in made.told]
    assert "network 1 of 5: rgb-ce/s0" in titles
    assert "network 5 of 5: rgb-focal/s0, scores: clear" in titles


def test_tables_need_no_scores_and_no_frames(made, tmp_path, monkeypatch):
    copy = small_files(made.folder, tmp_path / "copy")
    monkeypatch.setattr(rgb, "run_networks", lambda *_: pytest.fail("nothing is left to do"))
    assert rgb.reproduce(copy, settings=SETTINGS, train=False).tables == made.rgb.tables


def test_a_correction_that_was_lost_is_made_from_the_scores(made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made.folder / "networks", copy / "networks")
    for path in copy.glob("networks/*/correction.json"):
        path.unlink()
    assert rgb.reproduce(copy, settings=SETTINGS, train=False).tables == made.rgb.tables


def test_a_correction_of_other_scores_is_made_anew(made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made.folder / "networks", copy / "networks")
    home = next(copy.glob("networks/rgb-ce-*"))
    other = next(copy.glob("networks/rgb-focal-*"))
    for part in ("held_out", "clear"):
        shutil.copy(other / "scores" / f"{part}.npz", home / "scores" / f"{part}.npz")
    rgb.reproduce(copy, settings=SETTINGS, train=False)
    found, focal = read_correction(home), read_correction(other)
    assert found.scores == focal.scores
    assert found.as_trained == focal.as_trained


def test_frames_of_another_folder_are_refused(made, tmp_path):
    poles = [102, 103, 107, 108, 152, 157]
    write_sf(tmp_path, "train", [*range(100, 110), *range(150, 160)], poles=poles)
    write_sf(tmp_path, "test", range(20, 26), poles=[22])
    with pytest.raises(OptionError, match="learnt from others"):
        rgb.reproduce(made.folder, root=tmp_path, settings=SETTINGS, train=False)


def test_what_is_not_finished_is_said(made, tmp_path):
    copy = small_files(made.folder, tmp_path / "copy")
    for home in copy.glob("networks/rgb-ldam-*"):
        shutil.rmtree(home)
    found = rgb.reproduce(copy, settings=SETTINGS, train=False)
    assert found.notes[-1] == "1 of 5 networks are not finished: rgb-ldam/s0."


def test_a_folder_without_networks_is_refused(tmp_path):
    with pytest.raises(OptionError, match="none of the 5 that the table needs"):
        rgb.reproduce(tmp_path, train=False)
