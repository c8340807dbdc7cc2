"""Searching a strength for a metric that can only be called: the paper's binary search, a grid.

With scores, labels and a count metric, ``StrengthProfile.best`` is exact and cheaper. A search is
for everything else: your own metric, an evaluation that runs elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reprior.core.checks import check_choice, check_finite_number
from reprior.exceptions import Argument, Element, OptionError

__all__ = ["METHODS", "SearchResult", "search_strength"]

METHODS = ("binary", "grid")
"""Methods to search the grid of strengths."""

#: An extension doubles the upper bound up to here, as everywhere else in the library.
EXTENSION_CAP = 8


@dataclass(frozen=True)
class SearchResult:
    """The result of a search, and everything it evaluated.

    Parameters
    ----------
    strength : float
        The best strength evaluated; among equally good ones the one nearest 0.
    value : float
        The metric there.
    n_evaluations : int
        Number of calls of the metric.
    at_bound : bool
        Whether ``strength`` is the first or the last one of the (extended) range: there may be
        better beyond it.
    evaluated : tuple of (float, float)
        Every strength evaluated and the metric there, by strength.
    """

    strength: float
    value: float
    n_evaluations: int
    at_bound: bool
    evaluated: tuple[tuple[float, float], ...]


def search_strength(
    metric: Callable[[float], Any],
    *,
    method: str = "binary",
    low: float = 0.0,
    high: float = 2.0,
    precision: float = 0.1,
    extend: bool | None = None,
) -> SearchResult:
    r"""Search the strength at which a black-box metric is largest.

    The candidates are the multiples of the precision within the bounds,

    .. math:: λ_k = k \cdot \text{precision}, \quad \text{low} ≤ λ_k ≤ \text{high},

    with k an integer; N is their number. Between two of them the one of the larger metric is
    better, and of two equal ones the one nearer 0 (of −λ and λ: λ).

    ``"grid"`` evaluates all N. ``"binary"`` is the paper's Algorithm 2 [1]_. It evaluates both ends
    and 0, then halves a range of indices L … H, at first all: with M = ⌊(L + H)/2⌋,

    * λ_{M+1} better than λ_M: continue with M+1 … H;
    * otherwise λ_{M−1} better than λ_M: continue with L … M−1;
    * otherwise M is a peak: stop. So it does where two indices are left.

    The result is the best of all strengths evaluated, so never worse than λ = 0 where the bounds
    hold it. On a curve that strictly rises and then strictly falls it is the grid's best;
    real curves often are not so, and then it may be any peak.

    Parameters
    ----------
    metric : callable
        Takes a strength λ, returns a number; larger is better, ±inf is allowed. It is called
        at most once per strength.
    method : {"binary", "grid"}, default "binary"
        How to search: at most 3 + 3·log2 N evaluations, or N.
    low, high : float, default 0 and 2
        Bounds of the strength.
    precision : float, default 0.1
        Distance between candidates.
    extend : bool, optional
        Whether, as long as the best strength is the last one, to double ``high`` up to 8 and
        search on there (an upper bound of 0 or less, or above 8, stays as it is). By default a
        binary search does so and a grid does not.

    Returns
    -------
    SearchResult
        The best strength, its value, and everything that was evaluated.

    Raises
    ------
    OptionError
        An option is out of its range, or the metric returned NaN or no number.

    See Also
    --------
    StrengthProfile.best : The exact optimum of any count metric, over all strengths.

    Notes
    -----
    Printed, Algorithm 2 may not end, and leaves the range. Here the strengths are integers times
    the precision, values are remembered, ties have a rule, and the range is doubled up to a cap,
    only while its end is the best, not by 0.5 while metric(high) ≥ metric(0). Its first line,
    "return 0 if metric(0.1) < metric(0)", is left out: on a concave curve the search finds 0
    without it, on any other one noisy step would end the search.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Algorithm 2.

    Examples
    --------
    >>> result = search_strength(lambda strength: -((strength - 1.3) ** 2))
    >>> result.strength, result.n_evaluations, result.at_bound
    (1.3, 9, False)
    >>> search_strength(lambda strength: -((strength - 1.3) ** 2), method="grid").n_evaluations
    21
    >>> search_strength(lambda strength: min(strength, 2.5)).strength  # beyond high=2
    2.5
    """
    _check_metric(metric)
    check_choice("method", method, METHODS)
    if extend not in (True, False, None):
        raise OptionError(
            argument="extend",
            rule="must be True, False or None",
            got=f"{extend!r}",
            remedy="Leave it out.",
        )
    binary = method == "binary"
    step, first, lasts = _grid_of(low, high, precision, binary if extend is None else bool(extend))
    curve = _Curve(metric, step)
    last = _binary(curve, first, lasts) if binary else _exhaust(curve, first, lasts)
    return curve.result(first, last)


class _Curve:
    """The metric on the grid, by index; each value is computed once."""

    def __init__(self, metric: Callable[[float], Any], step: Fraction) -> None:
        self._metric = metric
        self._step = step
        self._values: dict[int, float] = {}

    @property
    def best(self) -> int:
        """The best index evaluated so far."""
        return max(self._values, key=self._rank)

    def evaluate(self, index: int) -> None:
        """Evaluate an index, once."""
        if index not in self._values:
            strength = self._strength(index)
            self._values[index] = _as_value(self._metric(strength), strength)

    def is_better(self, index: int, other: int) -> bool:
        """Tell whether the first index beats the second; exactly one of two different ones does."""
        self.evaluate(index)
        self.evaluate(other)
        return self._rank(index) > self._rank(other)

    def result(self, first: int, last: int) -> SearchResult:
        """Return the result of a search over the indices ``first`` … ``last``."""
        best = self.best
        return SearchResult(
            strength=self._strength(best),
            value=self._values[best],
            n_evaluations=len(self._values),
            at_bound=best in (first, last),
            evaluated=tuple((self._strength(k), self._values[k]) for k in sorted(self._values)),
        )

    def _rank(self, index: int) -> tuple[float, int, int]:
        return self._values[index], -abs(index), index

    def _strength(self, index: int) -> float:
        return float(index * self._step)


def _binary(curve: _Curve, first: int, lasts: Sequence[int]) -> int:
    """Run Algorithm 2 on ``first`` … ``lasts[0]``, further while the end is best; return the end.

    The extension finds its range before it searches it, so that the search stays O(log N).
    """
    for index in (first, lasts[0], min(max(first, 0), lasts[0])):
        curve.evaluate(index)
    _climb(curve, first, lasts[0])
    reached = 0
    while reached + 1 < len(lasts) and curve.best == lasts[reached]:
        reached += 1
        curve.evaluate(lasts[reached])
    if reached:
        _climb(curve, lasts[max(reached - 2, 0)], lasts[reached])
    return lasts[reached]


def _climb(curve: _Curve, low: int, high: int) -> None:
    """Run the paper's FindMaxLambda as a loop; each turn leaves at most half of the range."""
    while high - low > 1:
        middle = (low + high) // 2
        if curve.is_better(middle + 1, middle):
            low = middle + 1
        elif curve.is_better(middle - 1, middle):
            high = middle - 1
        else:
            return
    curve.evaluate(low)
    curve.evaluate(high)


