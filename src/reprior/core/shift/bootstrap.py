r"""The uncertainty of an estimated target prior: bootstrap replicates of the estimate.

Target samples are resampled with replacement; validation samples are resampled within each class,
as their class mix does not matter.

**Moments** of all replicates are solved as one stack. **Likelihoods** of replicates differ little
from that of all samples: each is maximised starting at the estimate, with the curvature there,

.. math:: p ← \arg\min_{q ≥ 0} \; g_b(p)^⊤ (q - p) + \frac{1}{2} (q - p)^⊤ H (q - p)

where g_b is the exact slope of the replicate's likelihood and H the curvature of all samples at the
estimate: Newton's method with a matrix that is computed once. It ends at the replicate's maximum,
because the slopes are those of the replicate. Where the steps do not shrink, the matrix is
recomputed; where that does not help either, damped Newton steps follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.em import EMResult, Likelihood, run_em
from reprior.core.shift.moments import Moments, clipped_prior
from reprior.core.shift.newton import (
    MAX_CLASSES,
    MIN_GAIN,
    add_ridge,
    derivatives,
    minimise_nonnegative,
    row_blocks,
    run_newton,
)
from reprior.core.shift.predictions import HardPredictions, Predictions
from reprior.core.shift.recalibration import Refits

__all__ = [
    "MAX_CLASSES",
    "Progress",
    "ReplicateSolver",
    "Resample",
    "em_replicates",
    "moment_replicates",
    "no_progress",
    "percentile_intervals",
]

Vector: TypeAlias = np.ndarray[Any, Any]

EM_TOLERANCE = 1e-6
"""Where EM ends on replicates: far below any spread for which a bootstrap is needed."""

EM_MAX_ITERATIONS = 300
"""Passes of EM for a replicate. A replicate that needs more moves in a direction about which the
scores say so little that the spread of the replicates is wide anyway."""

ESTIMATE_SHARE = 0.9
"""EM and damped steps on replicates start at a mixture of the estimate, with this share, and the
source prior: every sample is possible there, and EM would never leave an exact 0."""

GROUP_ITEMS = 1 << 26
"""Counts of samples in replicates, one byte each, that are in memory at a time."""

NEWTON_TOLERANCE = 1e-8
"""A replicate is done where, by the rate of the last two steps, no class's prior will move by more
than this, and the quadratic model predicts no more likelihood."""

MIN_RATE = 0.1
"""The smallest rate that is assumed: two steps may shrink faster by chance."""

FIRST_RATE = 0.5
"""The rate that is assumed for the first step, which has none before it."""

MAX_SUM = 2.0
"""The maximum has a sum of 1. A step to a larger sum than this went wrong."""

COST_OF_CURVATURE = 10
"""Passes for slopes that take as long as one for curvatures. The latter is a product of matrices,
and so gets relatively faster with more classes. Measured: 5 to 14, from 3 to 256 classes."""

NEWTON_MAX_STEPS = 50
"""Steps before damped Newton steps take over. About five are usual."""

GAIN_ROUNDING = 1e-15
"""A predicted gain of likelihood this small is rounding: every point is as good."""

Solver: TypeAlias = Callable[[Moments, Vector], Vector]

Progress: TypeAlias = Callable[[int], object]
"""Called with the number of replicates that are done."""


def no_progress(_: int) -> None:
    """Report no progress."""


def percentile_intervals(replicates: Vector, confidence: float) -> Vector:
    """Return the percentile interval of every class, (K, 2)."""
    ends = np.quantile(replicates, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=0)
    return ends.T


# ----------------------------------------------------------------------------------- resampling


def _resample_counts(
    n: int, n_replicates: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """Yield how often each of ``n`` samples is drawn in ``n`` draws, for groups of replicates."""
    group_size = max(1, GROUP_ITEMS // n)
    for start in range(0, n_replicates, group_size):
        counts = np.empty((min(group_size, n_replicates - start), n), np.uint8)
        for row in counts:
            row[:] = np.bincount(rng.integers(n, size=n), minlength=n)
        yield counts


def _resampled_means(
    predictions: Predictions, n_replicates: int, rng: np.random.Generator
) -> Vector:
    """Return mean predictions of samples drawn again, (n_replicates, K)."""
    if isinstance(predictions, HardPredictions):
        # Drawing samples again is drawing their classes again, by their frequencies.
        n = len(predictions)
        means: Vector = rng.multinomial(n, predictions.mean(), size=n_replicates) / n
        return means
    return _row_means(predictions.probabilities(), n_replicates, rng)


def _resampled_class_means(
    predictions: Predictions,
    labels: NDArray[np.int64],
    n_replicates: int,
    rng: np.random.Generator,
) -> Vector:
    """Return confusion matrices of samples drawn again within each class, (n_replicates, K, K)."""
    counts = np.bincount(labels)
    if isinstance(predictions, HardPredictions):
        drawn = rng.multinomial(
            counts, predictions.class_means(labels).T, size=(n_replicates, counts.size)
        )
        return np.swapaxes(drawn / counts[:, None], -1, -2)
    columns = [
        _row_means(predictions[labels == k].probabilities(), n_replicates, rng)
        for k in range(counts.size)
    ]
    return np.stack(columns, axis=-1)


def _row_means(rows: NDArray[Any], n_replicates: int, rng: np.random.Generator) -> Vector:
    """Return the means of rows (n, K) drawn again, each of sum 1, (n_replicates, K)."""
    groups = [_product(counts, rows) for counts in _resample_counts(len(rows), n_replicates, rng)]
    sums = np.concatenate(groups)
    means: Vector = sums / sums.sum(axis=1, keepdims=True)
    return means


def _product(counts: NDArray[np.uint8], rows: NDArray[Any]) -> Vector:
    """Return counts @ rows in float64, a block of samples at a time."""
    total = np.zeros((len(counts), rows.shape[1]))
    step = max(1, GROUP_ITEMS // (16 * max(total.shape)))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        total += counts[:, part].astype(np.float64) @ rows[part].astype(np.float64, copy=False)
    return total


# -------------------------------------------------------------------------- replicates by moments


def moment_replicates(
    target: Predictions,
    validation: Predictions,
    labels: NDArray[np.int64],
    solve: Solver,
    source: Vector,
    n_replicates: int,
    rng: np.random.Generator,
    *,
    progress: Progress = no_progress,
) -> Vector:
    """Return the priors that solve the moments of samples drawn again, (n_replicates, K)."""
    predicted = _resampled_means(target, n_replicates, rng)
    group_size = max(1, GROUP_ITEMS // (8 * source.size**2))
    priors: list[Vector] = []
    for start in range(0, n_replicates, group_size):
        group = predicted[start : start + group_size]
        confusion = _resampled_class_means(validation, labels, len(group), rng)
        moments = Moments(group, confusion, labels.size)
        priors.append(clipped_prior(solve(moments, source), source))
        progress(min(start + group_size, n_replicates))
    return np.concatenate(priors)


# ----------------------------------------------------------------------- replicates by likelihood


def em_replicates(
    likelihood: Likelihood,
    estimate: Vector,
    source: Vector,
    n_replicates: int,
    rng: np.random.Generator,
    *,
    refits: Refits | None = None,
    progress: Progress = no_progress,
) -> Vector:
    """Return the maximum-likelihood priors of resampled samples, (n_replicates, K).

    With more than 256 classes by EM. ``refits`` are the calibrations of the replicates.
    """
    if source.size > MAX_CLASSES:
        return _em_side_by_side(likelihood, estimate, source, n_replicates, rng, progress)
    solve = ReplicateSolver(likelihood, estimate, source)
    priors = np.empty((n_replicates, source.size))
    log_ratio = None
    if refits is not None:
        with np.errstate(divide="ignore"):
            log_ratio = np.log(likelihood.ratio)
    done = 0
    for group in _resample_counts(len(likelihood.ratio), n_replicates, rng):
        for counts in group:
            resample = Resample(likelihood.ratio, counts)
            if refits is not None and log_ratio is not None:
                ratio = np.exp(log_ratio * log_ratio.dtype.type(refits.scales[done]))
                resample = Resample(ratio, counts, np.exp(refits.biases[done]))
            priors[done] = solve(resample)
            done += 1
            progress(done)
    return priors


def _em_side_by_side(
    likelihood: Likelihood,
    estimate: Vector,
    source: Vector,
    n_replicates: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Vector:
    """Return the replicates' priors by EM on groups of replicates."""
    start = ESTIMATE_SHARE * estimate + (1.0 - ESTIMATE_SHARE) * source
    priors: list[Vector] = []
    for counts in _resample_counts(len(likelihood.ratio), n_replicates, rng):
        result = run_em(
            likelihood.resampled(counts),
            np.tile(start, (len(counts), 1)),
            tolerance=EM_TOLERANCE,
            max_iterations=EM_MAX_ITERATIONS,
        )
        priors.extend(result.priors)
        progress(len(priors))
    return np.array(priors)


