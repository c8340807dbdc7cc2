"""``reprior report``: one HTML file that shows what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reprior.cli.caveats import recognised, same_files
from reprior.cli.inputs import class_names, load_calibrator, open_for, read_class_counts
from reprior.cli.options import (
    PATH,
    GroupedCommand,
    PriorChoice,
    Reading,
    groups_option,
    output_option,
    reading_options,
    refuse_groups_alone,
    scores_argument,
    shows,
)
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, session_options
from reprior.core.checks import check_bounds
from reprior.exceptions import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.scores import ScoreFile

__all__ = ["command"]


@click.command(
    "report",
    cls=GroupedCommand,
    most_used=("test", "counts", "title", "output"),
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior report demo/cal.json demo/val.csv --test demo/test.csv \\",
        "    --counts demo/counts.json -o report.html",
    ),
)
@click.argument("cal", type=PATH)
@scores_argument("val")
@click.option(
    "--test",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Labelled scores that the calibrator was not tuned on, to judge it. Repeatable.",
)
@click.option(
    "--test-labels", type=PATH, metavar="FILE", help="Labels of --test in a file of their own."
)
@click.option("--counts", type=PATH, metavar="FILE", help="Training samples of each class.")
@groups_option
@click.option("--title", metavar="TEXT", help="Title of the page.")
@reading_options(labels=True)
@output_option("The page, HTML that needs no other file and no network; - is standard output.")
@session_options
def command(
    session: Session,
    cal: str,
    val: Sequence[str],
    test: Sequence[str],
    test_labels: str | None,
    counts: str | None,
    groups: tuple[float, float],
    title: str | None,
    reading: Reading,
    output: str,
) -> None:
    """Write a page about the calibrator CAL and the scores VAL it was tuned on.

    The page has every metric over the strength, with a slider, the classes, the confusion, the
    reliability and the priors, before and after. With --test it judges on data that the calibrator
    was not tuned on. In JSON, judged_on_test is false where --test is recognised as the tuning
    data, and null where the calibrator does not say what it was tuned on.
    """
    from reprior.report import write_report

    refuse_groups_alone(counts)
    check_bounds(groups, name="groups")
    calibrator = load_calibrator(cal)
    validation = open_for(calibrator, session, val, reading, labelled=True)
    judged = None
    if test:
        elsewhere = replace(reading, labels=(test_labels,) if test_labels else None)
        judged = open_for(calibrator, session, test, elsewhere, labelled=True)
        if len(validation.shape) > 2 and calibrator.class_axis != validation.class_axis:
            raise OptionError(
                f"--test must have its classes on the axis of VAL, {validation.class_axis}. "
                f"Got {judged.class_axis}. Move the axis of one of them."
            )
    train_counts = None
    if counts is not None:
        train_counts, _ = read_class_counts(
            session,
            PriorChoice(counts=counts),
            class_names(calibrator) or validation.class_names,
            validation.n_classes,
        )
    check_output(output, [cal, counts, reading.classes, *_read(validation), *_read(judged)])
    with session.progress("writing the page", None) as progress:
        path = write_report(
            output,
            calibrator,
            validation,
            test=judged,
            counts=train_counts,
            groups=groups,
            title=title,
            progress=progress,
        )
    elsewhere_too = _judged_elsewhere(session, calibrator, validation, judged)
    session.done(f"Written: {path}, open it in a browser.")
    session.result({"output": str(path), "judged_on_test": elsewhere_too})


def _judged_elsewhere(
    session: Session,
    calibrator: PosteriorCalibrator,
    validation: ScoreFile,
    judged: ScoreFile | None,
) -> bool | None:
    """Whether --test is other data than the tuning data; None where that is not known."""
    if judged is None:
        return False
    tuned_on = same_files(judged.paths, validation.paths) or recognised(calibrator, judged)
    if tuned_on:
        session.note(
            "--test is what the calibrator was tuned on: the page's numbers are optimistic; judge "
            "it on other data"
        )
    return None if tuned_on is None else not tuned_on


def _read(scores: ScoreFile | None) -> tuple[Path, ...]:
    """Return the files that scores and labels come from."""
    return () if scores is None else (*scores.paths, *scores.label_paths)
