"""The sweep of a metric over sorted switches as one compiled loop (numba).

The same steps as ``sweep``'s array form: bit for bit where samples have no weights, to the
rounding of running sums where they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["sweep_switches"]


@njit(nogil=True, cache=True, forceinline=True)
def _fixed(
    c: int, tp: Any, predicted: Any, support: Any, form: Any, scale: float
) -> int:  # pragma: no cover
    """One class's ratio, rounded to the fixed-point grid."""
    below = form[1] * support[c] + form[2] * predicted[c]
    below = below + form[3] * tp[c]
    if not below > 0:
        return 0
    return int(np.int64(np.rint(form[0] * tp[c] / below * scale)))


@njit(nogil=True, cache=True, forceinline=True)
def _move(
    c: int,
    heads: int,
    amount: float,
    right: bool,
    counted: Any,
    tallies: Any,
    fixed: Any,
    rule: Any,
) -> tuple[int, int]:  # pragma: no cover
    """Give class c some samples (negative: take); the change in the total and in the divisor."""
    tp, predicted, support, n_predicted = tallies
    always, sometimes, form, scale = rule
    was = counted[c]
    n_predicted[c] += heads
    predicted[c] += amount
    if right:
        tp[c] += amount
    counted[c] = always[c] or (sometimes and n_predicted[c] > 0)
    # Weights that cancel leave rounding behind: the plain number says who is predicted.
    rated = counted[c] and n_predicted[c] > 0
    old = fixed[c]
    fixed[c] = _fixed(c, tp, predicted, support, form, scale) if rated else 0
    return fixed[c] - old, (1 if counted[c] else 0) - (1 if was else 0)


@njit(nogil=True, cache=True)
def sweep_switches(
    switches: Any,
    tallies: Any,
    rule: Any,
    pooled: bool,
    low: float,
    start: Any,
    value: Any,
) -> int:  # pragma: no cover
    """Write the steps into ``start`` and ``value``; return how many there are.

    ``switches`` are sorted columns: position, label, loser, winner, count, weight; the last two
    are empty where every switch is one sample of weight 1. ``tallies`` are true positives,
    predicted, support and the plain number predicted, each (K,); the first two and the last are
    used up. ``rule``: the classes that the average is over whatever is predicted, whether it is
    over the predicted ones too, the coefficients of the ratio, and the fixed-point scale.
    ``pooled`` counts everything as class 0.
    """
    position, label, loser, winner, count, weight = switches
    tp, predicted, support, n_predicted = tallies
    always, sometimes, form, scale = rule
    counted = always | (sometimes & (n_predicted > 0))
    fixed = np.zeros(support.shape[0], np.int64)
    for k in range(support.shape[0]):
        if counted[k]:
            fixed[k] = _fixed(k, tp, predicted, support, form, scale)
    total, divisor = fixed.sum(), counted.sum()
    by_hits = form[2] == 0.0 and not sometimes
    start[0], value[0], used = low, total / (max(divisor, 1) * scale), 0
    for i in range(position.shape[0]):
        heads = count[i] if count.shape[0] else 1
        amount = weight[i] if weight.shape[0] else np.float64(heads)
        for side in range(2):
            party = winner[i] if side else loser[i]
            sign = 1 if side else -1
            c, right = (0 if pooled else party), party == label[i]
            if right or not by_hits:
                more, classes = _move(
                    c, sign * heads, sign * amount, right, counted, tallies, fixed, rule
                )
                total += more
                divisor += classes
        now = total / (max(divisor, 1) * scale)
        if position[i] == start[used]:
            value[used] = now
            used -= used > 0 and value[used - 1] == now
        elif now != value[used]:
            used += 1
            start[used], value[used] = position[i], now
    return used + 1