class Resample(NamedTuple):
    """Resampled samples, under the calibration of the replicate.

    Sample i counts ``counts[i]`` times; ``ratio`` (N, K) times ``factor`` (K,) is P(x|k), up to a
    number per sample.
    """

    ratio: NDArray[Any]
    counts: NDArray[np.uint8]
    factor: Vector | float = 1.0


class ReplicateSolver:
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
        self.estimate = estimate
        self.source = source
        self.curvature = add_ridge(derivatives(likelihood.ratio, estimate)[1])

    def __call__(self, resample: Resample) -> Vector:
        """Return the replicate's most likely prior, (K,)."""
        p = self.estimate
        curvature = self.curvature
        last_step = math.inf
        for _ in range(NEWTON_MAX_STEPS):
            slope = _slope(resample, p)
            if not np.isfinite(slope).all():  # some sample is impossible there
                break
            q = minimise_nonnegative(curvature, curvature @ p - slope, p)
            step = float(np.abs(q - p).max())
            promised = float(slope @ (q - p))
            rate = max(step / last_step, MIN_RATE) if last_step < math.inf else FIRST_RATE
            small = promised >= -MIN_GAIN and _distance_to_go(step, rate) <= NEWTON_TOLERANCE
            if promised >= -GAIN_ROUNDING or small:
                prior: Vector = q / q.sum()
                return prior
            if q.sum() > MAX_SUM:
                break
            if last_step < math.inf and _steps_to_go(step, rate) > COST_OF_CURVATURE:
                exact_curvature = _curvature(resample, q)
                if not np.isfinite(exact_curvature).all():
                    break
                curvature = add_ridge(exact_curvature)
            p = q
            last_step = step
        return self._damped_newton(resample)

    def _damped_newton(self, resample: Resample) -> Vector:
        start = ESTIMATE_SHARE * self.estimate + (1.0 - ESTIMATE_SHARE) * self.source
        ratio = np.repeat(resample.ratio, resample.counts, axis=0) * resample.factor
        unknown = np.array([np.inf])
        result = run_newton(
            Likelihood.from_ratio(ratio), EMResult(start[None], unknown, unknown, np.array([0]))
        )
        prior: Vector = result.priors[0]
        return prior


def _distance_to_go(step: float, rate: float) -> float:
    """Return the length of all further steps, if they continue to shrink by ``rate``."""
    return step * rate / (1.0 - rate) if rate < 1.0 else math.inf


def _steps_to_go(step: float, rate: float) -> float:
    """Return the number of further steps until they are small, if they shrink by ``rate``."""
    return math.log(NEWTON_TOLERANCE / step) / math.log(rate) if rate < 1.0 else math.inf


def _slope(resample: Resample, p: Vector) -> Vector:
    """Return the slopes of Σp less the mean log-likelihood."""
    total = np.zeros(p.size)
    scaled = p * resample.factor
    with np.errstate(divide="ignore", invalid="ignore"):
        for part, block in row_blocks(resample.ratio):
            total += (resample.counts[part] / (block @ scaled)) @ block
    slope: Vector = 1.0 - resample.factor * total / len(resample.ratio)
    return slope


def _curvature(resample: Resample, p: Vector) -> Vector:
    """Return the curvatures of the same function."""
    factor = np.broadcast_to(resample.factor, p.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        product = derivatives(resample.ratio, p * factor, resample.counts)[1]
    curvature: Vector = product * np.outer(factor, factor)
    return curvature
