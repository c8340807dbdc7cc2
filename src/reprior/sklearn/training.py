r"""The two trainings of a classifier: as given, and with class weights towards the target prior.

A weighted training gives every sample of class k the weight

.. math:: v_k = P_t(k) / P_s(k)

with the target prior P_t and the class frequencies P_s of the labels. The classes then have the
total weights P_t; for the uniform target these are the weights n / (K·n_k) of
``class_weight="balanced"``. The weighted model at strength λ − 1 corresponds to the unweighted one
at λ, so that it is tuned within bounds that are lower by 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

import reprior as rp
from reprior.core.checks import check_choice
from reprior.exceptions import Setting
from reprior.sklearn.cross_validation import class_columns
from reprior.sklearn.routing import training_weight
from reprior.sklearn.source_prior import class_index, class_mass, own_reweighting

__all__ = ["TRAININGS", "AveragedClassifier", "Training", "trainings_of", "weighted_bounds"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The values of ``training``.
TRAININGS = ("as_given", "weighted", "auto")


@dataclass(frozen=True, eq=False)
class Training:
    """How clones of a classifier are trained.

    Parameters
    ----------
    name : {"as_given", "weighted"}
        The name.
    estimator : estimator instance
        The classifier, as given.
    classes : ndarray of shape (K,)
        The class labels.
    class_weight : ndarray of shape (K,) or None
        v; None where the classifier is trained as given.
    parameter : str
        The parameter of the estimator that takes v, or an empty string.
    argument : str
        The argument of ``fit`` that takes sample weights, where there is no such parameter.
    """

    name: str
    estimator: Any
    classes: Vector
    class_weight: Vector | None = None
    parameter: str = ""
    argument: str = ""

    def fit(self, X: Any, y: Vector, fit_params: dict[str, Any]) -> Any:
        """Train a clone."""
        model = clone(self.estimator)
        if self.class_weight is None:
            return model.fit(X, y, **fit_params)
        if self.parameter:
            present = set(np.unique(y).tolist())  # a fold may lack a class
            pairs = zip(self.classes.tolist(), self.class_weight.tolist(), strict=True)
            weights = {name: weight for name, weight in pairs if name in present}
            return model.set_params(**{self.parameter: weights}).fit(X, y, **fit_params)
        weight = self.class_weight[class_index(y, self.classes)]
        given = fit_params.get(self.argument)
        if given is not None:
            weight = weight * np.asarray(given, np.float64)
        return model.fit(X, y, **{**fit_params, self.argument: weight})


def trainings_of(
    option: str,
    estimator: Any,
    y: Vector,
    *,
    classes: Vector,
    target_prior: Vector,
    fit_params: dict[str, Any],
) -> list[Training]:
    """Return the trainings to compare; an error where "weighted" is impossible."""
    check_choice("training", option, TRAININGS)
    as_given = Training("as_given", estimator, classes)
    if option == "as_given":
        return [as_given]
    reason = _obstacle(estimator)
    place = ("", "") if reason else _place(estimator)
    if not reason and not any(place):
        reason = f"{type(estimator).__name__}, which takes neither class nor sample weights"
    if reason and option == "weighted":
        raise rp.OptionError(
            argument="training",
            rule="must be 'as_given' or 'auto' for an estimator that cannot be trained with other "
            "class weights",
            got=[Setting("training", option), f" and {reason}"],
            remedy=[
                "Leave it out, or pass an estimator that takes `class_weight` or `sample_weight` "
                "and does not re-weight by itself."
            ],
        )
    if reason:
        return [as_given]
    mass = class_mass(y, classes, _as_vector(training_weight(estimator, fit_params)))
    if not (mass > 0).all():  # the source prior is refused with the class's name
        return [as_given]
    # Weights cannot teach a class that is ruled out; it keeps its own, so that folds can be fitted.
    weight = np.where(target_prior > 0, target_prior * mass.sum() / mass, 1.0)
    if option == "auto" and np.ptp(weight) <= np.finfo(np.float64).eps * weight.max() * weight.size:
        return [as_given]
    weighted = Training("weighted", estimator, classes, weight, *place)
    return [weighted] if option == "weighted" else [as_given, weighted]


def weighted_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the bounds of a weighted training: its strength λ − 1 is λ of the one as given.

    Examples
    --------
    >>> weighted_bounds((0.0, 2.0))
    (-1.0, 1.0)
    """
    low, high = bounds
    return low - 1.0, high - 1.0


def _as_vector(weight: Any) -> Vector | None:
    return None if weight is None else np.asarray(weight, np.float64)


