"""A uniform sample of rows that come by once, and that merges with others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import constant, is_numpy_namespace, to_numpy
from reprior.profile.samples import Samples

__all__ = ["RowSample"]

Vector: TypeAlias = np.ndarray[Any, Any]


class RowSample:
    """At most ``size`` rows, each as likely as any other to be among them.

    Every row draws a random number, and those of the smallest are kept. So the smallest of two
    samples together are a sample of both.
    """

    def __init__(self, size: int, seed: Any) -> None:
        self.size = size
        self._draw = np.random.default_rng(seed)
        self._columns: list[tuple[Vector, ...]] = []
        self._limit, self._n = 1.0, 0

    def add(self, rows: Samples) -> None:
        """Let the samples that count take part in the draw."""
        left_out = rows.left_out()
        key = self._draw.random(rows.labels.size)
        chosen = key < self._limit
        if left_out is not None:
            chosen &= ~left_out.reshape(-1)
        index = np.flatnonzero(chosen)
        if index.size > self.size:
            index = np.sort(index[np.argpartition(key[index], self.size)[: self.size]])
        if not index.size:
            return
        taken = replace(
            rows,
            scores=_gathered(rows, index),
            labels=rows.labels.reshape(-1)[index],
            weights=None if rows.weights is None else rows.weights.reshape(-1)[index],
        )
        block = taken.read((slice(None),))
        weight = np.ones(index.size) if block.weights is None else block.weights
        self._keep(key[index], to_numpy(block.scores), block.labels, weight)

    def merge(self, other: RowSample) -> None:
        """Take the sample of other rows in."""
        for part in tuple(other._columns):
            self._keep(*part)

    def rows(self) -> tuple[Vector, Vector, Vector]:
        """Log-scores (n, K), labels and weights of the sample."""
        self._shrink()
        _, scores, labels, weight = self._columns[0]
        return scores, labels, weight

    def _keep(self, *part: Vector) -> None:
        self._columns.append(part)
        self._n += part[0].size
        if self._n > self.size:  # whoever is above this number is out already
            keys = np.concatenate([column[0] for column in self._columns])
            self._limit = float(np.partition(keys, self.size - 1)[self.size - 1])
        if self._n > 2 * self.size:
            self._shrink()

    def _shrink(self) -> None:
        """Keep the rows with the smallest numbers, in the order in which they came."""
        key, *rest = (np.concatenate(column) for column in zip(*self._columns, strict=True))
        if key.size > self.size:
            best = np.sort(np.argpartition(key, self.size)[: self.size])
            key, *rest = (column[best] for column in (key, *rest))
        self._columns, self._n = [(key, *rest)], key.size


def _gathered(rows: Samples, index: Vector) -> Any:
    """Scores (n, K) of some samples; the others, which may lie strided, are not copied."""
    where = np.unravel_index(index, rows.labels.shape)
    if is_numpy_namespace(rows.xp):
        return rows.scores[where]
    return rows.scores[tuple(constant(axis, rows.xp, like=rows.scores) for axis in where)]
