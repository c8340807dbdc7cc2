"""Which of the arguments of ``fit`` go where."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import numpy as np
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing
from sklearn.utils.validation import _check_sample_weight, has_fit_parameter

import reprior as rp

__all__ = ["check_weight", "route_fit", "training_weight"]

Vector: TypeAlias = np.ndarray[Any, Any]


def check_weight(sample_weight: Any, X: Any) -> Vector:
    """Return one finite weight per sample, none of them negative."""
    weight: Vector = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return weight


def route_fit(owner: Any, sample_weight: Any, params: dict[str, Any]) -> Bunch:
    """Return ``.estimator.fit`` and ``.splitter.split``, the arguments for each.

    With scikit-learn's metadata routing on, as everyone requested; otherwise ``groups`` go to the
    splitter, and all else, with the sample weights where it takes them, to the estimator.
    """
    if _routing_is_on():
        return process_routing(owner, "fit", sample_weight=sample_weight, **params)
    fit = dict(params)
    split = {"groups": fit.pop("groups")} if "groups" in fit else {}
    if sample_weight is not None and has_fit_parameter(owner.estimator, "sample_weight"):
        fit["sample_weight"] = sample_weight
    elif sample_weight is not None and training_weight(owner.estimator, fit) is None:
        _warn_of_unused_weight(owner.estimator)
    return Bunch(estimator=Bunch(fit=fit), splitter=Bunch(split=split))


def training_weight(estimator: Any, fit_params: dict[str, Any]) -> Any:
    """Return the sample weights that the classifier, at the end of a pipeline too, learns with."""
    if not isinstance(estimator, Pipeline):
        return fit_params.get("sample_weight")
    name, final = estimator.steps[-1]
    if not _routing_is_on():
        return training_weight(final, _below(name, fit_params))
    request = getattr(get_routing_for_object(final), "fit", None)
    asked = getattr(request, "requests", {}).get("sample_weight", True)
    return fit_params.get(asked if isinstance(asked, str) else "sample_weight") if asked else None


def _below(name: str, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of one step of a pipeline: those called ``name__…``."""
    prefix = f"{name}__"
    return {
        key.removeprefix(prefix): value
        for key, value in fit_params.items()
        if key.startswith(prefix)
    }


def _routing_is_on() -> bool:
    return bool(sklearn.get_config()["enable_metadata_routing"])


def _warn_of_unused_weight(estimator: Any) -> None:
    if isinstance(estimator, FrozenEstimator):
        return  # it is not trained: the weights are of the tuning data
    remedy = "Leave the weights out if that is not what you want."
    if isinstance(estimator, Pipeline):
        step = estimator.steps[-1][0]
        remedy = f"Pass {step}__sample_weight too, or turn on scikit-learn's metadata routing."
    warnings.warn(
        f"{type(estimator).__name__} does not take `sample_weight`: the weights count in the "
        f"tuning of the strength, not in training. {remedy}",
        rp.RepriorWarning,
        stacklevel=4,
    )
