"""How much of a profile's curve is noise, told from the curve itself.

Along the strength a metric changes by jumps, each the work of one sample that switches (or of some
that switch together). Samples are independent, so the variance of the difference between two
strengths is about the sum of the squares of the jumps between them, the curve's quadratic
variation. That needs neither scores nor a bootstrap. A binned profile has net jumps of many
switches: where the curve rises steadily their squares are too large, and so is the error.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

from reprior.profile.sweep import Steps

__all__ = ["ROUNDING", "differences", "plausible", "redrawn_best", "smoothed"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Sums of squares, and what is integrated twice, are off by some 1e-13: less than this is nothing.
ROUNDING = 1e-10

#: How often a curve's noise is drawn anew. The mean of so many is known to a sixteenth of their
#: spread, and better for coming in pairs.
REDRAWS = 256

#: Steps beyond which neighbours are taken together: 2,000 is finer than any noise of theirs.
MOST_STEPS = 2000


def differences(steps: Steps, at: int) -> Vector:
    """Standard error of the value of every step minus that of step ``at``.

    Examples
    --------
    >>> steps = Steps(np.array([0.0, 0.5, 1.0]), np.array([0.2, 0.5, 0.1]))
    >>> differences(steps, at=1)
    array([0.3, 0. , 0.4])
    """
    jumps = np.diff(steps.value, prepend=steps.value[:1])
    variation = np.cumsum(jumps**2)
    return np.asarray(np.sqrt(np.abs(variation - variation[at])))


def plausible(steps: Steps, at: int, n_errors: float = 1.0) -> Vector:
    """Which steps fall short of step ``at`` by no more than so many standard errors, (J,) bool.

    A neighbour is one jump away, and so just within one of them.
    """
    short = steps.value[at] - steps.value
    return np.asarray(short <= n_errors * differences(steps, at) + ROUNDING)


def redrawn_best(steps: Steps, high: float) -> Vector:
    r"""Where the curve would be largest if its noise came on top of it once more, (256,).

    .. math:: λ^* = \arg\max_λ \; M(λ) + \sum_{j:\,x_j \leq λ} ε_j\,d_j

    with the jumps d_j at the strengths x_j and standard normal ε, always the same ones: what a
    bootstrap of the samples does, done to the curve. Middles of steps.

    Examples
    --------
    Two peaks that are nearly the same height are each taken about as often:

    >>> steps = Steps(np.array([0.0, 0.4, 0.6, 1.4, 1.6]), np.array([0.0, 0.5, 0.0, 0.51, 0.0]))
    >>> found = redrawn_best(steps, 2.0)
    >>> float(np.mean(found < 1.0).round(1)), float(found.mean().round(1))
    (0.5, 1.0)
    """
    at = np.arange(steps.start.size)
    if at.size > MOST_STEPS:  # neighbours together: their noise adds up
        grid = np.linspace(steps.start[0], high, MOST_STEPS)
        at = np.unique(np.searchsorted(steps.start, grid, side="right") - 1)
    variation = np.cumsum(np.diff(steps.value, prepend=steps.value[:1]) ** 2)[at]
    noise = np.cumsum(_normals()[:, : at.size] * np.sqrt(np.diff(variation, prepend=0.0)), axis=1)
    best = np.concatenate([(steps.value[at] + side).argmax(axis=1) for side in (noise, -noise)])
    start = steps.start[at]
    return np.asarray((start[best] + np.append(start[1:], high)[best]) / 2)


@cache
def _normals() -> Vector:
    """Random numbers that are the same in every process; each is used with both signs."""
    drawn = np.random.default_rng(0).standard_normal((REDRAWS // 2, MOST_STEPS))
    drawn.flags.writeable = False  # everyone is given the same ones
    return drawn


def smoothed(steps: Steps, high: float, strengths: Vector, half_width: float) -> Vector:
    r"""Average the curve around each strength, with weights that fall linearly to 0.

    .. math:: \bar M(λ) = \frac{\int M(u)\,k(u)\,du}{\int k(u)\,du}, \qquad
        k(u) = \max\bigl(0, 1 - |u - λ| / h\bigr)

    over the bounds of the curve, with the half width h. Exact: a step function's first and second
    antiderivative are known.

    Examples
    --------
    >>> steps = Steps(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    >>> smoothed(steps, 2.0, np.array([0.0, 1.0, 1.5]), half_width=1.0)
    array([0.   , 0.5  , 0.857])
    """
    low, h = steps.start[0], half_width
    a, b = np.maximum(strengths - h, low), np.minimum(strengths + h, high)
    first, second = _antiderivatives(steps)
    (left, left_2), (right, right_2), (_, here_2) = (
        _integrals(steps, first, second, point) for point in (a, b, strengths)
    )
    below, above = strengths - a, b - strengths
    area = right * (1 - above / h) - left * (1 - below / h) + (left_2 + right_2 - 2 * here_2) / h
    weight = below * (1 - below / (2 * h)) + above * (1 - above / (2 * h))
    return np.asarray(area / weight)


def _antiderivatives(steps: Steps) -> tuple[Vector, Vector]:
    """∫M and ∫∫M from the lower bound to the start of every step."""
    width = np.diff(steps.start)
    first = np.concatenate([[0.0], np.cumsum(steps.value[:-1] * width)])
    grown = first[:-1] * width + steps.value[:-1] * width**2 / 2
    return first, np.concatenate([[0.0], np.cumsum(grown)])


def _integrals(steps: Steps, first: Vector, second: Vector, at: Vector) -> tuple[Vector, Vector]:
    """∫M and ∫∫M from the lower bound to given strengths."""
    step = np.searchsorted(steps.start, at, side="right") - 1
    past, value = at - steps.start[step], steps.value[step]
    return (
        first[step] + value * past,
        second[step] + first[step] * past + value * past**2 / 2,
    )
