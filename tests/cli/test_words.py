"""The library speaks of arguments, the command line of options."""

from __future__ import annotations

import click
import pytest

from reprior.cli.words import in_options


@click.command()
@click.option("--subject-to")
@click.option("--smoothing")
@click.option("-o", "--output")
def options_of_a_command():
    """Do nothing."""


@pytest.mark.parametrize(
    "sentence, told",
    [
        ("`subject_to` must hold.", "--subject-to must hold."),
        ("Drop the class, or pass smoothing=1.", "Drop the class, or pass --smoothing 1."),
        ("`output` must not be an input.", "--output must not be an input."),
        ("`scores` must be finite, x=1.", "`scores` must be finite, x=1."),
    ],
)
def test_sentences_speak_of_options(sentence, told):
    assert in_options(sentence, options_of_a_command) == told
