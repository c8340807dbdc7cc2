"""Where a metric counts samples: in pairs of label and prediction, or in classes of every image.

A switch takes a sample from one cell and brings it to another. Metrics of class counts have a cell
per class. Others have smaller cells, each of one group and one class:

=========  =====  ===============================
metric     group  cell
=========  =====  ===============================
cost       label  (label, predicted class)
per image  image  (image, class)
=========  =====  ===============================

So one sweep follows all metrics: it sees the cells as classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import LabelsError, OptionError
from reprior.metrics.counts import ClassCounts, PairCounts
from reprior.metrics.ratios import CountMetric

__all__ = ["Cells", "pairs_for"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: All cells are kept where they are at most so many per row; else only those that occur.
DENSE_CELLS = 4


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a metric, and their counts.

    Parameters
    ----------
    counts : ClassCounts
        True positives, predicted and support of every cell, (C,).
    group, klass : integer array of shape (C,)
        The group (label or image) and the class of every cell.
    n_classes : int
        K.
    keys : integer array of shape (C,), or None
        ``group·K + class`` of every cell, sorted; None where all from the first group on are kept.
    """

    counts: ClassCounts
    group: Vector
    klass: Vector
    n_classes: int
    keys: Vector | None

    @classmethod
    def of(
        cls,
        metric: CountMetric,
        counts: ClassCounts,
        groups: Vector | None = None,
        label: Vector | None = None,
        winner: Vector | None = None,
    ) -> Cells:
        """Count in the cells of ``metric``; there are cells for the given switches too."""
        pairs, k = pairs_for(metric, counts), counts.n_classes
        group = pairs.label if metric.needs == "pairs" else np.asarray(pairs.image)
        group = group.astype(np.int64)
        predicted, own = group * k + pairs.predicted, group * k + pairs.label
        parts = [predicted, own]
        if groups is not None and groups.size:
            moved = groups.astype(np.int64) * k
            parts += [moved + np.asarray(label), moved + np.asarray(winner)]
        low = min(int(part.min(initial=0)) for part in parts) // k
        high = max(int(part.max(initial=0)) for part in parts) // k
        keys: Vector | None = None
        every = np.arange(low * k, (high + 1) * k) if low == 0 else None
        if every is None or every.size > DENSE_CELLS * sum(map(len, parts)) + k * k:
            every = keys = np.unique(np.concatenate(parts))

        def placed(key: Vector) -> Vector:
            return key if keys is None else np.searchsorted(keys, key)

        def total(key: Vector, amount: Vector, kept: Vector | slice = slice(None)) -> Vector:
            return np.bincount(placed(key[kept]), amount[kept], minlength=every.size)

        right = pairs.label == pairs.predicted
        inside = ClassCounts(
            total(predicted, pairs.amount, right),
            total(predicted, pairs.amount),
            total(own, pairs.amount),
            n_predicted=total(predicted, pairs.count).astype(np.int64),
            n_labelled=total(own, pairs.count).astype(np.int64),
        )
        return cls(inside, every // k, every % k, k, keys)

    def places(self, group: Vector, klass: Vector) -> Vector:
        """Return the cells of classes in groups, int32."""
        key = group.astype(np.int64) * self.n_classes + klass
        return (key if self.keys is None else np.searchsorted(self.keys, key)).astype(np.int32)


def pairs_for(metric: CountMetric, counts: ClassCounts) -> PairCounts:
    """Return the pairs of counts, with images where the metric needs them; refuse to lack them."""
    if counts.pairs is None:
        raise OptionError(
            f"{metric.name!r} must have counts of pairs of label and prediction.",
            got="counts per class alone",
            remedy="Pass pairs=True to ClassCounts.from_predictions, or make the profile with "
            "resolution=None.",
        )
    if metric.needs == "images" and counts.pairs.image is None:
        raise LabelsError(
            argument="image_ids",
            rule=f"must say of which image every sample is, for {metric.name!r}",
            got="samples without images",
            remedy="Pass maps, (N, K, H, W), with class_axis=1, or the image of every sample.",
        )
    return counts.pairs
