"""``reprior report``: one HTML file that shows what changed."""

from __future__ import annotations

from collections.abc import Sequence

import click

from reprior.cli.examples import shows
from reprior.cli.inputs import check_output, class_names, open_for, read_class_counts
from reprior.cli.options import (
    PATH,
    PriorChoice,
    Reading,
    output_option,
    reading_options,
    scores_argument,
)
from reprior.cli.session import Session, session_options

__all__ = ["command"]


@click.command(
    "report",
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
@click.option("--title", metavar="TEXT", help="Title of the page.")
@reading_options(labels=True)
@output_option("The page, an HTML file that needs no other file and no network.")
@session_options
def command(
    session: Session,
    cal: str,
    val: Sequence[str],
    test: Sequence[str],
    test_labels: str | None,
    counts: str | None,
    title: str | None,
    reading: Reading,
    output: str,
) -> None:
    """Write a page about the calibrator CAL and the scores VAL it was tuned on.

    The page has every metric over the strength, with a slider, the classes, the confusion, the
    reliability and the priors, before and after. With --test it judges on data that the calibrator
    was not tuned on.
    """
    from dataclasses import replace

    from reprior.loading import load
    from reprior.report import write_report

    calibrator = load(cal)
    validation = open_for(calibrator, session, val, reading, labelled=True)
    judged = None
    if test:
        elsewhere = replace(reading, labels=test_labels)
        judged = open_for(calibrator, session, test, elsewhere, labelled=True)
    train_counts = None
    if counts is not None:
        train_counts, _ = read_class_counts(
            session, PriorChoice(counts=counts), class_names(calibrator), validation.n_classes
        )
    check_output(output, [cal, *validation.paths, *(judged.paths if judged else ())])
    with session.progress("writing the page", None) as progress:
        path = write_report(
            output, calibrator, validation, test=judged, counts=train_counts, title=title,
            progress=progress,
        )  # fmt: skip
    session.say(f"Written: {path}, open it in a browser.")
    session.result({"output": str(path), "judged_on_test": judged is not None})
