"""Which prior is the source prior: "labels", "effective", or given."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.sklearn.cross_validation import Trained
from reprior.sklearn.labels import class_mass
from reprior.sklearn.source_prior import Seen, effective_prior, is_frozen, reweighting

__all__ = ["check_source_prior", "label_prior", "resolve_source_prior"]

Vector: TypeAlias = np.ndarray[Any, Any]


def check_source_prior(option: Any, classes: Vector) -> None:
    """Refuse what can be seen to be wrong before any training."""
    if isinstance(option, str):
        if option not in ("labels", "effective"):
            raise rp.OptionError(
                f"`source_prior` must be 'labels', 'effective' or one probability per class. "
                f"Got {option!r}. Pass 'labels' for a model trained on the classes as they come, "
                f"'effective' for one trained with class weights or re-sampling."
            )
        return
    if not isinstance(option, Mapping) and np.ndim(option) != 1:
        raise rp.PriorError(
            f"`source_prior` must be 'labels', 'effective' or one probability per class. "
            f"Got {option!r}. Pass an array of shape ({classes.size},)."
        )
    if len(option) != classes.size:
        raise rp.PriorError(
            f"`source_prior` must have one value per class. Got {len(option)} values for "
            f"{classes.size} classes. Their order is that of the sorted classes."
        )


def label_prior(y: Vector, classes: Vector, sample_weight: Vector | None) -> Vector:
    """Return the class frequencies of the labels, times their weights."""
    mass = class_mass(y, classes, sample_weight)
    if not (mass > 0).all():
        name = classes.tolist()[int(np.argmin(mass > 0))]
        what = "samples" if sample_weight is None else "samples of positive weight"
        raise rp.PriorError(
            f"`y` must have {what} of every class to take the source prior from. Got none of "
            f"class {name!r}. Drop the class, or pass `source_prior` as an array."
        )
    prior: Vector = rp.prior_from_counts(mass)
    return prior


def resolve_source_prior(option: Any, trained: Trained, classes: Vector) -> Any:
    """Return the prior that the model was trained on; warn where that is in doubt."""
    model, y, sample_weight = trained.model, trained.y, trained.sample_weight
    if not isinstance(option, str):
        return option
    if option == "effective":
        seen = Seen.of(trained.X, y, classes, sample_weight)
        prior, from_labels = effective_prior(model, seen)
    else:
        prior, from_labels = label_prior(y, classes, sample_weight), True
        found = reweighting(model)
        if found:
            _say(
                f"The estimator changes the class distribution it is trained on: "
                f"{'; '.join(found)}. With source_prior='labels' the imbalance may be corrected "
                f"twice. Pass source_prior='effective', or that distribution as an array."
            )
    if from_labels and is_frozen(model):
        _say(
            "The source prior is taken from the labels given to `fit`, but the frozen estimator "
            "was trained on others. Pass the class distribution of its training data as "
            "`source_prior`, for example prior_from_counts(training_counts)."
        )
    return prior


def _say(sentence: str) -> None:
    # The caller of fit() is four frames up: _say, resolve_source_prior, fit, caller.
    warnings.warn(sentence, rp.RepriorWarning, stacklevel=4)
