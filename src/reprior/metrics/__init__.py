"""Metrics of hard labels (from counts per class), of probabilities, of ranks and of groups.

``counts``         true positives, predicted and support of every class
``ratios``         the metrics that these determine: ratios and coefficients of agreement
``pair_metrics``   costs, weighted kappas, functions of the confusion matrix, means over images
``count_metrics``  their names
``cells``          where a metric counts samples, if not in classes
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
    PAIR_METRIC_NAMES,
    evaluate,
    find_metric,
)
from reprior.metrics.counts import ClassCounts, PairCounts
from reprior.metrics.fixed_point import FixedPointMetric
from reprior.metrics.groups import group_metric, shot_groups
from reprior.metrics.pair_metrics import Cost, from_confusion
from reprior.metrics.ranking import top_k_accuracy
from reprior.metrics.ratios import CountMetric
from reprior.metrics.score_blocks import ScoreBlocks

__all__ = [
    "COUNT_METRICS",
    "METRIC_NAMES",
    "PAIR_METRIC_NAMES",
    "ClassCounts",
    "Cost",
    "CountMetric",
    "FixedPointMetric",
    "PairCounts",
    "Reliability",
    "ReliabilityCurve",
    "ScoreBlocks",
    "brier_score",
    "classwise_calibration_error",
    "evaluate",
    "expected_calibration_error",
    "find_metric",
    "from_confusion",
    "group_metric",
    "log_loss",
    "reliability_curve",
    "shot_groups",
    "top_k_accuracy",
]
