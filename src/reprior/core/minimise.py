"""Minimise smooth convex functions: Newton's method in a box, and L-BFGS.

:func:`minimise_in_box` is for two numbers with bounds and second derivatives,
:func:`minimise_smooth` for many numbers with a gradient and a preconditioner. Both count
evaluations, each a pass over all scores, and stop where differences are rounding.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Box", "BoxMinimum", "Minimum", "Quadratic", "minimise_in_box", "minimise_smooth"]

STEP_TOLERANCE = 1e-6
"""The search ends after a step this small, relative to the point: the error is of its square."""

SHORT_STEP, ERROR_TOLERANCE = 0.05, 1e-8
"""It also ends after a larger step, if the step before was short and both together predict an
error this small."""

MAX_PASSES = 100
"""Evaluations; 5 to 10 are usual, and some dozens where the minimum is at infinity."""

DESCENT = 1e-4
"""The least share of the promised descent that a step must bring (Armijo)."""

REACH = (4.0, 4.0)
"""The longest step, as the quadratic model may be wrong far away: the first number grows or shrinks
by at most this factor, the second moves by at most this much."""

ROUNDING = 8 * np.finfo(np.float64).eps
"""The relative error of values in float64; absolute for values below 1."""

LOST = 1000.0
"""A point from which no step descends is the minimum if the model predicts a descent of at most
this many roundings of the value."""


Vector: TypeAlias = NDArray[np.float64]

MEMORY = 12
"""Steps from which L-BFGS estimates the curvature."""

MAX_LBFGS_PASSES = 300
"""Evaluations. A dozen are usual with a good preconditioner."""


class Quadratic(NamedTuple):
    """A function of (x, y) at one point: its value, first and second derivatives."""

    value: float
    slope_x: float
    slope_y: float
    curvature_xx: float
    curvature_xy: float
    curvature_yy: float

    @property
    def slope(self) -> NDArray[np.float64]:
        """The gradient."""
        return np.array([self.slope_x, self.slope_y])

    @property
    def curvature(self) -> NDArray[np.float64]:
        """The Hessian."""
        mixed = self.curvature_xy
        return np.array([[self.curvature_xx, mixed], [mixed, self.curvature_yy]])

    def change(self, step: NDArray[np.float64]) -> float:
        """By how much the function changes along ``step``, to second order."""
        return float(step @ (self.slope + 0.5 * self.curvature @ step))


class Box(NamedTuple):
    """The bounds of both numbers; x is positive."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def inside(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest point of the box."""
        return np.clip(point, self.low, self.high)

    def around(self, point: NDArray[np.float64]) -> Box:
        """The part of the box within :data:`REACH` of a point."""
        factor, distance = REACH
        near = np.array([point[0] / factor, point[1] - distance])
        far = np.array([point[0] * factor, point[1] + distance])
        return Box(np.maximum(self.low, near), np.minimum(self.high, far))


@dataclass(frozen=True)
class BoxMinimum:
    """Where the function is smallest.

    Attributes
    ----------
    point : (float, float)
        x and y.
    value : float
        The function there.
    converged : bool
        Whether that is the minimum within the box; False where :data:`MAX_PASSES` were too few.
    n_iterations : int
        Evaluations.
    at_bound : (bool, bool)
        Whether x, and y, is at a bound beyond which the function still falls.
    """

    point: tuple[float, float]
    value: float
    converged: bool
    n_iterations: int
    at_bound: tuple[bool, bool]


def minimise_in_box(
    function: Callable[[float, float], Quadratic],
    box: Box,
    start: tuple[float, float],
    *,
    noise: float = ROUNDING,
) -> BoxMinimum:
    """Return the minimum of a smooth convex function that is at least 0.

    ``noise`` is the relative error of its values; absolute for values below 1.

    Every step goes to the minimum of the quadratic model in the box, and is halved until the
    function falls enough (Armijo). While steps keep their direction and do not get shorter, as
    where the minimum is at infinity, they are stretched.
    """
    point = box.inside(np.array(start))
    model = function(*point.tolist())
    n = 1
    last_size = math.inf
    last_step = np.zeros(2)
    stretch = 1.0
    while n < MAX_PASSES:
        if model.value == 0.0:  # the least possible, to the precision of the dtype
            return _vanished(function, point, box, n)
        step = _model_minimum(model, point, box.around(point))
        relative = step / np.array([point[0], max(1.0, abs(point[1]))])
        size = float(np.abs(relative).max())
        # A Newton step is about the square of the step before: this predicts the next one.
        coming = size * (size / last_size) ** 2 if last_size <= SHORT_STEP else math.inf
        if size <= STEP_TOLERANCE or coming <= ERROR_TOLERANCE:
            return _ended(model, point, step, box, n)
        crawls = size > 0.5 * last_size and relative @ last_step > 0.0
        stretch = 2.0 * stretch if crawls else 1.0
        last_size = size
        last_step = relative
        descent = _descended(function, box, (point, model), step, stretch, noise)
        n += descent.n_passes
        if descent.point is None:
            least = -model.change(step) <= LOST * noise * max(1.0, abs(model.value))
            bounds = _at_bounds(point, model.slope, box)
            return BoxMinimum(_pair(point), model.value, bool(least), n, bounds)
        point = descent.point
        model = descent.quadratic
        stretch = descent.stretch
    return BoxMinimum(_pair(point), model.value, False, n, _at_bounds(point, model.slope, box))


class _Descent(NamedTuple):
    """The next point, or None where none was lower, and the number of passes."""

    point: NDArray[np.float64] | None
    quadratic: Quadratic
    stretch: float
    n_passes: int


