"""The source prior of a classifier: from the labels, the effective one, or as given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import ComplementNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC

import reprior as rp
from reprior._warnings import warn
from reprior.exceptions import Argument, Setting
from reprior.sklearn.cross_validation import Trained

__all__ = [
    "Seen",
    "check_source_prior",
    "class_index",
    "class_mass",
    "effective_prior",
    "is_frozen",
    "label_prior",
    "own_reweighting",
    "resolve_source_prior",
    "reweighting",
]


Vector: TypeAlias = np.ndarray[Any, Any]


def check_source_prior(option: Any, classes: Vector) -> None:
    """Refuse a wrong source prior before any training."""
    if isinstance(option, str):
        if option not in ("labels", "effective"):
            raise rp.OptionError(
                argument="source_prior",
                rule="must be 'labels', 'effective' or one probability per class",
                got=f"{option!r}",
                remedy=(
                    "Pass 'labels' for a model trained on the classes as they come, "
                    "'effective' for one trained with class weights or re-sampling."
                ),
            )
        return
    if not isinstance(option, Mapping) and np.ndim(option) != 1:
        raise rp.PriorError(
            argument="source_prior",
            rule="must be 'labels', 'effective' or one probability per class",
            got=f"{option!r}",
            remedy=f"Pass an array of shape ({classes.size},).",
        )
    if len(option) != classes.size:
        raise rp.PriorError(
            argument="source_prior",
            rule="must have one value per class",
            got=f"{len(option)} values for {classes.size} classes",
            remedy="Their order is that of the sorted classes.",
        )


def label_prior(y: Vector, classes: Vector, sample_weight: Vector | None) -> Vector:
    """Return the class frequencies of the labels, times their weights."""
    mass = class_mass(y, classes, sample_weight)
    if not (mass > 0).all():
        name = classes.tolist()[int(np.argmin(mass > 0))]
        what = "samples" if sample_weight is None else "samples of positive weight"
        raise rp.PriorError(
            argument="y",
            rule=f"must have {what} of every class to take the source prior from",
            got=f"none of class {name!r}",
            remedy=[
                "Drop the class, or pass ",
                Argument("source_prior"),
                " as an array.",
            ],
        )
    prior: Vector = rp.prior_from_counts(mass)
    return prior


def resolve_source_prior(
    option: Any, trained: Trained, classes: Vector, *, expected: bool = False
) -> Any:
    """Return the prior that the model was trained on; warn where it is uncertain.

    With ``expected``, do not warn of a model that re-weights: strengths below 0 are searched.
    """
    model = trained.model
    y = trained.y
    sample_weight = trained.sample_weight
    if not isinstance(option, str):
        return option
    if option == "effective":
        seen = Seen.of(trained.X, y, classes, sample_weight)
        prior, from_labels = effective_prior(model, seen)
    else:
        prior = label_prior(y, classes, sample_weight)
        from_labels = True
        changes = reweighting(model)
        if changes and not expected:
            warn(
                [
                    "The estimator changes the class distribution it is trained on: ",
                    f"{'; '.join(changes)}. Strengths above 0 then correct the imbalance a second "
                    "time, so it may be corrected twice. Pass ",
                    Setting("bounds", (-1, 1)),
                    ", to search both sides of the model as it is, at strength 0; or, for another "
                    "target prior than the one it was weighted for, ",
                    Setting("source_prior", "effective"),
                    ".",
                ]
            )
    if from_labels and is_frozen(model):
        warn(
            "The source prior is taken from the labels given to `fit`, but the frozen estimator "
            "was trained on others. Pass the class distribution of its training data as "
            "`source_prior`, for example prior_from_counts(training_counts)."
        )
    return prior


@dataclass(frozen=True, eq=False)
class Seen:
    """A training set as the next part of a model sees it."""

    X: Callable[[], Any]  # computed only for a sampler
    y: Vector
    classes: Vector  # the labels of ``y``, in the order of ``mass``
    mass: Vector  # total weight of each class
    from_labels: bool = True  # whether the mass still depends on how frequent the labels are

    @classmethod
    def of(cls, X: Any, y: Vector, classes: Vector, sample_weight: Vector | None) -> Seen:
        """Start from the data as given to ``fit``."""
        return cls(lambda: X, y, classes, class_mass(y, classes, sample_weight))

    @property
    def mean_weight(self) -> Vector:
        """The mean weight of each class's samples."""
        count = class_mass(self.y, self.classes)
        return np.divide(self.mass, count, out=np.ones_like(self.mass), where=count > 0)


