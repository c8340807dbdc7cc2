"""How far an estimated target prior may be off: bootstrap replicates of the estimate.

Target samples are drawn again with replacement; validation samples are drawn again within each
class, as their class mix is of no consequence. Replicates are worked on side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.calibration import Recalibrated
from reprior.core.shift.em import Climb, Likelihood, climb
from reprior.core.shift.moments import Moments, truncated
from reprior.core.shift.newton import (
    GAIN,
    MOST_CLASSES,
    blocks,
    derivatives,
    newton_climb,
    nonnegative,
    with_ridge,
)
from reprior.core.shift.predictions import HardPredictions, Predicted

__all__ = [
    "MOST_CLASSES",
    "Nearby",
    "Progress",
    "Redrawn",
    "em_replicates",
    "ignored",
    "intervals",
    "moment_replicates",
]

Vector: TypeAlias = np.ndarray[Any, Any]


EM_TOLERANCE = 1e-6
"""Where EM ends on replicates: far below the spread of any that a bootstrap is needed for."""

EM_MAX_ITERATIONS = 300
"""Passes of EM for a replicate. One that needs more moves along a direction in which the scores
say so little that the spread of the replicates is wide anyhow."""

ESTIMATE_SHARE = 0.9
"""EM on replicates begins at the estimate, with this share, and the source prior: from an exact 0
it would never come back."""

GROUP_ITEMS = 1 << 26
"""Counts of samples in replicates, one byte each, that are in memory at a time."""

Solver: TypeAlias = Callable[[Moments, Vector], Vector]

Progress: TypeAlias = Callable[[int], object]
"""What is told how many replicates are done."""


def ignored(_: int) -> None:
    """Tell nobody."""


def intervals(replicates: Vector, confidence: float) -> Vector:
    """Return the percentile interval of every class, (K, 2)."""
    ends = np.quantile(replicates, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=0)
    return ends.T


def em_replicates(
    likelihood: Likelihood,
    estimate: Vector,
    source: Vector,
    n_replicates: int,
    rng: np.random.Generator,
    *,
    seen: Recalibrated | None = None,
    progress: Progress = ignored,
) -> Vector:
    """Return the maximum-likelihood priors of samples drawn again, (n_replicates, K).

    Those of more than 256 classes are by EM. ``seen`` is how each replicate's own calibration sees
    the samples; ``progress`` is told how many are done.
    """
    if source.size > MOST_CLASSES:
        return _by_climbing(likelihood, estimate, source, n_replicates, rng, progress)
    nearby, found = Nearby(likelihood, estimate, source), np.empty((n_replicates, source.size))
    logs = None
    if seen is not None:
        with np.errstate(divide="ignore"):
            logs = np.log(likelihood.ratio)
    done = 0
    for group in _resampled(len(likelihood.ratio), n_replicates, rng):
        for counts in group:
            redrawn = Redrawn(likelihood.ratio, counts)
            if seen is not None and logs is not None:
                ratio = np.exp(logs * logs.dtype.type(seen.scales[done]))
                redrawn = Redrawn(ratio, counts, np.exp(seen.biases[done]))
            found[done] = nearby(redrawn)
            done += 1
            progress(done)
    return found


def _by_climbing(
    likelihood: Likelihood,
    estimate: Vector,
    source: Vector,
    n_replicates: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Vector:
    start = ESTIMATE_SHARE * estimate + (1.0 - ESTIMATE_SHARE) * source
    found: list[Vector] = []
    for counts in _resampled(len(likelihood.ratio), n_replicates, rng):
        climbed = climb(
            likelihood.of(counts),
            np.tile(start, (len(counts), 1)),
            tolerance=EM_TOLERANCE,
            max_iterations=EM_MAX_ITERATIONS,
        )
        found.extend(climbed.priors)
        progress(len(found))
    return np.array(found)


def moment_replicates(
    target: Predicted,
    validation: Predicted,
    labels: NDArray[np.int64],
    solve: Solver,
    source: Vector,
    n_replicates: int,
    rng: np.random.Generator,
    *,
    progress: Progress = ignored,
) -> Vector:
    """Return the priors that solve the moments of samples drawn again, (n_replicates, K)."""
    predicted = _means(target, n_replicates, rng)
    size = max(1, GROUP_ITEMS // (8 * source.size**2))
    found: list[Vector] = []
    for start in range(0, n_replicates, size):
        group = predicted[start : start + size]
        confusion = _class_means(validation, labels, len(group), rng)
        found.append(truncated(solve(Moments(group, confusion, labels.size), source), source))
        progress(min(start + size, n_replicates))
    return np.concatenate(found)


def _resampled(n: int, n_replicates: int, rng: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """Give how often each of ``n`` samples is drawn in ``n`` draws, some replicates at a time."""
    size = max(1, GROUP_ITEMS // n)
    for start in range(0, n_replicates, size):
        counts = np.empty((min(size, n_replicates - start), n), np.uint8)
        for row in counts:
            row[:] = np.bincount(rng.integers(n, size=n), minlength=n)
        yield counts


def _means(found: Predicted, n_replicates: int, rng: np.random.Generator) -> Vector:
    """Return mean predictions of samples drawn again, (n_replicates, K)."""
    if isinstance(found, HardPredictions):
        # Drawing samples again is drawing their classes again, by their frequencies.
        n = len(found)
        drawn: Vector = rng.multinomial(n, found.mean(), size=n_replicates) / n
        return drawn
    return _weighted_means(found.probabilities(), n_replicates, rng)


def _class_means(
    found: Predicted, labels: NDArray[np.int64], n_replicates: int, rng: np.random.Generator
) -> Vector:
    """Return confusion matrices of samples drawn again within each class, (n_replicates, K, K)."""
    counts = np.bincount(labels)
    if isinstance(found, HardPredictions):
        drawn = rng.multinomial(
            counts, found.class_means(labels).T, size=(n_replicates, counts.size)
        )
        return np.swapaxes(drawn / counts[:, None], -1, -2)
    columns = [
        _weighted_means(found[labels == k].probabilities(), n_replicates, rng)
        for k in range(counts.size)
    ]
    return np.stack(columns, axis=-1)


def _weighted_means(rows: NDArray[Any], n_replicates: int, rng: np.random.Generator) -> Vector:
    groups = [_product(counts, rows) for counts in _resampled(len(rows), n_replicates, rng)]
    means = np.concatenate(groups)
    found: Vector = means / means.sum(axis=1, keepdims=True)
    return found


def _product(counts: NDArray[np.uint8], rows: NDArray[Any]) -> Vector:
    """Return counts @ rows in float64, a block of samples at a time."""
    total = np.zeros((len(counts), rows.shape[1]))
    step = max(1, GROUP_ITEMS // (16 * max(total.shape)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        total += counts[:, some].astype(np.float64) @ rows[some].astype(np.float64, copy=False)
    return total


NEWTON_TOLERANCE = 1e-8
"""A replicate is done where no class's prior will move by more than this, by the rate of the last
two steps, and no more likelihood is promised."""

MIN_RATE = 0.1
"""Two steps that happen to shrink faster than by this are not believed."""

FIRST_RATE = 0.5
"""What is taken for the rate of a first step, which has none before it."""

MAX_SUM = 2.0
"""The maximum has a sum of 1. A step to more than this was led astray."""

COST_OF_CURVATURE = 10
"""Passes for slopes that take as long as one for curvatures, which is a product of matrices and so
the quicker the more classes there are. Measured: 5 to 14, from 3 to 256 classes."""

NEWTON_MAX_STEPS = 50
"""Steps before Newton's damped ones take over. About five are usual."""

