"""What is counted of blocks, and adds up: moments of an uncertainty, decisions of a setting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

__all__ = ["Moments", "Tally", "merged"]

Vector: TypeAlias = np.ndarray[Any, Any]


class Moments(NamedTuple):
    """Number, mean and summed squared deviations of some numbers; those of parts merge."""

    n: int
    mean: float
    squares: float

    @classmethod
    def of(cls, values: Vector) -> Moments:
        """Those of an array."""
        mean = float(values.mean())
        return cls(values.size, mean, float(np.square(values - mean).sum()))

    def merged(self, other: Moments) -> Moments:
        """Those of both."""
        n, step = self.n + other.n, other.mean - self.mean
        mean = self.mean + step * other.n / n
        return Moments(n, mean, self.squares + other.squares + step**2 * self.n * other.n / n)

    @property
    def std(self) -> float:
        """The population standard deviation."""
        return math.sqrt(self.squares / self.n)


class Tally(NamedTuple):
    """True positives and predicted of every class, (settings, K): numbers, and sums of weights."""

    counts: Vector
    """(2, settings, K) integers."""
    sums: Vector | None
    """(2, settings, K), where samples have weights."""

    @classmethod
    def empty(cls, n_settings: int, n_classes: int, weighted: bool) -> Tally:
        """Nothing counted yet."""
        shape = (2, n_settings, n_classes)
        return cls(np.zeros(shape, np.int64), np.zeros(shape) if weighted else None)

    def add(self, setting: int, labels: Vector, found: Vector, weights: Vector | None) -> None:
        """Count the decisions of one setting."""
        n_classes, right = self.counts.shape[2], labels == found
        self.counts[0, setting] += np.bincount(labels[right], minlength=n_classes)
        self.counts[1, setting] += np.bincount(found, minlength=n_classes)
        if self.sums is not None and weights is not None:
            self.sums[0, setting] += np.bincount(labels[right], weights[right], minlength=n_classes)
            self.sums[1, setting] += np.bincount(found, weights, minlength=n_classes)

    def merged(self, other: Tally) -> Tally:
        """The counts of both."""
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return Tally(self.counts + other.counts, sums)


def merged(moments: Iterable[Moments | None]) -> Moments | None:
    """Those of all parts, in their order; None where no part has any."""
    total: Moments | None = None
    for each in moments:
        if each is not None:
            total = each if total is None else total.merged(each)
    return total
