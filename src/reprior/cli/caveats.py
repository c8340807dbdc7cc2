"""What a number does not say by itself: on which data, and on which class mix, it was measured."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.cli.session import Session
from reprior.metrics.count_metrics import CountMetric

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.scores import ScoreFile
    from reprior.metrics.counts import ClassCounts

__all__ = [
    "note_counts_of_tuning_labels",
    "note_mix_of_probabilities",
    "note_mix_of_the_metric",
    "note_no_strength",
    "recognised",
    "same_files",
]

#: Half the sum of differences between two class mixes, above which they are not the same.
NOTICEABLE = 0.1

SOURCE_PRIOR_PAGE = "'Which prior is my source prior?' in the documentation"


def recognised(calibrator: PosteriorCalibrator, scores: ScoreFile) -> bool | None:
    """Tell whether scores are those of the fit, as a whole; None where the calibrator can't say.

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
    """Whether any file is among both."""
    there = [Path(path) for path in other if Path(path).exists()]
    return any(Path(path).samefile(each) for path in one if Path(path).exists() for each in there)


def note_mix_of_the_metric(
    session: Session, calibrator: PosteriorCalibrator, metric: CountMetric, counts: ClassCounts
) -> None:
    """Say on which mix the metric was tuned, where that is not the one the correction aims at."""
    ratio = metric.name.partition("[")[0]
    if ratio in ("balanced_accuracy", "macro_recall", "mean_accuracy", "recall"):
        return  # of every class by itself
    if _far(counts, calibrator):
        session.note(
            f"{metric.name} is measured on VAL's own class mix, not on the target prior, which "
            f"only says what the correction aims at; weight the samples with --weight-column to "
            f"measure it on the target's mix"
        )


def note_mix_of_probabilities(
    session: Session, calibrator: PosteriorCalibrator, counts: ClassCounts
) -> None:
    """Say that probabilities were judged on another mix than they are made for."""
    if _far(counts, calibrator):
        session.note(
            "log_loss, brier and ece are measured on TEST's own class mix, while the posterior is "
            "made for the calibrator's target prior"
        )


def note_no_strength(session: Session, calibrator: PosteriorCalibrator) -> None:
    """Say what to check where no correction is the best one."""
    low, high = calibrator.strength_interval_
    if low <= 0.0 <= high:
        session.note(
            f"no strength does better than 0, the model as it is: check that the counts are in the "
            f"order of the scores, and whether training was weighted or re-sampled; see "
            f"{SOURCE_PRIOR_PAGE}"
        )


def note_counts_of_tuning_labels(session: Session, labels: str | None, scores: ScoreFile) -> None:
    """Say that a source prior never comes from the labels that the strength is tuned on."""
    from reprior.files.scores import expand_paths

    if labels is None:
        return
    if same_files(expand_paths(labels, "path"), (*scores.paths, *scores.label_paths)):
        session.note(
            f"{labels} holds the labels that the strength is tuned on: the source prior is the "
            f"class distribution as the model saw it in training, and never comes from the "
            f"validation or test labels"
        )


def _far(counts: ClassCounts, calibrator: PosteriorCalibrator) -> bool:
    """Whether the labels' class mix is noticeably not the target prior."""
    support = np.asarray(counts.support, dtype=np.float64)
    distance = np.abs(support / support.sum() - calibrator.target_prior_).sum() / 2
    return bool(distance > NOTICEABLE)
