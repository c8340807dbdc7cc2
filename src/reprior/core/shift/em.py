r"""The target prior by maximum likelihood: the EM algorithm of Saerens et al., accelerated.

One implementation climbs the likelihood of the samples as they are, and those of any number of
bootstrap replicates, in which every sample counts a number of times, side by side.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Climb", "Likelihood", "climb"]

CHANGE_TOLERANCE = 1e-9
"""EM ends where no class's prior will move by more than this until it stands still. Its steps
shrink by a factor, so those to come sum up to the last one times factor/(1 − factor)."""

ROUNDING = 1e-15
"""Steps this small are the rounding of a mean over the samples: there is nothing to come."""

REMEMBERED = 3
"""Rounds of three steps whose slowest factor counts. Right after a step that skips ahead, the
steps along the directions that hardly matter may be the only ones to be seen."""

MAX_ITERATIONS = 3000
"""Steps of EM, each a pass over the scores. As every third one is extrapolated from the two
before, tens are usual; what needs more has classes that the scores can hardly tell apart."""

BLOCK_ITEMS = 1 << 18
"""Scores that are gone through at a time: they are read twice, the second time from a cache."""


class Climb(NamedTuple):
    """Where EM ended, for each of B problems.

    ``priors`` is (B, K); ``left`` (B,) by how much each may still move, ``change`` (B,) the
    largest difference of its last step, and ``iterations`` (B,) its passes over the scores.
    """

    priors: NDArray[np.float64]
    left: NDArray[np.float64]
    change: NDArray[np.float64]
    iterations: NDArray[np.int64]


class Likelihood:
    """The mean log-likelihood of samples as a function of the target prior, and EM's next one.

    ``counts`` of shape (B, N) makes it that of B replicates in which sample i counts
    ``counts[b, i]`` times.
    """

    def __init__(
        self,
        rows: NDArray[Any],
        source: NDArray[np.float64],
        counts: NDArray[np.uint8] | None = None,
    ) -> None:
        # P_d(k|x)/P_s(k) up to a factor per row, by which no step of EM changes. The largest of a
        # row is 1: what underflows beside it has no part in the row's mixture.
        ratio = rows - np.log(source).astype(rows.dtype)
        ratio -= ratio.max(axis=1, keepdims=True)
        self.ratio = np.exp(ratio, out=ratio)
        self.counts = counts

    def __len__(self) -> int:
        return len(self.ratio)

    def of(self, counts: NDArray[np.uint8]) -> "Likelihood":
        """Return that of replicates of the same samples."""
        return Likelihood.of_ratio(self.ratio, counts)

    @classmethod
    def of_ratio(cls, ratio: NDArray[Any], counts: NDArray[np.uint8] | None = None) -> "Likelihood":
        """Return that of P(x|k), known up to a factor per row."""
        other = object.__new__(cls)
        other.ratio, other.counts = ratio, counts
        return other

    def __call__(
        self, priors: NDArray[np.float64], which: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the likelihoods of ``priors``, and the mean posterior under each: EM's step.

        Row b of ``priors`` is for the replicate ``which[b]``.
        """
        n, (n_priors, n_classes) = len(self.ratio), priors.shape
        values, total = np.zeros(n_priors), np.zeros_like(priors)
        step = max(1, BLOCK_ITEMS // max(n_classes, n_priors))
        for start in range(0, n, step):
            block = self.ratio[start : start + step].astype(np.float64, copy=False)
            mixture = priors @ block.T
            share = 1.0 / mixture
            logs = np.log(mixture, out=mixture)
            if self.counts is not None:
                counts = self.counts[which, start : start + step]
                share *= counts
                logs *= counts
            values += logs.sum(axis=1)
            total += share @ block
        means = priors * total / n
        return values / n, means / means.sum(axis=1, keepdims=True)


def climb(
    likelihood: Likelihood,
    priors: NDArray[np.float64],
    *,
    tolerance: float = CHANGE_TOLERANCE,
    max_iterations: int | None = None,
) -> Climb:
    """Return the priors at which EM stands still, from ``priors`` (B, K) on."""
    limit = MAX_ITERATIONS if max_iterations is None else max_iterations
    found = priors.copy()
    left, change = np.full(len(priors), np.inf), np.full(len(priors), np.inf)
    iterations, which = np.zeros(len(priors), np.int64), np.arange(len(priors))
    recent = np.zeros((REMEMBERED, len(priors)))
    for _ in range(limit // 3):
        start = found[which]
        first = likelihood(start, which)[1]
        reached, second = likelihood(first, which)
        steps = [np.abs(step).max(axis=1) for step in (first - start, second - first)]
        recent = np.roll(recent, 1, axis=0)
        recent[0, which] = _rates(*steps)
        left[which], change[which] = _remaining(steps[1], recent[:, which].max(axis=0)), steps[1]
        found[which], iterations[which] = second, iterations[which] + 2
        going = left[which] > tolerance
        which, start, first, second = which[going], start[going], first[going], second[going]
        if not which.size:
            break
        values, further = likelihood(_extrapolated(start, first, second), which)
        # Too far where it is lower: EM's own steps never go down.
        found[which] = np.where((values < reached[going])[:, None], second, further)
        iterations[which] += 1
    return Climb(found, left, change, iterations)


def _rates(before: NDArray[np.float64], last: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by which factor steps shrink; that of steps that are rounding alone is 0."""
    told = (before > ROUNDING) & (last > ROUNDING)
    rates = np.divide(last, before, out=np.zeros_like(last), where=told)
    return np.minimum(rates, 1.0 - ROUNDING)


def _remaining(last: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far steps that go on to shrink by a factor will lead."""
    return np.where(last <= ROUNDING, 0.0, last * rate / (1.0 - rate))


def _extrapolated(
    start: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where two steps lead if each further one shrinks as they do; positive priors."""
    step, bend = first - start, second - 2.0 * first + start
    sizes = [np.linalg.norm(each, axis=1) for each in (step, bend)]
    far = np.clip(sizes[0] / np.maximum(sizes[1], np.finfo(float).tiny), 1.0, 1.0 / ROUNDING)
    while True:
        by = far[:, None]
        priors: NDArray[np.float64] = start + 2.0 * by * step + by * by * bend
        bad = (far > 1.0) & ~(priors > 0.0).all(axis=1)  # infinite bends come to NaN
        if not bad.any():
            priors /= priors.sum(axis=1, keepdims=True)
            return priors
        far[bad] = np.where(far[bad] < 1.0 + 1e-3, 1.0, 0.5 * (far[bad] + 1.0))
