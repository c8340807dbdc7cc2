r"""The last way to the largest likelihood of a target prior, where EM crawls: Newton's method.

Where the scores hardly tell some classes apart, the likelihood is nearly flat between them, and
EM's steps shrink by a factor next to 1. Second derivatives see the whole way at once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift import em
from reprior.core.shift.em import CHANGE_TOLERANCE, Climb, Likelihood, climb

__all__ = [
    "GAIN",
    "blocks",
    "derivatives",
    "most_likely",
    "newton_climb",
    "nonnegative",
    "with_ridge",
]

PATIENCE = 300
"""Passes of EM before it is taken to crawl."""

MOST_CLASSES = 256
"""A pass for second derivatives of K classes costs as up to K/2 of EM: beyond, EM goes on."""

MAX_STEPS = 100
"""Steps; about ten are usual."""

DESCENT = 1e-4
"""The least share of the promised descent that a step must bring (Armijo)."""

GAIN = 1e-8
"""Steps end where they are small and promise no more likelihood than this: from a class next to 0
that should be far from it they are small too, as each doubles it at most."""

ROUNDING = 1e-14
"""How exactly a mean over the samples is known."""

RIDGE = 1e-12
"""What is added to the curvatures, relative to the largest: enough to solve by where there are
none, and along such a direction every point is as good."""


def most_likely(likelihood: Likelihood, start: NDArray[np.float64]) -> Climb:
    """Return the most likely prior (1, K) of samples as they are: by EM, from ``start`` (K,) on.

    Where EM crawls, Newton's method goes the rest of the way, if the classes are not too many.
    """
    limit = em.MAX_ITERATIONS
    found = climb(likelihood, start[None], max_iterations=min(PATIENCE, limit))
    if found.left[0] <= CHANGE_TOLERANCE:
        return found
    if start.size <= MOST_CLASSES:
        return newton_climb(likelihood, found)
    done = int(found.iterations[0])
    rest = climb(likelihood, found.priors, max_iterations=limit - done)
    return rest._replace(iterations=rest.iterations + done) if limit - done >= 3 else found


def newton_climb(likelihood: Likelihood, start: Climb) -> Climb:
    r"""Return the maximum of the likelihood of samples as they are, from where EM has led.

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
    ratio, p, n, moved, left = likelihood.ratio, start.priors[0], 0, np.inf, np.inf
    while n < MAX_STEPS and left > CHANGE_TOLERANCE:
        slope, curvature = derivatives(ratio, p)
        curvature = with_ridge(curvature)
        best = nonnegative(curvature, curvature @ p - slope, p)
        n, promised = n + 1, float(slope @ (best - p))
        if promised >= -ROUNDING:  # the likelihood can tell no more: the last step is taken blind
            p, moved, left = best, 0.0, 0.0
            break
        further = _descended(ratio, p, best - p, promised)
        p, moved = further, float(np.abs(further - p).max())
        left = moved if promised >= -GAIN else max(moved, -promised)
    passes = start.iterations + 2 * n
    return Climb(p[None] / p.sum(), np.array([left]), np.array([moved]), passes)


def nonnegative(
    curvature: NDArray[np.float64], target: NDArray[np.float64], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the q ≥ 0 that makes ½·q·curvature·q − target·q smallest, from some q ≥ 0 on.

    Lawson and Hanson's: one class after the other is let free, and one that would become negative
    is held at 0 again.
    """
    q, free = start.copy(), start > 0.0
    for _ in range(3 * q.size):
        while True:
            inner = np.zeros_like(q)
            inner[free] = np.linalg.solve(curvature[np.ix_(free, free)], target[free])
            below = free & (inner <= 0.0)
            if not below.any():
                break
            # As far towards it as nothing is negative; what is 0 there is held.
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


def _descended(
    ratio: NDArray[Any], p: NDArray[np.float64], step: NDArray[np.float64], promised: float
) -> NDArray[np.float64]:
    """Go along a step, half as far whenever the function does not fall as it should."""
    value, share = _value(ratio, p), 1.0
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
    total, product = np.zeros(p.size), np.zeros((p.size, p.size))
    for part, block in blocks(ratio):
        share = 1.0 / (block @ p)
        times = np.ones(len(block)) if counts is None else counts[part].astype(np.float64)
        total += (share * times) @ block
        scaled = block * (share * np.sqrt(times))[:, None]
        product += scaled.T @ scaled  # of one matrix, which takes half the time of any other
    return 1.0 - total / len(ratio), product / len(ratio)


def with_ridge(curvature: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return curvatures that can be solved by."""
    return curvature + RIDGE * float(np.diag(curvature).max()) * np.eye(len(curvature))


def _value(ratio: NDArray[Any], p: NDArray[np.float64]) -> float:
    """Return f, which is infinite where some sample would be impossible."""
    with np.errstate(divide="ignore"):
        logs = sum(float(np.log(block @ p).sum()) for _, block in blocks(ratio))
    return float(p.sum()) - logs / len(ratio)


def blocks(ratio: NDArray[Any]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Give the rows in float64, some at a time, and where they are."""
    step = max(1, em.BLOCK_ITEMS // ratio.shape[1])
    for start in range(0, len(ratio), step):
        part = slice(start, start + step)
        yield part, ratio[part].astype(np.float64, copy=False)
