"""Sums of columns over the rows that have equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["grouped"]

Vector: TypeAlias = np.ndarray[Any, Any]


def grouped(
    keys: list[Vector], columns: Sequence[Vector | None]
) -> tuple[list[Vector], list[Vector | None]]:
    """Sum the columns over rows of equal keys; sorted by the keys, the first one foremost."""
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    first = np.zeros(order.shape, bool)
    first[:1] = True
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(first)
    summed = [None if column is None else _sum_runs(column[order], starts) for column in columns]
    return [key[starts] for key in keys], summed


def _sum_runs(column: Vector, starts: Vector) -> Vector:
    return np.add.reduceat(column, starts) if starts.size else column[:0]
