"""``reprior reproduce``: tables and figures from the command line, and its sentences."""

from __future__ import annotations

import json

import pytest
from tests.cli.shared import in_process, is_one_sentence
from tests.experiments.synthia.shared import write_drives

from reprior.cli import reproduce
from reprior.experiments.reproduction import Reproduction
from reprior.experiments.tables import Cell, Table


def test_help_lists_what_can_be_reproduced(capsys):
    result = in_process(capsys, "reproduce", "--help")
    assert result.code == 0
    names = ("toy", "odds-ratio", "datasets", "cifar", "synthia-rgb", "synthia-rgbd", "inaturalist")
    for name in names:
        assert f"\n  {name} " in result.out


def test_a_table_is_shown_and_written(capsys, tmp_path):
    result = in_process(capsys, "reproduce", "datasets", "-o", tmp_path)
    assert result.code == 0, result.err
    assert "437,513" in result.out
    assert f"Written: 4 files in {tmp_path}" in result.out
    assert {path.name for path in tmp_path.iterdir()} == {
        "datasets.md", "datasets.tex", "datasets.json", "datasets.run.json",
    }  # fmt: skip


def test_as_json(capsys, tmp_path):
    result = in_process(capsys, "reproduce", "datasets", "-o", tmp_path, "--json")
    document = result.json
    assert document["folder"] == str(tmp_path)
    assert document["tables"][0] == json.loads((tmp_path / "datasets.json").read_text())
    assert len(document["files"]) == 4


def test_notes_of_a_table_are_said_once_below_it(capsys, tmp_path, monkeypatch):
    table = Table("t", "A title", ("ours",), (("row", (Cell(1.5),)),), notes=("Below.",))
    made = Reproduction((table,), (tmp_path / "t.md",), ("Below.", "Of the whole."))
    monkeypatch.setattr("reprior.experiments.odds.reproduce", lambda *_, **__: made)
    result = in_process(capsys, "reproduce", "odds-ratio", "-o", tmp_path)
    assert result.code == 0, result.err
    assert result.out.count("Below.") == 1
    assert result.err.strip() == "note: Of the whole."
    assert "1.50" in result.out


def test_the_paper_s_figures_are_in_brackets_on_a_terminal(capsys, tmp_path):
    result = in_process(capsys, "reproduce", "datasets", "-o", tmp_path)
    assert "counted; in brackets the paper's" in result.out
    assert "(paper" not in result.out
    assert "(paper" in (tmp_path / "datasets.md").read_text()


def test_without_a_folder_it_goes_to_reproduced(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert in_process(capsys, "reproduce", "datasets", "-q").code == 0
    assert (tmp_path / "reproduced" / "datasets" / "datasets.md").exists()


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["datset"], "There is no command 'datset'. Did you mean 'datasets'?"),
        (["cifar", "--cells", "mnist"], "--cells must match COLUMN/ROW/sSEED. Got 'mnist'"),
        (["cifar", "--no-train"], "must have a finished cell to make tables of"),
        (["cifar", "--set", "epochs"], "--set must be KEY=VALUE"),
        (["cifar", "--set", "epoch=1"], "Did you mean 'epochs'?"),
        (["cifar", "--cells", "cifar10-exp100/ce/s0"], "and nothing is downloaded"),
        (["cifar", "--jobs", "0"], "--jobs"),
        (["cifar", "--set", "loss=focal"], "Got 'loss', which its rows and columns say"),
        (["cifar", "--set", "seed=[1]"], "`seed` must be a whole number"),
        (["cifar", "--no-train", "--set", "model=foo"], "or a network of timm. Got 'foo'"),
        (["cifar", "--set", "epochs=1"], "at least 2 for the schedule 'drw'"),
        (["synthia-rgb", "--no-train", "--set", "model=foo"], "Got 'foo'"),
        (["synthia-rgb", "--set", "crop=64"], "`crop` must be two whole numbers"),
        (["synthia-rgb", "--set", "crop=64,x"], "`crop` must be two whole numbers"),
        (["synthia-rgb"], "--root must be the folder of SYNTHIA. Got none, and nothing is"),
        (["synthia-rgbd", "--root", "no"], "neither train/RGB nor SYNTHIA-SEQS-05-DAWN"),
        (["synthia-rgb", "--no-train"], "none of the 5 that the table needs"),
        (["synthia-rgbd", "--no-train"], "none of the 2 that the table needs"),
        (["synthia-rgb", "--set", "loss=focal"], "Got 'loss', which its rows and columns say"),
        (["synthia-rgb", "--set", "seed=1"], "Got 'seed' twice"),
        (["synthia-rgbd", "--set", "step=1"], "Did you mean 'steps'?"),
        (["synthia-rgbd", "--protocol", "papr"], "--protocol"),
        (["inaturalist"], "--simulate"),
        (["inaturalist", "--row", "ce", "--set", "loss=focal"], "Got 'loss'"),
        (["inaturalist", "--simulate", "--set", "sampler=over"], "Got 'sampler'"),
        (["inaturalist", "--simulate", "--root", "data"], "--root must be left out"),
        (["inaturalist", "--n-classes", "20"], "--n-classes must be left out"),
        (["inaturalist", "--simulate", "--row", "svm"], "'svm'"),
    ],
)
def test_bad_input(capsys, tmp_path, arguments, sentence, monkeypatch):
    pytest.importorskip("lightning", reason="lightning is not installed")
    names = "reprior.experiments.models.timm_models.timm_names"
    monkeypatch.setattr(names, lambda _: ["resnet50"])  # also where timm is not installed
    result = in_process(capsys, "reproduce", *arguments, "-o", tmp_path / "out")
    assert result.code == 2
    assert is_one_sentence(result)
    assert sentence in result.err
    assert not (tmp_path / "out").exists()


