"""Fixtures of the command line's tests."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from tests.support.command_line import COMMAND, data, in_process, quietly, write, write_counts


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the program in this process: run("fit", …) gives code, out, err."""
    monkeypatch.setenv("COLUMNS", "120")
    return partial(in_process, capsys)


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory):
    """What the demo printed, and the folder it ran in. Tests do not write there."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("COLUMNS", "120")
        patched.setenv("PATH", f"{Path(COMMAND).parent}:{os.environ['PATH']}")
        result = quietly("demo", "-o", "demo")
    assert result.code == 0, result.err
    return folder, result.out


@pytest.fixture
def demo_files(demo_run, tmp_path, monkeypatch):
    """A folder to work in, with what the demo writes."""
    shutil.copytree(demo_run[0] / "demo", tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job(tmp_path):
    """A folder with val.csv, test.csv and counts.json."""
    write(tmp_path / "val.csv", data(0))
    write(tmp_path / "test.csv", data(1))
    write_counts(tmp_path)
    return tmp_path


@pytest.fixture
def fitted(job, run):
    """The same folder with cal.json, tuned on val.csv."""
    done = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "cal.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    return job


@pytest.fixture
def fused(fitted, run):
    """The same folder with fusion.json, of two modalities a and b tuned on val.csv."""
    made = ["fuse", "fit", f"a={fitted}/val.csv", f"b={fitted}/val.csv", "--kind", "logits"]
    result = run(*made, "--counts", fitted / "counts.json", "-o", fitted / "fusion.json")
    assert result.code == 0, result.err
    return fitted
