"""The documentation of the commands, and the examples in it, are what the commands are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from docs.scripts.command_pages import FOLDER, pages

from reprior.cli import app

NAMES = ["fit", "apply", "evaluate", "report", "prior", "fuse"]


def test_the_committed_pages_are_up_to_date():
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert written == pages(), "Run: python -m docs.scripts.command_pages"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_the_help_runs(scratch, name):
    command = app.app.get_command(None, name)
    lines = [line.strip() for line in command.epilog.splitlines()[2:]]
    script = "\n".join(line.removeprefix("$ ") for line in lines)
    if (scratch / "demo").exists():  # the demo's files are the same every time
        script = script.replace("reprior demo -o demo", "true")
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=scratch, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
