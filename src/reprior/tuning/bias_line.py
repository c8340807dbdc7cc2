"""The exact line search along one class's bias.

Raising the bias b of class k makes a sample change from its best other class to k at exactly one
bias, ``t = max_{j≠k}(z_j + b_j) − z_k``, and never back. So all class counts along b are a sorted
list of switches, and a metric is a step function of b, as it is of the strength.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.metrics.count_metrics import CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.sweep import native_metric
from reprior.profile.switches import Switches
from reprior.tuning.top_two import TopTwo

__all__ = [
    "Stretch",
    "climb_box",
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
    two: TopTwo, counts: ClassCounts, k: int, metric: CountMetric, value: float
) -> Stretch | None:
    """The part of the line on which ``metric`` may be above ``value``, which it has now.

    None where it is nowhere. A kernel: array code finds it no sooner than it goes through all.
    """
    native: Any = kernels.native
    data = two.data
    tallies, plain = tallies_of(counts)
    place, chosen = np.empty(data.n_samples), np.empty(data.n_samples, np.int64)
    used, before, after = native.promising_part(
        data.rows, data.labels, data.weights, data.column(k), k, float(two.biases[k]), *two.places,
        counts.support.astype(np.float64), native_metric(counts, metric), value, tallies, plain,
        place, chosen,
    )  # fmt: skip
    return _of_samples(two, counts, k, (place, chosen[:used], before, after), tallies, plain)


def climb_lines(
    two: TopTwo,
    counts: ClassCounts,
    metric: CountMetric,
    home: Vector,
    order: Vector,
    value: float,
) -> list[float]:
    """Move each class of ``order`` to the best place on its line; the metric after each step.

    ``value`` is the metric now, ``home`` (K,) where distances are counted from. A kernel: what
    steps along :func:`promising_part` do, in one go.
    """
    native: Any = kernels.native
    steps: list[float] = native.climb_lines(
        *_search(two, counts, two.biases), native_metric(counts, metric), home, order, value
    )
    return steps


def climb_box(
    two: TopTwo,
    counts: ClassCounts,
    metric: CountMetric,
    home: Vector,
    order: Vector,
    value: float,
    radius: float,
    max_cycles: int,
) -> tuple[Vector, list[float], int]:
    """Go round the classes of ``order`` until no step within ``radius`` of the biases improves.

    While no bias moves by more than a radius r, two classes move against each other by at most
    2·r. A sample whose first class leads by more keeps it, and a class that is further behind
    never wins it. Without these, line searches are the same, and cheap. A kernel. Returns the
    biases, the metric after each step, and the number of rounds; ``two`` stays as it is.
    """
    native: Any = kernels.native
    biases = two.biases.copy()
    steps, cycles = native.climb_box(
        *_search(two, counts, biases), native_metric(counts, metric), home, order, value, radius,
        max_cycles,
    )  # fmt: skip
    return biases, steps, cycles


def _search(two: TopTwo, counts: ClassCounts, biases: Vector) -> tuple[Any, ...]:
    """What the searches over all classes begin with; they move ``biases``."""
    data = two.data
    support = counts.support.astype(np.float64)
    return (data.rows, data.labels, data.weights, biases, *two.places, *tallies_of(counts), support)


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