def _exhaust(curve: _Curve, first: int, lasts: Sequence[int]) -> int:
    """Evaluate every index, further while the end is best; return the end."""
    start, last = first, first
    for last in lasts:
        for index in range(start, last + 1):
            curve.evaluate(index)
        if curve.best != last:
            break
        start = last + 1
    return last


def _grid_of(low: Any, high: Any, precision: Any, extend: bool) -> tuple[Fraction, int, list[int]]:
    """Return the step, the first index, and the last ones: of ``high`` and of each extension.

    Decimals are exact, not the nearest binary fraction: 20 steps of 0.1 make 2.0, and 3 steps make
    the float 0.3, not 0.30000000000000004.
    """
    low, high = check_finite_number("low", low), check_finite_number("high", high)
    precision = check_finite_number("precision", precision, positive=True)
    if low >= high:
        fault = "bounds reversed" if low > high else "an empty range"
        remedy = f"low={high:g}, high={low:g}" if low > high else "two different numbers"
        raise OptionError(
            argument="low",
            rule=["must be below ", Argument("high")],
            got=[
                Element("low", (), f"{low:g}"),
                ", ",
                Element("high", (), f"{high:g}"),
                f": {fault}",
            ],
            remedy=f"Pass {remedy}.",
        )
    step = Fraction(repr(precision))
    bound = Fraction(repr(high))
    first, lasts = math.ceil(Fraction(repr(low)) / step), [math.floor(bound / step)]
    if lasts[0] <= first:
        raise OptionError(
            argument="precision",
            rule=[
                "must leave at least two multiples of it between ",
                Argument("low"),
                " and ",
                Argument("high"),
            ],
            got=[Element("precision", (), f"{precision:g}"), f" for {low:g} to {high:g}"],
            remedy="Pass a smaller precision.",
        )
    while extend and 0 < bound < EXTENSION_CAP:
        bound = min(2 * bound, Fraction(EXTENSION_CAP))
        if bound >= (lasts[-1] + 1) * step:
            lasts.append(math.floor(bound / step))
    return step, first, lasts


def _check_metric(metric: Any) -> None:
    if callable(metric):
        return
    name = metric if isinstance(metric, str) else "balanced_accuracy"
    raise OptionError(
        argument="metric",
        rule="must be a function that takes a strength and returns a number",
        got=f"{metric!r}",
        remedy=(
            f"Pass for example lambda strength: profile.evaluate({name!r}, strength), or "
            f"use profile.best({name!r}), which is exact."
        ),
    )


def _as_value(returned: Any, strength: float) -> float:
    try:
        value = math.nan if isinstance(returned, str | bytes) else float(returned)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        raise OptionError(
            argument="metric",
            rule="must return a number, not NaN",
            got=f"metric({strength!r})={returned!r}",
            remedy="Return -inf for a strength that must not be chosen.",
        )
    return value
