"""Counts per class: true positives, predicted and support, from which metrics follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import namespace, to_numpy
from reprior.core.checks import check_labels, check_sample_weight
from reprior.exceptions import ProfileMismatchError

__all__ = ["ClassCounts"]

Vector: TypeAlias = np.ndarray[Any, Any]
Triple: TypeAlias = tuple[Vector, Vector, Vector]

#: A variance per sample below this is 0, but for rounding.
ROUNDING = 1e-12


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

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        predictions: Any,
        *,
        n_classes: int,
        sample_weight: Any = None,
        ignore_index: int | None = None,
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
        """
        namespace(labels, predictions, sample_weight)
        y, p = to_numpy(labels), to_numpy(predictions)
        check_labels(y, n_classes=n_classes, shape=y.shape, ignore_index=ignore_index)
        check_labels(p, n_classes=n_classes, shape=y.shape, name="predictions")
        keep = np.ones(y.shape, bool) if ignore_index is None else y != ignore_index
        weight = None
        if sample_weight is not None:
            weight = to_numpy(sample_weight)
            check_sample_weight(weight, y.shape)
            keep &= weight > 0
            weight = weight[keep].astype(np.float64)
        y, p = y[keep].astype(np.intp), p[keep].astype(np.intp)
        plain = _count(y, p, n_classes, None)
        if weight is None:
            return cls(*plain)
        return cls(*_count(y, p, n_classes, weight), plain[1], plain[2])

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
        return ClassCounts(
            self.true_positive + other.true_positive,
            self.predicted + other.predicted,
            self.support + other.support,
            n_predicted=self._n_predicted + other._n_predicted,
            n_labelled=self._n_labelled + other._n_labelled,
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
