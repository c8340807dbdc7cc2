"""No command writes over what it reads."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from tests.cli.shared import data, is_one_sentence, write

from reprior.cli.outputs import check_output
from reprior.exceptions import OptionError


@pytest.fixture
def snapshot(fitted):
    """The folder, and a function that tells whether all of its files are as they were."""
    np.save(fitted / "test.npy", data(1).scores)
    write(fitted / "test.npz", data(1))
    write(fitted / "own.npy", data(0))
    (fitted / "classes.txt").write_text("cat\ndog\nowl\n")
    before = {path: path.read_bytes() for path in fitted.iterdir()}
    return fitted, lambda: before == {path: path.read_bytes() for path in fitted.iterdir()}


@pytest.mark.parametrize(
    "line",
    [
        "fit val.csv --counts counts.json --kind logits -o counts.json",
        "fit val.csv --counts counts.json --kind logits --classes classes.txt -o classes.txt",
        "fit own.npy --labels own-labels.npy --counts counts.json --kind logits -o own-labels.npy",
        "fit val.csv --counts counts.json --kind logits --target-prior estimate "
        "--target-scores test.csv -o test.csv",
        "fuse test.npz test.npy --kind logits -o test.npy",
        "prior --counts counts.json -o counts.json",
        "report cal.json val.csv --counts counts.json -o counts.json",
        "report cal.json val.csv -o cal.json",
        "apply cal.json test.csv -o cal.json",
        "apply cal.json test.csv -o ./",
    ],
)
def test_an_input_is_never_replaced(snapshot, run, monkeypatch, line):
    folder, unchanged = snapshot
    monkeypatch.chdir(folder)
    result = run(*line.split())
    assert is_one_sentence(result), result
    assert "--output must not be an input" in result.err
    assert unchanged()


def test_a_missing_folder_is_named(job, run):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "nowhere" / "cal.json",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert f"there is no '{job / 'nowhere'}'" in result.err


def test_inside_a_store_is_inside_an_input(tmp_path):
    pytest.importorskip("zarr", reason="zarr is not installed")
    write(tmp_path / "val.zarr", data(0))
    with pytest.raises(OptionError, match="inside"):
        check_output(str(tmp_path / "val.zarr" / "cal.json"), [tmp_path / "val.zarr", None])


def test_a_demo_does_not_replace_files_of_others(job, run):
    before = (job / "val.csv").read_bytes()
    result = run("demo", "-o", job)
    assert is_one_sentence(result)
    assert "Choose another folder" in result.err
    assert (job / "val.csv").read_bytes() == before


WRITING = [
    "fit val.csv --counts counts.json --kind logits -o",
    "fuse test.csv test.csv --kind logits -o",
    "fuse fit a=val.csv b=val.csv --counts counts.json --kind logits -o",
    "fuse apply cal.json a=val.csv b=val.csv -o",
    "prior --counts counts.json -o",
    "prior estimate test.csv --counts counts.json --kind logits -o",
    "report cal.json val.csv -o",
    "apply cal.json test.csv -o",
    "fold cal.json model.onnx -o",
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.parametrize("line", WRITING)
def test_a_pipe_is_refused_before_anything_is_read(tmp_path, run, monkeypatch, line):
    # No input is there: a command that looked for one would say so.
    monkeypatch.chdir(tmp_path)
    os.mkfifo("out")
    result = run(*line.split(), "out")
    assert is_one_sentence(result), result
    assert "--output must be a new name or a regular file. Got 'out'" in result.err
    assert "which is a named pipe (FIFO). Choose another name." in result.err
    assert os.listdir() == ["out"]
    assert stat.S_ISFIFO(os.lstat("out").st_mode)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
def test_a_pipe_in_the_folder_of_outputs_is_refused_before_the_first_is_written(fitted, run):
    out = fitted / "out"
    out.mkdir()
    os.mkfifo(out / "val.csv")
    result = run("apply", fitted / "cal.json", fitted / "test.csv", fitted / "val.csv", "-o", out)
    assert is_one_sentence(result), result
    assert "which is a named pipe (FIFO)" in result.err
    assert os.listdir(out) == ["val.csv"]


def test_a_link_is_followed_and_stays(fitted, run):
    real, link = fitted / "real.json", fitted / "link.json"
    real.write_text("old")
    link.symlink_to(real.name)
    result = run("prior", "--counts", fitted / "counts.json", "-o", link)
    assert result.code == 0, result.err
    assert link.is_symlink()
    assert real.read_text() != "old"


def test_a_store_is_no_place_for_a_calibrator(job, run):
    pytest.importorskip("zarr", reason="zarr is not installed")
    write(job / "mine.zarr", data(0))
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "mine.zarr",
    )  # fmt: skip
    assert is_one_sentence(result), result
    assert "--output must be a file. Got the folder" in result.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.parametrize("line", ["demo", "train --data digits --epochs 1", "reproduce odds-ratio"])
def test_what_writes_a_folder_takes_no_file(run, tmp_path, line):
    if not line.startswith("demo"):
        pytest.importorskip("reprior_lab")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("kept")
    for name in ("pipe", "file"):
        result = run(*line.split(), "-o", tmp_path / name)
        assert is_one_sentence(result)
        assert "--output must be a new name or a folder" in result.err
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert (tmp_path / "file").read_text() == "kept"
