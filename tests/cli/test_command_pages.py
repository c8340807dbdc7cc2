"""The documentation of the commands, and the examples in it, are what the commands are."""

from __future__ import annotations

import json

import pytest
from docs.scripts.command_pages import FOLDER, pages
from tests.support.command_line import run_example

from reprior.cli import app

NAMES = ["fit", "apply", "evaluate", "forecast", "report", "prior", "fuse"]


def test_the_committed_pages_are_up_to_date():
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert written == pages(), "Run: python -m docs.scripts.command_pages"


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_the_help_runs(demo_files, run, name):
    run_example(run, app.app.get_command(None, name).epilog)


@pytest.mark.parametrize(
    "group, name",
    [("prior", "estimate"), ("fuse", "fit"), ("fuse", "apply"), ("fuse", "evaluate")],
)
def test_the_example_of_a_command_below_runs(demo_files, run, group, name):
    run_example(run, app.app.get_command(None, group).commands[name].epilog)
    if name == "estimate":
        prior = json.loads((demo_files / "target.json").read_text())
        assert sum(prior.values()) == pytest.approx(1)
