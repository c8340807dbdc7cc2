"""``reprior fit``: from validation scores to a calibrator file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from reprior.calibrator import PosteriorCalibrator
from reprior.cli.examples import shows
from reprior.cli.honesty import (
    note_counts_of_tuning_labels,
    note_mix_of_the_metric,
    note_no_strength,
)
from reprior.cli.inputs import open_to_fit, source_of
from reprior.cli.options import (
    PATH,
    PriorChoice,
    Reading,
    counts_options,
    output_option,
    reading_options,
    scores_argument,
)
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, plain, session_options
from reprior.cli.status import with_compiling
from reprior.cli.tables import Grid, before_after, class_changes
from reprior.cli.target import target_prior_of
from reprior.exceptions import NotFittedError
from reprior.metrics.count_metrics import COUNT_METRICS, find_metric
from reprior.summary import metric_name
from reprior.tuning.objective import Constraint

if TYPE_CHECKING:
    from reprior.files.score_file import ScoreFile
    from reprior.metrics.counts import ClassCounts

__all__ = ["command"]

MARK = "measured on the tuning data"


def _complete_metric(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in COUNT_METRICS if name.startswith(incomplete)]


class _NumberOr(click.ParamType[Any]):
    """A number, or one of some words, each of which stands for a value."""

    def __init__(self, **words: Any) -> None:
        self.name, self.words = "number", words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the word stands for, or a float."""
        if not isinstance(value, str):
            return value
        if value.lower() in self.words:
            return self.words[value.lower()]
        try:
            return float(value)
        except ValueError:
            known = " or ".join(map(repr, self.words))
            return self.fail(f"{value!r} is neither {known} nor a number.", param, ctx)


@click.command(
    "fit",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior fit demo/val.csv --counts demo/counts.json --kind logits \\",
        "    --metric balanced_accuracy -o cal.json",
    ),
)
@scores_argument("val")
@counts_options(labels=False)
@click.option(
    "--source-prior",
    type=PATH,
    metavar="FILE",
    help="The prior itself, instead of counts: what the model saw in training.",
)
@click.option(
    "--target-prior",
    default="uniform",
    show_default=True,
    metavar="uniform|FILE|estimate",
    help="The class mix that the correction aims at; the metric is measured on VAL's own. "
    "estimate: from --target-scores.",
)
@click.option(
    "--target-scores",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Unlabelled scores of the target, for --target-prior estimate. Repeatable.",
)
@click.option(
    "--metric",
    default="balanced_accuracy",
    show_default=True,
    metavar="NAME",
    shell_complete=_complete_metric,
    help=f"What to maximise: {', '.join(COUNT_METRICS)}, or one class's, such as 'recall[cat]'.",
)
@click.option(
    "--subject-to",
    multiple=True,
    metavar="RULE",
    help="A constraint, such as 'mean_iou >= baseline - 0.005'. Repeatable.",
)
@click.option(
    "--temperature",
    type=_NumberOr(fit="fit"),
    metavar="fit|NUMBER",
    help="Divide the corrected log-scores by this number, or by the one that fits VAL's labels "
    "best. 1, if not given.",
)
@click.option(
    "--bounds",
    nargs=2,
    type=float,
    default=(0.0, 2.0),
    show_default=True,
    metavar="LOW HIGH",
    help="Strengths to search.",
)
@click.option(
    "--resolution",
    type=_NumberOr(auto="auto", none=None),
    default="auto",
    show_default=True,
    metavar="auto|NUMBER|none",
    help="Sum switches in bins of this width. none keeps each; auto does, up to ten million.",
)
@reading_options(labels=True)
@output_option("The calibrator, as JSON.")
@session_options
def command(
    session: Session,
    val: Sequence[str],
    counting: PriorChoice,
    source_prior: str | None,
    target_prior: str,
    target_scores: Sequence[str],
    reading: Reading,
    output: str,
    resolution: Any,
    **options: Any,
) -> None:
    """Tune the correction on labelled validation scores VAL.

    VAL are score files (npy, npz, csv, parquet, zarr), or quoted patterns such as 'val-*.parquet',
    of data that the model was not trained on. The class counts are those of the training data.
    What is printed is measured on VAL itself: judge the result on other data, with evaluate.

    The corrected posterior is softmax((z + strength * w) / temperature), with the log-scores z of
    the model and w = log(target prior) - log(source prior). The temperature leaves every decision
    as it is.
    """
    from reprior import engines

    scores = open_to_fit(session, val, reading)
    counting = replace(
        counting, label_column=reading.label_column, labels_name=reading.labels_name,
        labels_as=reading.labels_as, ignore_index=reading.ignore_index,
    )  # fmt: skip
    read = (counting.counts, counting.counts_from_labels, counting.weights, source_prior)
    more = (target_prior, *target_scores, reading.classes, *scores.label_paths)
    check_output(output, [*scores.paths, *read, *more])
    note_counts_of_tuning_labels(session, counting.counts_from_labels, scores)
    prior, names, _ = source_of(session, counting, source_prior, scores)
    target = target_prior_of(session, target_prior, target_scores, prior, names, scores, reading)
    calibrator = _calibrator(scores, prior, target, names, **options)
    with session.progress(with_compiling("tuning", scores), scores.n_samples) as progress:
        engines.fit(calibrator, scores, resolution=resolution, progress=progress)
    note_no_strength(session, calibrator)
    calibrator.save(output)
    _show(session, calibrator, output)


