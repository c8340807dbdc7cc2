"""Fixtures of the command line's tests."""

from __future__ import annotations

from functools import partial

import pytest
from tests.cli.shared import data, in_process, write, write_counts


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the program in this process: run("fit", …) gives code, out, err."""
    monkeypatch.setenv("COLUMNS", "120")
    return partial(in_process, capsys)


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
