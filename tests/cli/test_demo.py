"""``reprior demo``: the whole job, by the commands that it shows."""

from __future__ import annotations

import shlex
import sys

import numpy as np
import pytest
from tests.support.command_line import COMMAND

import reprior as rp
from reprior.cli import demo
from reprior.cli.demo import _program


def test_it_leaves_the_files_of_the_job(demo_run):
    folder, out = demo_run
    names = {"val.csv", "test.csv", "counts.json", "cal.json", "report.html"}
    assert {path.name for path in (folder / "demo").iterdir()} == names
    assert out.splitlines()[-1] == "The report: demo/report.html"


def test_its_commands_can_be_repeated(demo_run, run, monkeypatch):
    folder, out = demo_run
    lines = [shlex.split(line[2:]) for line in out.splitlines() if line.startswith("$ ")]
    assert [line[1] for line in lines] == ["fit", "evaluate", "report"]
    monkeypatch.chdir(folder)
    assert run(*lines[1][1:]).out in out


@pytest.mark.parametrize(
    "found, started, program",
    [
        ("/usr/bin/reprior", COMMAND, "reprior"),
        (None, COMMAND, shlex.quote(COMMAND)),
        (None, "__main__.py", f"{shlex.quote(sys.executable)} -m reprior"),
    ],
)
def test_the_program_is_called_as_it_was(monkeypatch, found, started, program):
    monkeypatch.setattr("shutil.which", lambda _: found)
    monkeypatch.setattr("sys.argv", [started, "demo"])
    assert _program() == program


def test_its_numbers_are_those_of_the_readme(demo_run, run, monkeypatch):
    folder, _ = demo_run
    table = demo.compare()
    monkeypatch.chdir(folder)
    found = run(
        "evaluate", "demo/cal.json", "demo/test.csv", "--counts", "demo/counts.json",
        "--groups", "10", "40", "--json",
    ).json  # fmt: skip
    for row, metric in (
        ("balanced accuracy", "balanced_accuracy"),
        ("macro F1", "macro_f1"),
        ("mean IoU", "mean_iou"),
        ("recall: digits with > 40 training images", "recall_many"),
        ("        digits with < 10", "recall_few"),
    ):
        for when in ("before", "after"):
            assert found[metric][when] == pytest.approx(table[when][row], abs=1e-9), row


def test_json(tmp_path, run):
    result = run("demo", "-o", tmp_path / "demo", "--json", "--quiet", "--seed", "1")
    assert result.err == ""
    assert set(result.json) >= {"folder", "fit", "evaluate", "report"}
    strength = rp.load(tmp_path / "demo" / "cal.json").strength_
    assert result.json["fit"]["strength"] == strength


def test_parts_share_no_image():
    parts = demo.long_tailed_digits(3)
    images = np.concatenate([part.images for part in parts])
    assert len(images) == 280 + 240 + 500
    assert np.bincount(parts[0].labels).tolist() == [100, 65, 42, 27, 18, 11, 7, 5, 3, 2]
