"""No command writes over what it reads."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from tests.support.child_processes import ended
from tests.support.command_line import COMMAND, data, is_one_sentence, write


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


def test_inside_a_store_is_inside_an_input(job, run):
    pytest.importorskip("zarr", reason="zarr is not installed")
    write(job / "val.zarr", data(0))
    result = run(
        "fit", job / "val.zarr", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "val.zarr" / "cal.json",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "inside" in result.err


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
    assert "which is a named pipe (FIFO). Choose another name" in result.err
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


TEXT = [
    "fit val.csv --counts counts.json --kind logits -o",
    "fuse test.csv test.csv --kind logits -o",
    "fuse fit a=val.csv b=val.csv --counts counts.json --kind logits -o",
    "fuse apply fusion.json a=test.csv b=test.csv -o",
    "prior --counts counts.json -o",
    "prior estimate test.csv --counts counts.json --kind logits -o",
    "report cal.json val.csv -o",
    "apply cal.json test.csv -o",
]


@pytest.mark.parametrize("line", TEXT)
def test_text_goes_to_standard_output_and_messages_to_standard_error(fused, run, monkeypatch, line):
    monkeypatch.chdir(fused)
    before = set(os.listdir())
    to_file = run(*line.split(), "./-")
    assert to_file.code == 0, to_file.err
    (written,) = set(os.listdir()) - before
    text = (fused / written).read_text()
    (fused / written).unlink()
    streamed = run(*line.split(), "-")
    assert streamed.code == 0, streamed.err
    assert streamed.out == text
    # What is said beside the output, but for the sentence that names its file.
    said = [each for each in to_file.out.splitlines() if each and not each.startswith("Written:")]
    assert all(each in streamed.err for each in said)
    assert set(os.listdir()) == before
    assert run(*line.split(), "-", "--quiet").out == text


@pytest.mark.parametrize("line", TEXT)
def test_two_documents_do_not_share_standard_output(tmp_path, run, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    result = run(*line.split(), "-", "--json")
    assert is_one_sentence(result)
    assert "--json must go with an output that is a file" in result.err


@pytest.mark.parametrize(
    "line",
    [
        "fold cal.json model.onnx -o",
        "apply cal.json test.npz -o",
        "fuse test.npz test.npz --kind logits -o",
        "fuse apply fusion.json a=test.npz b=test.npz -o",
    ],
)
def test_what_is_no_text_is_not_written_to_standard_output(fused, run, monkeypatch, line):
    monkeypatch.chdir(fused)
    write(fused / "test.npz", data(1))
    before = set(os.listdir())
    result = run(*line.split(), "-")
    assert is_one_sentence(result)
    assert "Got '-': only text is written to standard output" in result.err
    assert set(os.listdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.timeout(60)  # a program that opens a pipe waits for ever
@pytest.mark.parametrize("counts", ["pipe", "[" * 200_000])
def test_a_demo_is_not_stopped_by_what_is_there(tmp_path, run, counts):
    if counts == "pipe":
        os.mkfifo(tmp_path / "counts.json")
    else:
        (tmp_path / "counts.json").write_text(counts)
    result = run("demo", "-o", tmp_path)
    assert is_one_sentence(result)
    assert "has another file 'counts.json'" in result.err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such shell")
def test_without_standard_output(fitted):
    line = 'exec "$@" >&-'
    for words, code, says in (
        ("evaluate cal.json test.csv -q", 0, ""),
        ("prior --counts counts.json -o -", 2, "Got '-', and standard output is closed"),
    ):
        done = ended(["sh", "-c", line, "sh", COMMAND, *words.split()], cwd=fitted)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
        assert says in done.stderr


def test_a_demo_needs_a_folder(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo", "-o", "-")
    assert is_one_sentence(result)
    assert "Got '-', and standard output is no folder" in result.err
    assert os.listdir() == []
