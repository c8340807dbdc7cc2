"""``reprior evaluate``: the uncorrected model against the corrected one, on labelled scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from reprior.cli.apply import costs_of
from reprior.cli.caveats import note_mix_of_probabilities, recognised
from reprior.cli.inputs import class_names, load_calibrator, open_for, read_class_counts
from reprior.cli.options import (
    PATH,
    GroupedCommand,
    Names,
    PriorChoice,
    Reading,
    groups_option,
    reading_options,
    refuse_groups_alone,
    scores_argument,
    shows,
    skip_option,
)
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import CHANGE, Grid, before_after, whole
from reprior.core.checks import check_bounds
from reprior.files.chunks import describe_left_out
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.metrics.groups import group_metric, shot_groups

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.engines import Evaluation

__all__ = ["command"]

FORMATS = ("table", "json", "csv", "markdown")

#: Columns of the table of classes, beside their names.
PER_CLASS = ("recall", "precision", "iou")

SAME = (
    "these are the data that the calibrator was tuned on: the result is optimistic; judge it on "
    "other data"
)


#: By whether these are the data that the calibrator was tuned on.
SAID = {
    True: "the tuning data",
    False: "not the data it was tuned on (by digest)",
    None: "whether it was tuned on them is not known",
}


@click.command(
    "evaluate",
    cls=GroupedCommand,
    most_used=("per_class", "style", "counts", "groups"),
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior evaluate demo/cal.json demo/test.csv --counts demo/counts.json",
        r"printf '%s\n' other,nine 0,1 0,1 0,1 0,1 0,1 0,1 0,1 0,1 0,1 5,0 > costs.csv",
        "reprior evaluate demo/cal.json demo/test.csv --costs costs.csv",
    ),
)
@click.argument("cal", type=PATH)
@scores_argument("test")
@click.option(
    "--format",
    "style",
    type=Names(FORMATS),
    default="table",
    show_default=True,
    help="How to print the result.",
)
@click.option("--per-class", is_flag=True, help="Show recall, precision and IoU of every class.")
@click.option(
    "--counts",
    type=PATH,
    metavar="FILE",
    help="Training samples of each class, to show recall of classes with many, medium and few.",
)
@groups_option
@click.option(
    "--costs",
    type=PATH,
    metavar="FILE",
    help="Show what decisions of least expected cost cost, on average. The file is that of apply "
    "--costs: a row per true class, a number per decision, as JSON or CSV.",
)
@reading_options(labels=True, skip=skip_option())
@session_options
def command(
    session: Session,
    cal: str,
    test: Sequence[str],
    style: str,
    per_class: bool,
    counts: str | None,
    groups: tuple[float, float],
    costs: str | None,
    reading: Reading,
) -> None:
    """Compare the model before and after correction on labelled scores TEST.

    TEST should be other data than the calibrator was tuned on. Where it is the same, the result
    says so; the same samples in another order, in part or rounded are not recognised. before is the
    model as it is, after is the calibrator CAL. log_loss, brier and the calibration errors ece and
    classwise_ece are better when smaller, and so is mean_cost.

    With --costs the row mean_cost is what a sample costs on average, at its label, if for each the
    decision of least expected cost is taken: before by the probabilities of the model as it is,
    after by those of the calibrator, as apply --costs does. The other rows stay those of the
    predictions without costs.

    JSON is {metric: {"before": …, "after": …}}, without the number of samples and the notes, which
    are on stderr. --counts adds recall_many, recall_medium and recall_few in the same form.
    --per-class adds the list per_class, and --skip-unreadable, where it left files out, the list
    notes. CSV has a row per metric or, with --per-class, a row per class.
    """
    from reprior import engines

    session.json = session.json or style == "json"
    refuse_groups_alone(counts)
    check_bounds(groups, name="groups")
    calibrator = load_calibrator(cal)
    scores = open_for(calibrator, session, test, reading, labelled=True)
    train_counts = None
    if counts is not None:
        train_counts, _ = read_class_counts(
            session,
            PriorChoice(counts=counts),
            class_names(calibrator) or scores.class_names,
            scores.n_classes,
        )
    matrix = None if costs is None else costs_of(session, calibrator, costs, scores).matrix
    with session.progress("evaluating", scores.n_samples) as progress:
        evaluation = engines.evaluate(calibrator, scores, costs=matrix, progress=progress)
    tuned_on = recognised(calibrator, scores)
    if tuned_on:
        session.note(SAME)
    metrics = dict(evaluation.metrics)
    shots = _shot_recall(evaluation, train_counts, groups)
    classes = _class_grid(calibrator, evaluation, train_counts) if per_class else None
    if session.json:
        left_out_notes = (
            {"notes": [describe_left_out(evaluation.left_out)]} if evaluation.left_out else {}
        )
        session.result({**_document(metrics, shots, classes), **left_out_notes}, notes=False)
    elif style == "csv":
        session.say(classes.csv() if classes is not None else _csv(metrics, shots, tuned_on))
    else:
        where = _where(evaluation.n_samples, tuned_on)
        _show(session, where, metrics, shots, groups, classes, style)
    note_mix_of_probabilities(session, calibrator, evaluation.before)


def _shot_recall(
    evaluation: Evaluation, train_counts: Any, groups: tuple[float, float]
) -> dict[str, tuple[float, float]]:
    if train_counts is None:
        return {}
    masks = shot_groups(np.asarray(train_counts), thresholds=groups)
    before, after = (
        group_metric(counts, masks) for counts in (evaluation.before, evaluation.after)
    )
    return {name: (before[name], after[name]) for name in masks}


def _class_grid(calibrator: PosteriorCalibrator, evaluation: Evaluation, train_counts: Any) -> Grid:
    """Return a row per class: training samples, labels, and each ratio before and after."""
    columns: dict[str, list[Any]] = {"class": [plain(name) for name in calibrator.classes_]}
    if train_counts is not None:
        columns["training"] = [whole(n) for n in train_counts]
    columns["labels"] = [whole(n) for n in evaluation.before.support]
    for ratio, name in zip(PER_CLASS, ("macro_recall", "macro_precision", "mean_iou"), strict=True):
        for when, counts in (("before", evaluation.before), ("after", evaluation.after)):
            counted = COUNT_METRICS[name].counted(counts)
            values = np.where(counted, COUNT_METRICS[name].per_class(counts), np.nan)
            columns[f"{ratio} {when}"] = values.tolist()
    return Grid(tuple(columns), list(zip(*columns.values(), strict=True)), "per class")


def _document(
    metrics: dict[str, tuple[float, float]],
    shots: dict[str, tuple[float, float]],
    classes: Grid | None,
) -> dict[str, Any]:
    named = {**metrics, **{f"recall_{name}": values for name, values in shots.items()}}
    document: dict[str, Any] = {name: {"before": a, "after": b} for name, (a, b) in named.items()}
    if classes is not None:
        heads = [name.replace(" ", "_") for name in classes.columns]
        document["per_class"] = [dict(zip(heads, row, strict=True)) for row in classes.rows]
    return document


def _csv(
    metrics: dict[str, tuple[float, float]],
    shots: dict[str, tuple[float, float]],
    tuned_on: bool | None,
) -> str:
    tuned_on_word = {True: "yes", False: "not recognised", None: "unknown"}[tuned_on]
    named = {**metrics, **{f"recall_{name}": values for name, values in shots.items()}}
    rows = [(name, a, b, b - a, tuned_on_word) for name, (a, b) in named.items()]
    return Grid(("metric", "before", "after", CHANGE, "tuning_data"), rows).csv()


def _where(n_samples: int, tuned_on: bool | None) -> str:
    """Return what the numbers were measured on."""
    return f"measured on {n_samples:,} samples: {SAID[tuned_on]}"


def _show(
    session: Session,
    where: str,
    metrics: dict[str, tuple[float, float]],
    shots: dict[str, tuple[float, float]],
    groups: tuple[float, float],
    classes: Grid | None,
    style: str,
) -> None:
    grids = [before_after(metrics, title=where)]
    if shots:
        low, high = (f"{limit:g}" for limit in groups)
        titled = (
            f"recall of classes with many (> {high}), medium and few (< {low}) training samples"
        )
        grids.append(before_after(shots, title=titled, first="classes"))
    if classes is not None:
        grids.append(classes)
    for i, grid in enumerate(grids):
        between = [""] if i else []
        session.say(*between, grid.markdown() if style == "markdown" else grid.rich())