GAIN_ROUNDING = 1e-15
"""A promised gain of likelihood that is rounding: every point is as good."""


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
        for _ in range(NEWTON_MAX_STEPS):
            slope = _slope(redrawn, p)
            if not np.isfinite(slope).all():  # some sample is impossible there
                break
            q = nonnegative(curvature, curvature @ p - slope, p)
            moved, promised = float(np.abs(q - p).max()), float(slope @ (q - p))
            rate = max(moved / before, MIN_RATE) if before < math.inf else FIRST_RATE
            if promised >= -GAIN_ROUNDING or (
                promised >= -GAIN and _left(moved, rate) <= NEWTON_TOLERANCE
            ):
                found: Vector = q / q.sum()
                return found
            if q.sum() > MAX_SUM:
                break
            if before < math.inf and _steps_to_go(moved, rate) > COST_OF_CURVATURE:
                own = _curvature(redrawn, q)
                if not np.isfinite(own).all():
                    break
                curvature = with_ridge(own)
            p, before = q, moved
        return self._damped(redrawn)

    def _damped(self, redrawn: Redrawn) -> Vector:
        start = ESTIMATE_SHARE * self.estimate + (1.0 - ESTIMATE_SHARE) * self.source
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
    return math.log(NEWTON_TOLERANCE / moved) / math.log(rate) if rate < 1.0 else math.inf


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
