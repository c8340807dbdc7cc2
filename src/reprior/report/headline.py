"""What changed, and on which data that was judged, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprior.exceptions import RepriorError
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.tuning.profile import StrengthProfile

__all__ = ["change_sentence", "judged_sentence", "main_metric", "metric_label", "shown_metrics"]

TUNED_HERE = "On the labels it was tuned on: expect less on others."
JUDGED_ELSEWHERE = "Judged on other data than it was tuned on."

_LABELS = {"mean_iou": "mean IoU", "macro_f1": "macro F1"}


def metric_label(metric: CountMetric) -> str:
    """A metric's name in words."""
    return _LABELS.get(metric.name, metric.name.replace("_", " "))


def main_metric(calibrator: PosteriorCalibrator) -> CountMetric:
    """The metric that was tuned; balanced accuracy where a file names one of its author's own."""
    names = calibrator.classes_.tolist()
    try:
        return find_metric(calibrator.metric, n_classes=len(names), classes=names)
    except RepriorError:
        try:
            return find_metric(calibrator.metric, n_classes=len(names))
        except RepriorError:
            return COUNT_METRICS["balanced_accuracy"]


def shown_metrics(calibrator: PosteriorCalibrator) -> list[CountMetric]:
    """The tuned metric first, then every other; macro recall is balanced accuracy."""
    main = main_metric(calibrator)
    if main.name == "macro_recall":
        main = COUNT_METRICS["balanced_accuracy"]
    others = [m for m in COUNT_METRICS.values() if m.name not in ("macro_recall", main.name)]
    return [main, *others]


def change_sentence(
    calibrator: PosteriorCalibrator, profile: StrengthProfile, set_name: str
) -> str:
    """The tuned metric before and after, and what accuracy does meanwhile."""
    main = main_metric(calibrator)
    at = profile.counts(calibrator.strength_)
    first = _change(main, profile.baseline, at)
    second_metric = COUNT_METRICS["accuracy" if main.name != "accuracy" else "balanced_accuracy"]
    second = _change(second_metric, profile.baseline, at)
    return (
        f"At strength {calibrator.strength_:.3g}, {first} on the {set_name} set "
        f"({profile.n_samples:,} samples); {second}."
    )


def _change(metric: CountMetric, before: Any, after: Any) -> str:
    old, new = metric(before), metric(after)
    name = metric_label(metric)
    if old == new:
        return f"{name} stays at {old:.1%}".replace("%", " %")
    points = f"{100 * (new - old):+.1f}".replace("-", "−")
    return f"{name} goes from {100 * old:.1f} % to {100 * new:.1f} % ({points} points)"


def judged_sentence(
    calibrator: PosteriorCalibrator, validation: str, test: str | None = None
) -> str:
    """Whether the headline's numbers are from other data than the strength was tuned on.

    ``validation`` and ``test`` are the digests of the data. A calibrator that does not know what
    it was tuned on is taken to be tuned on the validation set.
    """
    tuned = (calibrator.provenance_ or {}).get("digest", validation)
    if (validation if test is None else test) == tuned:
        return f"The test set is what it was tuned on. {TUNED_HERE}" if test else TUNED_HERE
    if calibrator.provenance_ is None:
        return f"{JUDGED_ELSEWHERE} (That the validation set is what it was tuned on is assumed.)"
    return JUDGED_ELSEWHERE
