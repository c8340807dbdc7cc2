"""Slow, plain answers that the clever code is checked against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Vector = np.ndarray[Any, Any]

METRICS = (
    "accuracy",
    "balanced_accuracy",
    "mean_iou",
    "macro_precision",
    "macro_recall",
    "macro_f1",
)


def lines(scores: Any, slopes: Any, strengths: Any) -> Vector:
    """Return s_k(λ) = z_k + λ·w_k in float64, of shape (strengths, N, K).

    A class of slope −inf (target prior 0) is in play at λ = 0 alone.
    """
    z, w = np.asarray(scores, np.float64), np.asarray(slopes, np.float64)
    at = np.atleast_1d(np.asarray(strengths, np.float64))[:, None, None]
    with np.errstate(invalid="ignore"):
        return np.where(at == 0, z, z + at * w)


def predictions(scores: Any, slopes: Any, strengths: Any) -> Vector:
    """Return the class on top at every strength, of shape (strengths, N).

    A tie goes to the larger slope, then the larger score, then the lower index; λ = 0 is the
    model's own first arg max.
    """
    z, w = np.asarray(scores, np.float64), np.asarray(slopes, np.float64)
    at = np.atleast_1d(np.asarray(strengths, np.float64))
    s = lines(z, w, at)
    found = np.empty(s.shape[:2], np.int64)
    for row in range(z.shape[0]):
        by_rank = sorted(range(w.size), key=lambda k: (-w[k], -z[row, k], k))
        on_top = s[:, row] == s[:, row].max(axis=1, keepdims=True)
        found[:, row] = np.asarray(by_rank)[on_top[:, by_rank].argmax(axis=1)]
        found[at == 0, row] = z[row].argmax()
    return found


def clear_strengths(scores: Any, slopes: Any, strengths: Any, margin: float) -> Vector:
    """Return the strengths at which no two lines of different slopes are within ``margin``.

    Only the lines on top count: elsewhere nothing depends on which one is higher. Classes of
    equal slope keep their order at every strength and are never in doubt. λ = 0 is always clear.
    """
    w, at = np.asarray(slopes, np.float64), np.asarray(strengths, np.float64)
    s = lines(scores, slopes, at)
    winner = predictions(scores, slopes, at)
    own = np.take_along_axis(s, winner[..., None], axis=2)
    other = w[winner][..., None] != w
    close = (np.abs(s - own) <= margin) & other
    return at[(at == 0) | ~close.any(axis=(1, 2))]


def confusion(labels: Any, predicted: Any, n_classes: int, weights: Any = None) -> Vector:
    """Return how much weight of label i is predicted as j, summed one sample at a time."""
    matrix = np.zeros((n_classes, n_classes))
    amounts = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    for label, prediction, amount in zip(labels, predicted, amounts, strict=True):
        matrix[label, prediction] += amount
    return matrix


def metric(name: str, matrix: Vector) -> float:
    """Return a count metric of a confusion matrix by its definition."""
    if name == "accuracy":
        return float(np.trace(matrix) / matrix.sum())
    ratio: dict[str, Callable[[float, float, float], float]] = {
        "balanced_accuracy": lambda tp, p, s: tp / s,
        "macro_recall": lambda tp, p, s: tp / s,
        "mean_iou": lambda tp, p, s: tp / (s + p - tp),
        "macro_precision": lambda tp, p, s: tp / p if p else 0.0,
        "macro_f1": lambda tp, p, s: 2 * tp / (s + p),
    }
    only_labelled = name in ("balanced_accuracy", "macro_recall")
    values = []
    for k in range(matrix.shape[0]):
        tp, p, s = matrix[k, k], matrix[:, k].sum(), matrix[k].sum()
        if s > 0 or (p > 0 and not only_labelled):
            values.append(ratio[name](tp, p, s))
    return float(sum(values) / len(values))


def metrics_at(
    scores: Any, labels: Any, slopes: Any, strengths: Any, weights: Any = None
) -> dict[str, Vector]:
    """Return every metric at every strength, each from an arg max of its own."""
    found = predictions(scores, slopes, strengths)
    known: dict[bytes, list[float]] = {}
    for row in found:
        if row.tobytes() not in known:
            matrix = confusion(labels, row, np.shape(scores)[1], weights)
            known[row.tobytes()] = [metric(name, matrix) for name in METRICS]
    table = np.array([known[row.tobytes()] for row in found]).reshape(-1, len(METRICS))
    return {name: table[:, i] for i, name in enumerate(METRICS)}


def pareto(values_a: Any, values_b: Any) -> set[tuple[float, float]]:
    """Return the pairs that no other pair beats, by comparing each with each."""
    pairs = set(zip(map(float, values_a), map(float, values_b), strict=True))
    return {
        (a, b)
        for a, b in pairs
        if not any(c >= a and d >= b and (c, d) != (a, b) for c, d in pairs)
    }
