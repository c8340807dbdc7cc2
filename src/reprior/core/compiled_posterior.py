"""Sums over tempered posteriors as compiled loops (numba), for rows of many classes.

A row stays in the innermost cache while it is tilted, exponentiated and summed, nothing of the
size of the scores is allocated, and the global interpreter lock is released. The exponential is
a polynomial of 2^-53 accuracy without a branch, so that it is computed for several classes at
once; all arithmetic is in float64, whatever the scores are stored in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = ["ANY_ORDER", "add_posteriors", "tilted_sums"]

LOWEST = -708.0
"""Exponents below this, whose exponential is nearly the smallest number, are raised to it."""

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
"""log 2 in two parts: a product of the first with a whole number up to 1,100 is exact."""

ROUNDING = 6755399441055744.0
"""1.5·2^52. Added to a number it leaves that, rounded, in the lowest bits."""

EXPONENT_BITS, EXPONENT_OF_ONE = 52, 1023

ORDER = 12
"""Terms of the series of exp on [−log(2)/2, log(2)/2]: the next is below 2^-52."""

C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (
    1.0 / math.factorial(i) for i in range(2, ORDER + 1)
)

#: Sums may be taken in any order; nothing else is left to the compiler, least of all here, where
#: adding and subtracting the same number is meant.
ANY_ORDER = {"reassoc", "contract", "nsz"}

# Compiled code is invisible to line coverage; tests/core/test_compiled_posterior.py checks every
# function below against array code.


@njit(nogil=True, cache=True, fastmath={"contract"})
def _exponentials(
    x: Any, peak: float, power: Any, bits: Any, mass: Any
) -> None:  # pragma: no cover
    """Leave exp(x − peak) as ``mass`` · ``power``, 2 to a whole number; ``bits`` are its bits."""
    for k in range(x.size):
        power[k] = max(x[k] - peak, LOWEST) * LOG2_E + ROUNDING
    for k in range(x.size):
        whole = power[k] - ROUNDING
        r = (max(x[k] - peak, LOWEST) - whole * LN2_HIGH) - whole * LN2_LOW
        p = C12 * r + C11
        p = ((p * r + C10) * r + C9) * r + C8
        p = ((p * r + C7) * r + C6) * r + C5
        p = ((p * r + C4) * r + C3) * r + C2
        mass[k] = (p * r) * r + r + 1.0
    for k in range(x.size):
        bits[k] = (bits[k] + EXPONENT_OF_ONE) << EXPONENT_BITS


@njit(nogil=True, cache=True, fastmath={"nnan", *ANY_ORDER})
def _tilted(z: Any, scale: Any, shift: Any, x: Any) -> float:  # pragma: no cover
    """Leave scale·z + shift in ``x`` and return its maximum."""
    peak = -np.inf
    for k in range(x.size):
        x[k] = scale[k] * np.float64(z[k]) + shift[k]
        peak = max(peak, x[k])
    return peak


@njit(nogil=True, cache=True, fastmath=ANY_ORDER)
def _moments(
    z: Any, own: float, slopes: Any, mass: Any, power: Any
) -> tuple[float, ...]:  # pragma: no cover
    total = sum_z = sum_w = sum_zz = sum_zw = sum_ww = 0.0
    for k in range(mass.size):
        p, r, w = mass[k] * power[k], np.float64(z[k]) - own, slopes[k]
        total += p
        sum_z += p * r
        sum_w += p * w
        sum_zz += p * r * r
        sum_zw += p * r * w
        sum_ww += p * w * w
    return total, sum_z, sum_w, sum_zz, sum_zw, sum_ww


@njit(nogil=True, cache=True)
def tilted_sums(
    rows: Any, labels: Any, weights: Any, scale: Any, shift: Any, slopes: Any
) -> tuple[float, ...]:  # pragma: no cover
    """Return the six sums of :func:`reprior.core.moments.tilted_moments` over C-ordered rows."""
    n_classes = rows.shape[1]
    x, mass, power = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    bits = power.view(np.int64)
    value = slope_z = slope_w = var_z = cov = var_w = 0.0
    for i in range(rows.shape[0]):
        z, y, v = rows[i], labels[i], weights[i]
        own, own_w = np.float64(z[y]), slopes[y]
        peak = _tilted(z, scale, shift, x)
        at_own = x[y]
        _exponentials(x, peak, power, bits, mass)
        total, sum_z, sum_w, sum_zz, sum_zw, sum_ww = _moments(z, own, slopes, mass, power)
        mean_z, mean_w = sum_z / total, sum_w / total
        value += v * (math.log(total) + peak - at_own)
        slope_z += v * mean_z
        slope_w += v * (mean_w - own_w)
        var_z += v * max(sum_zz / total - mean_z * mean_z, 0.0)
        cov += v * (sum_zw / total - mean_z * mean_w)
        var_w += v * max(sum_ww / total - mean_w * mean_w, 0.0)
    return value, slope_z, slope_w, var_z, cov, var_w


@njit(nogil=True, cache=True, fastmath=ANY_ORDER)
def _total(mass: Any, power: Any) -> float:  # pragma: no cover
    total = 0.0
    for k in range(mass.size):
        mass[k] *= power[k]
        total += mass[k]
    return total


@njit(nogil=True, cache=True)
def add_posteriors(
    rows: Any, labels: Any, weights: Any, scale: Any, shift: Any, by_score: Any, by_class: Any
) -> float:  # pragma: no cover
    """Return the log-loss, and add v·p·z to ``by_score`` and v·p to ``by_class`` for every row."""
    n_classes = rows.shape[1]
    x, mass, power = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    bits = power.view(np.int64)
    value = 0.0
    for i in range(rows.shape[0]):
        z, v = rows[i], weights[i]
        peak = _tilted(z, scale, shift, x)
        at_own = x[labels[i]]
        _exponentials(x, peak, power, bits, mass)
        total = _total(mass, power)
        value += v * (math.log(total) + peak - at_own)
        share = v / total
        for k in range(n_classes):
            p = share * mass[k]
            by_class[k] += p
            by_score[k] += p * np.float64(z[k])
    return value
