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


@njit(nogil=True, cache=True)
def sweep_switches(
    order: Any,
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
    always: Any,
    sometimes: bool,
    pooled: bool,
    form: Any,
    scale: float,
    low: float,
    start: Any,
    value: Any,
) -> int:  # pragma: no cover
    """Write the steps into ``start`` and ``value``; return how many there are.

    ``always`` (K,) marks the classes that the average is over whatever is predicted; with
    ``sometimes`` it is over the predicted ones too. ``pooled`` counts everything as class 0.
    ``count`` and ``weight`` are empty where every switch is one sample of weight 1.
    """
    n_classes = support.shape[0]
    fixed = np.zeros(n_classes, np.int64)
    total = np.int64(0)
    divisor = 0
    for c in range(n_classes):
        if always[c] or (sometimes and n_predicted[c] > 0):
            fixed[c] = _fixed(c, tp, predicted, support, form, scale)
            total += fixed[c]
            divisor += 1
    used = 0
    here = low
    n = order.shape[0]
    for j in range(n):
        i = order[j]
        if position[i] != here:
            start[used], value[used] = here, total / (max(divisor, 1) * scale)
            here = position[i]
            used += 1
        heads = count[i] if count.shape[0] else 1
        amount = weight[i] if weight.shape[0] else np.float64(heads)
        for side in range(2):
            party = winner[i] if side else loser[i]
            c = 0 if pooled else party
            sign = 1 if side else -1
            was = always[c] or (sometimes and n_predicted[c] > 0)
            n_predicted[c] += sign * heads
            predicted[c] += sign * amount
            if party == label[i]:
                tp[c] += sign * amount
            now = always[c] or (sometimes and n_predicted[c] > 0)
            # Weights that cancel leave rounding behind: the plain number says who is predicted.
            rated = now and n_predicted[c] > 0
            new = _fixed(c, tp, predicted, support, form, scale) if rated else 0
            total += new - fixed[c]
            fixed[c] = new
            divisor += (1 if now else 0) - (1 if was else 0)
    start[used], value[used] = here, total / (max(divisor, 1) * scale)
    return used + 1
