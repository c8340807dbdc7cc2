"""The grid of strengths that switches are summed on: multiples of a resolution."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["grid_index", "n_cells"]

Vector: TypeAlias = np.ndarray[Any, Any]


def n_cells(bounds: tuple[float, float], resolution: float, n_classes: int) -> float:
    """About how many cells a :class:`~reprior.profile.bin_table.BinTable` has."""
    return ((bounds[1] - bounds[0]) / resolution + 2) * n_classes


def grid_index(position: Vector, resolution: float) -> Vector:
    """Which multiple of ``resolution`` is the first at or after each position."""
    index = np.ceil(position / resolution)
    index -= (index - 1) * resolution >= position
    index += index * resolution < position
    return index
