"""What ``reprior fit`` shows of a calibrator: on the screen, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprior.calibrator.options import is_log_loss
from reprior.calibrator.summary import (
    counted_metrics,
    map_lines,
    metric_name,
    trust_lines,
    tuned_for,
)
from reprior.cli.caveats import note_mix_of_the_metric, note_no_strength
from reprior.cli.session import Session, plain
from reprior.cli.tables import Grid, before_after, class_changes
from reprior.exceptions import NotFittedError
from reprior.metrics.count_metrics import COUNT_METRICS, find_metric

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.core.score_map import ScoreMap

__all__ = ["MARK", "show_fit"]

MARK = "measured on the tuning data"

#: The log-loss of a fit is that to expect on the target's mix.
LOG_LOSS_ROW = "log_loss (target mix)"


def show_fit(session: Session, calibrator: PosteriorCalibrator, output: str) -> None:
    """Show what was tuned and what it does; or print it as JSON."""
    if calibrator.profile_ is None or calibrator.counts_ is None:
        raise NotFittedError("The calibrator must be fitted to be shown. It is not. Call fit.")
    before, after = calibrator.profile_.baseline, calibrator.counts_
    names = calibrator.classes_.tolist()
    note_no_strength(session, calibrator)
    if not is_log_loss(calibrator.metric):
        tuned = find_metric(calibrator.metric, n_classes=before.n_classes, classes=names)
        note_mix_of_the_metric(session, calibrator, tuned, before)
    metrics = counted_metrics(calibrator, before, after)
    if calibrator.log_loss_ is not None:
        metrics[LOG_LOSS_ROW] = calibrator.log_loss_
    recall = COUNT_METRICS["macro_recall"]
    changes = class_changes(
        names, before.support, recall.per_class(before), recall.per_class(after),
        title=f"recall of the classes that change most, {MARK}",
    )  # fmt: skip
    n_samples = int(
        before.n_labelled.sum() if before.n_labelled is not None else before.support.sum()
    )
    rules = calibrator.subject_to or ()
    session.say(
        *map_lines(calibrator, ", and equally good from {low} to {high}"),
        f"tuned for    {plain(tuned_for(calibrator))}",
        *(f"subject to   {plain(rule)}" for rule in rules),
        f"tuned on     {n_samples:,} samples of {before.n_classes:,} classes",
        *map(plain, trust_lines(calibrator)),
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
    named = {name.partition(" ")[0]: values for name, values in metrics.items()}
    return {
        "strength": calibrator.strength_,
        "interval": calibrator.strength_interval_,
        "temperature": calibrator.temperature_,
        **_vectors(calibrator._decision),
        **_beside(calibrator),
        "metric": metric_name(calibrator.metric),
        "subject_to": calibrator.subject_to or [],
        "best_score": calibrator.best_score_,
        "target_prior": calibrator.target_prior_,
        "n_samples": n_samples,
        "measured_on": "tuning data",
        "metrics": {name: {"before": a, "after": b} for name, (a, b) in named.items()},
        "recall_changes": [dict(zip(changes.columns, row, strict=True)) for row in changes.rows],
        "output": output,
    }


def _beside(calibrator: PosteriorCalibrator) -> dict[str, Any]:
    """What was asked for beside the strength; nothing where nothing was."""
    found: dict[str, Any] = {}
    if calibrator.shrinkage_ is not None:
        found["shrinkage"] = calibrator.shrinkage_
    other, folds = calibrator.probability_map_, calibrator.cross_validation_
    if other is not None:
        found["probability_map"] = {
            "strength": other.strength, "temperature": other.temperature, **_vectors(other),
        }  # fmt: skip
    if folds is not None:
        found["cross_validation"] = {
            "score": folds.score,
            "before": folds.baseline_score,
            "folds": folds.scores,
            "strengths": folds.strengths,
        }
    known = calibrator.uncertainty_
    if known is not None:
        found["uncertainty"] = {
            "confidence": known.confidence,
            "strength": known.strength_interval,
            "value": known.value_interval,
            "gain": known.gain_interval,
        }
    return found


def _vectors(at: ScoreMap) -> dict[str, Any]:
    found = {"biases": at.biases, "scales": at.scales}
    return {name: vector for name, vector in found.items() if vector is not None}
