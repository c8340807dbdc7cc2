"""The strength of least log-loss, with the labels weighted to the target prior."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.importance import class_importance, class_support
from reprior.profile.passes import HOST_BLOCK
from reprior.profile.reading import Reading

__all__ = ["log_loss_strength"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Newton stops at a step this small: the next error is of its square.
STEP_TOLERANCE = 1e-7

#: Bisection alone would need this many to get there from any bounds.
MAX_ITERATIONS = 60


class _Slope(NamedTuple):
    """The first and second derivative of the log-loss by the strength."""

    slope: float
    curvature: float


def log_loss_strength(reading: Reading) -> float:
    r"""The strength within the bounds at which the posterior has the least log-loss.

    .. math:: \min_λ \; \sum_i v_i \frac{P_t(y_i)}{P_l(y_i)}
        \Bigl( \log \sum_k e^{z_{ik} + λ w_k} - z_{i y_i} - λ w_{y_i} \Bigr)

    with the log-scores z, the slopes w = log P_t − log P_s, the weights v, and the prior P_l that
    the labels follow: their own frequencies, unless the reading knows better. It is convex in λ,
    with the slope E[w] − w_y and the curvature Var[w] under the posterior. A sample whose own
    class is impossible, whatever λ is, says nothing.

    Parameters
    ----------
    reading : Reading
        Scores, labels, priors and bounds.
    """
    ratio = _importance(reading)
    low, high = reading.bounds
    if _derivatives(reading, ratio, low).slope >= 0.0:
        return low
    if _derivatives(reading, ratio, high).slope <= 0.0:
        return high
    at = min(max(1.0, low), high)
    for _ in range(MAX_ITERATIONS):
        here = _derivatives(reading, ratio, at)
        low, high = (at, high) if here.slope < 0.0 else (low, at)
        after = at - here.slope / here.curvature if here.curvature > 0.0 else np.inf
        if not low <= after <= high:  # Newton has left the bracket
            after = (low + high) / 2
        step, at = abs(after - at), after
        if step <= STEP_TOLERANCE:
            break
    return float(at)


def _importance(reading: Reading) -> Vector:
    """P_t / P_l of every class; 0 for one without labels."""
    rows = reading.rows
    weight = np.ones(rows.labels.shape) if rows.weights is None else rows.weights
    left_out = rows.left_out()
    if left_out is not None:
        weight = np.where(left_out, 0.0, weight)
    return class_importance(
        class_support(rows.labels, weight, rows.n_classes),
        target_prior=reading.target_prior,
        label_prior=reading.label_prior,
    )


def _derivatives(reading: Reading, ratio: Vector, strength: float) -> _Slope:
    rows, active = reading.rows, np.isfinite(reading.slopes)
    w, column = reading.slopes[active], np.cumsum(active) - 1
    total = np.zeros(2)
    for index in rows.blocks(HOST_BLOCK):
        block = rows.read(index)
        if not block.labels.size:
            continue
        z = to_numpy(block.scores).astype(np.float64)[:, active]
        own = column[block.labels]
        possible = active[block.labels] & np.isfinite(z[np.arange(own.size), own])
        weight = ratio[block.labels] * possible
        if block.weights is not None:
            weight = weight * block.weights
        lines = z + strength * w
        p = np.exp(lines - lines.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mean = p @ w
        total += (weight @ (mean - w[own]), weight @ (p @ w**2 - mean**2))
    return _Slope(*total.tolist())
