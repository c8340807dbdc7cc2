r"""The target prior by maximum likelihood: the EM algorithm of Saerens et al., accelerated.

One implementation maximises the likelihood of the samples, and the likelihoods of any number of
bootstrap replicates side by side: in a replicate every sample counts a number of times.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.predictions import relative_probabilities

__all__ = ["EMResult", "Likelihood", "run_em"]

CHANGE_TOLERANCE = 1e-9
"""EM ends where no class's prior will move by more than this until convergence. Its steps shrink
by a factor, so the remaining ones sum up to the last one times factor/(1 − factor)."""

ROUNDING = 1e-15
"""Steps this small are the rounding of a mean over the samples: EM has converged."""

RATE_HISTORY = 3
"""Rounds of three steps whose slowest factor counts: steps right after an extrapolated one may go
only in directions that hardly matter."""

MAX_ITERATIONS = 3000
"""Steps of EM, each a pass over the scores. Every third step is extrapolated from the two before,
so tens are usual; more are needed where scores hardly distinguish some classes."""

BLOCK_ITEMS = 1 << 18
"""Scores of one block: they are read twice, the second time from a cache."""


class EMResult(NamedTuple):
    """Where EM ended, for each of B problems.

    ``priors`` is (B, K); ``remaining_change`` (B,) by how much each may still move,
    ``last_change`` (B,) the largest difference of its last step, and ``iterations`` (B,) its
    passes over the scores.
    """

    priors: NDArray[np.float64]
    remaining_change: NDArray[np.float64]
    last_change: NDArray[np.float64]
    iterations: NDArray[np.int64]


class Likelihood:
    """The mean log-likelihood of samples as a function of the target prior, and EM's next prior.

    With ``counts`` of shape (B, N), the likelihoods of B replicates in which sample i counts
    ``counts[b, i]`` times.
    """

    def __init__(
        self,
        rows: NDArray[Any],
        source: NDArray[np.float64],
        counts: NDArray[np.uint8] | None = None,
    ) -> None:
        # P_d(k|x)/P_s(k) up to a factor per row, which changes no step of EM. The largest of a row
        # is 1: what underflows beside it does not contribute to the row's mixture.
        ratio = rows - np.log(source).astype(rows.dtype)
        self.ratio = relative_probabilities(ratio, out=ratio)
        self.counts = counts

    def __len__(self) -> int:
        return len(self.ratio)

    def resampled(self, counts: NDArray[np.uint8]) -> "Likelihood":
        """Return the likelihoods of replicates of the same samples."""
        return Likelihood.from_ratio(self.ratio, counts)

    @classmethod
    def from_ratio(cls, ratio: Any, counts: NDArray[np.uint8] | None = None) -> "Likelihood":
        """Return the likelihood of P(x|k), known up to a factor per row.

        ``ratio`` is an array (N, K), or something of that shape that is read slice by slice.
        """
        likelihood = object.__new__(cls)
        likelihood.ratio = ratio
        likelihood.counts = counts
        return likelihood

    def __call__(
        self, priors: NDArray[np.float64], which: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the likelihoods of ``priors``, and the mean posteriors under each: EM's step.

        Row b of ``priors`` is for the replicate ``which[b]``.
        """
        n = len(self.ratio)
        n_priors, n_classes = priors.shape
        values = np.zeros(n_priors)
        total = np.zeros_like(priors)
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


def run_em(
    likelihood: Likelihood,
    priors: NDArray[np.float64],
    *,
    tolerance: float = CHANGE_TOLERANCE,
    max_iterations: int | None = None,
) -> EMResult:
    """Return the priors at which EM converges, starting at ``priors`` (B, K)."""
    limit = MAX_ITERATIONS if max_iterations is None else max_iterations
    current = priors.copy()
    remaining = np.full(len(priors), np.inf)
    last_change = np.full(len(priors), np.inf)
    iterations = np.zeros(len(priors), np.int64)
    active = np.arange(len(priors))
    recent_rates = np.zeros((RATE_HISTORY, len(priors)))
    for _ in range(limit // 3):
        start = current[active]
        first = likelihood(start, active)[1]
        first_values, second = likelihood(first, active)
        steps = [np.abs(step).max(axis=1) for step in (first - start, second - first)]
        recent_rates = np.roll(recent_rates, 1, axis=0)
        recent_rates[0, active] = _rates(*steps)
        remaining[active] = _remaining(steps[1], recent_rates[:, active].max(axis=0))
        last_change[active] = steps[1]
        current[active] = second
        iterations[active] += 2
        moving = remaining[active] > tolerance
        active = active[moving]
        if not active.size:
            break
        second = second[moving]
        values, extrapolated = likelihood(
            _extrapolated(start[moving], first[moving], second), active
        )
        # Rejected where the likelihood is lower: plain EM steps never decrease it.
        lower = values < first_values[moving]
        current[active] = np.where(lower[:, None], second, extrapolated)
        iterations[active] += 1
    return EMResult(current, remaining, last_change, iterations)


def _rates(before: NDArray[np.float64], last: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by which factor steps shrink; 0 for steps that are rounding alone."""
    exact = (before > ROUNDING) & (last > ROUNDING)
    rates = np.divide(last, before, out=np.zeros_like(last), where=exact)
    return np.minimum(rates, 1.0 - ROUNDING)


def _remaining(last: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the length of all further steps, if they continue to shrink by ``rate``."""
    return np.where(last <= ROUNDING, 0.0, last * rate / (1.0 - rate))


def _extrapolated(
    start: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where two steps lead if further ones shrink at the same rate; positive priors."""
    step = first - start
    bend = second - 2.0 * first + start
    sizes = [np.linalg.norm(each, axis=1) for each in (step, bend)]
    far = np.clip(sizes[0] / np.maximum(sizes[1], np.finfo(float).tiny), 1.0, 1.0 / ROUNDING)
    while True:
        factor = far[:, None]
        priors: NDArray[np.float64] = start + 2.0 * factor * step + factor * factor * bend
        bad = (far > 1.0) & ~(priors > 0.0).all(axis=1)  # infinite bends give NaN
        if not bad.any():
            priors /= priors.sum(axis=1, keepdims=True)
            return priors
        far[bad] = np.where(far[bad] < 1.0 + 1e-3, 1.0, 0.5 * (far[bad] + 1.0))
