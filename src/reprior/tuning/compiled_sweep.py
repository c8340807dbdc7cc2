"""The sweep of a metric over sorted switches as one compiled loop (numba).

The same steps as ``sweep``'s array form: bit for bit where samples have no weights, to the
rounding of running sums where they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["sweep_switches"]

# Arrays are passed one by one: numba counts references to those in a tuple whenever it is taken
# apart, which took four fifths of the time. A ratio of nothing is taken as 0 without a branch;
# `error_model` leaves out the one that asks whether to raise.


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _fixed(tp: float, below: float, factor: float, scale: float) -> int:  # pragma: no cover
    """A ratio, rounded to the fixed-point grid."""
    ratio = factor * tp / below if below > 0 else 0.0
    return int(np.int64(np.rint(ratio * scale)))


@njit(nogil=True, cache=True, error_model="numpy")
def _first(tp: Any, base: Any, counted: Any, form: Any, scale: float) -> Any:  # pragma: no cover
    """The rounded ratio of every class that counts, before any switch."""
    fixed = np.zeros(tp.shape[0], np.int64)
    for k in range(tp.shape[0]):
        if counted[k]:
            fixed[k] = _fixed(tp[k], base[k] + form[3] * tp[k], form[0], scale)
    return fixed


@njit(nogil=True, cache=True, error_model="numpy")
def sweep_switches(
    position: Any,
    label: Any,
    loser: Any,
    winner: Any,
    count: Any,
    weight: Any,
    tp: Any,
    predicted: Any,
    n_predicted: Any,
    support: Any,
    rule: Any,
    pooled: bool,
    low: float,
    start: Any,
    value: Any,
) -> int:  # pragma: no cover
    """Write the steps into ``start`` and ``value``; return how many there are.

    The switches are sorted columns; ``count`` and ``weight`` are empty where every switch is one
    sample of weight 1. True positives, predicted, the plain number predicted, and support are
    (K,); all but the last are used up. ``rule``: the classes that the average is over whatever is
    predicted, whether it is over the predicted ones too, the coefficients of the ratio, and the
    fixed-point scale. ``pooled`` counts everything as class 0.
    """
    always, sometimes, form, scale = rule
    base, counted = form[1] * support, always | (sometimes & (n_predicted > 0))
    fixed = _first(tp, base + form[2] * predicted, counted, form, scale)
    total, divisor = fixed.sum(), np.int64(counted.sum())
    by_hits = form[2] == 0.0 and not sometimes
    start[0], value[0], used = low, total / (max(divisor, 1) * scale), 0
    for i in range(np.uintp(position.shape[0])):
        heads = count[i] if count.shape[0] else np.int64(1)
        amount = weight[i] if weight.shape[0] else np.float64(heads)
        for side in range(2):
            party, sign = (winner[i], 1) if side else (loser[i], -1)
            right = party == label[i]
            if right or not by_hits:
                c = np.uintp(0) if pooled else np.uintp(party)
                n_predicted[c] += sign * heads
                predicted[c] += sign * amount
                tp[c] += sign * amount if right else 0.0
                among = always[c] or (sometimes and n_predicted[c] > 0)
                below = base[c] + form[2] * predicted[c] + form[3] * tp[c]
                # Weights that cancel leave rounding behind: the plain number says who is predicted.
                rated = among and n_predicted[c] > 0
                here = _fixed(tp[c], below, form[0], scale) if rated else 0
                total += here - fixed[c]
                divisor += np.int64(among) - np.int64(counted[c])
                fixed[c], counted[c] = here, among
        now = total / (max(divisor, 1) * scale)
        if position[i] == start[used]:
            value[used] = now
            used -= used > 0 and value[used - 1] == now
        elif now != value[used]:
            used += 1
            start[used], value[used] = position[i], now
    return used + 1
