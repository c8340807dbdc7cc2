"""A fitted calibrator in words and numbers."""

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

#: Entries of a vector that are shown.
SHOWN = 6


def metric_name(metric: str | CountMetric) -> str:
    """What a metric is called."""
    return metric.name if isinstance(metric, CountMetric) else metric


def summary_text(calibrator: PosteriorCalibrator) -> str:
    """The maps, what is known of them, and the metrics before and after."""
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
    """The metric, and how its strength was chosen where that is not the usual way."""
    rule = calibrator.selection
    return metric_name(calibrator.metric) + ("" if rule == DEFAULT_SELECTION else f", by {rule}")


def counted_metrics(
    calibrator: PosteriorCalibrator, before: ClassCounts, after: ClassCounts | None
) -> dict[str, tuple[float, float]]:
    """Every count metric before and after, that which was tuned among them."""
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
    """What is done to the scores; of two maps, which is which.

    ``equal`` is how the strengths that do equally well are told.
    """
    low, high = calibrator.strength_interval_
    n = digits_apart(low, high)
    width = lone_bin(calibrator)
    if width is not None:
        equal = f", the best of a grid of {width:g}"
    else:
        equal = equal.format(low=f"{low:.{n}f}", high=f"{high:.{n}f}") if low < high else ""
    decision, other = calibrator._decision, calibrator.probability_map_
    lines = [
        f"strength     {decision.strength:.{n}f}{equal}",
        f"temperature  {decision.temperature:.4f}",
        *_vector_lines(decision, calibrator.shrinkage_),
    ]
    if other is None:
        return lines
    return [
        "map for decisions, used by predict:",
        *(f"  {line}" for line in lines),
        "map for probabilities, used by predict_proba:",
        f"  strength     {other.strength:.4f}",
        f"  temperature  {other.temperature:.4f}",
        *(f"  {line}" for line in _vector_lines(other, None)),
    ]


def lone_bin(calibrator: PosteriorCalibrator) -> float | None:
    """The width of the bins, where one point of their grid is best: nothing is known inside of one.

    None where several points are, or where every switch was kept.
    """
    profile, (low, high) = calibrator.profile_, calibrator.strength_interval_
    width = None if profile is None else profile.resolution
    alone = width is not None and calibrator.strength_ == low and high - low < 1.5 * width
    return width if alone else None


def digits_apart(low: float, high: float) -> int:
    """How many digits tell both ends of an interval apart: four, or up to ten where it is narrow.

    Examples
    --------
    >>> digits_apart(0.5, 0.7), digits_apart(0.59501, 0.595018), digits_apart(0.5, 0.5)
    (4, 5, 4)
    """
    told = (n for n in range(4, 11) if f"{low:.{n}f}" != f"{high:.{n}f}")
    return next(told, 10 if low < high else 4)


def trust_lines(calibrator: PosteriorCalibrator) -> list[str]:
    """The honest score and the intervals, where they were asked for."""
    lines, name = [], metric_name(calibrator.metric)
    folds, known = calibrator.cross_validation_, calibrator.uncertainty_
    if folds is not None:
        lines.append(
            f"honest       {name} {folds.score:.4f}, {folds.baseline_score:.4f} before: "
            f"on labels not tuned on"
        )
    if known is not None:
        share = f"{known.confidence:.0%}"
        lines += [
            f"{share} sure     strength {_range(known.strength_interval)}",
            f"             {name} {_range(known.value_interval)} on other samples",
            f"             gain {_range(known.gain_interval, '+.4f')}",
        ]
    return lines


def _vector_lines(at: ScoreMap, shrinkage: float | None) -> list[str]:
    lines = []
    if at.biases is not None:
        how = "" if shrinkage is None else f"  (shrinkage {shrinkage:g})"
        lines.append(f"biases       {_few(at.biases)}{how}")
    if at.scales is not None:
        lines.append(f"scales       {_few(at.scales)}")
    return lines


def _few(values: Any) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:SHOWN].tolist())
    return shown + (", …" if values.size > SHOWN else "")


def _range(ends: tuple[float, float], how: str = ".4f") -> str:
    return f"{ends[0]:{how}} to {ends[1]:{how}}"
