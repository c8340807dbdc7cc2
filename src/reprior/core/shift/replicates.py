r"""The most likely priors of samples drawn again: many problems that differ little from one.

Every replicate is solved from the estimate on, with the curvature there,

.. math:: p ← \arg\min_{q ≥ 0} \; g_b(p)^⊤ (q - p) + \frac{1}{2} (q - p)^⊤ H (q - p)

where g_b is the exact slope of the replicate's likelihood and H the curvature of all samples at the
estimate: Newton's method with a matrix that is made once. What it ends at is the replicate's own
maximum, as the slopes are. Where the steps do not shrink, the matrix is made anew; where that does
not help either, the steps are Newton's damped ones.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.em import Climb, Likelihood
from reprior.core.shift.newton import (
    GAIN,
    blocks,
    derivatives,
    newton_climb,
    nonnegative,
    with_ridge,
)

__all__ = ["Nearby", "Redrawn"]

Vector: TypeAlias = np.ndarray[Any, Any]

TOLERANCE = 1e-8
"""A replicate is done where no class's prior will move by more than this, by the rate of the last
two steps, and no more likelihood is promised."""

LEAST_RATE = 0.1
"""Two steps that happen to shrink faster than by this are not believed."""

FIRST_RATE = 0.5
"""What is taken for the rate of a first step, which has none before it."""

LARGEST = 2.0
"""The maximum has a sum of 1. A step to more than this was led astray."""

COST_OF_CURVATURE = 10
"""Passes for slopes that take as long as one for curvatures, which is a product of matrices and so
the quicker the more classes there are. Measured: 5 to 14, from 3 to 256 classes."""

MAX_STEPS = 50
"""Steps before Newton's damped ones take over. About five are usual."""

ROUNDING = 1e-15
"""A promised gain of likelihood that is rounding: every point is as good."""

STAYING = 0.9
"""Damped steps begin at the estimate with this share and the source prior, where every sample is
possible."""


class Redrawn(NamedTuple):
    """Samples drawn again, and how they are seen in this replicate.

    Sample i counts ``counts[i]`` times; ``ratio`` (N, K) times ``factor`` (K,) is P(x|k), up to a
    number per sample.
    """

    ratio: NDArray[Any]
    counts: NDArray[np.uint8]
    factor: Vector | float = 1.0


class Nearby:
    """Finds the most likely priors of replicates near that of all samples.

    Parameters
    ----------
    likelihood : Likelihood
        Of the samples as they are.
    estimate : ndarray of shape (K,)
        Where it is largest.
    source : ndarray of shape (K,)
        The source prior.
    """

    def __init__(self, likelihood: Likelihood, estimate: Vector, source: Vector) -> None:
        self.estimate, self.source = estimate, source
        self.curvature = with_ridge(derivatives(likelihood.ratio, estimate)[1])

    def __call__(self, redrawn: Redrawn) -> Vector:
        """Return the replicate's most likely prior, (K,)."""
        p, curvature, before = self.estimate, self.curvature, math.inf
        for _ in range(MAX_STEPS):
            slope = _slope(redrawn, p)
            if not np.isfinite(slope).all():  # some sample is impossible there
                break
            q = nonnegative(curvature, curvature @ p - slope, p)
            moved, promised = float(np.abs(q - p).max()), float(slope @ (q - p))
            rate = max(moved / before, LEAST_RATE) if before < math.inf else FIRST_RATE
            if promised >= -ROUNDING or (promised >= -GAIN and _left(moved, rate) <= TOLERANCE):
                found: Vector = q / q.sum()
                return found
            if q.sum() > LARGEST:
                break
            if before < math.inf and _steps_to_go(moved, rate) > COST_OF_CURVATURE:
                own = _curvature(redrawn, q)
                if not np.isfinite(own).all():
                    break
                curvature = with_ridge(own)
            p, before = q, moved
        return self._damped(redrawn)

    def _damped(self, redrawn: Redrawn) -> Vector:
        start = STAYING * self.estimate + (1.0 - STAYING) * self.source
        ratio = np.repeat(redrawn.ratio, redrawn.counts, axis=0) * redrawn.factor
        far = np.array([np.inf])
        climb = newton_climb(
            Likelihood.of_ratio(ratio), Climb(start[None], far, far, np.array([0]))
        )
        found: Vector = climb.priors[0]
        return found


def _left(moved: float, rate: float) -> float:
    """Return how far steps that go on to shrink by ``rate`` will lead."""
    return moved * rate / (1.0 - rate) if rate < 1.0 else math.inf


def _steps_to_go(moved: float, rate: float) -> float:
    """Return how many more steps there are until they are small, if they shrink by ``rate``."""
    return math.log(TOLERANCE / moved) / math.log(rate) if rate < 1.0 else math.inf


def _slope(redrawn: Redrawn, p: Vector) -> Vector:
    """Return the slopes of Σp less the mean log-likelihood."""
    total, q = np.zeros(p.size), p * redrawn.factor
    with np.errstate(divide="ignore", invalid="ignore"):
        for part, block in blocks(redrawn.ratio):
            total += (redrawn.counts[part] / (block @ q)) @ block
    found: Vector = 1.0 - redrawn.factor * total / len(redrawn.ratio)
    return found


def _curvature(redrawn: Redrawn, p: Vector) -> Vector:
    """Return the curvatures of the same."""
    factor = np.broadcast_to(redrawn.factor, p.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        product = derivatives(redrawn.ratio, p * factor, redrawn.counts)[1]
    found: Vector = product * np.outer(factor, factor)
    return found
