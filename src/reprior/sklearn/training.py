"""Train and score fold by fold, then train the model that stays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.sklearn.cross_validation import OutOfFold, Trained, out_of_fold, split, train_on

__all__ = ["cross_validated"]

Vector: TypeAlias = np.ndarray[Any, Any]


def cross_validated(
    options: Any, X: Any, y: Vector, *, routed: Any, classes: Vector, method: str
) -> tuple[Trained, OutOfFold]:
    """Return the model of a meta-estimator's ``options``, and out-of-fold scores to tune on."""
    splits = split(
        options.cv, X, y, random_state=options.random_state, params=routed.splitter.split
    )
    if not options.refit and len(splits) != 1:
        raise rp.OptionError(
            f"`refit` must be True where there are several folds. Got refit={options.refit!r} "
            f"and {len(splits)} folds. Pass for example cv=0.2 for a single split."
        )
    tuning = out_of_fold(
        options.estimator,
        X,
        y,
        splits=splits,
        classes=classes,
        method=method,
        fit_params=routed.estimator.fit,
        n_jobs=options.n_jobs,
    )
    index = None if options.refit else splits[0][0]
    trained = train_on(options.estimator, X, y, index=index, fit_params=routed.estimator.fit)
    return trained, tuning
