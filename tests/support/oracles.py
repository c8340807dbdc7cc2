"""Slow, plain implementations that the library is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Vector = np.ndarray[Any, Any]

METRICS = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "macro_fbeta(2)",
    "macro_precision",
    "macro_recall",
    "mean_iou",
    "mcc",
    "cohen_kappa",
    "gmean",
    "hmean",
    "informedness",
    "recall_macro",
    "weighted_f1",
    "weighted_iou",
    "weighted_precision",
    "worst_recall",
)


def lines(scores: Any, slopes: Any, strengths: Any) -> Vector:
    """Return s_k(λ) = z_k + λ·w_k in float64, of shape (strengths, N, K); slopes (K,) or (N, K).

    A class of slope −inf (target prior 0) can win at λ = 0 only.
    """
    z, w = np.asarray(scores, np.float64), np.asarray(slopes, np.float64)
    at = np.atleast_1d(np.asarray(strengths, np.float64))[:, None, None]
    with np.errstate(invalid="ignore"):
        return np.where(at == 0, z, z + at * w)


def predictions(scores: Any, slopes: Any, strengths: Any) -> Vector:
    """Return the class on top at every strength, of shape (strengths, N).

    A tie goes to the larger slope, then the larger score, then the lower index; λ = 0 is the
    model's first arg max.
    """
    z = np.asarray(scores, np.float64)
    w = np.broadcast_to(np.asarray(slopes, np.float64), z.shape)
    at = np.atleast_1d(np.asarray(strengths, np.float64))
    s = lines(z, w, at)
    found = np.empty(s.shape[:2], np.int64)
    for row in range(z.shape[0]):
        by_rank = sorted(range(w.shape[1]), key=lambda k: (-w[row, k], -z[row, k], k))
        on_top = s[:, row] == s[:, row].max(axis=1, keepdims=True)
        found[:, row] = np.asarray(by_rank)[on_top[:, by_rank].argmax(axis=1)]
        found[at == 0, row] = z[row].argmax()
    return found


def clear_strengths(scores: Any, slopes: Any, strengths: Any, margin: float) -> Vector:
    """Return the strengths at which no two lines of different slopes are within ``margin``.

    Only the lines on top count: elsewhere nothing depends on which one is higher. Classes of
    equal slope keep their order at every strength and are never in doubt. λ = 0 is always clear.
    """
    s = lines(scores, slopes, at := np.asarray(strengths, np.float64))
    w = np.broadcast_to(np.asarray(slopes, np.float64), s.shape)
    winner = predictions(scores, slopes, at)[..., None]
    own = np.take_along_axis(s, winner, axis=2)
    other = np.take_along_axis(w, winner, axis=2) != w
    close = (np.abs(s - own) <= margin) & other
    return at[(at == 0) | ~close.any(axis=(1, 2))]


def confusion(labels: Any, predicted: Any, n_classes: int, weights: Any = None) -> Vector:
    """Return how much weight of label i is predicted as j, summed one sample at a time."""
    matrix = np.zeros((n_classes, n_classes))
    amounts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    for label, prediction, amount in zip(labels, predicted, amounts, strict=True):
        matrix[label, prediction] += amount
    return matrix


#: The ratio of one class, from its true positives, predictions and labels.
RATIOS: dict[str, Callable[[float, float, float], float]] = {
    "recall": lambda tp, p, s: tp / s if s else 0.0,
    "precision": lambda tp, p, s: tp / p if p else 0.0,
    "iou": lambda tp, p, s: tp / (s + p - tp),
    "f1": lambda tp, p, s: 2 * tp / (s + p),
    "fbeta(2)": lambda tp, p, s: 5 * tp / (4 * s + p),
}

#: Means over classes: the ratio, and over which classes.
MEANS = {
    "balanced_accuracy": ("recall", "labelled"),
    "macro_recall": ("recall", "labelled"),
    "recall_macro": ("recall", "seen"),
    "mean_iou": ("iou", "seen"),
    "macro_precision": ("precision", "seen"),
    "macro_f1": ("f1", "seen"),
    "macro_fbeta(2)": ("fbeta(2)", "seen"),
    "weighted_f1": ("f1", "weighted"),
    "weighted_precision": ("precision", "weighted"),
    "weighted_iou": ("iou", "weighted"),
    "gmean": ("recall", "labelled"),
    "hmean": ("recall", "labelled"),
    "worst_recall": ("recall", "labelled"),
    "informedness": ("recall", "labelled"),
}


def metric(name: str, matrix: Vector) -> float:
    """Return a count metric of a confusion matrix by its definition."""
    if name in ("accuracy", "mcc", "cohen_kappa"):
        return agreement(name, matrix)
    ratio, over = MEANS[name]
    values, weights = [], []
    for k in range(matrix.shape[0]):
        tp, p, s = matrix[k, k], matrix[:, k].sum(), matrix[k].sum()
        if s > 0 or (p > 0 and over == "seen"):
            values.append(RATIOS[ratio](tp, p, s))
            weights.append(s if over == "weighted" else 1.0)
    if name == "worst_recall":
        return float(min(values))
    if name in ("gmean", "hmean") and 0 in values:
        return 0.0
    if name == "gmean":
        return float(np.exp(np.mean(np.log(values))))
    if name == "hmean":
        return float(1 / np.mean(1 / np.array(values)))
    mean = float(np.average(values, weights=weights))
    n_classes = matrix.shape[0]
    return (n_classes * mean - 1) / (n_classes - 1) if name == "informedness" else mean


def agreement(name: str, matrix: Vector) -> float:
    """Return accuracy, Cohen's kappa or Matthews' correlation of a confusion matrix."""
    share = matrix / matrix.sum()
    accuracy = float(np.trace(share))
    if name == "accuracy":
        return accuracy
    labels, predictions = share.sum(axis=1), share.sum(axis=0)
    chance = float(labels @ predictions)
    if name == "cohen_kappa":
        if (labels > 0).sum() == (predictions > 0).sum() == 1 and (labels * predictions).any():
            return 0.0
        return (accuracy - chance) / (1 - chance)
    if min((labels > 0).sum(), (predictions > 0).sum()) == 1:
        return 0.0
    below = (1 - labels @ labels) * (1 - predictions @ predictions)
    return float((accuracy - chance) / np.sqrt(below))


def metrics_at(
    scores: Any, labels: Any, slopes: Any, strengths: Any, weights: Any = None
) -> dict[str, Vector]:
    """Return every metric at every strength, each from a separate arg max."""
    found = predictions(scores, slopes, strengths)
    known: dict[bytes, list[float]] = {}
    for row in found:
        if row.tobytes() not in known:
            matrix = confusion(labels, row, np.shape(scores)[1], weights)
            known[row.tobytes()] = [metric(name, matrix) for name in METRICS]
    table = np.array([known[row.tobytes()] for row in found]).reshape(-1, len(METRICS))
    return {name: table[:, i] for i, name in enumerate(METRICS)}


def pareto(values_a: Any, values_b: Any) -> set[tuple[float, float]]:
    """Return the pairs that no other pair dominates, by comparing all pairs."""
    pairs = set(zip(map(float, values_a), map(float, values_b), strict=True))
    return {
        (a, b)
        for a, b in pairs
        if not any(c >= a and d >= b and (c, d) != (a, b) for c, d in pairs)
    }
