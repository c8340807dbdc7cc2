"""A fitted calibrator in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator

__all__ = ["metric_name", "summary_text"]


def metric_name(metric: str | CountMetric) -> str:
    """What a metric is called."""
    return metric.name if isinstance(metric, CountMetric) else metric


def summary_text(calibrator: PosteriorCalibrator) -> str:
    """Strength, interval and temperature, and the count metrics before and after."""
    low, high = calibrator.strength_interval_
    lines = [
        f"strength     {calibrator.strength_:.4f}  (equally good: {low:.4f} to {high:.4f})",
        f"temperature  {calibrator.temperature_:.4f}",
        f"tuned for    {metric_name(calibrator.metric)}",
    ]
    if calibrator.subject_to:
        rules = calibrator.subject_to
        lines.append(
            f"subject to   {rules if isinstance(rules, str) else ', '.join(map(str, rules))}"
        )
    profile = calibrator.profile_
    if profile is None:
        return "\n".join([*lines, "(loaded or retargeted: no tuning data at hand)"])
    strength, names = calibrator.strength_, calibrator.classes_.tolist()
    at_hand = profile.bounds[0] <= strength <= profile.bounds[1]
    lines += [
        f"tuned on     {profile.n_samples} samples of {profile.n_classes} classes",
        "",
        f"{'on the tuning labels':<22}{'before':>9}{'after':>9}{'change':>9}",
    ]
    shown = dict(COUNT_METRICS)
    tuned = find_metric(calibrator.metric, n_classes=profile.n_classes, classes=names)
    shown.setdefault(tuned.name, tuned)
    for label, each in shown.items():
        if label == "macro_recall":  # the same as balanced_accuracy
            continue
        before = each(profile.baseline)
        after = each(profile.counts(strength)) if at_hand else before
        lines.append(f"{label:<22}{before:>9.4f}{after:>9.4f}{after - before:>+9.4f}")
    return "\n".join(lines)
