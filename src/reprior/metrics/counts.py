"""Counts per class: true positives, predicted and support, from which metrics follow.

Some metrics need more: how many samples of every label have every prediction, in every image where
samples are pixels. :class:`PairCounts` holds these numbers beside the counts per class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import namespace, to_numpy
from reprior.core.checks import check_labels, check_sample_weight
from reprior.exceptions import LabelsError, ProfileMismatchError

__all__ = ["ClassCounts", "PairCounts"]

Vector: TypeAlias = np.ndarray[Any, Any]
Triple: TypeAlias = tuple[Vector, Vector, Vector]

#: A variance per sample below this is 0, but for rounding.
ROUNDING = 1e-12

#: Tables of all pairs are used where they have at most so many cells per sample, else sorting.
DENSE_CELLS = 4


@dataclass(frozen=True, eq=False)
class PairCounts:
    """How many samples of every label have every prediction: a confusion matrix, kept sparse.

    Parameters
    ----------
    label, predicted : integer array of shape (R,)
        Pairs of classes. A pair may stand in several rows, which add.
    count : integer array of shape (R,)
        Number of samples.
    weight : float array of shape (R,), or None
        Their summed weight, where samples have weights.
    image : integer array of shape (R,), or None
        Their image, where samples are pixels of images.

    Examples
    --------
    >>> pairs = PairCounts.of(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    >>> pairs.matrix(2)
    array([[1., 1.],
           [0., 1.]])
    """

    label: Vector
    predicted: Vector
    count: Vector
    weight: Vector | None = None
    image: Vector | None = None

    @classmethod
    def of(
        cls,
        labels: Vector,
        predicted: Vector,
        n_classes: int,
        weights: Vector | None = None,
        images: Vector | None = None,
    ) -> PairCounts:
        """Count checked labels and predictions (n,), with the weights and images of the samples."""
        key = labels.astype(np.int64) * n_classes + predicted
        n_cells, offset = n_classes**2, 0
        if images is not None and images.size:
            offset = int(images.min())
            key += (images - offset) * n_cells
            n_cells *= int(images.max()) - offset + 1
        total = None
        if n_cells <= DENSE_CELLS * max(key.size, 1):
            number = np.bincount(key, minlength=n_cells)
            cell = np.flatnonzero(number)
            count = number[cell]
            if weights is not None:
                total = np.bincount(key, weights, minlength=n_cells)[cell]
        else:
            cell, row, count = np.unique(key, return_inverse=True, return_counts=True)
            if weights is not None:
                total = np.bincount(row.reshape(-1), weights, minlength=cell.size)
        image, pair = np.divmod(cell, n_classes**2)
        return cls(
            pair // n_classes,
            pair % n_classes,
            count,
            total,
            None if images is None else image + offset,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[PairCounts]) -> PairCounts:
        """Return the rows of all parts, which are all with weights, and with images, or none."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(
            *([getattr(part, f.name) for f in fields(cls)] for part in parts), strict=True
        )
        joined: Any = (None if column[0] is None else np.concatenate(column) for column in columns)
        return cls(*joined)

    def __len__(self) -> int:
        return int(self.label.size)

    def summed(self) -> PairCounts:
        """Return the same with one row for each pair and image, sorted; without empty rows."""
        keys = [self.predicted, self.label, *([] if self.image is None else [self.image])]
        if self.image is None and self.label.size:  # one key is sorted in half the time of two
            keys = [self.label.astype(np.int64) * (int(self.predicted.max()) + 1) + self.predicted]
            order = np.argsort(keys[0], kind="stable")
        else:
            order = np.lexsort(keys)
        first = np.zeros(order.size, bool)
        first[:1] = True
        for key in keys:
            ordered = key[order]
            first[1:] |= ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(first)
        count = np.add.reduceat(self.count[order], starts) if starts.size else self.count[:0]
        weight = None
        if self.weight is not None:
            weight = np.add.reduceat(self.weight[order], starts) if starts.size else self.weight[:0]
        kept = count != 0
        rows = order[starts[kept]]
        return PairCounts(
            self.label[rows],
            self.predicted[rows],
            count[kept],
            None if weight is None else weight[kept],
            None if self.image is None else self.image[rows],
        )

    def plus(self, other: PairCounts, sign: int = 1) -> PairCounts:
        """Return the pairs of both, or with ``sign=-1`` those without the others."""
        weight = None if other.weight is None else sign * other.weight
        moved = PairCounts(other.label, other.predicted, sign * other.count, weight, other.image)
        return PairCounts.concatenate([self, moved]).summed()

    def without_images(self) -> PairCounts:
        """Return the same without images."""
        if self.image is None:
            return self
        return PairCounts(self.label, self.predicted, self.count, self.weight).summed()

    @property
    def amount(self) -> Vector:
        """Summed weights, or the numbers where samples have no weights; float64."""
        return (self.count if self.weight is None else self.weight).astype(np.float64, copy=False)

    def matrix(self, n_classes: int) -> Vector:
        """Return the confusion matrix [label, predicted], (K, K)."""
        key = self.label.astype(np.int64) * n_classes + self.predicted
        number = np.bincount(key, self.count, minlength=n_classes**2)
        amount = np.bincount(key, self.amount, minlength=n_classes**2)
        # Where no sample is left, sums of weights leave rounding behind.
        whole: Vector = np.where(number > 0, amount, 0.0).reshape(n_classes, n_classes)
        return whole


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """True positives, predicted and support of every class.

    Parameters
    ----------
    true_positive, predicted, support : array of shape (K,)
        Number, or summed weight, of the samples of class k that are predicted as k, of those
        predicted as k, and of those labelled k.
    n_predicted, n_labelled : integer array of shape (K,), optional
        Numbers of samples beside weighted sums. Only they decide whether a class is present, so
        that weights that cancel leave no trace of a class.
    pairs : PairCounts, optional
        The samples of every label and prediction, for metrics that need pairs.

    Examples
    --------
    >>> counts = ClassCounts.from_predictions([0, 0, 1, 2], [0, 1, 1, 1], n_classes=3)
    >>> counts.true_positive, counts.predicted, counts.support
    (array([1, 1, 0]), array([1, 3, 0]), array([2, 1, 1]))

    Counts of the parts of a data set add:

    >>> (counts + counts).support
    array([4, 2, 2])
    """

    true_positive: Vector
    predicted: Vector
    support: Vector
    n_predicted: Vector | None = None
    n_labelled: Vector | None = None
    pairs: PairCounts | None = None

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        predictions: Any,
        *,
        n_classes: int,
        sample_weight: Any = None,
        ignore_index: int | None = None,
        pairs: bool = False,
        image_ids: Any = None,
    ) -> ClassCounts:
        """Count labels and predictions of any equal shape.

        Parameters
        ----------
        labels, predictions : integer arrays of the same shape
            Class indices 0 … K−1.
        n_classes : int
            K.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        ignore_index : int, optional
            A label that marks samples to leave out.
        pairs : bool, default False
            Also count every pair of label and prediction, for costs and other metrics that need
            them.
        image_ids : integer array, optional
            With ``pairs``: the image of every sample, of the labels' shape, or of their first axis.
            Of maps (N, H, W) every entry of the first axis is an image.
        """
        namespace(labels, predictions, sample_weight)
        y, p = to_numpy(labels), to_numpy(predictions)
        check_labels(y, n_classes=n_classes, shape=y.shape, ignore_index=ignore_index)
        check_labels(p, n_classes=n_classes, shape=y.shape, name="predictions")
        images = image_numbers(image_ids, y.shape) if pairs else None
        keep = np.ones(y.shape, bool) if ignore_index is None else y != ignore_index
        weight = None
        if sample_weight is not None:
            weight = to_numpy(sample_weight)
            check_sample_weight(weight, y.shape)
            keep &= weight > 0
            weight = weight[keep].astype(np.float64)
        y, p = y[keep].astype(np.intp), p[keep].astype(np.intp)
        plain = _count(y, p, n_classes, None)
        known = None
        if pairs:
            known = PairCounts.of(y, p, n_classes, weight, None if images is None else images[keep])
        if weight is None:
            return cls(*plain, pairs=known)
        return cls(*_count(y, p, n_classes, weight), plain[1], plain[2], known)

    def __add__(self, other: ClassCounts) -> ClassCounts:
        """Return the sum of two counts."""
        if not isinstance(other, ClassCounts):
            return NotImplemented
        if self.n_classes != other.n_classes:
            raise ProfileMismatchError(
                "class counts must be of the same classes to be added.",
                got=f"{self.n_classes} and {other.n_classes} classes",
                remedy="Pass the same n_classes for every part.",
            )
        pairs = None
        if self.pairs is not None and other.pairs is not None:
            pairs = _joined(self.pairs, other.pairs)
        return ClassCounts(
            self.true_positive + other.true_positive,
            self.predicted + other.predicted,
            self.support + other.support,
            n_predicted=self._n_predicted + other._n_predicted,
            n_labelled=self._n_labelled + other._n_labelled,
            pairs=pairs,
        )

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.support.shape[0])

    @property
    def labelled(self) -> Vector:
        """Which classes have labels, (K,) bool."""
        return self._n_labelled > 0

    @property
    def seen(self) -> Vector:
        """Which classes have labels or are predicted, (K,) bool."""
        return self.labelled | (self._n_predicted > 0)

    @property
    def kappa_z(self) -> float:
        r"""Cohen's κ over its standard error where labels and predictions are independent.

        .. math:: z = (A - E)/\sqrt{V}, \quad E = \sum_k s_k p_k / N, \quad
            V = \frac{N^2 \sum_k s_k p_k - N \sum_k s_k p_k (s_k + p_k)
                + (\sum_k s_k p_k)^2}{N^2 (N - 1)}

        with the agreements A = Σ TP_k, supports s and predicted p of N samples: mean and variance
        of A over all permutations of the labels. Weighted counts are scaled to the number of
        samples. 0 where no permutation changes A, or the weights are too small to be scaled.

        Examples
        --------
        >>> counts = ClassCounts(np.array([0, 0]), np.array([50, 50]), np.array([50, 50]))
        >>> round(counts.kappa_z, 2)
        -9.95
        """
        n = float(self._n_labelled.sum())
        total = float(self.support.sum())
        if n < 2 or total <= 0:
            return 0.0
        scale = n / total
        if math.isinf(scale):  # of weights near the smallest float, which keep few digits
            return 0.0
        s, p = self.support * scale, self.predicted * scale
        products = s * p
        pairs = float(products.sum())
        variance = n * n * pairs - n * float((products * (s + p)).sum()) + pairs**2
        variance /= n * n * (n - 1)
        if variance <= ROUNDING * n:
            return 0.0
        agreements = float(self.true_positive.sum()) * scale
        return (agreements - pairs / n) / math.sqrt(variance)

    @property
    def _n_labelled(self) -> Vector:
        return self.support if self.n_labelled is None else self.n_labelled

    @property
    def _n_predicted(self) -> Vector:
        return self.predicted if self.n_predicted is None else self.n_predicted


