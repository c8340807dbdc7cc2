"""The calibrator behind the classifier."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.calibrator.options import check_options, is_log_loss
from reprior.sklearn.labels import plain
from reprior.tuning.problem import DEFAULT_SELECTION

__all__ = ["FOUND", "make_calibrator", "rehearse"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: What the calibrator finds, and the classifier shows.
FOUND = (
    "strength_",
    "strength_interval_",
    "temperature_",
    "biases_",
    "scales_",
    "probability_map_",
    "shrinkage_",
    "best_score_",
    "log_loss_",
    "counts_",
    "profile_",
    "cross_validation_",
    "uncertainty_",
    "source_prior_",
    "target_prior_",
)


def make_calibrator(
    options: Any, source_prior: Any, classes: Vector, kind: str
) -> rp.PosteriorCalibrator:
    """Return the calibrator that the options of a meta-estimator describe, not fitted."""
    return rp.PosteriorCalibrator(
        source_prior,
        target_prior=options.target_prior,
        metric=options.metric,
        subject_to=options.subject_to,
        tune=options.tune,
        selection=options.selection,
        temperature=options.temperature,
        label_prior=options.label_prior,
        separate=options.separate,
        bounds=options.bounds,
        kind=kind,
        classes=plain(classes),
        n_bootstrap=options.n_bootstrap,
        random_state=options.random_state,
    )


def rehearse(options: Any, classes: Vector) -> None:
    """Tune on one made-up sample per class, so that a wrong option costs no training."""
    n = classes.size
    unknown = isinstance(options.source_prior, str)
    prior = rp.prior_from_counts(np.arange(1, n + 1)) if unknown else options.source_prior
    calibrator = make_calibrator(options, prior, classes, "logits")
    check_options(calibrator)
    if is_log_loss(calibrator.metric):
        calibrator.metric = "balanced_accuracy"
    # Fits, and what looks at many samples, have nothing to work on here.
    calibrator.temperature, calibrator.separate, calibrator.n_bootstrap = None, False, 0
    calibrator.label_prior = None
    calibrator.tune, calibrator.selection = "strength", DEFAULT_SELECTION
    # Whether the constraints can be met, only the real scores can tell.
    with warnings.catch_warnings(), contextlib.suppress(rp.InfeasibleError):
        warnings.simplefilter("ignore", rp.RepriorWarning)
        calibrator.fit(np.broadcast_to(np.float32(0), (n, n)), plain(classes))
