"""Route the arguments of ``fit`` to the estimator and the splitter."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import sklearn
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object, process_routing
from sklearn.utils.validation import _check_sample_weight, has_fit_parameter

from reprior._warnings import warn

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

    With scikit-learn's metadata routing enabled, as the objects request; otherwise ``groups`` go to
    the splitter, and all others, with the sample weights if it takes them, to the estimator.
    """
    if _routing_is_on():
        routed = process_routing(owner, "fit", sample_weight=sample_weight, **params)
    else:
        fit = dict(params)
        split = {"groups": fit.pop("groups")} if "groups" in fit else {}
        if sample_weight is not None and _takes_weight(owner.estimator):
            fit["sample_weight"] = sample_weight
        elif sample_weight is not None and training_weight(owner.estimator, fit) is None:
            _warn_of_unused_weight(owner.estimator)
        routed = Bunch(estimator=Bunch(fit=fit), splitter=Bunch(split=split))
    if isinstance(owner.source_prior, str) and _in_doubt(owner.estimator, routed.estimator.fit):
        _warn_of_doubt(owner.estimator)
    return routed


def training_weight(estimator: Any, fit_params: dict[str, Any]) -> Any:
    """Return the sample weights that the classifier learns with, in pipelines and searches too."""
    final, given = _descend(estimator, fit_params)
    if not _routing_is_on() or (final is estimator and "sample_weight" in given):
        return given.get("sample_weight")
    return next((given[name] for name in _names(_answers(final)) if name in given), None)


def _descend(estimator: Any, fit_params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the classifier inside pipelines and searches, and the parameters that reach it."""
    if isinstance(estimator, Pipeline):
        name, final = estimator.steps[-1]
        return _descend(final, fit_params if _routing_is_on() else _below(name, fit_params))
    inside = _inside(estimator)
    return (estimator, fit_params) if inside is None else _descend(inside, fit_params)


def _inside(estimator: Any) -> Any:
    """Return the estimator to which a search, or a choice of threshold, passes its parameters."""
    if isinstance(estimator, FrozenEstimator):
        return None  # it has the attributes of the estimator inside, but trains nothing
    if isinstance(estimator, FixedThresholdClassifier | TunedThresholdClassifierCV):
        return estimator.estimator
    given = estimator.estimator if isinstance(estimator, BaseSearchCV) else None
    return getattr(estimator, "best_estimator_", given)


def _takes_weight(estimator: Any) -> bool:
    """Tell whether ``fit`` takes `sample_weight`, by itself or through a search."""
    while isinstance(estimator, BaseSearchCV):
        estimator = estimator.estimator
    return bool(has_fit_parameter(estimator, "sample_weight"))


def _in_doubt(estimator: Any, fit_params: dict[str, Any]) -> bool:
    """Tell whether it is unknown which of the given weights the classifier is trained with."""
    final, given = _descend(estimator, fit_params)
    weights = {name for name, value in given.items() if value is not None}
    if _routing_is_on():
        answers = _answers(final)
        return len(answers) > 1 and not weights.isdisjoint(_names(answers))
    if any(name.endswith("__sample_weight") for name in weights):
        return True
    known = FrozenEstimator | VotingClassifier | StackingClassifier
    if "sample_weight" not in weights or isinstance(final, known):
        return False
    parts = final.get_params().values() if hasattr(final, "get_params") else ()
    return not has_fit_parameter(final, "sample_weight") and any(
        hasattr(part, "fit") for part in parts
    )


def _answers(estimator: Any) -> set[str | bool]:
    """Return the requests for sample weights of a model, or of its parts."""
    return _answers_of(get_routing_for_object(estimator))


def _answers_of(routing: Any) -> set[str | bool]:
    if not isinstance(routing, MetadataRouter):
        return {routing.fit.requests.get("sample_weight") or False}
    requests: set[str | bool] = set()
    for name, (mapping, part) in routing:
        if any(way.caller == "fit" and way.callee == "fit" for way in mapping):
            answers = _answers_of(part)
            if name == "$self_request" and answers != {False}:
                return answers  # the ensemble itself is trained with weights
            requests |= answers
    return requests


def _names(answers: set[str | bool]) -> list[str]:
    """Return the names under which weights are requested."""
    return sorted("sample_weight" if answer is True else answer for answer in answers if answer)


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
        return  # it is not trained: the weights belong to the tuning data
    remedy = "Leave the weights out if that is not what you want."
    step = _step_name(estimator)
    if step:
        remedy = f"Pass {step}sample_weight too, or turn on scikit-learn's metadata routing."
    warn(
        f"{type(estimator).__name__} does not take `sample_weight`: the weights count in the "
        f"tuning of the strength, not in training. {remedy}"
    )


def _step_name(estimator: Any) -> str:
    """Return the prefix of the classifier's parameters: ``step__``, or an empty string."""
    if isinstance(estimator, Pipeline):
        name, final = estimator.steps[-1]
        return f"{name}__{_step_name(final)}"
    return _step_name(estimator.estimator) if isinstance(estimator, BaseSearchCV) else ""


def _warn_of_doubt(estimator: Any) -> None:
    warn(
        f"It is unknown whether the sample weights given to {type(estimator).__name__} reach "
        f"the classifier inside, so the source prior may be wrong. Pass the class distribution "
        f"that the classifier learns from as an array: source_prior=[…]."
    )
