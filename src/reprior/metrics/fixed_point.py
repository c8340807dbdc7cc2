"""Count metrics as sums over classes in fixed point, the form in which sweeps follow them.

A class's addends are integers. Their sums depend on the counts alone, not on the order in which
these were reached: equal counts give equal values to the bit, in one piece or merged from parts,
and ties between strengths are real ties. The kernels have the same arithmetic in
``src/native/sweep.h``.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias, get_args

import numpy as np

from reprior.metrics.cells import Cells
from reprior.metrics.counts import ClassCounts
from reprior.metrics.pair_metrics import ImageMetric, PairForm, WeightedKappa
from reprior.metrics.ratios import LARGEST_ZERO, Agreement, Coefficient, CountMetric, Mean

__all__ = ["FixedPointMetric"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Logarithms to base 2 of float64 are below this, in size.
_LARGEST_LOG = 2.0**11

#: Per-class values are summed as integers of this many fractional bits, so that the sum does not
#: depend on the order in which switches are met. Finer than a double's own rounding of a ratio.
_MOST_FRACTION_BITS = 56


def fraction_bits(n_classes: int) -> int:
    """Fractional bits that leave room for the sum of ``n_classes`` values in 63 bits."""
    return min(_MOST_FRACTION_BITS, 62 - math.ceil(math.log2(n_classes + 1)))


#: The number of each mean in the kernels.
_MEANS = {
    name: i
    for i, name in enumerate(
        [*get_args(Mean), *get_args(Coefficient), "linear", "weighted_kappa", "per_image"]
    )
}

#: When a class takes part in a mean: never, if it is predicted, always.
_NEVER, _IF_PREDICTED, _ALWAYS = range(3)


class FixedPointMetric:
    """A metric for given labels, as sums over classes in fixed point.

    Parameters
    ----------
    metric : CountMetric
        The metric.
    labelled : ClassCounts
        Counts of any predictions for the labels.
    cells : Cells, optional
        The cells that the metric counts in, where these are not the classes.
    """

    def __init__(
        self, metric: CountMetric, labelled: ClassCounts, cells: Cells | None = None
    ) -> None:
        self.metric = metric
        self.total = float(labelled.support.sum())
        self.klass = np.empty(0, np.int32)
        self.n_classes = labelled.n_classes
        self.forms = np.empty((0, 0))
        if cells is not None:
            self._in_cells(metric, labelled, cells)
            return
        self.pooled = metric.average == "pooled"
        self.support = labelled.support
        n_classes = labelled.n_classes
        counted = metric.counted(labelled)
        self.part = np.where(counted, _ALWAYS, _NEVER).astype(np.uint8)
        if metric.average == "seen":
            self.part[:] = np.where(labelled.labelled, _ALWAYS, _IF_PREDICTED)
            self.part[~metric.eligible(n_classes)] = _NEVER
        self.share = np.ones(n_classes)
        self.weighted = metric.average == "weighted"
        if self.weighted:
            weight = np.where(counted, labelled.support, 0).astype(np.float64)
            self.share = weight / max(weight.sum(), np.finfo(float).tiny)
        if self.pooled:
            self.support = labelled.support.sum(keepdims=True)
        self.coefficient = metric.coefficient if isinstance(metric, Agreement) else None
        largest = max(1.0, metric.largest)
        if metric.mean == "geometric":
            largest = _LARGEST_LOG
        elif metric.mean == "harmonic":
            largest = 1.0
        bits = fraction_bits(self.support.size) - math.ceil(math.log2(largest))
        self.unit = math.ldexp(1.0, bits)

    def _in_cells(self, metric: CountMetric, labelled: ClassCounts, cells: Cells) -> None:
        """Count in cells instead of classes."""
        counts = cells.counts
        self.pooled = self.weighted = False
        self.coefficient, self.support = None, counts.support
        self.part = np.full(counts.n_classes, _ALWAYS, np.uint8)
        self.share = np.ones(counts.n_classes)
        largest = 1.0
        if isinstance(metric, PairForm):
            self.forms = metric.forms(cells.group, cells.klass, labelled)
            self.share = self.forms[0]
        else:
            self.klass = cells.klass.astype(np.int32)
            self.part[:] = np.where(counts.labelled, _ALWAYS, _IF_PREDICTED)
            self.part[~metric.eligible(self.n_classes)[cells.klass]] = _NEVER
            largest = max(1.0, metric.largest)
        bits = fraction_bits(counts.n_classes) - math.ceil(math.log2(largest))
        self.unit = math.ldexp(1.0, bits)

    @property
    def _kind(self) -> str:
        """The name of the mean in the kernels."""
        if isinstance(self.metric, ImageMetric):
            return "per_image"
        if isinstance(self.metric, PairForm):
            return "weighted_kappa" if isinstance(self.metric, WeightedKappa) else "linear"
        return self.coefficient or self.metric.mean

    def native(self, kernels: Any) -> Any:
        """The same for the kernels."""
        return kernels.Metric(
            self.part,
            self.share,
            self.klass,
            self.forms[1] if len(self.forms) > 1 else np.empty(0),
            _MEANS[self._kind],
            self.pooled,
            self.weighted,
            *self._form,
            self.total if self.metric.complement else 0.0,
            self.total,
            self.metric.chance,
            self.unit,
        )

    @property
    def _form(self) -> tuple[float, float, float, float]:
        gain, support, predicted, true_positive = self.metric.form
        if isinstance(self.metric, PairForm) and self._kind == "linear":
            gain = float(self.metric.of_means(1.0))  # what the mean of the addends is times
        return gain, support, predicted, true_positive

    def counted(self, n_predicted: Vector, klass: Vector) -> Vector:
        """Whether the mean is over these classes, predicted so often."""
        part = np.full(1, _ALWAYS) if self.pooled else self.part
        if_predicted = (part[klass] == _IF_PREDICTED) & (n_predicted > 0)
        return np.asarray((part[klass] == _ALWAYS) | if_predicted)

    def values(self, hits: Vector, predicted: Vector, plain: Vector, klass: Vector) -> Vector:
        """The ratio of these counts of the classes ``klass``; inf where the mean is not over it."""
        # Weights that cancel leave rounding behind: the plain number says who is predicted.
        hits, predicted = (np.where(plain > 0, column, 0) for column in (hits, predicted))
        ratio = self.metric.ratio(hits, predicted, self.support[klass], self.total)
        if self.metric.mean != "arithmetic":
            ratio = np.where(ratio > LARGEST_ZERO, ratio, 0.0)
        return np.where(self.counted(plain, klass), ratio, np.inf)

    def addends(
        self, hits: Vector, predicted: Vector, plain: Vector, klass: Vector
    ) -> list[Vector]:
        """The integers that these counts of the classes ``klass`` add, the last to the divisor."""
        counted = self.counted(plain, klass)
        divisor = counted.astype(np.int64)
        if len(self.forms):
            share = np.where(plain > 0, predicted, 0) / self.total
            return [*(self._fixed(share * form[klass]) for form in self.forms), divisor]
        if self.coefficient is not None:
            hits, predicted = (np.where(plain > 0, c, 0) / self.total for c in (hits, predicted))
            labels = self.support[klass] / self.total
            terms = (hits, predicted * labels, predicted * predicted)
            return [*map(self._fixed, terms), divisor]
        ratio = np.where(counted, self.values(hits, predicted, plain, klass), 0.0)
        zero = (counted & (ratio <= LARGEST_ZERO)).astype(np.int64)
        positive = np.where(ratio > LARGEST_ZERO, ratio, 1.0)
        if self.metric.mean == "geometric":
            return [self._fixed(_binary_logarithm(positive)), zero, divisor]
        if self.metric.mean == "harmonic":
            inverse = np.where(ratio > LARGEST_ZERO, 1.0 / positive, 0.0)
            whole = np.floor(inverse)
            return [whole.astype(np.int64), self._fixed(inverse - whole), zero, divisor]
        weight: Any = 1.0 if self.pooled else self.share[klass]
        return [self._fixed(ratio * weight), divisor]

    def value(self, *sums: Vector) -> Vector:
        """The metric of the sums of the addends."""
        *totals, divisor = sums
        if isinstance(self.metric, PairForm):
            return self.metric.of_means(*(each / self.unit for each in totals))
        n = 1 if self.weighted else np.maximum(divisor, 1)
        if isinstance(self.metric, Agreement):
            labels = (self.support / self.total) ** 2
            square = self._fixed(labels).sum()
            return self.metric.of_sums(*(each / self.unit for each in (*totals, square)))
        if self.metric.mean == "geometric":
            return np.where(totals[1] > 0, 0.0, _binary_power(totals[0] / (n * self.unit)))
        if self.metric.mean == "harmonic":
            below = totals[0] + totals[1] / self.unit
            return np.where(totals[2] > 0, 0.0, n / np.where(below > 0, below, 1.0))
        mean = totals[0] / (n * self.unit)
        chance = self.metric.chance
        return np.asarray((mean - chance) / (1.0 - chance) if chance else mean)

    def of_images(self, total: Vector, images: Vector) -> list[Vector]:
        """The integers that classes add, of a sum of ratios over so many images."""
        mean = total / (np.maximum(images, 1) * self.unit)
        return [self._fixed(mean), (images > 0).astype(np.int64)]

    def _fixed(self, value: Vector) -> Vector:
        return np.rint(value * self.unit).astype(np.int64)


def _binary_logarithm(x: Vector) -> Vector:
    """log2(x) of x > 0, by the series of the kernels: to the bit, whatever the system's library."""
    m, exponent = np.frexp(x)
    small = m < 0.70710678118654752
    m = np.where(small, m * 2.0, m)
    s = (m - 1.0) / (m + 1.0)
    square, total = s * s, np.zeros_like(m)
    for n in range(23, 0, -2):
        total = total * square + 1.0 / n
    log: Vector = (exponent - small) + 2.0 * s * total * 1.4426950408889634
    return log


def _binary_power(x: Vector) -> Vector:
    """2**x of x ≤ 0, by the series of the kernels."""
    whole = np.rint(x)
    rest = (x - whole) * 0.69314718055994531
    total = np.ones_like(rest)
    for n in range(14, 0, -1):
        total = 1.0 + total * rest * (1.0 / n)
    return np.ldexp(total, np.maximum(whole, -2000.0).astype(np.int64))
