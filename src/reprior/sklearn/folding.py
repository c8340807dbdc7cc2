"""Fold a calibrator into the coefficients of a linear model."""

from __future__ import annotations

import copy
from typing import Any, TypeAlias

import numpy as np
from scipy.special import expit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import reprior as rp
from reprior.exceptions import Argument, Setting
from reprior.sklearn.rebalanced import RebalancedClassifierCV

__all__ = ["fold_into"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The attribute of a folded model that holds the calibrator.
MARK = "reprior_calibrator_"
#: The attribute that holds the folded intercepts: after a later ``fit`` they differ.
_INTERCEPT = "reprior_intercept_"

#: Posteriors of double and of single precision may differ by this much from the calibrator's.
_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}

#: Samples of the check, and their largest decision value: beyond it, posteriors are 0 or 1.
_SAMPLES = 256
_REACH = 8.0


def fold_into(
    estimator: Any, calibrator: rp.PosteriorCalibrator | None = None, *, map: str | None = None
) -> Any:
    r"""Return a linear classifier with the correction in its ``intercept_``.

    .. math:: b'_k = (b_k + λ\,w_k) / T, \qquad a'_k = a_k / T, \qquad
        w_k = \log P_t(k) - \log P_s(k)

    where a are the coefficients and b the intercepts, λ the calibrator's strength, T its
    temperature, P_s and P_t its source and target prior. ``predict``, ``predict_proba`` and
    ``decision_function`` of the new model are corrected, at the cost of the old one.

    Parameters
    ----------
    estimator : fitted classifier
        A linear one: LogisticRegression, LinearDiscriminantAnalysis, SGDClassifier, LinearSVC and
        the like; a pipeline that ends in one; or a RebalancedClassifierCV around one of these. It
        is not changed. Models whose probabilities are not the softmax, or for two classes the
        logistic function, of the decision function are refused.
    calibrator : PosteriorCalibrator, optional
        The calibrator to fold in, fitted on the model's probabilities, or on its decision function
        with ``kind="logits"``. For a RebalancedClassifierCV its own by default.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps. Required where there are two (``separate=True``).

    Returns
    -------
    estimator
        A new one of the same type; for a RebalancedClassifierCV, of the wrapped classifier's type.
        A second fold into it is refused until ``fit`` trains it again, without the correction.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from reprior.sklearn import RebalancedClassifierCV, fold_into
    >>> X, y = make_classification(weights=[0.9], random_state=0)
    >>> tuned = RebalancedClassifierCV(LogisticRegression()).fit(X, y)
    >>> plain = fold_into(tuned)
    >>> type(plain).__name__, bool((plain.predict(X) == tuned.predict(X)).all())
    ('LogisticRegression', True)
    """
    if isinstance(estimator, RebalancedClassifierCV):
        check_is_fitted(estimator, "calibrator_")
        calibrator = estimator.calibrator_ if calibrator is None else calibrator
        estimator = estimator.estimator_
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if not isinstance(calibrator, rp.PosteriorCalibrator):
        raise rp.OptionError(
            argument="calibrator",
            rule="must be a PosteriorCalibrator",
            got=type(calibrator).__name__,
            remedy=[
                "Pass a fitted one, or a RebalancedClassifierCV as ",
                Argument("estimator"),
                ".",
            ],
        )
    calibrator = calibrator.one_map(map)
    scale, bias = calibrator.as_affine()
    if calibrator.scales_ is not None:
        raise rp.OptionError(
            argument="calibrator",
            rule="must have one scale for all classes",
            got=[
                "a scale per class (",
                Setting("temperature", "vector"),
                ")",
            ],
            remedy=[
                "Fit it with ",
                Setting("temperature", "bcts"),
                ".",
            ],
        )
    check_is_fitted(estimator)
    folded = copy.deepcopy(estimator)
    inner = _last(folded)
    _check_model(inner)
    _check_classes(inner, calibrator)
    _check_kind(inner, calibrator)
    before = copy.deepcopy(inner)
    _change(inner, scale, bias)
    _check_parity(before, inner, scale, bias)
    setattr(inner, MARK, calibrator)
    setattr(inner, _INTERCEPT, np.array(inner.intercept_))
    return folded