def _count(y: Vector, p: Vector, n_classes: int, weight: Vector | None) -> Triple:
    right = y == p
    return (
        np.bincount(y[right], None if weight is None else weight[right], minlength=n_classes),
        np.bincount(p, weight, minlength=n_classes),
        np.bincount(y, weight, minlength=n_classes),
    )


def _joined(a: PairCounts, b: PairCounts) -> PairCounts:
    """Sum pairs; where only one has images or weights, the sum has no images, and weights."""
    if (a.image is None) != (b.image is None):
        a, b = a.without_images(), b.without_images()
    if (a.weight is None) != (b.weight is None):
        a, b = (PairCounts(x.label, x.predicted, x.count, x.amount, x.image) for x in (a, b))
    return a.plus(b)


def image_numbers(image_ids: Any, shape: tuple[int, ...]) -> Vector | None:
    """Return the image of every sample, of the labels' ``shape``; None for rows without images.

    Without ids, every entry of the first axis of maps is an image.

    Examples
    --------
    >>> image_numbers([7, 9], (2, 2))
    array([[7, 7],
           [9, 9]])
    """
    if image_ids is None:
        if len(shape) < 2:
            return None
        given: Vector = np.arange(shape[0])
    else:
        given = to_numpy(image_ids)
        if given.dtype.kind not in "iu" or given.shape not in (shape, shape[:1]):
            raise LabelsError(
                argument="image_ids",
                rule=f"must be integers, one per sample, of shape {shape} or {shape[:1]}",
                got=f"dtype {given.dtype} and shape {given.shape}",
                remedy="Number the images, and repeat an image's number for each of its samples.",
            )
    if given.shape != shape:
        given = np.broadcast_to(given.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return given
