"""Scores of a classifier, one column per class, and those of models that did not see the sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

import reprior as rp
from reprior._warnings import warn
from reprior.exceptions import Argument, Setting, parts
from reprior.sklearn.routing import training_weight

if TYPE_CHECKING:
    from reprior.sklearn.training import Training

__all__ = [
    "KIND_OF",
    "OutOfFold",
    "Trained",
    "class_columns",
    "explain_refusals",
    "inner_model",
    "out_of_fold",
    "response_name",
    "split",
    "train_on",
]


Vector: TypeAlias = np.ndarray[Any, Any]

#: The kind of each method's scores. It follows from the method, never from the values.
KIND_OF = {
    "predict_log_proba": "log_probs",
    "predict_proba": "probs",
    "decision_function": "logits",
}

#: The methods that "auto" tries. Logarithms first: naive Bayes and others compute them without
#: underflow. Decision functions are left out, because they need not be log-posteriors.
_AUTO = ("predict_log_proba", "predict_proba")

_IMPOSSIBLE = {"log_probs": -np.inf, "probs": 0.0, "logits": -np.inf}


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Scores of every test sample of every fold, fold after fold, by one training."""

    scores: Vector
    index: Vector  # the sample of each row of scores
    sizes: list[int]  # number of test samples of each fold
    models: list[Any]  # of every fold where they are kept, else of the first one


@dataclass(frozen=True, eq=False)
class Trained:
    """A fitted model and its training data; for a frozen one, the data given to ``fit``."""

    model: Any
    X: Any
    y: Vector
    sample_weight: Vector | None


