"""Switches entered in a table of bins as one compiled loop (numba): the same sums as in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["enter"]

# Compiled code is invisible to line coverage; tests/tuning/test_switches.py checks it against the
# array form.


@njit(nogil=True, cache=True)
def enter(
    position: Any,
    label: Any,
    loser: Any,
    winner: Any,
    resolution: float,
    first: int,
    n_classes: int,
    moved: Any,
    net: Any,
) -> None:  # pragma: no cover
    """Count every switch in its bin: that one moved, who lost it and who won it, and rightly so.

    ``moved`` (J,) and ``net`` (2, J·K) are those of a BinTable whose first grid point is
    ``first``·``resolution``.
    """
    for i in range(position.shape[0]):
        x = position[i]
        point = np.ceil(x / resolution)
        point -= (point - 1.0) * resolution >= x
        point += point * resolution < x
        index = np.int64(point) - first
        lost, won = index * n_classes + loser[i], index * n_classes + winner[i]
        moved[index] += 1
        net[0, won] += 1
        net[0, lost] -= 1
        net[1, won] += winner[i] == label[i]
        net[1, lost] -= loser[i] == label[i]
