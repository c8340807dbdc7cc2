"""Fold a calibrator into a booster, and prove on data that it predicts the same."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import numpy as np

import reprior as rp
from reprior.boosting.trees import BEHIND, Trees, Vector, refused
from reprior.exceptions import Argument, FoldError, LikelyProbabilitiesWarning, Setting

__all__ = ["fold_into"]

#: Library → the class that reads its boosters.
_LIBRARIES = {"lightgbm": "LightGBMTrees", "xgboost": "XGBoostTrees", "catboost": "CatBoostTrees"}

_N_SAMPLES = 512


def fold_into(
    model: Any,
    calibrator: rp.PosteriorCalibrator | None = None,
    *,
    inputs: Any = None,
    map: str | None = None,
) -> Any:
    r"""Return a copy of a boosted model that predicts corrected probabilities itself.

    .. math:: z'_k = (z_k + λ\,w_k) / T, \qquad w_k = \log P_t(k) - \log P_s(k)

    where z are the model's raw scores, λ the calibrator's strength, T its temperature, P_s and
    P_t its source and target prior. LightGBM and XGBoost get it in their leaf values, CatBoost in
    its scale and bias. ``predict`` and ``predict_proba`` of the copy are corrected, at the cost of
    the original. It is saved, loaded and served by its own library, without reprior.

    Parameters
    ----------
    model : fitted LightGBM, XGBoost or CatBoost classifier
        A Booster, CatBoost model, or scikit-learn wrapper of one of them; a pipeline that ends in
        a wrapper; or a RebalancedClassifierCV around one of these. It is not changed.
    calibrator : PosteriorCalibrator, optional
        Fitted on the model's probabilities, or on its raw scores with ``kind="logits"``. For a
        RebalancedClassifierCV its own by default.
    inputs : array or frame, optional
        Samples to compare on, as ``predict`` takes them; by default generated ones.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps. Required where there are two (``separate=True``).

    Returns
    -------
    model
        A new one of the same type; for a RebalancedClassifierCV, of the wrapped classifier's. It
        is compared with the calibrator behind the original: a copy that differs is not returned.
        A second fold into it is refused, also after it was saved and loaded.

    Raises
    ------
    FoldError
        If the correction does not go in: DART, linear trees, custom and one-against-all
        objectives, a model of other classes, one that is folded already.

    Notes
    -----
    A temperature scales all trees. CatBoost does not compute SHAP values of a model whose scale
    is not 1; LightGBM's and XGBoost's stay sums of the corrected raw scores. Training that
    continues from the copy undoes the correction: continue from the original. Samples with a
    margin of their own (``base_margin`` of XGBoost, ``init_score``) are not divided by the
    temperature in that part, and a prediction that leaves out the first trees lacks the shift.

    Examples
    --------
    >>> import lightgbm  # doctest: +SKIP
    >>> from reprior.boosting import fold_into
    >>> tuned = RebalancedClassifierCV(lightgbm.LGBMClassifier()).fit(X, y)  # doctest: +SKIP
    >>> model = fold_into(tuned)  # doctest: +SKIP
    >>> model.booster_.save_model("corrected.txt")  # doctest: +SKIP
    """
    if hasattr(model, "calibrator_") and hasattr(model, "estimator_"):
        calibrator = model.calibrator_ if calibrator is None else calibrator
        model = model.estimator_
    while type(model).__name__ == "FrozenEstimator":
        model = model.estimator
    calibrator = _checked_calibrator(calibrator, map)
    last, inputs = _last(model, inputs)
    trees = _trees(last)
    _check_unfolded(trees)
    _check_classes(last, trees, calibrator)
    scale, shift = _raw_map(calibrator, trees)
    mark = f"strength {calibrator.strength_:.6g}, temperature {calibrator.temperature_:.6g}"
    folded = trees.mapped(scale, shift, mark)
    if inputs is None:
        inputs = trees.samples(np.random.default_rng(0), _N_SAMPLES)
    _check_parity(trees, folded, calibrator, inputs)
    # Wrappers and pipelines are copied around the new booster.
    return copy.deepcopy(model, {id(trees.booster): folded.booster})


def _checked_calibrator(calibrator: Any, which: str | None) -> rp.PosteriorCalibrator:
    if not isinstance(calibrator, rp.PosteriorCalibrator):
        raise FoldError(
            argument="calibrator",
            rule="must be a PosteriorCalibrator",
            got=type(calibrator).__name__,
            remedy=[
                "Pass a fitted one, reprior.load(path), or a RebalancedClassifierCV as ",
                Argument("model"),
                ".",
            ],
        )
    one = calibrator.one_map(which)
    if not np.isfinite(one.as_affine()[1]).all():
        raise FoldError(
            argument="calibrator",
            rule="must leave every class possible, as leaves are finite numbers",
            got="a target prior of 0",
            remedy=BEHIND,
        )
    return one


def _last(model: Any, inputs: Any) -> tuple[Any, Any]:
    """Return the classifier at the end of pipelines, and the inputs as it gets them."""
    while hasattr(model, "steps") or type(model).__name__ == "FrozenEstimator":
        if not hasattr(model, "steps"):
            model = model.estimator
            continue
        if inputs is not None:
            inputs = model[:-1].transform(inputs)
        model = model.steps[-1][1]
    return model, inputs


def _trees(model: Any) -> Trees:
    """Return the booster of a model of one of the libraries."""
    homes = [kind.__module__.partition(".")[0] for kind in type(model).__mro__]
    library = next((home for home in homes if home in _LIBRARIES), None)
    if library is None:
        raise refused(
            "must be a LightGBM, XGBoost or CatBoost model",
            type(model).__name__,
            "For a linear model use reprior.sklearn.fold_into, for another one reprior.onnx.fold.",
        )
    if callable(getattr(model, "objective", None)):
        raise refused(
            "must have an objective of its library's own",
            "a custom objective: the model does not say how probabilities follow from its raw "
            "scores",
        )
    booster = model
    if library == "lightgbm":
        booster = getattr(model, "_Booster", model)
    if library == "xgboost" and hasattr(model, "get_booster"):
        booster = getattr(model, "_Booster", None)
    if booster is None:
        raise refused("must be fitted", "one that is not", "Train it first.")
    kind: type[Any] = getattr(
        importlib.import_module(f"reprior.boosting.{library}"), _LIBRARIES[library]
    )
    trees: Trees = kind(booster)
    return trees


def _check_unfolded(trees: Trees) -> None:
    if trees.mark is not None:
        raise refused(
            "must not hold a calibrator yet",
            f"one that a calibrator was folded into ({trees.mark})",
            "Fold into the model as it was trained.",
        )


def _check_classes(model: Any, trees: Trees, calibrator: rp.PosteriorCalibrator) -> None:
    classes = calibrator.classes_.tolist()
    if trees.n_classes != len(classes):
        raise FoldError(
            argument="calibrator",
            rule=f"must have the {trees.n_classes} classes of the model",
            got=f"{len(classes)}",
            remedy="Fit it on this model's scores.",
        )
    names = getattr(model, "classes_", None)
    names = classes if names is None or not len(names) else np.asarray(names).tolist()
    indices = list(range(len(classes)))
    permuted = classes != names and set(classes) == set(names)
    if permuted or (indices not in (classes, names) and classes != names):
        raise FoldError(
            argument="calibrator",
            rule=f"must have the classes of the model, {names}",
            got=f"{classes}",
            remedy="Fit it again with classes=model.classes_.",
        )


def _raw_map(calibrator: rp.PosteriorCalibrator, trees: Trees) -> tuple[Vector, Vector]:
    """Return (scale, shift) of raw scores, so that the library predicts the posterior."""
    scale, bias = calibrator.as_affine()
    logits = calibrator.kind == "logits"
    if np.ndim(scale) and not logits:
        raise FoldError(
            argument="calibrator",
            rule=[
                "must be fitted on raw scores where it has a scale per class (",
                Setting("temperature", "vector"),
                ")",
            ],
            got=Setting("kind", calibrator.kind),
            remedy=["Fit it with ", Setting("temperature", "bcts"), "."],
        )
    scales = np.broadcast_to(scale, bias.shape).astype(np.float64)
    if trees.n_outputs == 1:  # one score, that of class 1; the other's is 0
        scales, bias = scales[1:], bias[1:] - bias[:1]
    # A calibrator of logits takes raw scores as they are, without the slope of their link.
    return scales / (trees.slope if logits else 1.0), bias / trees.slope


def _check_parity(
    trees: Trees, folded: Trees, calibrator: rp.PosteriorCalibrator, inputs: Any
) -> None:
    """Refuse a copy that does not predict what the calibrator makes of the original's scores."""
    raw = trees.raw(inputs)
    plain = _log_probabilities(raw, trees.slope)
    given = trees.probabilities(inputs)
    if given is not None and np.abs(_columns(given) - np.exp(plain)).max() > trees.tolerance:
        raise refused(
            "must take its probabilities from its raw scores by softmax, or for two classes by "
            "the logistic function",
            f"a {trees.library} model that does not",
        )
    # From log-probabilities in float64: those of the library may round to 0 or 1.
    scores = raw if calibrator.kind == "logits" else plain
    kind = "logits" if calibrator.kind == "logits" else "log_probs"
    placed = copy.copy(calibrator)
    placed.kind, placed.class_axis = kind, -1
    placed.classes_ = np.arange(trees.n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LikelyProbabilitiesWarning)  # raw scores by their name
        wanted = _columns(np.asarray(placed.predict_proba(scores)))
    got = folded.probabilities(inputs)
    if got is None:
        got = np.exp(_log_probabilities(folded.raw(inputs), folded.slope))
    got = _columns(got)
    worst = float(np.abs(got - wanted).max())
    tolerance = max(trees.tolerance, folded.tolerance)
    top = np.sort(wanted, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * tolerance
    n_wrong = int((clear & (got.argmax(1) != wanted.argmax(1))).sum())
    if n_wrong or not worst <= tolerance:
        raise FoldError(
            f"The folded model must predict what the calibrator does. Got a difference of "
            f"{worst:.3g} in a posterior and {n_wrong} of {len(wanted)} other labels, where "
            f"{tolerance:.1g} is rounding. {BEHIND}"
        )


def _log_probabilities(raw: Vector, slope: float) -> Vector:
    """Return the log-probabilities (N, K) of raw scores."""
    z = raw * slope
    columns = np.stack([np.zeros_like(z), z], axis=1) if z.ndim == 1 else z
    return columns - np.logaddexp.reduce(columns, axis=1, keepdims=True)


def _columns(probabilities: Vector) -> Vector:
    """Return probabilities (N, K), where (N,) are those of class 1."""
    if probabilities.ndim == 2:
        return probabilities
    return np.stack([1.0 - probabilities, probabilities], axis=1)
