"""Label shift: the class mix of unlabelled scores, and how far an estimate of it can be trusted.

``estimate``       from scores to an estimated target prior, by any method
``predictions``    target and validation scores as log-scores, or as predictions
``recalibration``  the calibration of log-scores that EM needs first
``em``             maximum likelihood by EM, accelerated
``newton``         maximum likelihood by Newton's method, where EM is slow
``moments``        BBSE and RLLS: moments of predictions
``bootstrap``      replicates of an estimate, and intervals
``report``         the report, and warnings
``tracking``       the prior of a stream, and an alarm where it shifts

Everything assumes that classes look the same where a model is used as in training: P(x|y) is
unchanged, and P(y) alone has shifted.
"""

from reprior.core.shift.bootstrap import ReplicateSolver, Resample, em_replicates
from reprior.core.shift.em import EMResult, Likelihood, run_em
from reprior.core.shift.estimate import METHODS
from reprior.core.shift.moments import (
    Conditioning,
    Moments,
    bbse,
    clipped_prior,
    conditioning,
    penalty_factor,
    regularised_weights,
    rlls,
)
from reprior.core.shift.newton import (
    derivatives,
    maximum_likelihood,
    minimise_nonnegative,
    run_newton,
)
from reprior.core.shift.predictions import (
    SoftPredictions,
    Validation,
    predict,
    read_log_scores,
    read_predictions,
    read_validation_rows,
)
from reprior.core.shift.recalibration import (
    AffineCalibration,
    Refits,
    as_calibration,
    every_second_label,
    fit_calibration,
    refit_calibration,
)
from reprior.core.shift.report import (
    DECISIVE_SHARE,
    PenaltyEffect,
    conditioning_warning,
    convergence_warning,
    penalty_effect,
    penalty_warning,
)
from reprior.core.shift.tracking import (
    MeanRatios,
    TrackerState,
    TrackingOptions,
    block_size,
    measure_ratios,
    reference_posteriors,
    track,
)

__all__ = [
    "DECISIVE_SHARE",
    "METHODS",
    "AffineCalibration",
    "Conditioning",
    "EMResult",
    "Likelihood",
    "MeanRatios",
    "Moments",
    "PenaltyEffect",
    "Refits",
    "ReplicateSolver",
    "Resample",
    "SoftPredictions",
    "TrackerState",
    "TrackingOptions",
    "Validation",
    "as_calibration",
    "bbse",
    "block_size",
    "clipped_prior",
    "conditioning",
    "conditioning_warning",
    "convergence_warning",
    "derivatives",
    "em_replicates",
    "every_second_label",
    "fit_calibration",
    "maximum_likelihood",
    "measure_ratios",
    "minimise_nonnegative",
    "penalty_effect",
    "penalty_factor",
    "penalty_warning",
    "predict",
    "read_log_scores",
    "read_predictions",
    "read_validation_rows",
    "reference_posteriors",
    "refit_calibration",
    "regularised_weights",
    "rlls",
    "run_em",
    "run_newton",
    "track",
]
