"""The exact line search along one class's bias.

Raising the bias b of class k makes a sample change from its best other class to k at exactly one
bias, ``t = max_{j≠k}(z_j + b_j) − z_k``, and never back. So all class counts along b are a sorted
list of switches, and a metric is a step function of b, as it is of the strength.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.tuning.columns import Columns
from reprior.tuning.sweep import sweep_rule
from reprior.tuning.switches import Switches
from reprior.tuning.top_two import TopTwo

__all__ = [
    "Desk",
    "Stretch",
    "bound_rule",
    "climb_lines",
    "line_of",
    "promising_part",
    "tallies_of",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Box: TypeAlias = tuple[float, float]

#: Beyond the outermost switch nothing changes, however far: an interval there ends this far out,
#: one unit of log-odds, so that it has a middle.
OUTSIDE = 1.0

EVERYWHERE: Box = (-np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of a line: its switches, and the class counts before the first of them.

    ``low`` and ``high`` are where the steps before the first and after the last switch begin and
    end.
    """

    switches: Switches
    counts: ClassCounts
    low: float
    high: float


class Desk:
    """Room for what a compiled search along a line needs of every sample."""

    def __init__(self, data: Columns) -> None:
        n = data.n_samples
        self.place, self.gap = np.empty((2, n))
        self.bits = self.gap.view(np.int64)
        self.bucket, self.chosen = np.empty(n, np.int16), np.empty(n, np.intp)
        self.code, self.codes = np.empty((2, n), np.int32)
        self.amounts = np.empty(0 if data.weights is None else n)

    @property
    def arrays(self) -> tuple[Vector, ...]:
        """All of it."""
        return (
            self.place, self.gap, self.bits, self.bucket, self.code, self.codes, self.amounts,
            self.chosen,
        )  # fmt: skip


def line_of(two: TopTwo, counts: ClassCounts, k: int, box: Box = EVERYWHERE) -> Stretch | None:
    """The line of class ``k``'s bias between the ends of ``box``; None if nothing changes there.

    ``counts`` are those of the first classes of ``two``.
    """
    data = two.data
    holds = two.first == k
    place = np.where(holds, two.following, two.top) - data.column(k)
    wins = place <= box[0]  # −inf: nobody takes this sample from class k
    moved = np.flatnonzero(holds != wins)
    tallies, plain = tallies_of(counts)
    other = np.where(holds[moved], two.second[moved], two.first[moved])
    weight = None if data.weights is None else data.weights[moved]
    for party, sign in ((np.where(wins[moved], k, other), 1), (two.first[moved], -1)):
        right = data.labels[moved] == party
        hits = None if weight is None else weight[right]
        tallies[0] += sign * np.bincount(party[right], hits, minlength=plain.size)
        tallies[1] += sign * np.bincount(party, weight, minlength=plain.size)
        plain += sign * np.bincount(party, minlength=plain.size)
    chosen = np.flatnonzero((place > box[0]) & (place <= box[1]) & np.isfinite(place))
    return _of_samples(two, counts, k, (place, chosen, *box), tallies, plain)


def promising_part(
    two: TopTwo, counts: ClassCounts, k: int, metric: CountMetric, value: float, desk: Desk
) -> Stretch | None:
    """The part of the line on which ``metric`` may be above ``value``, which it has now.

    None where it is nowhere. Compiled: array code finds it no sooner than it goes through all.
    """
    from reprior.tuning.compiled_line import measure, promising

    data, bias = two.data, float(two.biases[k])
    measure(data.column(k), k, bias, two.first, two.top, two.following, desk.place, desk.gap)
    tallies, plain = tallies_of(counts)
    used, before, after = promising(
        desk.bits, k, desk.place, data.labels, data.weight_array, two.first, two.second,
        counts.support.astype(np.float64), bound_rule(counts, metric), value, tallies, plain,
        (desk.bucket, desk.code, desk.codes, desk.amounts), desk.chosen,
    )  # fmt: skip
    part = desk.place, desk.chosen[:used], before, after
    return _of_samples(two, counts, k, part, tallies, plain)


def climb_lines(
    two: TopTwo,
    counts: ClassCounts,
    metric: CountMetric,
    home: Vector,
    order: Vector,
    value: float,
    desk: Desk,
) -> list[float]:
    """Move each class of ``order`` to the best place on its line; the metric after each step.

    ``value`` is the metric now, ``home`` (K,) where distances are counted from. Compiled.
    """
    from reprior.tuning import compiled_ascent

    data = two.data
    rules = bound_rule(counts, metric), sweep_rule(counts, metric), metric.average == "pooled"
    history = np.empty(1 + order.size)
    history[0] = value
    used = compiled_ascent.climb_lines(
        order, home, data.rows, two.biases, data.labels, data.weight_array,
        (two.first, two.second, two.top, two.following), tallies_of(counts),
        counts.support.astype(np.float64), rules, desk.arrays, history,
    )  # fmt: skip
    return [float(after) for after in history[1 : used + 1]]


def bound_rule(
    counts: ClassCounts, metric: CountMetric
) -> tuple[Vector, bool, tuple[float, ...], bool]:
    """What compiled bounds have to know of a metric.

    The classes that the average is over whatever is predicted, whether it is over the predicted
    ones too, the coefficients of the ratio, and whether all classes count as one.
    """
    seen = metric.average == "seen"
    always = counts.labelled if seen else metric.counted(counts)
    return always, seen, tuple(map(float, metric.form)), metric.average == "pooled"


def tallies_of(counts: ClassCounts) -> tuple[Vector, Vector]:
    """True positives and predicted (2, K), and the plain number predicted (K,), to be changed."""
    plain = counts.predicted if counts.n_predicted is None else counts.n_predicted
    both = np.array([counts.true_positive, counts.predicted], np.float64)
    return both, np.array(plain, np.int64)


def _of_samples(
    two: TopTwo,
    counts: ClassCounts,
    k: int,
    part: tuple[Vector, Vector, float, float],
    tallies: Vector,
    plain: Vector,
) -> Stretch | None:
    """The switches of some samples, and the counts before them."""
    everywhere, chosen, low, high = part
    if not chosen.size:
        return None
    data, place = two.data, everywhere[chosen]
    holds = two.first[chosen] == k
    switches = Switches(
        place,
        data.labels[chosen],
        np.where(holds, two.second[chosen], two.first[chosen]),
        np.full(chosen.size, k, np.int32),
        weight=None if data.weights is None else data.weights[chosen],
    )
    tallies *= plain > 0  # where nobody is left, weights leave rounding behind
    tp, predicted = tallies
    start = ClassCounts(tp, predicted, counts.support, plain, counts.n_labelled)
    low = low if np.isfinite(low) else float(place.min()) - OUTSIDE
    high = high if np.isfinite(high) else float(place.max()) + OUTSIDE
    return Stretch(switches, start, low, high)
