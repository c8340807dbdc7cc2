r"""Exact tails of the binomial distribution, and what tests of a rate need of them.

.. math:: P(X \geq k) = \sum_{i \geq k} \binom{n}{i} p^i (1 - p)^{n - i} = I_p(k,\, n - k + 1)

for n independent trials that succeed with probability p; I is the regularised incomplete beta
function. It is evaluated as the probability of k itself, by Loader's saddle-point form [1]_, which
has no cancellation for large n, times a continued fraction [2]_.

References
----------
.. [1] Loader. "Fast and Accurate Computation of Binomial Probabilities", 2000.
.. [2] Didonato, Morris. "Algorithm 708: Significant Digit Computation of the Incomplete Beta
   Function Ratios", ACM Transactions on Mathematical Software 18, 1992.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

__all__ = ["binomial_tail", "certain_count", "rate_bound", "trials_needed"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: log n! − log √(2πn) − n log n + n for n = 0 … 15; from there on the series below is exact.
_STIRLING_ERRORS = np.array(
    [0.0]
    + [
        math.lgamma(n + 1) - 0.5 * math.log(2 * math.pi * n) - n * math.log(n) + n
        for n in range(1, 16)
    ]
)

#: Numbers closer than this, relatively to their sum, are compared by a series.
CLOSE = 0.1

#: Terms of that series: each is at most CLOSE² of the one before.
CLOSE_TERMS = 9

#: A step of the continued fraction that changes it by less ends it.
FRACTION_TOLERANCE = 1e-15

#: Steps of the continued fraction: it takes about √n, and fewer away from the mean.
MOST_STEPS = 200_000

#: Replaces a 0 in the continued fraction, as in Lentz's method.
TINY = 1e-300

#: Halvings of an interval of rates: all digits of float64.
HALVINGS = 64

#: More trials are not asked for.
MOST_TRIALS = 10**9


def binomial_tail(successes: Any, trials: Any, rate: Any) -> Vector:
    """Return P(X ≥ successes) for X of ``trials`` trials with probability ``rate``.

    It is the p-value of the hypothesis that the rate of success is at most ``rate``. Arrays are
    broadcast.

    Examples
    --------
    >>> binomial_tail([9, 10], 10, 0.5)
    array([0.0107, 0.00098])
    """
    k, n, p = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (successes, trials, rate)))
    tail = np.where(k <= 0, 1.0, 0.0)
    tail = np.where((k > 0) & (k <= n) & (p >= 1), 1.0, tail)
    inner = (k > 0) & (k <= n) & (p > 0) & (p < 1)
    k, n, p = k[inner], n[inner], p[inner]
    above = p < (k + 1) / (n + 3)  # the tail away from the mean is computed, never 1 less of it
    value = np.empty(k.shape)
    value[above] = _far_tail(k[above], n[above], p[above])
    below = ~above
    value[below] = 1.0 - _far_tail(n[below] - k[below] + 1, n[below], 1.0 - p[below])
    tail[inner] = np.clip(value, 0.0, 1.0)
    return tail


def certain_count(trials: int, rate: float, level: float) -> int:
    """Return the largest count that fewer successes than it have at most probability ``level``.

    Examples
    --------
    >>> certain_count(100, 0.5, 0.05)
    42
    """
    low, high = 0, int(trials)
    while low < high:
        middle = (low + high + 1) // 2
        fewer = float(binomial_tail(trials - middle + 1, trials, 1.0 - rate))  # P(X < middle)
        low, high = (middle, high) if fewer <= level else (low, middle - 1)
    return low


def rate_bound(successes: float, trials: float, level: float) -> float:
    """Return the lower bound of a rate that is above it with probability ``level`` at most [1]_.

    References
    ----------
    .. [1] Clopper, Pearson. "The use of confidence or fiducial limits illustrated in the case of
       the binomial", Biometrika 26, 1934.

    Examples
    --------
    >>> round(rate_bound(90, 100, 0.05), 4)
    0.8363
    """
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_rejected = float(binomial_tail(successes, trials, middle)) <= level
        low, high = (middle, high) if is_rejected else (low, middle)
    return low


def trials_needed(observed: float, rate: float, level: float) -> int | None:
    """Return about how many trials show that a rate is above ``rate``, at this observed rate.

    None where the observed rate is not above it, or more than a billion would be needed.

    Examples
    --------
    >>> trials_needed(0.95, 0.9, 0.05)
    129
    """

    def enough(n: int) -> bool:
        return float(binomial_tail(math.floor(observed * n + 1e-9), n, rate)) <= level

    if not observed > rate:
        return None
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST_TRIALS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _far_tail(k: Vector, n: Vector, p: Vector) -> Vector:
    """Return P(X ≥ k) where k is above the mean, or just below it."""
    return _probability(k, n, p) * (1.0 - p) * _fraction(k, n - k + 1.0, p)


def _probability(k: Vector, n: Vector, p: Vector) -> Vector:
    """Return P(X = k) for 0 < k ≤ n."""
    rest = n - k
    inner = rest > 0
    safe = np.where(inner, rest, 1.0)
    log = _stirling_error(n) - _stirling_error(k) - _stirling_error(rest)
    log -= _deviance(k, n * p) + _deviance(safe, n * (1.0 - p))
    spread = np.sqrt(n / (2.0 * math.pi * k * safe))
    return np.asarray(np.where(inner, np.exp(log) * spread, np.exp(n * np.log(p))))


def _stirling_error(n: Vector) -> Vector:
    """Return log n! less Stirling's formula for it."""
    few = n <= 15
    x = np.where(few, 16.0, n)
    square = x * x
    terms = (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square
    series = (1 / 12 - terms) / x
    return np.where(few, _STIRLING_ERRORS[np.where(few, n, 0).astype(np.intp)], series)


def _deviance(x: Vector, mean: Vector) -> Vector:
    """Return x·log(x / mean) + mean − x without cancellation."""
    v = (x - mean) / (x + mean)
    close = np.abs(v) < CLOSE
    small = np.where(close, v, 0.0)
    total, term = (x - mean) * small, 2.0 * x * small
    for j in range(1, CLOSE_TERMS):
        term = term * small * small
        total = total + term / (2 * j + 1)
    return np.where(close, total, x * np.log(x / mean) + mean - x)


def _fraction(a: Vector, b: Vector, x: Vector) -> Vector:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = np.ones(a.shape), _nonzero(1.0 - (a + b) * x / (a + 1.0))
    d = 1.0 / d
    value = d
    for m in range(1, MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d = 1.0 / _nonzero(1.0 + term * d)
            c = _nonzero(1.0 + term / c)
            value = value * c * d
        if (np.abs(value - before) <= FRACTION_TOLERANCE * np.abs(value)).all():
            break
    return value


def _nonzero(x: Vector) -> Vector:
    return np.where(np.abs(x) < TINY, TINY, x)
