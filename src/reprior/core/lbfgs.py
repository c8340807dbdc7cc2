"""L-BFGS with a preconditioner, for smooth convex functions of many numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Minimum", "minimise_smooth"]

Vector: TypeAlias = NDArray[np.float64]

MEMORY = 12
"""Steps that the curvature is learnt from."""

MAX_PASSES = 300
"""Evaluations: far more than a dozen, which a good preconditioner makes do."""

DESCENT = 1e-4
"""The least share of the promised descent that a step must bring (Armijo)."""


class Minimum(NamedTuple):
    """Where the function is smallest."""

    point: Vector
    value: float
    converged: bool
    n_iterations: int
    """Evaluations."""


def minimise_smooth(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    solve: Callable[[Vector], Vector],
    *,
    tolerance: float,
    noise: float,
) -> Minimum:
    r"""Return the minimum of a smooth convex function, given with its gradient.

    A step is :math:`-H^{-1} g` for the gradient g and an estimate H of the curvature: that of the
    preconditioner, put right along the last steps by what the gradient did there. It is halved
    until the function falls.

    Parameters
    ----------
    function : callable
        The value and the gradient at a point.
    start : array of shape (m,)
        Where to begin.
    solve : callable
        :math:`H_0^{-1} g` of a gradient, for the preconditioner H_0: an estimate of the second
        derivatives.
    tolerance : float
        The end is where :math:`g^T H^{-1} g`, twice what there is to gain, is below this.
    noise : float
        How exactly the values of the function are known, relative to their size or 1.

    References
    ----------
    .. [1] Nocedal, Wright. "Numerical Optimization", 2006: Algorithm 7.4.
    """
    at, n = start, 1
    value, slope = function(at)
    steps: deque[tuple[Vector, Vector]] = deque(maxlen=MEMORY)
    while True:
        direction = -_inverse_product(steps, solve, slope)
        gain = -float(slope @ direction)
        if gain <= tolerance or n >= MAX_PASSES:
            return Minimum(at, value, gain <= tolerance, n)
        share, known = 1.0, noise * max(1.0, abs(value))
        while True:
            point = at + share * direction
            there, slope_there = function(point)
            n += 1
            if there <= value - DESCENT * share * gain + known:
                break
            share *= 0.5
            if share * gain <= known or n >= MAX_PASSES:
                # No step brings more than the value is known to.
                return Minimum(at, value, share * gain <= known, n)
        change = slope_there - slope
        if float(change @ (point - at)) > 0.0:
            steps.append((point - at, change))
        at, value, slope = point, there, slope_there


def _inverse_product(
    steps: deque[tuple[Vector, Vector]], solve: Callable[[Vector], Vector], slope: Vector
) -> Vector:
    """Return the product of the estimated inverse curvature with a gradient (two loops)."""
    rest, shares = slope.copy(), []
    for step, change in reversed(steps):
        shares.append(float(step @ rest) / float(step @ change))
        rest -= shares[-1] * change
    product = solve(rest)
    for (step, change), share in zip(steps, reversed(shares), strict=True):
        product = product + step * (share - float(change @ product) / float(step @ change))
    return product
