"""A calibrator for the class mix of one batch, stated or estimated from it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.sklearn.labels import plain

__all__ = ["for_batch"]

Vector: TypeAlias = np.ndarray[Any, Any]


def for_batch(
    calibrator: rp.PosteriorCalibrator, scores: Vector, target_prior: Any
) -> rp.PosteriorCalibrator:
    """Return the calibrator re-targeted to a batch; as it is where ``target_prior`` is None.

    "estimate" takes the prior under which the batch's scores are most likely, by
    :func:`reprior.estimate_target_prior`.
    """
    if target_prior is None:
        return calibrator
    if isinstance(target_prior, str) and target_prior == "estimate":
        target_prior = rp.estimate_target_prior(
            scores, source_prior=calibrator.source_prior_, kind=calibrator.kind
        )
    elif isinstance(target_prior, dict):
        names = plain(np.array(list(target_prior)))
        target_prior = dict(zip(names.tolist(), target_prior.values(), strict=True))
    return calibrator.retarget(target_prior)
