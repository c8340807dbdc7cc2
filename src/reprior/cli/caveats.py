"""Notes on what a number was measured on, and on what it costs other numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprior.calibrator.summary import (
    CorrectedModel,
    cost_sentence,
    has_other_mix,
    limiting_rules,
    metric_losses,
)
from reprior.cli.session import Session
from reprior.metrics.count_metrics import CountMetric

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.scores import ScoreFile
    from reprior.metrics.counts import ClassCounts

__all__ = [
    "note_costs_to_other_metrics",
    "note_counts_of_tuning_labels",
    "note_mix_of_probabilities",
    "note_mix_of_the_metric",
    "note_no_strength",
    "recognised",
    "same_files",
]

SOURCE_PRIOR_PAGE = "'Which prior is my source prior?' in the documentation"


def recognised(calibrator: PosteriorCalibrator, scores: ScoreFile) -> bool | None:
    """Whether scores are exactly those of the fit; None where the calibrator does not know.

    The same samples in another order, in part, or rounded, are not recognised.
    """
    from reprior import engines

    known = calibrator.provenance_
    if not known or not known.get("digest"):  # as a fit on Dask has none
        return None
    if scores.n_samples not in (None, known.get("n_samples")):
        return False  # no need to read the file again
    return engines.digest(scores, class_axis=calibrator.class_axis) == known.get("digest")


def same_files(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether the two lists have a file in common."""
    existing_paths = [Path(path) for path in other if Path(path).exists()]
    return any(
        Path(path).samefile(each) for path in one if Path(path).exists() for each in existing_paths
    )


def note_mix_of_the_metric(
    session: Session, calibrator: PosteriorCalibrator, metric: CountMetric, counts: ClassCounts
) -> None:
    """Note that the metric is tuned on another class mix than the target prior."""
    ratio = metric.name.partition("[")[0]
    if ratio in ("balanced_accuracy", "macro_recall", "mean_accuracy", "recall"):
        return  # a ratio within one class does not depend on the mix
    if has_other_mix(calibrator, counts):
        session.note(
            f"{metric.name} is measured on VAL's own class mix, not on the target prior, which "
            f"only says what the correction aims at; weight the samples with --weight-column to "
            f"measure it on the target's mix"
        )


def note_mix_of_probabilities(
    session: Session, calibrator: PosteriorCalibrator, counts: ClassCounts
) -> None:
    """Note that probabilities are measured on another class mix than the target prior."""
    if has_other_mix(calibrator, counts):
        session.note(
            "log_loss, brier and ece are measured on TEST's own class mix, while the posterior is "
            "made for the calibrator's target prior"
        )


def note_no_strength(session: Session, calibrator: PosteriorCalibrator) -> None:
    """Note what to check where strength 0 is the best."""
    low, high = calibrator.strength_interval_
    if low <= 0.0 <= high:
        session.note(
            f"no strength does better than 0, the model as it is: check that the counts are in the "
            f"order of the scores, and whether training was weighted or re-sampled; see "
            f"{SOURCE_PRIOR_PAGE}"
        )


def note_costs_to_other_metrics(
    session: Session, model: CorrectedModel, before: ClassCounts, after: ClassCounts
) -> None:
    """Note which metrics lose noticeably, with options to copy that limit the loss."""
    losses = metric_losses(model, before, after)
    if losses:
        options = " ".join(f"--subject-to '{rule}'" for rule in limiting_rules(model, losses))
        session.note(cost_sentence(model, losses, options or None))


def note_counts_of_tuning_labels(session: Session, labels: str | None, scores: ScoreFile) -> None:
    """Note that the source prior must not come from the tuning labels."""
    from reprior.files.scores import expand_paths

    if labels is None:
        return
    if same_files(expand_paths(labels, "path"), (*scores.paths, *scores.label_paths)):
        session.note(
            f"{labels} holds the labels that the strength is tuned on: the source prior is the "
            f"class distribution as the model saw it in training, and never comes from the "
            f"validation or test labels"
        )
