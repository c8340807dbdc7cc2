"""Where along one class's bias a metric could be better than it is, compiled (numba).

Most of a line is far worse than where the bias is now, and need not be sorted to know that.
Samples are put into narrow buckets by the distance of their switch, which is quicker. Where some
buckets begin, all class counts are known exactly, and until they end the metric is at most what
it would be if every class lost its wrong samples of these buckets and none of its right ones.
Only where that is better than the present value, the exact search has to look.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["N_BUCKETS", "count_first", "measure", "promising"]

#: Distances share a bucket if they agree in exponent and the first six fractional bits.
_SHIFT = 52 - 6

#: Buckets are for distances from 2**-10 to 2**10; what is beyond is in the outermost.
_BASE = (1023 - 10) << 6
_HALF = 20 << 6
N_BUCKETS = 2 * _HALF

#: Samples that are bounded together, at least: this many; for every class, so that not most of
#: the time goes into classes without a sample; of those between them and the bias, because far
#: away bounds need not be tight.
_TOGETHER = 128
_PER_CLASS = 1 / 2
_SHARE = 1 / 16

#: Bounds are rounded: a part is passed by only if it is clearly worse.
_SLACK = 1e-9

#: The bits of infinity.
_INFINITE = 0x7FF0000000000000

#: Bucket of samples that no bias brings to a class, or takes from it.
_NOWHERE = -1

# Compiled code is invisible to line coverage; tests/tuning/test_compiled_line.py checks all of it
# against the array code.


@njit(nogil=True, cache=True)
def count_first(
    labels: Any, weights: Any, first: Any, tallies: Any, plain: Any
) -> None:  # pragma: no cover
    """Add up true positives and predicted, weighted (2, K) and as plain numbers (2, K)."""
    for i in range(labels.shape[0]):
        plain[0, labels[i]] += labels[i] == first[i]
        plain[1, first[i]] += 1
    for i in range(weights.shape[0]):
        tallies[0, labels[i]] += weights[i] * (labels[i] == first[i])
        tallies[1, first[i]] += weights[i]


@njit(nogil=True, cache=True)
def measure(
    column: Any, k: int, bias: float, first: Any, top: Any, following: Any, place: Any, gap: Any
) -> None:  # pragma: no cover
    """Write the bias at which each sample comes to class k, and how far that is from ``bias``."""
    for i in range(column.shape[0]):
        rival = following[i] if first[i] == k else top[i]
        at = rival - np.float64(column[i])
        place[i] = at
        gap[i] = abs(at - bias)


@njit(nogil=True, cache=True)
def _into_buckets(
    bits: Any, k: int, labels: Any, first: Any, second: Any, bucket: Any, code: Any, ends: Any
) -> None:  # pragma: no cover
    """Write the bucket of every sample, its best class but for k, and where buckets begin.

    A code is four times that class, plus 1 if it is the label, or 2 if k is.
    """
    for i in range(bits.shape[0]):
        q = min(max((bits[i] >> _SHIFT) - _BASE, 0), _HALF - 1)
        q = _HALF - 1 - q if first[i] == k else _HALF + q
        bucket[i] = q if bits[i] < _INFINITE else _NOWHERE
    for i in range(bits.shape[0]):
        other = second[i] if first[i] == k else first[i]
        code[i] = 4 * other + (1 if labels[i] == other else 2 if labels[i] == k else 0)
    ends[:] = 0
    for i in range(bits.shape[0]):
        if bucket[i] != _NOWHERE:
            ends[bucket[i]] += 1
    total = 0
    for q in range(N_BUCKETS):
        total += ends[q]
        ends[q] = total - ends[q]


@njit(nogil=True, cache=True)
def _sorted_by_bucket(
    bucket: Any, code: Any, weights: Any, ends: Any, codes: Any, amounts: Any
) -> None:  # pragma: no cover
    """Write codes and weights bucket by bucket; ``ends`` becomes where buckets end."""
    for i in range(bucket.shape[0]):
        q = bucket[i]
        if q != _NOWHERE:
            codes[ends[q]] = code[i]
            if weights.shape[0]:
                amounts[ends[q]] = weights[i]
            ends[q] += 1


@njit(nogil=True, cache=True)
def _give_back(
    bucket: Any,
    k: int,
    labels: Any,
    weights: Any,
    first: Any,
    second: Any,
    tallies: Any,
    plain: Any,
) -> None:  # pragma: no cover
    """Count as if class k had lost every sample that it can lose."""
    for i in range(bucket.shape[0]):
        if first[i] == k and bucket[i] != _NOWHERE:
            weight = weights[i] if weights.shape[0] else 1.0
            other = second[i]
            tallies[1, k] -= weight
            tallies[1, other] += weight
            plain[k] -= 1
            plain[other] += 1
            if labels[i] == k:
                tallies[0, k] -= weight
            elif labels[i] == other:
                tallies[0, other] += weight


@njit(nogil=True, cache=True, forceinline=True)
def _ratio(tp: float, predicted: float, support: float, form: Any) -> float:  # pragma: no cover
    below = form[1] * support + form[2] * predicted + form[3] * tp
    return form[0] * tp / below if below > 0.0 else 0.0


@njit(nogil=True, cache=True, forceinline=True)
def _sum_up(
    codes: Any, amounts: Any, start: int, stop: int, sums: Any, heads: Any
) -> None:  # pragma: no cover
    """Sum the weight of some samples by code, and their number by class."""
    if amounts.shape[0]:
        for s in range(start, stop):
            sums[codes[s]] += amounts[s]
            heads[codes[s] >> 2] += 1
        return
    for s in range(start, stop):
        sums[codes[s]] += 1.0
    for j in range(heads.shape[0]):
        heads[j] = np.int64(sums[4 * j] + sums[4 * j + 1] + sums[4 * j + 2])


@njit(nogil=True, cache=True, forceinline=True)
def _bound(
    k: int,
    support: Any,
    rule: Any,
    tallies: Any,
    plain: Any,
    ratio: Any,
    totals: Any,
    sums: Any,
    heads: Any,
) -> float:  # pragma: no cover
    """At most this while class k takes the samples summed up, in whatever order."""
    always, sometimes, form, pooled = rule
    own, better, least = 0.0, 0.0, totals[1]
    for j in range(heads.shape[0]):
        if heads[j]:
            own += sums[4 * j + 2]
            if always[j]:
                wrong = sums[4 * j] + sums[4 * j + 2]
                pure = tallies[1, j] - wrong
                better += _ratio(tallies[0, j], pure, support[j], form) - ratio[j]
            elif sometimes and heads[j] == plain[j]:
                least -= 1.0
    if pooled:
        hits = tallies[0].sum() + own
        return float(_ratio(hits, tallies[1].sum(), support.sum(), form))
    if always[k]:
        best = _ratio(tallies[0, k] + own, tallies[1, k] + own, support[k], form)
        better += best - ratio[k]
    return float((totals[0] + better) / max(least, 1.0))


@njit(nogil=True, cache=True, forceinline=True)
def _take(
    k: int,
    support: Any,
    rule: Any,
    tallies: Any,
    plain: Any,
    ratio: Any,
    totals: Any,
    sums: Any,
    heads: Any,
) -> None:  # pragma: no cover
    """Give class k the samples summed up, and forget the sums."""
    always, sometimes, form, _ = rule
    for j in range(heads.shape[0]):
        if heads[j]:
            right, own = sums[4 * j + 1], sums[4 * j + 2]
            weight = sums[4 * j] + right + own
            tallies[0, j] -= right
            tallies[1, j] -= weight
            plain[j] -= heads[j]
            if always[j]:
                totals[0] -= ratio[j]
                ratio[j] = _ratio(tallies[0, j], tallies[1, j], support[j], form)
                totals[0] += ratio[j]
            elif sometimes and plain[j] == 0:
                totals[1] -= 1.0
            if sometimes and not always[k] and plain[k] == 0:
                totals[1] += 1.0
            tallies[0, k] += own
            tallies[1, k] += weight
            plain[k] += heads[j]
            sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], heads[j] = 0.0, 0.0, 0.0, 0
    if always[k]:
        totals[0] -= ratio[k]
        ratio[k] = _ratio(tallies[0, k], tallies[1, k], support[k], form)
        totals[0] += ratio[k]


@njit(nogil=True, cache=True)
def _part(
    codes: Any,
    amounts: Any,
    ends: Any,
    k: int,
    support: Any,
    rule: Any,
    value: float,
    tallies: Any,
    plain: Any,
) -> tuple[int, int]:  # pragma: no cover
    """The first and the last bucket of the part that may be above ``value``.

    The counts are followed along the line, and become those where the part begins.
    """
    always, sometimes, form, _ = rule
    n_classes = support.shape[0]
    ratio, sums = np.zeros(n_classes), np.zeros(4 * n_classes)
    heads, totals = np.zeros(n_classes, np.int64), np.zeros(2)
    for j in range(n_classes):
        if always[j]:
            ratio[j] = _ratio(tallies[0, j], tallies[1, j], support[j], form)
            totals[0] += ratio[j]
        totals[1] += always[j] or (sometimes and plain[j] > 0)
    kept, plain_kept = tallies.copy(), plain.copy()
    low, high, start, q, here = -1, -1, 0, 0, ends[_HALF - 1]
    while start < ends[-1]:
        away = start - here if start >= here else max(here - start - _TOGETHER, 0)
        together = max(_TOGETHER, int(_PER_CLASS * n_classes), int(_SHARE * away))
        enough, first_bucket = min(start + together, ends[-1]), q
        while ends[q] < enough:
            q += 1
        _sum_up(codes, amounts, start, ends[q], sums, heads)
        bound = _bound(k, support, rule, tallies, plain, ratio, totals, sums, heads)
        if bound + _SLACK > value:
            if low < 0:
                low = first_bucket
                kept[:], plain_kept[:] = tallies, plain
            high = q
        _take(k, support, rule, tallies, plain, ratio, totals, sums, heads)
        start, q = ends[q], q + 1
    tallies[:], plain[:] = kept, plain_kept
    return low, high


@njit(nogil=True, cache=True)
def promising(
    bits: Any,
    k: int,
    place: Any,
    labels: Any,
    weights: Any,
    first: Any,
    second: Any,
    support: Any,
    rule: Any,
    value: float,
    tallies: Any,
    plain: Any,
    desk: Any,
    chosen: Any,
) -> tuple[int, float, float]:  # pragma: no cover
    """Choose the samples of the part of a line on which a metric may be above ``value``.

    ``bits`` are those of the distances of the ``place`` of each switch from the bias. ``tallies``
    (2, K), true positives and predicted, and ``plain`` (K,), the number of the latter, are those
    at the bias, and become those where the part begins. ``rule``: the classes that the average
    is over whatever is predicted, whether it is over the predicted ones too, the coefficients of
    the ratio, and whether all classes count as one. ``desk`` is room: bucket, code, codes and
    amounts. Returns how many samples were chosen, the last place before theirs and the first one
    after.
    """
    bucket, code, codes, amounts = desk
    ends = np.empty(N_BUCKETS, np.int64)
    _into_buckets(bits, k, labels, first, second, bucket, code, ends)
    _sorted_by_bucket(bucket, code, weights, ends, codes, amounts)
    _give_back(bucket, k, labels, weights, first, second, tallies, plain)
    low, high = _part(codes, amounts, ends, k, support, rule, value, tallies, plain)
    used, before, after = 0, -np.inf, np.inf
    if low < 0:
        return used, before, after
    for i in range(bucket.shape[0]):
        if low <= bucket[i] <= high:
            chosen[used] = i
            used += 1
        elif bucket[i] > high:
            after = min(after, place[i])
        elif bucket[i] != _NOWHERE:
            before = max(before, place[i])
    return used, before, after
