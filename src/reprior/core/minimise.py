"""Newton's method for a smooth convex function of two numbers, each between bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Box", "BoxMinimum", "Quadratic", "minimise_in_box"]

STEP_TOLERANCE = 1e-6
"""The end is a step this small, relative to the point: the next error is of its square."""

SHORT_STEP, ERROR_TOLERANCE = 0.05, 1e-8
"""Or a larger step, where the one before was short and the two promise so small an error."""

MAX_PASSES = 100
"""Evaluations; 5 to 10 are usual, and some dozens where the minimum is at infinity."""

DESCENT = 1e-4
"""The least share of the promised descent that a step must bring (Armijo)."""

REACH = (4.0, 4.0)
"""How far a step may go before the function was seen there: the first number grows or shrinks by
at most this factor, the second moves by at most this much."""

ROUNDING = 8 * np.finfo(np.float64).eps
"""How exactly values in float64 are known, relative to their size or 1."""

LOST = 1000.0
"""A point from which no step descends is the minimum if what the model still promises is not
more than so many roundings of the value."""


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
        Whether that is the minimum within the box; not so where :data:`MAX_PASSES` did not do.
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
    """Return the minimum of a smooth convex function with the value 0 at least.

    ``noise`` is how exactly its values are known, relative to their size or 1.

    Every step leads to the minimum of the quadratic model in the box, and is halved until the
    function falls as it should. While steps go on in one direction and do not get shorter, as
    where the minimum is at infinity, they are stretched.
    """
    at = box.inside(np.array(start))
    here = function(*at.tolist())
    n, last, before, stretch = 1, math.inf, np.zeros(2), 1.0
    while n < MAX_PASSES:
        if here.value == 0.0:  # nothing left to lower: as far as the dtype can tell
            return _vanished(function, at, box, n)
        step = _model_minimum(here, at, box.around(at))
        relative = step / np.array([at[0], max(1.0, abs(at[1]))])
        size = float(np.abs(relative).max())
        # Newton's steps go with the square of the one before: so long will the next one be.
        coming = size * (size / last) ** 2 if last <= SHORT_STEP else math.inf
        if size <= STEP_TOLERANCE or coming <= ERROR_TOLERANCE:
            return _ended(here, at, step, box, n)
        crawls = size > 0.5 * last and relative @ before > 0.0
        stretch, last, before = 2.0 * stretch if crawls else 1.0, size, relative
        found = _descended(function, box, (at, here), step, stretch, noise)
        n += found.n_passes
        if found.point is None:
            least = -here.change(step) <= LOST * noise * max(1.0, abs(here.value))
            return BoxMinimum(_pair(at), here.value, bool(least), n, _held(at, here.slope, box))
        at, here, stretch = found.point, found.quadratic, found.stretch
    return BoxMinimum(_pair(at), here.value, False, n, _held(at, here.slope, box))


_AWAY = (False, False)


class _Descent(NamedTuple):
    """The next point, or None where none was lower; and what it took."""

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
    at, here = now
    known, n = noise * max(1.0, abs(here.value)), 0
    while n == 0 or stretch >= 1.0 or -here.change(stretch * step) > known:
        point = box.inside(at + stretch * step)
        there, n = function(*point.tolist()), n + 1
        wanted = DESCENT * float(here.slope @ (point - at))
        if wanted < 0.0 and there.value <= here.value + wanted + known:
            return _Descent(point, there, stretch, n)
        stretch *= 0.5
    return _Descent(None, here, 1.0, n)  # no step brings more than the value is known to


def _ended(
    here: Quadratic, at: NDArray[np.float64], step: NDArray[np.float64], box: Box, n: int
) -> BoxMinimum:
    """Take the last step without a further look."""
    point = box.inside(at + step)
    held = _held(point, here.slope + here.curvature @ step, box)
    value = max(here.value + here.change(step), 0.0)
    return BoxMinimum(_pair(point), value, True, n, held)


def _held(point: NDArray[np.float64], slope: NDArray[np.float64], box: Box) -> tuple[bool, bool]:
    """Whether x, and y, is at a bound beyond which a function of this slope still falls."""
    held = ((point == box.low) & (slope > 0.0)) | ((point == box.high) & (slope < 0.0))
    return bool(held[0]), bool(held[1])


def _model_minimum(here: Quadratic, at: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    """Return the step to the minimum of the quadratic model in the box.

    It is Newton's if that stays inside; else it lies on an edge, of which each has one minimum.
    The coordinate axes are looked at too: where the model is flat across them, the best is there.
    """
    low, high = box.low - at, box.high - at
    slope, curvature = here.slope, here.curvature
    determinant = curvature[0, 0] * curvature[1, 1] - curvature[0, 1] ** 2
    if determinant > ROUNDING * curvature[0, 0] * curvature[1, 1]:
        newton = -np.linalg.solve(curvature, slope).astype(np.float64)
        if ((low <= newton) & (newton <= high)).all():
            return newton
    best, least = np.zeros(2), 0.0
    for i, j in ((0, 1), (1, 0)):
        for fixed in (0.0, low[i], high[i]):
            along = slope[j] + curvature[i, j] * fixed
            downhill = -math.copysign(math.inf, along) if along else 0.0
            free = -along / curvature[j, j] if curvature[j, j] > 0.0 else downhill
            step = np.empty(2)
            step[i], step[j] = fixed, min(max(free, low[j]), high[j])
            change = here.change(step)
            if change < least:
                best, least = step, change
    return best


def _vanished(
    function: Callable[[float, float], Quadratic], at: NDArray[np.float64], box: Box, n: int
) -> BoxMinimum:
    """Go to the upper bound of x if the function is 0 there too, as it is along a ray to it."""
    far = (float(box.high[0]), float(at[1]))
    if function(*far).value == 0.0:
        return BoxMinimum(far, 0.0, True, n + 1, (True, False))
    return BoxMinimum(_pair(at), 0.0, True, n + 1, _AWAY)


def _pair(point: NDArray[np.float64]) -> tuple[float, float]:
    return float(point[0]), float(point[1])