def _calibrator(
    scores: ScoreFile,
    prior: Any,
    target: Any,
    names: list[Any] | None,
    *,
    metric: str,
    subject_to: Sequence[str],
    temperature: Any,
    bounds: tuple[float, float],
) -> PosteriorCalibrator:
    """Return the calibrator to fit; refuse a metric or rule before any data are read."""
    for each in (metric, *(rule.metric for rule in Constraint.parse_all(list(subject_to)))):
        find_metric(each, n_classes=scores.n_classes, classes=names)
    return PosteriorCalibrator(
        prior,
        target_prior=target,
        metric=metric,
        subject_to=list(subject_to) or None,
        temperature=temperature,
        bounds=bounds,
        kind=str(scores.kind),
        class_axis=scores.class_axis,
        ignore_index=scores.ignore_index,
        classes=names,
    )


def _measured(calibrator: PosteriorCalibrator) -> tuple[ClassCounts, ClassCounts]:
    """Return the counts of the tuning data before and after."""
    profile = calibrator.profile_
    if profile is None:
        raise NotFittedError("The calibrator must be fitted to be shown. It is not. Call fit.")
    low, high = profile.bounds
    inside = low <= calibrator.strength_ <= high  # if not, no strength changes a decision
    return profile.baseline, profile.counts(calibrator.strength_) if inside else profile.baseline


def _show(session: Session, calibrator: PosteriorCalibrator, output: str) -> None:
    before, after = _measured(calibrator)
    names = calibrator.classes_.tolist()
    shown = {name: each for name, each in COUNT_METRICS.items() if name != "macro_recall"}
    tuned = find_metric(calibrator.metric, n_classes=before.n_classes, classes=names)
    shown.setdefault(tuned.name, tuned)
    note_mix_of_the_metric(session, calibrator, tuned, before)
    metrics = {name: (each(before), each(after)) for name, each in shown.items()}
    recall = COUNT_METRICS["macro_recall"]
    changes = class_changes(
        names, before.support, recall.per_class(before), recall.per_class(after),
        title=f"recall of the classes that change most, {MARK}",
    )  # fmt: skip
    n_samples = int(
        before.n_labelled.sum() if before.n_labelled is not None else before.support.sum()
    )
    low, high = calibrator.strength_interval_
    session.say(
        f"strength     {calibrator.strength_:.4f}, and equally good from {low:.4f} to {high:.4f}",
        f"temperature  {calibrator.temperature_:.4f}",
        f"tuned for    {plain(metric_name(calibrator.metric))}",
        *(f"subject to   {plain(rule)}" for rule in calibrator.subject_to or ()),
        f"tuned on     {n_samples:,} samples of {before.n_classes:,} classes",
        "",
        before_after(metrics, title=MARK).rich(),
        "",
        changes.rich() if changes.rows else "No class's recall changes.",
    )
    if not session.quiet:
        session.say(
            "", f"Written: {output}. Judge it on other data: reprior evaluate {output} TEST"
        )
    session.result(_document(calibrator, metrics, changes, n_samples, output))


def _document(
    calibrator: PosteriorCalibrator,
    metrics: dict[str, tuple[float, float]],
    changes: Grid,
    n_samples: int,
    output: str,
) -> dict[str, Any]:
    return {
        "strength": calibrator.strength_,
        "interval": calibrator.strength_interval_,
        "temperature": calibrator.temperature_,
        "metric": metric_name(calibrator.metric),
        "subject_to": calibrator.subject_to or [],
        "best_score": calibrator.best_score_,
        "target_prior": calibrator.target_prior_,
        "n_samples": n_samples,
        "measured_on": "tuning data",
        "metrics": {name: {"before": a, "after": b} for name, (a, b) in metrics.items()},
        "recall_changes": [dict(zip(changes.columns, row, strict=True)) for row in changes.rows],
        "output": output,
    }
