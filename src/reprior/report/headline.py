"""Sentences: what changed, and on which data that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reprior.calibrator.summary import found_metric
from reprior.core.rebalance import strength_text
from reprior.exceptions import RepriorError
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.metrics.counts import ClassCounts
    from reprior.profile.profile import StrengthProfile
    from reprior.report.measure import Measured

__all__ = ["change_sentence", "judged_sentence", "main_metric", "metric_label", "shown_metrics"]

TUNED_HERE = "On the labels it was tuned on: expect less on others."
TUNED_ON_TEST = "The test set is what it was tuned on."
JUDGED_ELSEWHERE = "Predictions on other data than it was tuned on."
NOT_RECOGNISED = (
    "This is not the file it was tuned on, by its digest. The same samples in another order or "
    "number format would not be recognised."
)
UNKNOWN = (
    "Whether this is other data than it was tuned on is not known: the calibrator does not say "
    "what it was tuned on."
)

#: Scores that went through float32 or a text file give switches that differ by less than this.
FORMAT_ROUNDING = 1e-4

_LABELS = {"mean_iou": "mean IoU", "macro_f1": "macro F1"}


def metric_label(metric: CountMetric) -> str:
    """Return the name of a metric as text."""
    return _LABELS.get(metric.name, metric.name.replace("_", " "))


def main_metric(calibrator: PosteriorCalibrator) -> CountMetric:
    """Return the tuned metric; balanced accuracy where a file names a custom one."""
    names = calibrator.classes_.tolist()
    try:
        return found_metric(calibrator)
    except RepriorError:
        try:
            return find_metric(calibrator.metric, n_classes=len(names))
        except RepriorError:
            return COUNT_METRICS["balanced_accuracy"]


def shown_metrics(calibrator: PosteriorCalibrator) -> list[CountMetric]:
    """Return the tuned metric, then every other; macro recall is balanced accuracy."""
    main = main_metric(calibrator)
    if main.name == "macro_recall":
        main = COUNT_METRICS["balanced_accuracy"]
    others = [m for m in COUNT_METRICS.values() if m.name not in ("macro_recall", main.name)]
    return [main, *others]


def change_sentence(calibrator: PosteriorCalibrator, measured: Measured, set_name: str) -> str:
    """Return the tuned metric and accuracy, before and after, as a sentence."""
    main = main_metric(calibrator)
    before = measured.profile.baseline
    after = measured.counts(calibrator.strength_)
    if main.needs != "classes" and is_known_along(measured.profile, main):
        after = measured.profile.counts(calibrator.strength_)
    second = COUNT_METRICS["accuracy" if main.name != "accuracy" else "balanced_accuracy"]
    strength = strength_text(calibrator.strength_)
    return (
        f"At strength {strength}, {_change(main, before, after)} on the {set_name} "
        f"set ({measured.profile.n_samples:,} samples); {_change(second, before, after)}."
    )


def is_known_along(profile: StrengthProfile, metric: CountMetric) -> bool:
    """Whether a profile has what a metric needs: its classes' labels, pairs, images."""
    if not metric.has_labels(profile.baseline.labelled):
        return False
    pairs = profile.baseline.pairs
    if metric.needs == "classes":
        return True
    return pairs is not None and (metric.needs == "pairs" or pairs.image is not None)


def _change(metric: CountMetric, before: ClassCounts, after: ClassCounts) -> str:
    name = metric_label(metric)
    if not metric.has_labels(before.labelled):
        which = "that class" if metric.of_class is not None else "these classes"
        return f"{name} is not defined without labels of {which},"
    if metric.needs != "classes" and (before.pairs is None or after.pairs is None):
        return f"{name} is not known where switches are summed in bins,"
    if not metric.fraction:
        old, new = (f"{metric(counts):.4g}" for counts in (before, after))
        return f"{name} stays at {old}" if old == new else f"{name} goes from {old} to {new}"
    old, new = (f"{100 * metric(counts):.1f} %" for counts in (before, after))
    if old == new:
        return f"{name} stays at {old}"
    points = f"{100 * (metric(after) - metric(before)):+.1f}".replace("-", "−")
    return f"{name} goes from {old} to {new} ({points} points)"


def judged_sentence(calibrator: PosteriorCalibrator, sets: dict[str, Measured]) -> str:
    """Whether the headline's numbers are from other data than the strength was tuned on.

    They are those of the last of ``sets``. What cannot be known is not assumed.
    """
    validation = next(iter(sets.values()))
    judged = list(sets.values())[-1]
    knows_validation = tuned_on(calibrator, validation)
    is_tuned_on = tuned_on(calibrator, judged)
    if knows_validation and judged is not validation:  # recognised in another order too
        is_tuned_on = is_tuned_on or alike(judged.profile, validation.profile)
    if is_tuned_on:
        return TUNED_HERE if judged is validation else f"{TUNED_ON_TEST} {TUNED_HERE}"
    if is_tuned_on is None:
        return UNKNOWN
    return JUDGED_ELSEWHERE if knows_validation or not calibrator.provenance_ else NOT_RECOGNISED


def tuned_on(calibrator: PosteriorCalibrator, measured: Measured) -> bool | None:
    """Whether a set is the tuning data; None where the calibrator does not say what that was."""
    known = (calibrator.provenance_ or {}).get("digest")
    if known:  # a fit on Dask has none
        return bool(known == measured.digest)
    if calibrator.profile_ is not None:
        return alike(calibrator.profile_, measured.profile)
    return None


def alike(one: StrengthProfile, other: StrengthProfile) -> bool:
    """Whether two profiles are of the same samples, in whatever order and number format."""
    left_out = one.n_ruled_out + other.n_ruled_out > 0  # one of them may have left these out
    numbers = [profile.n_samples + profile.n_ruled_out.sum() for profile in (one, other)]
    if numbers[0] != numbers[1]:
        return False
    support_one, support_other = (profile.baseline.support[~left_out] for profile in (one, other))
    if not np.allclose(support_one, support_other, rtol=FORMAT_ROUNDING):
        return False
    if one.resolution is not None or other.resolution is not None:
        if left_out.any():  # what is predicted for those of one is not known
            return True
        sides = one.baseline.predicted, other.baseline.predicted
        return bool(np.allclose(*sides, rtol=FORMAT_ROUNDING))
    low = max(one.bounds[0], other.bounds[0])
    high = min(one.bounds[1], other.bounds[1])
    kept = (profile.switches for profile in (one, other))
    a, b = (table.position[~left_out[table.label]] for table in kept)
    a, b = (x[(x > low) & (x < high)] for x in (a, b))
    return a.size == b.size and bool(np.allclose(a, b, rtol=FORMAT_ROUNDING))