@dataclass(frozen=True, eq=False)
class Step:
    """One part of a model that changes the effective prior."""

    act: Callable[[Seen], Seen] | None  # None: unknown
    words: str = ""  # how it changes the class distribution, if it does
    sure: bool = True  # whether it does


def effective_prior(model: Any, seen: Seen) -> tuple[Vector, bool]:
    """Return the effective prior of a fitted model, and whether it depends on the labels."""
    for step in _walk(model):
        if step.act is None:
            raise _undetermined(step.words)
        seen = step.act(seen)
    if not (seen.mass > 0).all():
        name = seen.classes.tolist()[int(np.argmin(seen.mass > 0))]
        raise rp.PriorError(
            argument="source_prior",
            rule="must be positive for every class",
            got=f"an effective weight of 0 for class {name!r}: the model cannot have learnt it",
            remedy="Drop the class, or correct the weights.",
        )
    return seen.mass / seen.mass.sum(), seen.from_labels


def reweighting(model: Any) -> list[str]:
    """Return the parts of a fitted model that change the class distribution it is trained on."""
    return [step.words for step in _walk(model) if step.words and step.sure]


def own_reweighting(classifier: Any) -> list[str]:
    """Return the settings of a classifier, fitted or not, and of its parts, that re-weight."""
    return [step.words for step in (*_own(classifier), *_hidden(classifier)) if step.words]


def is_frozen(model: Any) -> bool:
    """Tell whether the classifier was trained before, on data that ``fit`` does not have."""
    if isinstance(model, Pipeline):
        return is_frozen(model.steps[-1][1])
    return isinstance(model, FrozenEstimator)


def _walk(model: Any) -> Iterator[Step]:
    if isinstance(model, Pipeline):
        for _, part in model.steps[:-1]:
            if hasattr(part, "transform"):
                yield Step(partial(_transformed, part))
            elif hasattr(part, "fit_resample"):
                yield Step(partial(_resampled, part), f"{type(part).__name__} in a pipeline")
        yield from _walk(model.steps[-1][1])
    elif (inside := _inside(model)) is not None:
        if isinstance(model, BaggingClassifier | StackingClassifier):
            yield Step(_encoded)
        yield from _walk(inside)
    else:
        yield from _own(model)
        yield from _hidden(model)


def _inside(model: Any) -> Any:
    """Return the fitted model whose class distribution is that of this one, if there is one."""
    if isinstance(model, FrozenEstimator):
        return model.estimator
    if isinstance(model, TunedThresholdClassifierCV | FixedThresholdClassifier):
        return model.estimator_
    if isinstance(model, BaggingClassifier):
        return model.estimators_[0]
    if isinstance(model, StackingClassifier):
        return model.final_estimator_
    if isinstance(model, CalibratedClassifierCV) and model.method == "temperature":
        return model.calibrated_classifiers_[0].estimator
    return getattr(model, "best_estimator_", None)  # a search over parameters


def _own(model: Any) -> Iterator[Step]:
    """Yield the changes that a classifier's own parameters make."""
    if isinstance(model, SVC | NuSVC) and hasattr(model, "predict_proba"):
        return  # its probabilities are fitted to the labels afterwards, for any weights
    name = type(model).__name__
    if isinstance(model, ComplementNB):
        yield Step(_uniform, f"{name}, whose scores leave the class frequencies out")
        return
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    for option, rule in _RULES.items():
        value = parameters.get(option)
        if option in parameters and not _is_idle(model, parameters, option):
            # A loss that somebody wrote may or may not favour some classes.
            sure = option not in _LOSSES or isinstance(value, str)
            yield Step(rule(model, value), f"{name}({option}={value!r})", sure)


def _hidden(model: Any) -> Iterator[Step]:
    """Yield the re-weighting inside an ensemble, whose effect on the ensemble is unknown."""
    if isinstance(model, CalibratedClassifierCV):
        return  # sigmoid and isotonic calibration return to the frequencies of the labels
    nested = model.get_params(deep=True).values() if hasattr(model, "get_params") else ()
    for part in {id(part): part for part in nested if hasattr(part, "get_params")}.values():
        part = part.estimator if isinstance(part, FrozenEstimator) else part
        for step in _own(part):
            yield Step(None, f"{step.words} inside {type(model).__name__}")


def _undetermined(words: str) -> rp.PriorError:
    return rp.PriorError(
        argument="source_prior",
        rule="must be given where the effective prior cannot be determined",
        got=[
            Setting("source_prior", "effective"),
            f" and {words}",
        ],
        remedy=(
            "Pass the class distribution that the model was trained on, as an array or "
            "as {class: probability}."
        ),
    )


