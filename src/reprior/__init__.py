"""Re-set the prior of a trained classifier.

::

    import reprior as rp

    prior = rp.prior_from_counts(train_counts)
    calibrator = rp.PosteriorCalibrator(prior, metric="balanced_accuracy")
    calibrator.fit(validation_logits, validation_labels)
    calibrator.predict(test_logits)
"""

from __future__ import annotations

import typing as _typing

from reprior import metrics
from reprior.calibrator import PosteriorCalibrator
from reprior.core.decision import decide, expected_costs
from reprior.core.flatten import EntropyReference, flatten
from reprior.core.fuse import fuse
from reprior.core.joint import LogLossFit, fit_log_loss
from reprior.core.prior import prior_from_counts, prior_from_labels
from reprior.core.rebalance import log_rebalance, odds_ratio, rebalance
from reprior.core.scaling import ScalingFit, fit_scaling
from reprior.core.score_map import ScoreMap
from reprior.core.shift import estimate_target_prior, estimate_target_prior_report
from reprior.core.shift_report import TargetPriorReport
from reprior.core.temperature import TemperatureFit, fit_temperature
from reprior.exceptions import (
    FileFormatError,
    FoldError,
    InfeasibleError,
    LabelsError,
    MissingDependencyError,
    NotFittedError,
    OptionError,
    PriorError,
    ProfileMismatchError,
    RepriorError,
    RepriorWarning,
    ScoresError,
)
from reprior.loading import load
from reprior.metrics import ClassCounts, CountMetric
from reprior.tracker import PriorTracker
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.crossval import CrossValidation, cross_validate
from reprior.tuning.objective import Best, ParetoFront
from reprior.tuning.per_class import PerClassBiases, tune_per_class
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.search import SearchResult, search_strength
from reprior.tuning.switch_table import SwitchTable
from reprior.tuning.uncertainty import Uncertainty, uncertainty

__all__ = [
    "Best",
    "ClassCounts",
    "CountMetric",
    "CrossValidation",
    "EntropyReference",
    "FileFormatError",
    "FoldError",
    "InfeasibleError",
    "LabelsError",
    "LogLossFit",
    "MissingDependencyError",
    "ModalityFusion",
    "NotFittedError",
    "OptionError",
    "ParetoFront",
    "PerClassBiases",
    "PosteriorCalibrator",
    "PriorError",
    "PriorTracker",
    "ProfileMismatchError",
    "RepriorError",
    "RepriorWarning",
    "ScalingFit",
    "ScoreMap",
    "ScoresError",
    "SearchResult",
    "StrengthBootstrap",
    "StrengthProfile",
    "SwitchTable",
    "TargetPriorReport",
    "TemperatureFit",
    "Uncertainty",
    "__version__",
    "cross_validate",
    "decide",
    "engines",
    "estimate_target_prior",
    "estimate_target_prior_report",
    "expected_costs",
    "fit_log_loss",
    "fit_scaling",
    "fit_temperature",
    "flatten",
    "fuse",
    "load",
    "log_rebalance",
    "metrics",
    "odds_ratio",
    "prior_from_counts",
    "prior_from_labels",
    "rebalance",
    "search_strength",
    "tune_per_class",
    "uncertainty",
]

if _typing.TYPE_CHECKING:
    from reprior import engines
    from reprior.fusion import ModalityFusion


def __getattr__(name: str) -> _typing.Any:
    """Look up what costs time when it is asked for: the version, streams, and fusion."""
    if name == "__version__":
        from importlib.metadata import version

        return version("reprior")
    if name == "engines":
        from importlib import import_module

        return import_module("reprior.engines")
    if name == "ModalityFusion":
        from reprior.fusion import ModalityFusion

        return ModalityFusion
    raise AttributeError(f"module 'reprior' has no attribute {name!r}")
