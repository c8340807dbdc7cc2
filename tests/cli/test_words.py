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


@click.command()
@click.argument("fusion")
def of_a_fusion():
    """Do nothing."""


@pytest.mark.parametrize(
    "sentence, told",
    [
        ("Write it again with save().", "Write it again with reprior fuse fit."),
        ("must sum to 1 under kind='probs'.", "must sum to 1 under the fusion's kind, probs."),
        ("Got JSON, which calibrators and counts are in.", "Got JSON, which fusions and counts "
         "are in."),
        ("x is not a number a calibrator can hold", "x is not a number a fusion can hold"),
        ("that the calibrator was fitted for.", "that the fusion was fitted for."),
        ("'the calibrator.csv' has the class calibrator.", None),
        ("'with reprior fit.csv' does not exist.", None),
    ],
)  # fmt: skip
def test_what_holds_of_fusions_is_said_of_them(sentence, told):
    assert in_options(sentence, of_a_fusion) == (sentence if told is None else told)


@click.command()
@click.argument("cal")
@click.option("--kind")
@click.option("--resolution")
@click.option("--groups")
def of_a_calibrator():
    """Do nothing."""


@pytest.mark.parametrize(
    "sentence, told",
    [
        ("Got x. Write it again with save().", "Got x. Write it again with reprior fit."),
        ("a number, 'auto' or None.", "a number, 'auto' or 'none'."),
        ("Got -1. Or pass 'fit', or None.", "Got -1. Or pass 'fit'."),
        ("Pass groups=(50, 400).", "Pass --groups 50 400."),
        ("`groups[0]` must be finite.", "the first of --groups must be finite."),
        ("Got counts[4]=0.", "Got counts of class 4 = 0."),
        ("Got scores[0, 2]=-3.", "Got row 0, class 2: -3."),
        ("Got scores[7, :] with sum 3.", "Got row 7 with sum 3."),
        (
            "must sum to 1 under kind='probs'. Got scores[0, :] with sum 100. Normalise the rows, "
            "or pass kind='logits' if these are raw outputs.",
            "must sum to 1 under the calibrator's kind, probs. Got row 0 with sum 100. Normalise "
            "the rows, or give scores of the calibrator's kind. If the rows sum to 100 they are "
            "percentages: divide them by 100.",
        ),
    ],
)
def test_sentences_do_not_speak_python(sentence, told):
    assert in_options(sentence, of_a_calibrator) == told


def test_values_are_said_as_one_types_them():
    options = [
        click.Option(["--resolution"]), click.Option(["--separate"], is_flag=True),
        click.Option(["--cv"]), click.Option(["--subject-to"]),
    ]  # fmt: skip
    command = click.Command("fit", params=options)
    said = {
        "Pass resolution='refine', None to keep each.": "Pass --resolution refine, none to keep "
        "each.",
        "Pass separate=True.": "Pass --separate.",
        "Got separate=False.": "Got no --separate.",
        "`separate` must be True.": "--separate must be given.",
        "`cv` must be None. Got 3.": "--cv must be left out. Got 3.",
        "Pass subject_to='accuracy >= 0.5'.": "Pass --subject-to 'accuracy >= 0.5'.",
    }
    assert {sentence: in_options(sentence, command) for sentence in said} == said