# ------------------------------------------------------------------------------ the steps


def _transformed(part: Any, seen: Seen) -> Seen:
    return replace(seen, X=lambda: part.transform(seen.X()))


def _resampled(sampler: Any, seen: Seen) -> Seen:
    """Re-sample again, and count: the samples kept or added may depend on the data."""
    try:
        X, y = clone(sampler).fit_resample(seen.X(), seen.y)[:2]
    except Exception as error:  # a sampler of another library may raise anything
        raise _undetermined(f"{type(sampler).__name__}, which fails on these data") from error
    y = np.asarray(y)
    mass = class_mass(y, seen.classes) * seen.mean_weight
    return replace(seen, X=lambda: X, y=y, mass=mass)


def _encoded(seen: Seen) -> Seen:
    """Replace names by class indices, as some ensembles do for the classifiers inside."""
    return replace(seen, y=class_index(seen.y, seen.classes), classes=np.arange(seen.classes.size))


def _uniform(seen: Seen) -> Seen:
    return replace(seen, mass=np.ones(seen.classes.size), from_labels=False)


def _balanced_by_count(seen: Seen) -> Seen:
    return replace(seen, mass=seen.mean_weight, from_labels=False)


def _by_root(seen: Seen) -> Seen:
    return replace(seen, mass=np.sqrt(seen.mass))


def _weighed(weights: Any, seen: Seen) -> Seen:
    if isinstance(weights, Mapping):
        weights = [weights.get(name, 1.0) for name in seen.classes.tolist()]
    return replace(seen, mass=seen.mass * np.asarray(weights, dtype=np.float64))


def _given_prior(prior: Any, seen: Seen) -> Seen:
    return replace(seen, mass=np.asarray(prior, dtype=np.float64), from_labels=False)


def _weighed_in_order(order: Sequence[Any], weights: Any, seen: Seen) -> Seen:
    """Weigh the classes in the order of a model, which CatBoost lets users choose."""
    if set(order) == set(seen.classes.tolist()):
        weights = dict(zip(order, np.asarray(weights, np.float64).tolist(), strict=True))
    return _weighed(weights, seen)


def _of_two(act: Callable[[Seen], Seen], name: str, seen: Seen) -> Seen:
    if seen.classes.size != 2:
        raise _undetermined(f"{name} with {seen.classes.size} classes")
    return act(seen)


# ------------------------------------------------------------------ the parameters of steps


def _class_weight(model: Any, value: Any) -> Callable[[Seen], Seen] | None:
    if isinstance(value, str) and value in ("balanced", "balanced_subsample"):
        return _uniform if _balances_weights(model) else _balanced_by_count
    if isinstance(value, str):
        return None
    if isinstance(value, Mapping):
        return partial(_weighed, value)
    return partial(_weighed_in_order, _class_order(model), value)


def _balances_weights(model: Any) -> bool:
    """Tell whether "balanced" balances the sums of sample weights, not the counts of samples."""
    if isinstance(model, LogisticRegression | LogisticRegressionCV | LinearSVC):
        return True
    if not isinstance(model, RandomForestClassifier | ExtraTreesClassifier):
        return False
    # Forests of older versions of scikit-learn count.
    balance = getattr(model, "_validate_y_class_weight", None)
    return balance is not None and "sample_weight" in inspect.signature(balance).parameters


def _class_order(model: Any) -> list[Any]:
    """Return the classes in the order of the model's outputs; none of one that is not fitted."""
    classes = getattr(model, "classes_", None)
    return [] if classes is None else np.ravel(classes).tolist()


def _positive_weight(name: str, positive: bool) -> Callable[[Any, Any], Callable[[Seen], Seen]]:
    """Return the rule of a weight of the positive, or negative, one of two classes."""

    def rule(model: Any, value: float) -> Callable[[Seen], Seen]:
        weights = [1.0, value] if positive else [value, 1.0]
        act = partial(_weighed_in_order, _class_order(model), weights)
        return partial(_of_two, act, name)

    return rule


def _is_unbalance(model: Any, _: Any) -> Callable[[Seen], Seen]:
    if _library(model) == "lightgbm":
        return _balanced_by_count  # where it has an effect, see `_is_idle`
    return partial(_of_two, _balanced_by_count, "is_unbalance")


def _priors(model: Any, value: Any) -> Callable[[Seen], Seen] | None:
    if isinstance(model, NearestCentroid):  # its probabilities take another prior twice
        return _uniform if isinstance(value, str) and value == "uniform" else None
    return None if isinstance(value, str) else partial(_given_prior, value)