def _descended(
    function: Callable[[float, float], Quadratic],
    box: Box,
    now: tuple[NDArray[np.float64], Quadratic],
    step: NDArray[np.float64],
    stretch: float,
    noise: float,
) -> _Descent:
    """Go along ``step``, ``stretch`` times as far at first and half as far whenever it rises."""
    start, model = now
    resolution = noise * max(1.0, abs(model.value))
    n = 0
    while n == 0 or stretch >= 1.0 or -model.change(stretch * step) > resolution:
        point = box.inside(start + stretch * step)
        trial = function(*point.tolist())
        n += 1
        wanted = DESCENT * float(model.slope @ (point - start))
        if wanted < 0.0 and trial.value <= model.value + wanted + resolution:
            return _Descent(point, trial, stretch, n)
        stretch *= 0.5
    return _Descent(None, model, 1.0, n)  # no step lowers the value by more than its rounding


def _ended(
    model: Quadratic, start: NDArray[np.float64], step: NDArray[np.float64], box: Box, n: int
) -> BoxMinimum:
    """Take the last step without another evaluation."""
    point = box.inside(start + step)
    at_bounds = _at_bounds(point, model.slope + model.curvature @ step, box)
    value = max(model.value + model.change(step), 0.0)
    return BoxMinimum(_pair(point), value, True, n, at_bounds)


def _at_bounds(
    point: NDArray[np.float64], slope: NDArray[np.float64], box: Box
) -> tuple[bool, bool]:
    """Whether x, and y, is at a bound beyond which a function of this slope still falls."""
    held = ((point == box.low) & (slope > 0.0)) | ((point == box.high) & (slope < 0.0))
    return bool(held[0]), bool(held[1])


def _model_minimum(model: Quadratic, point: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Return the step to the minimum of the quadratic model in the box.

    It is Newton's step if that stays inside; else it ends on an edge, and each edge has one
    minimum. The coordinate axes are tried too: where the model is flat across them, the minimum
    is there.
    """
    low = box.low - point
    high = box.high - point
    slope = model.slope
    curvature = model.curvature
    determinant = curvature[0, 0] * curvature[1, 1] - curvature[0, 1] ** 2
    if determinant > ROUNDING * curvature[0, 0] * curvature[1, 1]:
        newton = -np.linalg.solve(curvature, slope).astype(np.float64)
        if ((low <= newton) & (newton <= high)).all():
            return newton
    best = np.zeros(2)
    least = 0.0
    for i, j in ((0, 1), (1, 0)):
        for fixed in (0.0, low[i], high[i]):
            along = slope[j] + curvature[i, j] * fixed
            downhill = -math.copysign(math.inf, along) if along else 0.0
            free = -along / curvature[j, j] if curvature[j, j] > 0.0 else downhill
            step = np.empty(2)
            step[i], step[j] = fixed, min(max(free, low[j]), high[j])
            change = model.change(step)
            if change < least:
                best, least = step, change
    return best


def _vanished(
    function: Callable[[float, float], Quadratic], point: NDArray[np.float64], box: Box, n: int
) -> BoxMinimum:
    """Go to the upper bound of x if the function is 0 there too, as it is along a ray to it."""
    far = (float(box.high[0]), float(point[1]))
    if function(*far).value == 0.0:
        return BoxMinimum(far, 0.0, True, n + 1, (True, False))
    return BoxMinimum(_pair(point), 0.0, True, n + 1, (False, False))


def _pair(point: NDArray[np.float64]) -> tuple[float, float]:
    return float(point[0]), float(point[1])


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
    preconditioner, corrected along the last steps by the changes of the gradient. It is halved
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
        The search ends where :math:`g^T H^{-1} g`, twice the predicted descent, is below this.
    noise : float
        The relative error of the function's values; absolute for values below 1.

    References
    ----------
    .. [1] Nocedal, Wright. "Numerical Optimization", 2006: Algorithm 7.4.
    """
    point, n = start, 1
    value, gradient = function(point)
    steps: deque[tuple[Vector, Vector]] = deque(maxlen=MEMORY)
    while True:
        direction = -_inverse_product(steps, solve, gradient)
        gain = -float(gradient @ direction)
        if gain <= tolerance or n >= MAX_LBFGS_PASSES:
            return Minimum(point, value, gain <= tolerance, n)
        share = 1.0
        resolution = noise * max(1.0, abs(value))
        while True:
            trial = point + share * direction
            trial_value, trial_gradient = function(trial)
            n += 1
            if trial_value <= value - DESCENT * share * gain + resolution:
                break
            share *= 0.5
            if share * gain <= resolution or n >= MAX_LBFGS_PASSES:
                # No step lowers the value by more than its rounding.
                return Minimum(point, value, share * gain <= resolution, n)
        change = trial_gradient - gradient
        if float(change @ (trial - point)) > 0.0:
            steps.append((trial - point, change))
        point, value, gradient = trial, trial_value, trial_gradient


def _inverse_product(
    steps: deque[tuple[Vector, Vector]], solve: Callable[[Vector], Vector], gradient: Vector
) -> Vector:
    """Return the product of the estimated inverse curvature with a gradient (two loops)."""
    rest = gradient.copy()
    shares = []
    for step, change in reversed(steps):
        shares.append(float(step @ rest) / float(step @ change))
        rest -= shares[-1] * change
    product = solve(rest)
    for (step, change), share in zip(steps, reversed(shares), strict=True):
        product = product + step * (share - float(change @ product) / float(step @ change))
    return product
