"""A calibrator for the class mix of one batch, stated or estimated from it."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.calibrator.options import is_log_loss
from reprior.core.checks import check_choice
from reprior.core.heard import heard
from reprior.sklearn.labels import plain

__all__ = ["for_batch"]

Vector: TypeAlias = np.ndarray[Any, Any]


TRUSTED = (
    "The class mix is estimated from the model's probabilities as they are: where these are too "
    "sure, it is too extreme. Pass separate=True, metric='log_loss' or temperature='fit', which "
    "fit them to the labels, or state the mix as `target_prior`."
)


def for_batch(
    calibrator: rp.PosteriorCalibrator, scores: Vector, target_prior: Any
) -> rp.PosteriorCalibrator:
    """Return the calibrator re-targeted to a batch; as it is where ``target_prior`` is None.

    "estimate" takes the prior under which the batch's scores are most likely, by
    :func:`reprior.estimate_target_prior`, from the most honest probabilities that there are: the
    calibrator's, where it has fitted them by log-loss; the model's at the fitted temperature; or
    the model's as they are, with a warning.
    """
    if target_prior is None:
        return calibrator
    if isinstance(target_prior, str):
        check_choice(
            "target_prior", target_prior, ["estimate", "uniform"],
            hint="Or pass one probability per class.",
        )  # fmt: skip
    if isinstance(target_prior, str) and target_prior == "estimate":
        said: list[str] = []
        with heard(said):
            target_prior = _estimated(calibrator, scores, said)
        for sentence in said:
            # The caller of predict() is the fourth frame: this, _apply, predict, it.
            warnings.warn(sentence, rp.RepriorWarning, stacklevel=4)
    elif isinstance(target_prior, dict):
        names = plain(np.array(list(target_prior)))
        target_prior = dict(zip(names.tolist(), target_prior.values(), strict=True))
    return calibrator.retarget(target_prior)


def _estimated(calibrator: rp.PosteriorCalibrator, scores: Vector, said: list[str]) -> Vector:
    """The class mix of a batch, by EM."""
    if is_log_loss(calibrator.metric) or calibrator.probability_map_ is not None:
        if not (calibrator.target_prior_ > 0).all():  # EM divides by the prior that it starts from
            calibrator = calibrator.retarget("uniform")
        return rp.estimate_target_prior(
            np.asarray(calibrator.predict_log_proba(scores)),
            source_prior=calibrator.target_prior_,
            kind="log_probs",
        )
    if calibrator.temperature is None:
        said.append(TRUSTED)
    # Not the posterior: its strength is one for decisions, and need not make the prior P_t.
    calibration = (1.0 / calibrator.temperature_, 0.0)
    return rp.estimate_target_prior(
        scores,
        source_prior=calibrator.source_prior_,
        kind=calibrator.kind,
        calibration=calibration,
    )
