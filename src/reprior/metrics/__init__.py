"""Metrics of hard labels (from counts per class), of probabilities, of ranks and of groups.

``counts``         true positives, predicted and support of every class
``count_metrics``  the metrics that these determine, and their names
``fixed_point``    count metrics as sums in fixed point, as sweeps follow them
``groups``         many-, medium- and few-shot classes
``ranking``        top-k accuracy
``calibration``    log-loss, Brier score, calibration errors, reliability in bins that add
"""

from reprior.metrics.calibration import (
    Reliability,
    ReliabilityCurve,
    brier_score,
    classwise_calibration_error,
    expected_calibration_error,
    log_loss,
    reliability_curve,
)
from reprior.metrics.count_metrics import (
    COUNT_METRICS,
    METRIC_NAMES,
    CountMetric,
    evaluate,
    find_metric,
)
from reprior.metrics.counts import ClassCounts
from reprior.metrics.fixed_point import FixedPointMetric
from reprior.metrics.groups import group_metric, shot_groups
from reprior.metrics.ranking import top_k_accuracy
from reprior.metrics.score_blocks import ScoreBlocks

__all__ = [
    "COUNT_METRICS",
    "METRIC_NAMES",
    "ClassCounts",
    "CountMetric",
    "FixedPointMetric",
    "Reliability",
    "ReliabilityCurve",
    "ScoreBlocks",
    "brier_score",
    "classwise_calibration_error",
    "evaluate",
    "expected_calibration_error",
    "find_metric",
    "group_metric",
    "log_loss",
    "reliability_curve",
    "shot_groups",
    "top_k_accuracy",
]
