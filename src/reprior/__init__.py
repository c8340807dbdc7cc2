"""Re-set the prior of a trained classifier.

::

    import reprior as rp

    prior = rp.prior_from_counts(train_counts)
    calibrator = rp.PosteriorCalibrator(prior, metric="balanced_accuracy")
    calibrator.fit(validation_logits, validation_labels)
    calibrator.predict(test_logits)
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from reprior import engines, metrics
    from reprior._versions import show_versions
    from reprior.calibrator import PosteriorCalibrator
    from reprior.calibrator.forecast import Forecast
    from reprior.calibrator.load import load
    from reprior.calibrator.tracker import PriorTracker
    from reprior.core.decision import decide, expected_costs
    from reprior.core.flatten import EntropyReference, flatten
    from reprior.core.fuse import fuse
    from reprior.core.log_loss import LogLossFit, fit_log_loss
    from reprior.core.prior import prior_from_counts, prior_from_labels
    from reprior.core.rebalance import log_rebalance, odds_ratio, rebalance
    from reprior.core.scaling import ScalingFit, fit_scaling
    from reprior.core.score_map import ScoreMap
    from reprior.core.shift.estimate import estimate_target_prior, estimate_target_prior_report
    from reprior.core.shift.report import TargetPriorReport
    from reprior.core.temperature import TemperatureFit, fit_temperature
    from reprior.exceptions import (
        FileFormatError,
        FoldError,
        InfeasibleError,
        LabelsError,
        MissingDependencyError,
        MissingFileError,
        NotFittedError,
        OptionError,
        PriorError,
        ProfileMismatchError,
        RepriorError,
        RepriorWarning,
        ScoresError,
    )
    from reprior.fusion import Blend, ModalityFusion
    from reprior.metrics import ClassCounts, Cost, CountMetric
    from reprior.profile.objective import Best, ParetoFront
    from reprior.profile.profile import StrengthProfile
    from reprior.profile.switches import SwitchTable
    from reprior.tuning.bootstrap import StrengthBootstrap
    from reprior.tuning.crossval import CrossValidation, cross_validate
    from reprior.tuning.per_class import PerClassBiases, tune_per_class
    from reprior.tuning.search import SearchResult, search_strength
    from reprior.tuning.uncertainty import Uncertainty, uncertainty

__all__ = [
    "Best",
    "Blend",
    "ClassCounts",
    "Cost",
    "CountMetric",
    "CrossValidation",
    "EntropyReference",
    "FileFormatError",
    "FoldError",
    "Forecast",
    "InfeasibleError",
    "LabelsError",
    "LogLossFit",
    "MissingDependencyError",
    "MissingFileError",
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
    "show_versions",
    "tune_per_class",
    "uncertainty",
]

#: Where a public name is defined. Its module is imported when the name is first used, so that
#: `import reprior` takes no time that its user does not need.
_MODULES = {
    "show_versions": "reprior._versions",
    "PosteriorCalibrator": "reprior.calibrator",
    "Forecast": "reprior.calibrator.forecast",
    "decide": "reprior.core.decision",
    "expected_costs": "reprior.core.decision",
    "EntropyReference": "reprior.core.flatten",
    "flatten": "reprior.core.flatten",
    "fuse": "reprior.core.fuse",
    "LogLossFit": "reprior.core.log_loss",
    "fit_log_loss": "reprior.core.log_loss",
    "prior_from_counts": "reprior.core.prior",
    "prior_from_labels": "reprior.core.prior",
    "log_rebalance": "reprior.core.rebalance",
    "odds_ratio": "reprior.core.rebalance",
    "rebalance": "reprior.core.rebalance",
    "ScalingFit": "reprior.core.scaling",
    "fit_scaling": "reprior.core.scaling",
    "ScoreMap": "reprior.core.score_map",
    "estimate_target_prior": "reprior.core.shift.estimate",
    "estimate_target_prior_report": "reprior.core.shift.estimate",
    "TargetPriorReport": "reprior.core.shift.report",
    "TemperatureFit": "reprior.core.temperature",
    "fit_temperature": "reprior.core.temperature",
    "FileFormatError": "reprior.exceptions",
    "FoldError": "reprior.exceptions",
    "InfeasibleError": "reprior.exceptions",
    "LabelsError": "reprior.exceptions",
    "MissingDependencyError": "reprior.exceptions",
    "MissingFileError": "reprior.exceptions",
    "NotFittedError": "reprior.exceptions",
    "OptionError": "reprior.exceptions",
    "PriorError": "reprior.exceptions",
    "ProfileMismatchError": "reprior.exceptions",
    "RepriorError": "reprior.exceptions",
    "RepriorWarning": "reprior.exceptions",
    "ScoresError": "reprior.exceptions",
    "Blend": "reprior.fusion",
    "ModalityFusion": "reprior.fusion",
    "load": "reprior.calibrator.load",
    "ClassCounts": "reprior.metrics",
    "Cost": "reprior.metrics",
    "CountMetric": "reprior.metrics",
    "PriorTracker": "reprior.calibrator.tracker",
    "StrengthBootstrap": "reprior.tuning.bootstrap",
    "CrossValidation": "reprior.tuning.crossval",
    "cross_validate": "reprior.tuning.crossval",
    "Best": "reprior.profile.objective",
    "ParetoFront": "reprior.profile.objective",
    "PerClassBiases": "reprior.tuning.per_class",
    "tune_per_class": "reprior.tuning.per_class",
    "StrengthProfile": "reprior.profile.profile",
    "SearchResult": "reprior.tuning.search",
    "search_strength": "reprior.tuning.search",
    "SwitchTable": "reprior.profile.switches",
    "Uncertainty": "reprior.tuning.uncertainty",
    "uncertainty": "reprior.tuning.uncertainty",
}


def __getattr__(name: str) -> _typing.Any:
    """Import a public name when it is first used."""
    if name in _MODULES:
        value = getattr(_importlib.import_module(_MODULES[name]), name)
    elif name in ("engines", "metrics"):
        value = _importlib.import_module(f"reprior.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("reprior")
    else:
        raise AttributeError(f"module 'reprior' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, those that are not imported yet among them."""
    return sorted({*globals(), *__all__})
