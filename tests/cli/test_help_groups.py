"""Long help texts: options in groups, each once, those used most first."""

from __future__ import annotations

import re

import click
import pytest

from reprior.cli.app import app


@pytest.mark.parametrize("name", ["fit", "evaluate", "apply", "report"])
def test_every_option_is_in_one_group(name, run):
    command = app.get_command(click.Context(app), name)
    text = run(name, "--help").out
    headings = re.findall(r"^([A-Z][\w ]+):$", text, flags=re.MULTILINE)
    assert headings[0] == "Used most"
    assert headings[-1] == "Output"
    assert len(headings) == len(set(headings))
    shown = text.partition("Used most:")[2]
    listed = re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown, flags=re.MULTILINE)
    options = [p.opts[-1] for p in command.params if isinstance(p, click.Option)]
    assert sorted(listed) == sorted([*options, "--help"])


def test_the_five_most_used_options_of_fit_come_first(run):
    text = run("fit", "--help").out
    first = text.partition("Used most:")[2].partition("\n\n")[0]
    names = re.findall(r"^  (?:-\w, )?(--[\w-]+)", first, flags=re.MULTILINE)
    assert names == ["--kind", "--counts", "--metric", "--subject-to", "--output"]