def _sampling(model: Any, value: Any) -> Callable[[Seen], Seen] | None:
    if not hasattr(model, "base_sampler_"):
        return None
    sampler = clone(model.base_sampler_).set_params(sampling_strategy=value)
    return partial(_resampled, sampler)


def _auto_class_weights(_: Any, value: Any) -> Callable[[Seen], Seen] | None:
    return {"Balanced": _uniform, "SqrtBalanced": _by_root}.get(value)


_LOSSES = ("objective", "loss_function")

#: LightGBM's names of the share of negative, and of positive, samples that a tree sees.
_NEGATIVE_SHARES = ("neg_bagging_fraction", "neg_sub_row", "neg_subsample", "neg_bagging")
_POSITIVE_SHARES = ("pos_bagging_fraction", "pos_sub_row", "pos_subsample", "pos_bagging")
_UNBALANCE = ("is_unbalance", "unbalance", "unbalanced_sets")

#: In the order in which they take effect.
_RULES: dict[str, Callable[[Any, Any], Callable[[Seen], Seen] | None]] = {
    "class_weight": _class_weight,  # scikit-learn, LightGBM
    "sampling_strategy": _sampling,  # imbalanced-learn's ensembles; forests weigh before that
    "class_weights": _class_weight,  # CatBoost
    "auto_class_weights": _auto_class_weights,
    **dict.fromkeys(_UNBALANCE, _is_unbalance),  # LightGBM
    "scale_pos_weight": _positive_weight("scale_pos_weight", True),  # all three
    **{name: _positive_weight(name, False) for name in _NEGATIVE_SHARES},
    **{name: _positive_weight(name, True) for name in _POSITIVE_SHARES},
    "fit_prior": lambda *_: _uniform,  # naive Bayes
    "class_prior": lambda _, value: partial(_given_prior, value),
    "priors": _priors,  # Gaussian naive Bayes, LDA, QDA, nearest centroid
    "target_prior": lambda *_: None,  # another correction of this kind
    **dict.fromkeys(_LOSSES, lambda *_: None),  # custom and focal losses
}

#: Values with which a parameter has no effect. None never has one.
_IDLE: dict[str, tuple[Any, ...]] = {
    "scale_pos_weight": (1,),
    **dict.fromkeys(_UNBALANCE, (False,)),
    **dict.fromkeys((*_NEGATIVE_SHARES, *_POSITIVE_SHARES), (1,)),
    "fit_prior": (True,),
    "auto_class_weights": ("None",),
}


def _is_idle(model: Any, parameters: Mapping[str, Any], name: str) -> bool:
    """Tell whether a parameter has no effect: by its value, or in this model."""
    value = parameters[name]
    if value is None or any(value is idle or value == idle for idle in _IDLE.get(name, ())):
        return True
    if name in _LOSSES:
        return isinstance(value, str) and not value.startswith("Focal")
    if name == "priors" and isinstance(model, NearestCentroid):
        return False
    library = _library(model)
    several = len(_class_order(model)) > 2
    if library == "xgboost":
        return name == "scale_pos_weight" and several
    if library != "lightgbm" or name not in _OF_TWO:
        return False
    objective = parameters.get("objective") or ("multiclass" if several else "binary")
    if name in (*_NEGATIVE_SHARES, *_POSITIVE_SHARES):
        strategies = {parameters.get(each) for each in ("boosting_type", "data_sample_strategy")}
        drawn = any(parameters.get(each) for each in ("bagging_freq", "subsample_freq"))
        return objective != "binary" or not drawn or "goss" in strategies
    return objective not in ("binary", "multiclassova", "multiclass_ova", "ova", "ovr")


#: LightGBM's parameters that only some of its objectives read.
_OF_TWO = ("scale_pos_weight", *_UNBALANCE, *_NEGATIVE_SHARES, *_POSITIVE_SHARES)


def _library(model: Any) -> str:
    """Return the boosting library that a model comes from, also by inheritance; or ""."""
    homes = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return next((home for home in homes if home in ("lightgbm", "xgboost")), "")


def class_index(y: Vector, classes: Vector) -> Vector:
    """Return the place in ``classes`` of every label; all labels must be among them."""
    order = np.argsort(classes)
    return np.asarray(order[np.searchsorted(classes, y, sorter=order)])


def class_mass(y: Vector, classes: Vector, sample_weight: Vector | None = None) -> Vector:
    """Return the number of samples of every class, or the sum of their weights."""
    counted = np.bincount(class_index(y, classes), sample_weight, minlength=classes.size)
    return counted.astype(np.float64)
