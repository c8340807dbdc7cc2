"""Samples that are in doubt while no bias moves far, as compiled loops (numba).

Most samples keep their class wherever the biases go within a small box, and most classes never
come near the top of a sample. What is left is sparse: few samples, with few classes each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from reprior.tuning.compiled_sweep import sweep_switches
from reprior.tuning.constants import EQUAL_VALUES, NARROWEST

__all__ = [
    "best_of_class",
    "best_step",
    "by_class",
    "candidates",
    "climb_in_box",
    "count_candidates",
    "line_in_box",
    "move_in_box",
    "steps_along",
]

# Compiled code is invisible to line coverage; tests/tuning/test_compiled_box.py checks every
# function below against the array code.


@njit(nogil=True, cache=True)
def count_candidates(
    rows: Any, biases: Any, top: Any, following: Any, reach: float, ends: Any
) -> int:  # pragma: no cover
    """Write, for every sample in doubt, how many classes come within ``reach`` of the top.

    ``ends`` is 0 for the others. Returns how many samples are in doubt.
    """
    doubtful = 0
    for i in range(rows.shape[0]):
        level, count = top[i] - reach, 0
        if following[i] >= level:
            doubtful += 1
            for k in range(rows.shape[1]):
                count += np.float64(rows[i, k]) + biases[k] >= level
        ends[i] = count
    return doubtful


@njit(nogil=True, cache=True)
def candidates(
    rows: Any,
    biases: Any,
    top: Any,
    reach: float,
    counts: Any,
    sample: Any,
    ends: Any,
    classes: Any,
    scores: Any,
) -> None:  # pragma: no cover
    """Write the samples in doubt, their classes in question and the scores of these."""
    used = row = 0
    for i in range(rows.shape[0]):
        if counts[i] == 0:
            continue
        level = top[i] - reach
        for k in range(rows.shape[1]):
            score = np.float64(rows[i, k])
            if score + biases[k] >= level:
                classes[used], scores[used] = k, score
                used += 1
        sample[row], ends[row + 1] = i, used
        row += 1


@njit(nogil=True, cache=True)
def by_class(ends: Any, classes: Any, starts: Any, members: Any) -> None:  # pragma: no cover
    """Write the samples in doubt of every class; ``starts`` (K + 1,) is where they begin."""
    starts[:] = 0
    for k in classes:
        starts[k + 1] += 1
    for k in range(starts.shape[0] - 1):
        starts[k + 1] += starts[k]
    filled = starts.copy()
    for row in range(ends.shape[0] - 1):
        for e in range(ends[row], ends[row + 1]):
            members[filled[classes[e]]] = row
            filled[classes[e]] += 1


@njit(nogil=True, cache=True, forceinline=True)
def _rival(
    row: int, k: int, ends: Any, classes: Any, scores: Any, biases: Any
) -> tuple[int, float, float]:  # pragma: no cover
    """The best class of a sample but for k, its score, and the score of k without its bias."""
    best, top, own = -1, -np.inf, 0.0
    for e in range(ends[row], ends[row + 1]):
        j = classes[e]
        if j == k:
            own = scores[e]
        else:
            score = scores[e] + biases[j]
            if score > top:
                best, top = j, score
    return best, top, own


@njit(nogil=True, cache=True, forceinline=True)
def _hand_over(
    loser: int, winner: int, label: int, weight: float, tallies: Any, plain: Any
) -> None:  # pragma: no cover
    tallies[1, loser] -= weight
    tallies[1, winner] += weight
    plain[loser] -= 1
    plain[winner] += 1
    if label == loser:
        tallies[0, loser] -= weight
    elif label == winner:
        tallies[0, winner] += weight


@njit(nogil=True, cache=True)
def line_in_box(
    k: int,
    box: tuple[float, float],
    members: Any,
    ends: Any,
    classes: Any,
    scores: Any,
    biases: Any,
    first: Any,
    labels: Any,
    weights: Any,
    tallies: Any,
    plain: Any,
    place: Any,
    parties: Any,
    amounts: Any,
) -> int:  # pragma: no cover
    """Write the switches of class k between the two ends of the box, and return their number.

    ``tallies`` and ``plain``, of now, become those at the lower end.
    """
    low, high = box
    used = 0
    for row in members:
        other, rival, own = _rival(row, k, ends, classes, scores, biases)
        at = rival - own
        wins, holds = at <= low, first[row] == k
        weight = weights[row] if weights.shape[0] else 1.0
        if wins and not holds:
            _hand_over(other, k, labels[row], weight, tallies, plain)
        elif holds and not wins:
            _hand_over(k, other, labels[row], weight, tallies, plain)
        if low < at <= high:
            place[used], parties[0, used], parties[1, used] = at, labels[row], other
            if weights.shape[0]:
                amounts[used] = weight
            used += 1
    return used


@njit(nogil=True, cache=True)
def move_in_box(
    k: int,
    members: Any,
    ends: Any,
    classes: Any,
    scores: Any,
    biases: Any,
    first: Any,
    labels: Any,
    weights: Any,
    tallies: Any,
    plain: Any,
) -> None:  # pragma: no cover
    """Mend the first classes and the counts after the bias of class k changed."""
    for row in members:
        other, rival, own = _rival(row, k, ends, classes, scores, biases)
        score = own + biases[k]
        now = k if score > rival or (score == rival and k < other) else other
        if now != first[row]:
            weight = weights[row] if weights.shape[0] else 1.0
            _hand_over(first[row], now, labels[row], weight, tallies, plain)
            first[row] = now


@njit(nogil=True, cache=True)
def best_step(
    start: Any, value: Any, high: float
) -> tuple[float, float, float]:  # pragma: no cover
    """The best interval of a step function and its value, as ``objective.best_interval`` has it.

    Of equally good neighbours' intervals the widest, then the one nearest 0; steps narrower than
    rounding do not count.
    """
    n = start.shape[0]
    top, any_top = -np.inf, -np.inf
    for i in range(n):
        end = start[i + 1] if i + 1 < n else high
        any_top = max(any_top, value[i])
        if end - start[i] >= NARROWEST or start[i] == high:
            top = max(top, value[i])
    if top == -np.inf:
        top = any_top
    best_low, best_high, width, distance = 0.0, 0.0, -1.0, np.inf
    i = 0
    while i < n:
        if value[i] >= top - EQUAL_VALUES:
            low = start[i]
            while i + 1 < n and value[i + 1] >= top - EQUAL_VALUES:
                i += 1
            end = start[i + 1] if i + 1 < n else high
            away = 0.0 if low <= 0.0 <= end else min(abs(low), abs(end))
            if end - low > width or (end - low == width and away < distance):
                best_low, best_high, width, distance = low, end, end - low, away
        i += 1
    return best_low, best_high, top


@njit(nogil=True, cache=True)
def steps_along(
    switches: Any,
    tallies: Any,
    plain: Any,
    support: Any,
    rule: Any,
    pooled: bool,
    low: float,
    start: Any,
    value: Any,
) -> int:  # pragma: no cover
    """The steps of a metric from these counts on; ``tallies`` and ``plain`` are used up."""
    for j in range(plain.shape[0]):
        if plain[j] == 0:  # where nobody is left, weights leave rounding behind
            tallies[0, j], tallies[1, j] = 0.0, 0.0
    tp, predicted = tallies[0], tallies[1]
    if pooled:
        tp, predicted = np.array([tp.sum()]), np.array([predicted.sum()])
        support, plain = np.array([support.sum()]), np.array([plain.sum()])
    position, label, loser, winner, count, weight = switches
    return int(
        sweep_switches(
            position, label, loser, winner, count, weight, tp, predicted, plain, support, rule,
            pooled, low, start, value,
        )
    )  # fmt: skip


@njit(nogil=True, cache=True)
def best_of_class(
    k: int, box: Any, home: float, mine: Any, ends: Any, classes: Any, scores: Any, biases: Any,
    first: Any, labels: Any, weights: Any, counts: Any, heads: Any, support: Any, rule: Any,
    pooled: bool, room: Any,
) -> tuple[int, float, float, float]:  # pragma: no cover # fmt: skip
    """The number of switches along one class's bias, its best interval from home, and the value.

    ``counts`` and ``heads`` are used up; ``room`` is written over.
    """
    place, parties, amounts, start, value = room
    m = line_in_box(
        k, box, mine, ends, classes, scores, biases, first, labels, weights, counts, heads, place,
        parties, amounts,
    )  # fmt: skip
    if m == 0:
        return 0, 0.0, 0.0, 0.0
    along = place[:m] - home
    by = np.argsort(along)
    weight = amounts[:m][by] if weights.shape[0] else np.empty(0)
    winner, uncounted = np.full(m, k, np.int32), np.empty(0, np.int64)
    switches = (along[by], parties[0, :m][by], parties[1, :m][by], winner, uncounted, weight)
    low, high = box[0] - home, box[1] - home
    s = steps_along(switches, counts, heads, support, rule, pooled, low, start, value)
    a, b, top = best_step(start[:s], value[:s], high)
    return m, a, b, top


@njit(nogil=True, cache=True)
def climb_in_box(
    order: Any, home: Any, centre: Any, radius: float, starts: Any, members: Any, ends: Any,
    classes: Any, scores: Any, biases: Any, first: Any, labels: Any, weights: Any, tallies: Any,
    plain: Any, support: Any, rule: Any, pooled: bool, max_cycles: int, history: Any,
) -> tuple[int, int]:  # pragma: no cover # fmt: skip
    """Go round the classes until none improves; the number of steps, and of rounds.

    ``history[0]`` is the metric now; it is written on after every step.
    """
    n = labels.shape[0]
    start, value = np.empty(n + 1), np.empty(n + 1)
    amounts = np.empty(weights.shape[0])
    room = (np.empty(n), np.empty((2, n), np.int32), amounts, start, value)
    nobody, no_place = np.empty(0, np.int32), np.empty(0)
    nothing = (no_place, nobody, nobody, nobody, np.empty(0, np.int64), no_place)
    used = cycles = still = 0
    while cycles < max_cycles and still < order.shape[0]:
        cycles += 1
        for k in order:
            if still == order.shape[0]:
                break
            still += 1
            box = (centre[k] - radius, centre[k] + radius)
            mine = members[starts[k] : starts[k + 1]]
            m, a, b, top = best_of_class(
                k, box, home[k], mine, ends, classes, scores, biases, first, labels, weights,
                tallies.copy(), plain.copy(), support, rule, pooled, room,
            )  # fmt: skip
            if m == 0 or not top > history[used] + EQUAL_VALUES:
                continue
            before, middle = biases[k], (a + b) / 2
            biases[k] = home[k] + (middle if middle < b else a)
            moved = (k, mine, ends, classes, scores, biases, first, labels, weights, tallies, plain)
            move_in_box(*moved)
            counts, heads = tallies.copy(), plain.copy()
            steps_along(nothing, counts, heads, support, rule, pooled, 0.0, start, value)
            if value[0] > history[used] + EQUAL_VALUES:
                used += 1
                history[used], still = value[0], 0
            else:
                biases[k] = before
                move_in_box(*moved)
    return used, cycles
