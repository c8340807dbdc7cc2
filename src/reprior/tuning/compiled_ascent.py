"""One round of line searches over all classes as one compiled loop (numba).

What ``bias_ascent`` does class by class in arrays, equal to the bit where samples have no weights
and to the rounding of sums where they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reprior.tuning.bias_line import OUTSIDE
from reprior.tuning.columns import CLASSES_AT_ONCE
from reprior.tuning.compiled_box import best_step, steps_along
from reprior.tuning.compiled_line import count_first, measure, promising
from reprior.tuning.compiled_places import lower_class, raise_class
from reprior.tuning.constants import EQUAL_VALUES

__all__ = ["climb_lines"]

# Compiled code is invisible to line coverage; tests/tuning/test_compiled_ascent.py checks all of
# it against the array code.


@njit(nogil=True, cache=True)
def _move(
    rows: Any, column: Any, biases: Any, k: int, bias: float, places: Any
) -> None:  # pragma: no cover
    """Give class k another bias, and mend the first two classes of every sample."""
    first, second, top, following = places
    raised = bias > biases[k]
    biases[k] = bias
    if raised:
        raise_class(column, bias, k, first, second, top, following)
    else:
        lower_class(rows, column, biases, k, first, second, top, following)


@njit(nogil=True, cache=True)
def _count(
    labels: Any, weights: Any, first: Any, tallies: Any, plain: Any
) -> None:  # pragma: no cover
    """Count all over again: nothing adds up that was rounded before."""
    both = np.zeros(tallies.shape, np.int64)
    tallies[:] = 0.0
    count_first(labels, weights, first, tallies, both)
    if weights.shape[0] == 0:
        tallies[:] = both
    plain[:] = both[1]


@njit(nogil=True, cache=True)
def _best_place(
    k: int,
    home: float,
    column: Any,
    bias: float,
    labels: Any,
    weights: Any,
    places: Any,
    counts: Any,
    support: Any,
    rules: Any,
    value: float,
    desk: Any,
) -> tuple[float, float]:  # pragma: no cover
    """The middle of the best interval of class k's bias, and the metric there."""
    first, second, top, following = places
    tallies, plain = counts[0].copy(), counts[1].copy()
    place, gap, bits, bucket, code, codes, amounts, chosen = desk
    bounding, sweeping, pooled = rules
    measure(column, k, bias, first, top, following, place, gap)
    used, before, after = promising(
        bits, k, place, labels, weights, first, second, support, bounding, value,
        tallies, plain, (bucket, code, codes, amounts), chosen,
    )  # fmt: skip
    if used == 0:
        return bias, value
    index = chosen[:used]
    along = place[index] - home
    by = np.argsort(along)
    index = index[by]
    low = before if np.isfinite(before) else place[index[0]] - OUTSIDE
    high = after if np.isfinite(after) else place[index[-1]] + OUTSIDE
    loser, weight = np.empty(used, np.int32), np.empty(0)
    for s in range(used):
        loser[s] = second[index[s]] if first[index[s]] == k else first[index[s]]
    if weights.shape[0]:
        weight = weights[index]
    winner, count = np.full(used, k, np.int32), np.empty(0, np.int64)
    switches = (along[by], labels[index], loser, winner, count, weight)
    start, values = np.empty(used + 1), np.empty(used + 1)
    n = steps_along(switches, tallies, plain, support, sweeping, pooled, low - home, start, values)
    a, b, best = best_step(start[:n], values[:n], high - home)
    middle = (a + b) / 2
    return home + (middle if middle < b else a), best


@njit(nogil=True, cache=True)
def climb_lines(
    order: Any,
    home: Any,
    rows: Any,
    biases: Any,
    labels: Any,
    weights: Any,
    places: Any,
    counts: Any,
    support: Any,
    rules: Any,
    desk: Any,
    history: Any,
) -> int:  # pragma: no cover
    """Move every class of ``order`` to the best place on its line; the number of steps.

    ``places`` are the first two classes and their scores, ``counts`` true positives and predicted
    (2, K) and the plain number predicted (K,); they are kept up to date. ``rules`` say how the
    metric is bounded and swept, and whether it is pooled. ``desk`` is room, see
    :class:`reprior.tuning.bias_line.Desk`. ``history[0]`` is the metric now; it is written on
    after every step.
    """
    n, n_classes = rows.shape
    turned = np.empty((min(CLASSES_AT_ONCE, n_classes), n), rows.dtype)
    block, used = -1, 0
    nobody, nowhere = np.empty(0, np.int32), np.empty(0)
    nothing = (nowhere, nobody, nobody, nobody, np.empty(0, np.int64), nowhere)
    start, value = np.empty(1), np.empty(1)
    tallies, plain = counts
    for k in order:
        if k // CLASSES_AT_ONCE != block:
            block = k // CLASSES_AT_ONCE
            low, high = block * CLASSES_AT_ONCE, min((block + 1) * CLASSES_AT_ONCE, n_classes)
            for i in range(n):
                for j in range(low, high):
                    turned[j - low, i] = rows[i, j]
        column, before = turned[k % CLASSES_AT_ONCE], biases[k]
        bias, best = _best_place(
            k, home[k], column, before, labels, weights, places, counts, support, rules,
            history[used], desk,
        )  # fmt: skip
        if not best > history[used] + EQUAL_VALUES:
            continue
        _move(rows, column, biases, k, bias, places)
        _count(labels, weights, places[0], tallies, plain)
        steps_along(
            nothing, tallies.copy(), plain.copy(), support, rules[1], rules[2], 0.0, start, value
        )
        if value[0] > history[used] + EQUAL_VALUES:
            used += 1
            history[used] = value[0]
        else:
            _move(rows, column, biases, k, before, places)
            _count(labels, weights, places[0], tallies, plain)
    return used
