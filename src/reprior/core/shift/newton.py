r"""The target prior by maximum likelihood where EM is slow: Newton's method.

Where the scores hardly distinguish some classes, the likelihood is nearly flat between them, and
EM's steps shrink by a factor close to 1. Second derivatives show how far away the maximum is.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift import em
from reprior.core.shift.em import CHANGE_TOLERANCE, EMResult, Likelihood, run_em

__all__ = [
    "MIN_GAIN",
    "add_ridge",
    "derivatives",
    "maximum_likelihood",
    "minimise_nonnegative",
    "row_blocks",
    "run_newton",
]

EM_PATIENCE = 300
"""Passes of EM after which Newton's method takes over."""

MAX_CLASSES = 256
"""A pass for second derivatives of K classes costs up to K/2 of EM's. With more, EM continues."""

MAX_STEPS = 100
"""Steps; about ten are usual."""

DESCENT = 1e-4
"""The smallest share of the promised descent that a step must bring (Armijo)."""

MIN_GAIN = 1e-8
"""The search ends where steps are small and predict no more likelihood than this. Small steps alone
do not prove convergence: near 0 they are small too, as each at most doubles a class."""

ROUNDING = 1e-14
"""The rounding of a mean over the samples."""

RIDGE = 1e-12
"""Added to the curvatures, relative to the largest, so that steps are defined along directions
without curvature, where every point is as good."""


def maximum_likelihood(likelihood: Likelihood, start: NDArray[np.float64]) -> EMResult:
    """Return the most likely prior (1, K) of the samples: by EM, starting at ``start`` (K,).

    Where EM is slow, Newton's method takes over, if the classes are not too many.
    """
    limit = em.MAX_ITERATIONS
    result = run_em(likelihood, start[None], max_iterations=min(EM_PATIENCE, limit))
    if result.remaining_change[0] <= CHANGE_TOLERANCE:
        return result
    if start.size <= MAX_CLASSES:
        return run_newton(likelihood, result)
    done = int(result.iterations[0])
    if limit - done < 3:
        return result
    rest = run_em(likelihood, result.priors, max_iterations=limit - done)
    return rest._replace(iterations=rest.iterations + done)


def run_newton(likelihood: Likelihood, start: EMResult) -> EMResult:
    r"""Return the maximum of the likelihood of the samples, starting at EM's last prior.

    .. math:: \min_{p ≥ 0} \; f(p) = \sum_k p_k - \frac1N \sum_i \log \sum_k r_{ik} p_k

    where p is the target prior and r_ik the posterior of class k for sample i, divided by the
    source prior. Its minimum sums to 1 by itself, as f falls along p until it does, and is the
    most likely one of all priors. Every step leads towards the minimum of the quadratic model
    on p ≥ 0.

    References
    ----------
    .. [1] Kim, Carbonetto, Stephens, Anitescu. "A Fast Algorithm for Maximum Likelihood Estimation
       of Mixture Proportions Using Sequential Quadratic Programming", Journal of Computational and
       Graphical Statistics 29, 2020.
    """
    ratio = likelihood.ratio
    p = start.priors[0]
    n_steps = 0
    last_change = np.inf
    remaining = np.inf
    while n_steps < MAX_STEPS and remaining > CHANGE_TOLERANCE:
        slope, curvature = derivatives(ratio, p)
        curvature = add_ridge(curvature)
        best = minimise_nonnegative(curvature, curvature @ p - slope, p)
        n_steps += 1
        promised = float(slope @ (best - p))
        if promised >= -ROUNDING:  # no line search can tell whether this step is better
            p = best
            last_change = 0.0
            remaining = 0.0
            break
        following = _line_search(ratio, p, best - p, promised)
        last_change = float(np.abs(following - p).max())
        remaining = last_change if promised >= -MIN_GAIN else max(last_change, -promised)
        p = following
    passes = start.iterations + 2 * n_steps
    return EMResult(p[None] / p.sum(), np.array([remaining]), np.array([last_change]), passes)


def minimise_nonnegative(
    curvature: NDArray[np.float64], target: NDArray[np.float64], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the q ≥ 0 that minimises ½·q·curvature·q − target·q, from some q ≥ 0 on.

    By Lawson and Hanson's active sets: one class after the other is freed, and one that would
    become negative is held at 0 again.
    """
    q = start.copy()
    free = start > 0.0
    for _ in range(3 * q.size):
        while True:
            inner = np.zeros_like(q)
            inner[free] = np.linalg.solve(curvature[np.ix_(free, free)], target[free])
            below = free & (inner <= 0.0)
            if not below.any():
                break
            # As far towards it as nothing is negative; what reaches 0 is held.
            share = q[below] / (q[below] - inner[below])
            q += float(share.min()) * (inner - q)
            free[np.flatnonzero(below)[share == share.min()]] = False
            q[~free] = 0.0
        q = inner
        pull = np.where(free, 0.0, target - curvature @ q)
        if pull.max() <= ROUNDING:
            break
        free[np.argmax(pull)] = True
    return q


def _line_search(
    ratio: NDArray[Any], p: NDArray[np.float64], step: NDArray[np.float64], promised: float
) -> NDArray[np.float64]:
    """Return the end of a step, halved until f decreases as it should."""
    value = _value(ratio, p)
    share = 1.0
    while share > ROUNDING:
        point: NDArray[np.float64] = p + share * step
        if _value(ratio, point) <= value + DESCENT * share * promised + ROUNDING:
            return point
        share *= 0.5
    return p  # pragma: no cover - rounding alone can come to this


def derivatives(
    ratio: NDArray[Any], p: NDArray[np.float64], counts: NDArray[np.uint8] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and second derivatives of f, where sample i counts ``counts[i]`` times."""
    total = np.zeros(p.size)
    product = np.zeros((p.size, p.size))
    for part, block in row_blocks(ratio):
        share = 1.0 / (block @ p)
        times = np.ones(len(block)) if counts is None else counts[part].astype(np.float64)
        total += (share * times) @ block
        scaled = block * (share * np.sqrt(times))[:, None]
        product += scaled.T @ scaled  # a matrix times itself takes half the time of any other
    return 1.0 - total / len(ratio), product / len(ratio)


def add_ridge(curvature: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return curvatures that have an inverse."""
    return curvature + RIDGE * float(np.diag(curvature).max()) * np.eye(len(curvature))


def _value(ratio: NDArray[Any], p: NDArray[np.float64]) -> float:
    """Return f, which is infinite where some sample would be impossible."""
    with np.errstate(divide="ignore"):
        logs = sum(float(np.log(block @ p).sum()) for _, block in row_blocks(ratio))
    return float(p.sum()) - logs / len(ratio)


def row_blocks(ratio: NDArray[Any]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield blocks of rows in float64, and where they are."""
    step = max(1, em.BLOCK_ITEMS // ratio.shape[1])
    for start in range(0, len(ratio), step):
        part = slice(start, start + step)
        yield part, ratio[part].astype(np.float64, copy=False)
