"""``reprior reproduce``: tables and figures from the command line, and its sentences."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from lab.tests.support.drives import write_drives
from tests.support.command_line import in_process, is_one_sentence

from reprior_lab.commands import reproduce
from reprior_lab.departures import DEPARTURES
from reprior_lab.reproduction import Reproduction
from reprior_lab.tables import Cell, Table


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
        "datasets.md",
        "datasets.tex",
        "datasets.json",
        "datasets.run.json",
    }


def test_as_json(capsys, tmp_path):
    result = in_process(capsys, "reproduce", "datasets", "-o", tmp_path, "--json")
    document = result.json
    assert document["folder"] == str(tmp_path)
    assert document["tables"][0] == json.loads((tmp_path / "datasets.json").read_text())
    assert len(document["files"]) == 4


def test_notes_of_a_table_are_said_once_below_it(capsys, tmp_path, monkeypatch):
    table = Table("t", "A title", ("ours",), (("row", (Cell(1.5),)),), notes=("Below.",))
    made = Reproduction((table,), (tmp_path / "t.md",), ("Below.", "Of the whole."))
    monkeypatch.setattr("reprior_lab.odds.reproduce", lambda *_, **__: made)
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
        (["cifar", "--set", "loss=focal"], "Got 'loss', which the table fixes"),
        (["cifar", "--set", "root=x"], "Got 'root', which is an option of its own. Pass --root"),
        (["cifar", "--set", "protocol=x"], "Got 'protocol'. Pass --protocol instead"),
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
        (["synthia-rgb", "--set", "loss=focal"], "Got 'loss', which the table fixes"),
        (["synthia-rgb", "--set", "seed=1"], "Got 'seed', which is an option of its own"),
        (["synthia-rgbd", "--set", "step=1"], "Did you mean 'steps'?"),
        (["synthia-rgbd", "--protocol", "papr"], "--protocol"),
        (["inaturalist"], "--simulate"),
        (["inaturalist", "--row", "ce", "--set", "loss=focal"], "Got 'loss'"),
        (["inaturalist", "--set", "ratio=2"], "Got 'ratio', which the table fixes"),
        (["inaturalist", "--set", "imbalance=exp"], "Got 'imbalance', which the table fixes"),
        (["inaturalist", "--set", "model=x"], "Got 'model', which is an option of its own"),
        (["inaturalist", "--set", "seed=1"], "Got 'seed', which is an option of its own"),
        (
            ["inaturalist", "--root", "no", "--devices", "abc"],
            "--devices must be a number of devices",
        ),
        (["inaturalist", "--simulate", "--devices", "2"], "--devices must be left out"),
        (["inaturalist", "--simulate", "--set", "sampler=over"], "Got 'sampler'"),
        (["inaturalist", "--simulate", "--root", "data"], "--root must be left out"),
        (["inaturalist", "--n-classes", "20"], "--n-classes must be left out"),
        (["inaturalist", "--simulate", "--row", "svm"], "'svm'"),
        (["inaturalist", "--simulate", "--explain"], "--explain must be left out"),
        (["inaturalist", "--simulate", "--precision", "32-true"], "--precision must be left out"),
        (["inaturalist", "--precision", "32-true", "--set", "precision=x"], "'precision' twice"),
        (["cifar", "--root", "no", "--devices", "abc"], "--devices must be a number of devices"),
    ],
)
def test_bad_input(capsys, tmp_path, arguments, sentence):
    result = in_process(capsys, "reproduce", *arguments, "-o", tmp_path / "out")
    assert result.code == 2
    assert is_one_sentence(result)
    assert sentence in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "experiment, n_networks",
    [("cifar", 52), ("inaturalist", 13), ("synthia-rgb", 5), ("synthia-rgbd", 2)],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_explain_shows_settings_and_trains_nothing(capsys, tmp_path, experiment, n_networks):
    given = ["reproduce", experiment, "--protocol", "paper", "--explain", "-o", tmp_path / "out"]
    result = in_process(capsys, *given)
    assert result.code == 0, result.err
    assert f"Settings of all {n_networks} networks, protocol paper" in result.out
    document = in_process(capsys, *given, "--json").json
    assert len(document["networks"]) == n_networks
    assert all(set(each).isdisjoint(document["common"]) for each in document["networks"].values())
    whole = [{*document["common"], *each} for each in document["networks"].values()]
    assert all(each == whole[0] >= {"loss", "lr", "batch_size"} for each in whole)
    listed = DEPARTURES[experiment.partition("-")[0]]
    assert document["departures"] == [asdict(each) for each in listed]
    assert ("Departures from the public recipes" in result.out) == bool(listed)
    assert not (tmp_path / "out").exists()


def test_explain_has_what_is_set(capsys):
    given = ["--explain", "--set", "epochs=7", "--row", "ce", "--precision", "bf16-mixed", "--json"]
    found = in_process(capsys, "reproduce", "inaturalist", *given).json
    common = found["common"]
    assert (common["epochs"], common["precision"], common["loss"]) == (7, "bf16-mixed", "ce")
    assert found["networks"]["inception_v3/ce"] == {"model": "inception_v3", "image_size": 299}


def test_explain_has_settings_at_their_defaults(capsys):
    common = in_process(capsys, "reproduce", "synthia-rgb", "--explain", "--json").json["common"]
    names = ("augment", "normalization", "pretrained", "cameras", "size", "test_every")
    assert [common[name] for name in names] == ["full", "imagenet", False, "front", None, 1]


def test_explain_of_one_network(capsys):
    given = ["--explain", "--row", "ce", "--model", "resnet50"]
    result = in_process(capsys, "reproduce", "inaturalist", *given)
    assert "Settings of 1 network, protocol paper" in result.out


def test_departures_are_of_the_paper_s_protocol(capsys):
    result = in_process(capsys, "reproduce", "cifar", "--explain")
    assert result.code == 0, result.err
    assert "listed for --protocol paper" in result.err
    assert "public recipe" not in result.out


def test_a_table_of_networks_from_frames_to_figures(capsys, tmp_path):
    write_drives(tmp_path / "SYNTHIA-SF")
    options = [
        "--root",
        tmp_path,
        "--set",
        "model=tiny",
        "--set",
        "steps=2",
        "--set",
        "crop=32,48",
        "-o",
        tmp_path / "out",
    ]
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
    write_drives(tmp_path / "SYNTHIA-SF")
    sorted((tmp_path / "SYNTHIA-SF" / "test" / "GT").iterdir())[0].unlink()
    options = [
        "--root",
        tmp_path,
        "--set",
        "model=tiny",
        "--set",
        "steps=2",
        "--set",
        "crop=32,48",
        "-o",
        tmp_path / "out",
    ]
    refused = in_process(capsys, "reproduce", "synthia-rgbd", *options)
    assert is_one_sentence(refused)
    assert "or pass --skip-unreadable to leave it out" in refused.err
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
        "toy: moons",
        "open toy: moons 9",
        "toy: moons 9: 1",
        "toy: moons 9: 2",
        "close toy: moons 9",
        "toy: circles",
        "open toy: circles 5",
        "toy: circles 5: 1",
        "close toy: circles 5",
    ]
