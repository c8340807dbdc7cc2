"""``reprior forecast``: the metric to expect on scores without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from reprior.cli.inputs import (
    load_calibrator,
    open_for,
    refuse_labels_and_weights,
    sample_labelled_rows,
    sample_rows,
)
from reprior.cli.options import PATH, Reading, reading_options, scores_argument, shows
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid

__all__ = ["command"]

#: Scores that a forecast looks at, at most, and as many of validation: 32 MB of float64.
MOST_SCORES = 2**22


@click.command(
    "forecast",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior forecast demo/cal.json demo/test.csv --validation demo/val.csv",
        "reprior forecast demo/cal.json demo/test.csv --validation demo/val.csv --metric macro_f1",
    ),
)
@click.argument("cal", type=PATH)
@scores_argument("scores")
@click.option(
    "--metric",
    default="accuracy",
    show_default=True,
    metavar="NAME",
    help="What to forecast: a metric of class counts, as of fit.",
)
@click.option(
    "--validation",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Labelled scores of every class that the model was not trained on. Repeatable. Needed "
    "where CAL has no confusion matrices of its tuning data.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    metavar="NUMBER",
    help="Of the intervals, which are drawn by bootstrap.",
)
@reading_options(labels=True)
@session_options
def command(
    session: Session,
    cal: str,
    scores: Sequence[str],
    metric: str,
    validation: Sequence[str],
    confidence: float,
    reading: Reading,
) -> None:
    """Forecast a metric of CAL on SCORES, which need no labels.

    The class mix of SCORES is estimated, and the labelled counts of the tuning data are re-weighted
    to it. before is the model as it is, after is the calibrator CAL. Only the class mix may have
    changed since tuning: classes must look as they did.
    """
    refuse_labels_and_weights(reading, validation)
    calibrator = load_calibrator(cal)
    target = open_for(calibrator, session, scores, reading, labelled=False)
    most = MOST_SCORES // calibrator.source_prior_.size
    with session.progress("reading", target.n_samples) as progress:
        rows, n_rows = sample_rows(
            target, class_axis=target.class_axis, most=most, progress=progress
        )
    _note_sample(session, len(rows), n_rows, "scores")
    labelled: Any = None
    if validation:
        opened = open_for(calibrator, session, validation, reading, labelled=True)
        with session.progress("reading the validation", opened.n_samples) as progress:
            *labelled, n_labels = sample_labelled_rows(
                opened,
                class_axis=opened.class_axis,
                ignore_index=opened.ignore_index,
                most=most,
                progress=progress,
            )
        _note_sample(session, len(labelled[0]), n_labels, "validation scores")
    calibrator.class_axis = -1  # rows
    forecast = calibrator.forecast(rows, metric, confidence=confidence, validation=labelled)
    intervals = {"before": forecast.before_interval, "after": forecast.after_interval}
    values = {"before": forecast.before, "after": forecast.after}
    grid = Grid(
        ("decisions", "expected", "from", "to"),
        [(when, values[when], *intervals[when]) for when in values],
        f"{plain(forecast.metric)} at the class mix of {n_rows:,} samples, with intervals of "
        f"{100 * confidence:g} % for the population",
    )
    names = [plain(name) for name in calibrator.classes_]
    mix = list(zip(names, forecast.target_prior.tolist(), strict=True))
    session.say(grid.rich(), "", Grid(("class", "share there"), mix).rich(), "")
    advice = forecast.advice.replace(
        "retarget(forecast.target_prior)",
        "reprior fit VAL … --target-prior estimate --target-scores SCORES",
    )
    session.say(f"Should you retarget? {plain(advice)}")
    session.result(
        {
            "metric": forecast.metric,
            "confidence": confidence,
            **{when: {"expected": values[when], "interval": intervals[when]} for when in values},
            "classes": calibrator.classes_.tolist(),
            "target_prior": forecast.target_prior,
            "advice": forecast.advice,
            "n_samples": n_rows,
        }
    )


def _note_sample(session: Session, n: int, of: int, what: str) -> None:
    if n < of:
        session.note(f"the forecast is from {n:,} rows drawn from {of:,} of the {what}")
