"""Labelled log-scores, to be read by sample and by class."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.metrics.counts import ClassCounts
from reprior.profile.samples import Block

__all__ = ["SAMPLES_AT_ONCE", "Columns"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Samples whose scores stay in the cache while something is done with them.
SAMPLES_AT_ONCE = 256

#: Neighbouring scores of a sample share lines of the cache: so many classes are read at once.
CLASSES_AT_ONCE = 16


class Columns:
    """Log-scores without NaN or +inf, labels, and weights above 0 or None.

    Parameters
    ----------
    block : Block
        What :meth:`reprior.profile.samples.Rows.read` gives.

    Attributes
    ----------
    rows : array of shape (N, K)
        The scores, float32 or float64, in C order.
    labels : int32 array of shape (N,)
        Class indices.
    weights : float64 array of shape (N,), or None
        A weight per sample.
    """

    def __init__(self, block: Block) -> None:
        rows = np.require(to_numpy(block.scores), requirements=["C", "A"]).view()
        rows.flags.writeable = False  # the caller's own
        self.rows = rows
        self.labels = np.require(block.labels, np.int32, ["C", "A"])
        self.weights: Vector | None = None
        if block.weights is not None:
            self.weights = np.require(block.weights, np.float64, ["C", "A"])
        self._first_column, self._columns = -CLASSES_AT_ONCE, rows[:0]

    @property
    def n_samples(self) -> int:
        """N."""
        return int(self.rows.shape[0])

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.rows.shape[1])

    def column(self, k: int) -> Vector:
        """The scores of class ``k``, (N,), side by side."""
        if not 0 <= k - self._first_column < CLASSES_AT_ONCE:
            self._first_column = k - k % CLASSES_AT_ONCE
            some = self.rows[:, self._first_column : self._first_column + CLASSES_AT_ONCE]
            turned = np.empty(some.shape[::-1], some.dtype)
            for start in range(0, self.n_samples, SAMPLES_AT_ONCE):
                part = slice(start, start + SAMPLES_AT_ONCE)
                turned[:, part] = some[part].T
            self._columns = turned
        column: Vector = self._columns[k - self._first_column]
        return column

    def taken(self, index: Vector) -> Columns:
        """Some of the samples."""
        weights = None if self.weights is None else self.weights[index]
        return Columns(Block(self.rows[index], self.labels[index], weights))

    def counts(self, predictions: Vector) -> ClassCounts:
        """Class counts of these predictions."""
        plain = self._three(predictions, None)
        sums = plain if self.weights is None else self._three(predictions, self.weights)
        return ClassCounts(*sums, n_predicted=plain[1], n_labelled=plain[2])

    def predictions(self, biases: Vector) -> Vector:
        """The class of the largest score z + b, the lowest index among equals."""
        found = np.empty(self.n_samples, np.intp)
        for start in range(0, self.n_samples, SAMPLES_AT_ONCE):
            part = slice(start, start + SAMPLES_AT_ONCE)
            (self.rows[part] + biases).argmax(axis=1, out=found[part])
        return found

    def _three(self, predictions: Vector, weights: Vector | None) -> tuple[Vector, Vector, Vector]:
        y, n_classes = self.labels, self.n_classes
        right = y == predictions
        hits = None if weights is None else weights[right]
        return (
            np.bincount(y[right], hits, minlength=n_classes),
            np.bincount(predictions, weights, minlength=n_classes),
            np.bincount(y, weights, minlength=n_classes),
        )
