"""The first and the second class of every sample, kept up to date while biases move.

Places go by score z + b, equal scores by the lower index, as an arg max has it. A raised bias
changes the places of the samples that its class reaches; a lowered one those that its class
held, and only there all scores are looked at again.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.metrics.counts import ClassCounts
from reprior.tuning.columns import SAMPLES_AT_ONCE, Columns

__all__ = ["TopTwo"]

Vector: TypeAlias = np.ndarray[Any, Any]


class TopTwo:
    """Both classes and their scores, of all samples of ``data``, at ``biases``.

    Parameters
    ----------
    data : Columns
        The log-scores.
    biases : array of shape (K,)
        What is added to them. −inf takes a class out of play.

    Attributes
    ----------
    first, second : int32 array of shape (N,)
        The classes.
    top, following : float64 array of shape (N,)
        Their scores.
    """

    def __init__(self, data: Columns, biases: Vector) -> None:
        self.data, self.biases = data, np.array(biases, np.float64)
        self.first, self.second = np.empty((2, data.n_samples), np.int32)
        self.top, self.following = np.empty((2, data.n_samples))
        self._right = data.counts(data.labels)  # of the right answers: the support never changes
        if kernels.native is not None:
            kernels.native.place_rows(data.rows, self.biases, *self.places)
            return
        for start in range(0, data.n_samples, SAMPLES_AT_ONCE):
            self._place(slice(start, start + SAMPLES_AT_ONCE))

    def move(self, k: int, bias: float) -> None:
        """Give class ``k`` another bias."""
        column = self.data.column(k)
        if kernels.native is not None:
            kernels.native.move_class(self.data.rows, column, self.biases, k, bias, *self.places)
            return
        raised = bias > self.biases[k]
        self.biases[k] = bias
        score = column.astype(np.float64) + bias
        if raised:
            self._raise(k, score)
        else:
            self._lower(k, score)

    def counts(self) -> ClassCounts:
        """Class counts of the first classes."""
        if kernels.native is None:
            return self.data.counts(self.first)
        data, plain = self.data, np.zeros((2, self.data.n_classes), np.int64)
        sums: Vector = np.zeros((2, data.n_classes))
        kernels.native.count_first(data.labels, data.weights, self.first, sums, plain)
        tp, predicted = plain if data.weights is None else sums
        right = self._right
        return ClassCounts(tp, predicted, right.support, plain[1], right.n_labelled)

    @property
    def places(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Both classes, then both scores."""
        return self.first, self.second, self.top, self.following

    def _place(self, index: Any) -> None:
        scores = self.data.rows[index] + self.biases
        rows = np.arange(scores.shape[0])
        first = scores.argmax(axis=1)
        self.first[index], self.top[index] = first, scores[rows, first]
        scores[rows, first] = -np.inf
        second = scores.argmax(axis=1)
        # Where every other class is at −inf, the arg max may be the first class once more.
        second = np.where(second == first, np.where(first == 0, 1, 0), second)
        self.second[index], self.following[index] = second, scores[rows, second]

    def _raise(self, k: int, score: Vector) -> None:
        own = self.first == k
        self.top[own] = score[own]
        ahead = ~own & ((score > self.top) | ((score == self.top) & (k < self.first)))
        self.second[ahead], self.following[ahead] = self.first[ahead], self.top[ahead]
        self.first[ahead], self.top[ahead] = k, score[ahead]
        behind = ~own & ~ahead
        closer = score > self.following
        closer |= (score == self.following) & (k <= self.second)
        behind &= closer
        self.second[behind], self.following[behind] = k, score[behind]

    def _lower(self, k: int, score: Vector) -> None:
        own = self.first == k
        stays = score > self.following
        stays |= (score == self.following) & (k < self.second)
        stays &= own
        self.top[stays] = score[stays]
        again = np.flatnonzero((own & ~stays) | (self.second == k))
        for start in range(0, again.size, SAMPLES_AT_ONCE):
            self._place(again[start : start + SAMPLES_AT_ONCE])