def _last(estimator: Any) -> Any:
    """Return the classifier at the end of pipelines."""
    while isinstance(estimator, Pipeline | FrozenEstimator):
        estimator = (
            estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator.estimator
        )
    return estimator


def _check_model(model: Any) -> None:
    if hasattr(model, MARK) and np.array_equal(getattr(model, _INTERCEPT, ()), model.intercept_):
        raise rp.OptionError(
            argument="estimator",
            rule="must not hold a calibrator yet",
            got="one that a calibrator was folded into",
            remedy="Fold into the model as it was trained.",
        )
    if not isinstance(model, LinearClassifierMixin) or not hasattr(model, "coef_"):
        raise rp.OptionError(
            argument="estimator",
            rule="must be a linear model, so that its intercept_ can hold the correction",
            got=type(model).__name__,
            remedy=(
                "For boosted trees of LightGBM, XGBoost or CatBoost use "
                "reprior.boosting.fold_into; keep another model in a RebalancedClassifierCV, or "
                "export it and use reprior.onnx.fold."
            ),
        )


def _check_classes(model: Any, calibrator: rp.PosteriorCalibrator) -> None:
    model_classes = np.asarray(model.classes_).tolist()
    classes = calibrator.classes_.tolist()
    are_names = classes != list(range(len(classes)))
    if len(model_classes) != len(classes) or (are_names and model_classes != classes):
        raise rp.OptionError(
            argument="calibrator",
            rule=f"must have the classes of the estimator, {model_classes}",
            got=f"{classes}",
            remedy="Fit it again with classes=estimator.classes_.",
        )


def _check_kind(model: Any, calibrator: rp.PosteriorCalibrator) -> None:
    if not hasattr(model, "predict_proba") and calibrator.kind != "logits":
        raise rp.OptionError(
            argument="calibrator",
            rule=(
                "must be fitted on the decision function of a model without probabilities, "
                f"{type(model).__name__}"
            ),
            got=Setting("kind", calibrator.kind),
            remedy=[
                "Fit it on decision_function(X) with ",
                Setting("kind", "logits"),
                ".",
            ],
        )


def _change(model: Any, scale: float, bias: Vector) -> None:
    single = model.coef_.ndim == 1 or model.coef_.shape[0] == 1
    more = np.array([bias[1] - bias[0]]) if single else bias
    dtype = np.result_type(model.coef_.dtype)
    model.intercept_ = (scale * np.asarray(model.intercept_) + more).astype(dtype)
    if scale != 1.0:
        model.coef_ = (scale * model.coef_).astype(dtype)


def _check_parity(before: Any, after: Any, scale: float, bias: Vector) -> None:
    """Refuse a model whose probabilities or labels do not follow from its decision function."""
    X = _samples(before)
    decision = np.asarray(before.decision_function(X), np.float64)
    if decision.ndim == 1:
        odds = scale * decision + (bias[1] - bias[0])
        wanted = np.stack([expit(-odds), expit(odds)], 1)
        plain = np.stack([expit(-decision), expit(decision)], 1)
    else:
        wanted = softmax(scale * decision + bias, axis=1)
        plain = softmax(decision, axis=1)
    tolerance = _TOLERANCE.get(np.dtype(before.coef_.dtype), 1e-5)
    top = np.sort(wanted, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * tolerance
    labels = np.asarray(before.classes_)[wanted.argmax(1)]
    same = (after.predict(X) == labels)[clear].all()
    if hasattr(before, "predict_proba"):
        same = same and np.abs(before.predict_proba(X) - plain).max() <= tolerance
        same = same and np.abs(after.predict_proba(X) - wanted).max() <= tolerance
    if not same:
        raise rp.OptionError(
            argument="estimator",
            rule=(
                "must take its probabilities from its decision function by softmax, or for "
                "two classes by the logistic function"
            ),
            got=f"{type(before).__name__}, which does not, such as one-vs-rest models",
            remedy="Keep it in a RebalancedClassifierCV.",
        )


def _samples(model: Any) -> Vector:
    """Return random samples whose decision values are small enough to distinguish models."""
    X = np.random.default_rng(0).standard_normal((_SAMPLES, model.coef_.shape[-1]))
    spread = np.abs(np.asarray(model.decision_function(X)) - np.asarray(model.intercept_)).max()
    return np.asarray(X * min(1.0, _REACH / max(float(spread), 1e-300)))
