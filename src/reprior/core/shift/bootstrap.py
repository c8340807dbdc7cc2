"""How far an estimated target prior may be off: bootstrap replicates of the estimate.

Target samples are drawn again with replacement; validation samples are drawn again within each
class, as their class mix is of no consequence. Replicates are worked on side by side.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.em import Likelihood, climb
from reprior.core.shift.moments import Moments, truncated
from reprior.core.shift.newton import MOST_CLASSES
from reprior.core.shift.predictions import HardPredictions, Predicted
from reprior.core.shift.recalibration import Recalibrated
from reprior.core.shift.replicates import Nearby, Redrawn

__all__ = ["MOST_CLASSES", "Progress", "em_replicates", "ignored", "intervals", "moment_replicates"]

Vector: TypeAlias = np.ndarray[Any, Any]

TOLERANCE = 1e-6
"""Where EM ends on replicates: far below the spread of any that a bootstrap is needed for."""

MAX_ITERATIONS = 300
"""Passes of EM for a replicate. One that needs more moves along a direction in which the scores
say so little that the spread of the replicates is wide anyhow."""

STAYING = 0.9
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
    start = STAYING * estimate + (1.0 - STAYING) * source
    found: list[Vector] = []
    for counts in _resampled(len(likelihood.ratio), n_replicates, rng):
        climbed = climb(
            likelihood.of(counts),
            np.tile(start, (len(counts), 1)),
            tolerance=TOLERANCE,
            max_iterations=MAX_ITERATIONS,
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