def response_name(estimator: Any, response_method: Any) -> str:
    """Return the method to take scores from; an error that says what is missing."""
    if response_method != "auto" and response_method not in KIND_OF:
        raise rp.OptionError(
            argument="response_method",
            rule=f"must be 'auto' or one of {', '.join(map(repr, KIND_OF))}",
            got=f"{response_method!r}",
            remedy="Leave it at 'auto' for the class probabilities.",
        )
    wanted = _AUTO if response_method == "auto" else (response_method,)
    available = [name for name in wanted if hasattr(estimator, name)]
    if hasattr(estimator, "fit") and available:
        return available[0]
    remedy = "Pass a classifier instance."
    library = _booster_library(estimator)
    if library:
        classifier = {"xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}[library]
        remedy = (
            f"A Booster has neither: pass {library}.{classifier}(…), or tune on what its predict "
            f"gives: PosteriorCalibrator(source_prior, kind='probs').fit(booster.predict(…), y)."
        )
    elif hasattr(estimator, "decision_function"):
        remedy = (
            "Wrap it in CalibratedClassifierCV; or pass response_method='decision_function' if "
            "its decision function is a log-posterior up to a constant, as a logistic model's is."
        )
    raise rp.OptionError(
        argument="estimator",
        rule=[
            "must have ",
            Argument("fit"),
            f" and {' or '.join(f'`{name}`' for name in wanted)}",
        ],
        got=f"{estimator!r}",
        remedy=remedy,
    )


def _booster_library(estimator: Any) -> str | None:
    """Return the library of a Booster, also of a frozen one; None for everything else."""
    booster = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    library = type(booster).__module__.partition(".")[0]
    is_booster = type(booster).__name__ == "Booster" and library in ("xgboost", "lightgbm")
    return library if is_booster else None


def class_columns(estimator: Any, X: Any, *, method: str, classes: Vector) -> Vector:
    """Return the scores of a fitted classifier, shape (N, K), columns in the order of ``classes``.

    A class that the classifier was not trained on has probability 0.
    """
    with np.errstate(divide="ignore"):  # the logarithm of a probability of 0 is −inf
        values = np.asarray(getattr(estimator, method)(X))
    known_classes = np.asarray(estimator.classes_)
    if method == "decision_function" and known_classes.size == 2 and values.size == len(values):
        # One score per sample is the log-odds of the second class.
        values = np.column_stack([np.zeros_like(values), values])
    _check_shape(estimator, values, known_classes.size, method)
    if np.array_equal(known_classes, classes):
        return values
    place = {name: k for k, name in enumerate(classes.tolist())}
    columns = np.full((len(values), classes.size), _IMPOSSIBLE[KIND_OF[method]], values.dtype)
    columns[:, [place[name] for name in known_classes.tolist()]] = values
    return columns


@contextmanager
def explain_refusals(estimator: Any, method: str, scores: Vector) -> Iterator[None]:
    """Replace the advice to pass ``kind``, which the estimator and its method determine."""
    try:
        yield
    except rp.ScoresError as error:
        if not any(
            isinstance(part, Setting) and part.name == "kind" for part in parts(error.remedy)
        ):
            raise
        refusal = error.mapped(lambda part: part)
        refusal.remedy = [
            f"They come from {method} of {type(estimator).__name__}. Repair its {method}, or pass "
            f"another ",
            Argument("response_method"),
            ".",
        ]
        if scores.dtype.itemsize < np.dtype(np.float64).itemsize:
            refusal.remedy = (
                f"They come from {method} of {type(estimator).__name__}. Pass X in double "
                f"precision, X.astype(np.float64): it gave {scores.dtype}."
            )
        raise refusal from error


def _check_shape(estimator: Any, values: Vector, n_classes: int, method: str) -> None:
    pairs = method == "decision_function" and n_classes > 2 and _scores_pairs(estimator)
    if values.ndim != 2 or values.shape[1] != n_classes or pairs:
        raise rp.ScoresError(
            [
                (
                    f"`{method}` must give one score per class. Got shape {values.shape} for "
                    f"{n_classes} classes{', a score per pair of classes' if pairs else ''}. "
                    "Pass another "
                ),
                Argument("response_method"),
                f"{', or decision_function_shape=ovr to the SVC' if pairs else ''}.",
            ],
        )


def _scores_pairs(model: Any) -> bool:
    """Tell whether a support vector machine scores pairs of classes: 3 of these for K = 3, too."""
    while (inside := inner_model(model)) is not None:
        model = inside
    return getattr(model, "decision_function_shape", None) == "ovo"


def inner_model(model: Any) -> Any:
    """Return the fitted classifier whose scores are those of ``model``; None if that is itself."""
    if isinstance(model, FrozenEstimator):
        return model.estimator
    if isinstance(model, Pipeline):
        return model.steps[-1][1]
    if isinstance(model, TunedThresholdClassifierCV | FixedThresholdClassifier):
        return model.estimator_
    return getattr(model, "best_estimator_", None)


def split(
    cv: Any, X: Any, y: Vector, *, random_state: Any, params: dict[str, Any]
) -> list[tuple[Vector, Vector]]:
    """Return the training and test samples of every fold; of one split for a float."""
    if isinstance(cv, Real) and not isinstance(cv, Integral):
        cv = StratifiedShuffleSplit(1, test_size=cv, random_state=random_state)
    return list(check_cv(cv, y, classifier=True).split(X, y, **params))


def train_on(
    training: Training, X: Any, y: Vector, *, index: Any = None, fit_params: dict[str, Any]
) -> Trained:
    """Train a clone of the estimator on the samples of ``index``, or on all."""
    if index is not None:
        fit_params = _check_method_params(X, fit_params, indices=index)
        X, y = _safe_split(training.estimator, X, y, index)
    model = training.fit(X, y, fit_params)
    weight = training_weight(model, fit_params)  # after the fit, in which a search has chosen
    return Trained(model, X, y, None if weight is None else np.asarray(weight, np.float64))


def out_of_fold(
    trainings: Sequence[Training],
    X: Any,
    y: Vector,
    *,
    splits: list[tuple[Vector, Vector]],
    classes: Vector,
    method: str,
    fit_params: dict[str, Any],
    keep_models: bool,
    n_jobs: int | None,
) -> list[OutOfFold]:
    """Train on each fold's training part and score its test part, by each of the trainings.

    The folds are the same for all trainings. Models are kept for all folds, or for the first one.
    """
    results = Parallel(n_jobs=n_jobs)(
        delayed(_score_fold)(
            training,
            X,
            y,
            train,
            test,
            classes,
            method,
            fit_params,
            keep_models or fold == 0,
        )
        for training in trainings
        for fold, (train, test) in enumerate(splits)
    )
    index = np.concatenate([_indices(test) for _, test in splits])
    found = []
    for start in range(0, len(results), len(splits)):
        scores, trained_on, models = zip(*results[start : start + len(splits)], strict=True)
        if start == 0:
            _warn_of_missing_classes(trained_on, classes)
        kept = [model for model in models if model is not None]
        found.append(OutOfFold(np.concatenate(scores), index, [len(each) for each in scores], kept))
    return found


def _score_fold(
    training: Training,
    X: Any,
    y: Vector,
    train: Vector,
    test: Vector,
    classes: Vector,
    method: str,
    fit_params: dict[str, Any],
    keep: bool,
) -> tuple[Vector, Vector, Any]:
    """Return the scores of the test part, the classes of the training part, and the model."""
    model = train_on(training, X, y, index=train, fit_params=fit_params).model
    X_test, _ = _safe_split(model, X, None, test, train)
    scores = class_columns(model, X_test, method=method, classes=classes)
    return scores, np.asarray(model.classes_), model if keep else None


def _indices(test: Any) -> Vector:
    test = np.asarray(test)
    return np.flatnonzero(test) if test.dtype == bool else test


def _warn_of_missing_classes(trained_on: tuple[Vector, ...], classes: Vector) -> None:
    for fold, fold_classes in enumerate(trained_on):
        missing = [name for name in classes.tolist() if name not in set(fold_classes.tolist())]
        if missing:
            warn(
                f"Fold {fold} of {len(trained_on)} trains without class {missing[0]!r}"
                f"{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}, and so cannot "
                f"predict it: its test samples count as errors at every strength. Use fewer "
                f"folds, or stratified ones."
            )