def test_a_table_of_networks_from_frames_to_figures(capsys, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    write_drives(tmp_path / "SYNTHIA-SF")
    options = [
        "--root", tmp_path, "--set", "model=tiny", "--set", "steps=2", "--set", "crop=32,48",
        "-o", tmp_path / "out",
    ]  # fmt: skip
    result = in_process(capsys, "reproduce", "synthia-rgbd", *options)
    assert result.code == 0, result.err
    assert "UNO-IC, rebalance first" in result.out
    assert "network 2 of 2: depth-ce/s0" in result.err
    assert {"synthia-rgbd-macc.md", "synthia-examples.png", "networks", "fusions"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    again = in_process(capsys, "reproduce", "synthia-rgbd", "--no-train", "--json", *options)
    assert again.code == 0, again.err
    names = [table["name"] for table in again.json["tables"]]
    assert names[:2] == ["synthia-rgbd-miou", "synthia-rgbd-macc"]
    one = in_process(capsys, "reproduce", "synthia-rgb", "--no-train", *options)
    assert one.code == 0, one.err
    assert "4 of 5 networks are not finished" in one.out
    assert "judged at every second pixel each way" in " ".join(one.out.split())
    other = in_process(
        capsys, "reproduce", "synthia-rgbd", "--no-train", *options, "--set", "lr=0.1"
    )
    assert "It has 2 networks of other settings: lr is 0.004, not 0.1." in other.err


def test_unreadable_frames_are_named_and_can_be_left_out(capsys, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    write_drives(tmp_path / "SYNTHIA-SF")
    sorted((tmp_path / "SYNTHIA-SF" / "test" / "GT").iterdir())[0].unlink()
    options = [
        "--root", tmp_path, "--set", "model=tiny", "--set", "steps=2", "--set", "crop=32,48",
        "-o", tmp_path / "out",
    ]  # fmt: skip
    refused = in_process(capsys, "reproduce", "synthia-rgbd", *options)
    assert is_one_sentence(refused)
    assert "or pass --skip-unreadable to go on without it" in refused.err
    assert not (tmp_path / "out").exists()
    result = in_process(capsys, "reproduce", "synthia-rgbd", *options, "--skip-unreadable")
    assert result.code == 0, result.err
    assert "A frame is left out." in result.err
    assert "on_error" not in result.err


def test_bars_follow_one_another():
    told = []

    class Session:
        def log(self, line):
            told.append(line)

        def progress(self, title, total, *, counted):
            return Bar(f"{title} {total}{counted}")

    class Bar:
        def __init__(self, title):
            self.title = title

        def __enter__(self):
            told.append(f"open {self.title}")
            return lambda n: told.append(f"{self.title}: {n}")

        def __exit__(self, *_):
            told.append(f"close {self.title}")

    with reproduce._Bars(Session(), "toy") as tell:
        tell("moons", 1, 9)
        tell("moons", 2, 9)
        tell("circles", 1, 5)
    assert told == [
        "toy: moons", "open toy: moons 9", "toy: moons 9: 1", "toy: moons 9: 2",
        "close toy: moons 9", "toy: circles", "open toy: circles 5", "toy: circles 5: 1",
        "close toy: circles 5",
    ]  # fmt: skip
