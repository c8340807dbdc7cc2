"""The text summary of a fitted calibrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts
from reprior.tuning.problem import DEFAULT_SELECTION

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.core.score_map import ScoreMap

__all__ = [
    "counted_metrics",
    "map_lines",
    "metric_name",
    "summary_text",
    "trust_lines",
    "tuned_for",
]

SHOWN = 6
"""Entries of a vector that are shown."""


def metric_name(metric: str | CountMetric) -> str:
    """Return the name of a metric."""
    return metric.name if isinstance(metric, CountMetric) else metric


def summary_text(calibrator: PosteriorCalibrator) -> str:
    """Return the maps, how they were tuned, and the metrics before and after."""
    lines = [*map_lines(calibrator), f"tuned for    {tuned_for(calibrator)}"]
    if calibrator.subject_to:
        rules = calibrator.subject_to
        lines.append(
            f"subject to   {rules if isinstance(rules, str) else ', '.join(map(str, rules))}"
        )
    profile = calibrator.profile_
    if profile is None:
        return "\n".join([*lines, "(loaded or retargeted: no tuning data at hand)"])
    lines += [
        f"tuned on     {profile.n_samples} samples of {profile.n_classes} classes",
        *trust_lines(calibrator),
        "",
        f"{'on the tuning labels':<22}{'before':>9}{'after':>9}{'change':>9}",
    ]
    shown = counted_metrics(calibrator, profile.baseline, calibrator.counts_)
    if calibrator.log_loss_ is not None:
        shown["log_loss (target mix)"] = calibrator.log_loss_
    for label, (before, after) in shown.items():
        lines.append(f"{label:<22}{before:>9.4f}{after:>9.4f}{after - before:>+9.4f}")
    return "\n".join(lines)


def tuned_for(calibrator: PosteriorCalibrator) -> str:
    """Return the metric, and how its strength was selected if not by the default rule."""
    rule = calibrator.selection
    return metric_name(calibrator.metric) + ("" if rule == DEFAULT_SELECTION else f", by {rule}")


def counted_metrics(
    calibrator: PosteriorCalibrator, before: ClassCounts, after: ClassCounts | None
) -> dict[str, tuple[float, float]]:
    """Return every count metric before and after, the tuned one among them."""
    if after is None:
        return {}
    shown = {name: each for name, each in COUNT_METRICS.items() if name != "macro_recall"}
    if metric_name(calibrator.metric) != "log_loss":
        tuned = find_metric(
            calibrator.metric, n_classes=before.n_classes, classes=calibrator.classes_.tolist()
        )
        shown.setdefault(tuned.name, tuned)
    return {name: (each(before), each(after)) for name, each in shown.items()}


def map_lines(
    calibrator: PosteriorCalibrator, equal: str = "  (equally good: {low} to {high})"
) -> list[str]:
    """Return lines on the map of the scores, or on the two maps for decisions and probabilities.

    ``equal`` is the format of the interval of strengths that do equally well.
    """
    low, high = calibrator.strength_interval_
    n_digits = digits_apart(low, high)
    width = single_bin_width(calibrator)
    if width is not None:
        equal = f", the best of a grid of {width:g}"
    else:
        equal = (
            equal.format(low=f"{low:.{n_digits}f}", high=f"{high:.{n_digits}f}")
            if low < high
            else ""
        )
    decision = calibrator._decision
    probability = calibrator.probability_map_
    lines = [
        f"strength     {decision.strength:.{n_digits}f}{equal}",
        f"temperature  {decision.temperature:.4f}",
        *_vector_lines(decision, calibrator.shrinkage_),
    ]
    if probability is None:
        return lines
    return [
        "map for decisions, used by predict:",
        *(f"  {line}" for line in lines),
        "map for probabilities, used by predict_proba:",
        f"  strength     {probability.strength:.4f}",
        f"  temperature  {probability.temperature:.4f}",
        *(f"  {line}" for line in _vector_lines(probability, None)),
    ]


def single_bin_width(calibrator: PosteriorCalibrator) -> float | None:
    """Return the width of the bins, where the best strength is one point of their grid.

    Nothing is known of strengths inside of a bin. None where several points are equally good, or
    where the profile is not binned.
    """
    low, high = calibrator.strength_interval_
    width = None if calibrator.profile_ is None else calibrator.profile_.resolution
    is_single = width is not None and calibrator.strength_ == low and high - low < 1.5 * width
    return width if is_single else None


def digits_apart(low: float, high: float) -> int:
    """Return how many digits separate the ends of an interval: four, or up to ten if it is narrow.

    Examples
    --------
    >>> digits_apart(0.5, 0.7), digits_apart(0.59501, 0.595018), digits_apart(0.5, 0.5)
    (4, 5, 4)
    """
    separating = (n for n in range(4, 11) if f"{low:.{n}f}" != f"{high:.{n}f}")
    return next(separating, 10 if low < high else 4)


def trust_lines(calibrator: PosteriorCalibrator) -> list[str]:
    """Return lines on the cross-validated score and on the intervals, if there are any."""
    lines = []
    name = metric_name(calibrator.metric)
    folds = calibrator.cross_validation_
    uncertainty = calibrator.uncertainty_
    if folds is not None:
        lines.append(
            f"honest       {name} {folds.score:.4f}, {folds.baseline_score:.4f} before: "
            f"on labels not tuned on"
        )
    if uncertainty is not None:
        share = f"{uncertainty.confidence:.0%}"
        lines += [
            f"{share} sure     strength {_range(uncertainty.strength_interval)}",
            f"             {name} {_range(uncertainty.value_interval)} on other samples",
            f"             gain {_range(uncertainty.gain_interval, '+.4f')}",
        ]
    return lines


def _vector_lines(score_map: ScoreMap, shrinkage: float | None) -> list[str]:
    lines = []
    if score_map.biases is not None:
        shrinkage_text = "" if shrinkage is None else f"  (shrinkage {shrinkage:g})"
        lines.append(f"biases       {_few(score_map.biases)}{shrinkage_text}")
    if score_map.scales is not None:
        lines.append(f"scales       {_few(score_map.scales)}")
    return lines


def _few(values: Any) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:SHOWN].tolist())
    return shown + (", …" if values.size > SHOWN else "")


def _range(ends: tuple[float, float], format_spec: str = ".4f") -> str:
    return f"{ends[0]:{format_spec}} to {ends[1]:{format_spec}}"