def _obstacle(estimator: Any) -> str:
    """Return why an estimator must not be weighted, or an empty string."""
    if isinstance(estimator, FrozenEstimator):
        return "a FrozenEstimator, which is not trained"
    if isinstance(estimator, Pipeline):
        samplers = [part for _, part in estimator.steps[:-1] if hasattr(part, "fit_resample")]
        if samplers:
            return f"{type(samplers[0]).__name__} in a pipeline, which re-samples"
        return _obstacle(estimator.steps[-1][1])
    inside = _wrapped(estimator)
    if inside is not None:
        return _searched_weights(estimator) or _obstacle(inside)
    changes = own_reweighting(estimator)
    return f"{changes[0]}, which re-weights by itself" if changes else ""


def _wrapped(estimator: Any) -> Any:
    """Return the estimator that a search, or a choice of threshold, trains; None without one."""
    if isinstance(estimator, BaseSearchCV | FixedThresholdClassifier | TunedThresholdClassifierCV):
        return estimator.estimator
    return None


def _searched_weights(search: Any) -> str:
    """Return the class weights that a search tries, in words, or an empty string."""
    grids = getattr(search, "param_grid", getattr(search, "param_distributions", ()))
    for grid in [grids] if isinstance(grids, dict) else grids:
        for name in grid:
            if name.rpartition("__")[2] == "class_weight":
                return f"{type(search).__name__}, which tries values of {name}"
    return ""


def _place(estimator: Any, path: str = "", argument: str = "") -> tuple[str, str]:
    """Return the parameter for class weights, or the argument of ``fit`` for sample weights."""
    if isinstance(estimator, Pipeline):
        name, final = estimator.steps[-1]
        return _place(final, f"{path}{name}__", f"{argument}{name}__")
    inside = _wrapped(estimator)
    if inside is not None:
        return _place(inside, f"{path}estimator__", argument)
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    # Histogram boosting looks classes up in the dict after it has encoded them as 0 … K−1.
    if "class_weight" in parameters and not isinstance(estimator, HistGradientBoostingClassifier):
        return f"{path}class_weight", ""
    # With metadata routing, arguments pass pipelines and searches only where they were requested.
    routed = path and sklearn.get_config()["enable_metadata_routing"]
    if _takes_sample_weight(estimator) and not routed:
        return "", f"{argument}sample_weight"
    return "", ""


def _takes_sample_weight(estimator: Any) -> bool:
    if isinstance(estimator, VotingClassifier | StackingClassifier):  # they pass it on
        parts = [part for _, part in estimator.estimators if part != "drop"]
        return all(has_fit_parameter(part, "sample_weight") for part in parts)
    return bool(has_fit_parameter(estimator, "sample_weight"))


def _all_have(method: str) -> Any:
    return available_if(lambda self: all(hasattr(model, method) for model in self.estimators))


class AveragedClassifier(ClassifierMixin, BaseEstimator):
    """The mean of classifiers that were trained on the folds of one cross-validation.

    Parameters
    ----------
    estimators : list of fitted classifiers
        Probabilities are their mean; decision functions too.
    classes : ndarray of shape (K,)
        The class labels. A classifier that lacks one gives it the probability 0.
    """

    def __init__(self, estimators: list[Any], classes: Vector) -> None:
        self.estimators = estimators
        self.classes = classes

    @property
    def classes_(self) -> Vector:
        """The class labels."""
        return self.classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    # scikit-learn's decorator has no types.
    @_all_have("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Vector:
        """Return the mean of the probabilities, (N, K)."""
        return self._mean("predict_proba", X)

    # scikit-learn's decorator has no types.
    @_all_have("predict_log_proba")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Vector:
        """Return the logarithm of the mean of the probabilities, (N, K)."""
        logs = self._scores("predict_log_proba", X)
        return np.asarray(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))

    # scikit-learn's decorator has no types.
    @_all_have("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Vector:
        """Return the mean of the decision functions, (N, K)."""
        return self._mean("decision_function", X)

    def predict(self, X: Any) -> Vector:
        """Return the class of the largest mean probability, or decision value."""
        method = "predict_proba" if hasattr(self, "predict_proba") else "decision_function"
        return np.asarray(self.classes[self._mean(method, X).argmax(axis=1)])

    def _mean(self, method: str, X: Any) -> Vector:
        return np.asarray(self._scores(method, X).mean(axis=0))

    def _scores(self, method: str, X: Any) -> Vector:
        return np.stack(
            [
                class_columns(model, X, method=method, classes=self.classes)
                for model in self.estimators
            ]
        )
