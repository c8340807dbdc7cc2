"""A table of bins as it waits and travels: in the narrowest integers that hold its counts.

Of the bins of some million samples most cells are taken, and few hold more than a hundred: by cell,
one or two bytes each, they are an eighth of the same as sorted events. Where most cells are empty,
those that are not are kept with their index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from reprior.profile.bin_table import BinTable

__all__ = ["PackedBins"]

Vector: TypeAlias = np.ndarray[Any, Any]

_NARROW = (np.int8, np.int16, np.int32)


@dataclass(frozen=True, eq=False)
class PackedBins:
    """The sums of a :class:`~reprior.profile.bin_table.BinTable` of J grid points and K classes.

    Attributes
    ----------
    cell : int32 ndarray of shape (S,), or None
        Which of the J·K cells the sums are of; None where they are of all, in order.
    moved : ndarray of shape (J,)
        How many samples switch in each bin.
    net : ndarray of shape (2, S) or (2, J·K)
        What every class gains, predicted and rightly so.
    mass, weighted
        The same two as sums of weights; None where samples have none.
    """

    cell: Vector | None
    moved: Vector
    net: Vector
    mass: Vector | None = None
    weighted: Vector | None = None

    @classmethod
    def of(cls, table: BinTable) -> PackedBins:
        """What a table holds at present, in arrays of its own."""
        moved, net = table._plain
        packed = narrowed(net)
        if table._weighted is table._plain:
            cell = _few(net.any(axis=0), 2 * packed.itemsize)
            return cls(cell, narrowed(moved), packed if cell is None else packed[:, cell])
        mass, weighted = table._weighted
        taken = net.any(axis=0) | weighted.any(axis=0)
        cell = _few(taken, 2 * (packed.itemsize + weighted.itemsize))
        if cell is None:
            return cls(None, narrowed(moved), packed, mass.copy(), weighted.copy())
        return cls(cell, narrowed(moved), packed[:, cell], mass.copy(), weighted[:, cell])

    def add_to(self, table: BinTable) -> None:
        """Add these sums to a table of the same grid points and classes."""
        where: Any = slice(None) if self.cell is None else self.cell
        moved, net = table._plain
        moved += self.moved
        net[:, where] += self.net
        if self.mass is not None:
            mass, weighted = table._weighted
            mass += self.mass
            weighted[:, where] += self.weighted


def narrowed(values: Vector) -> Vector:
    """Whole numbers, at least one, in the narrowest integers that hold them all; a copy.

    >>> import numpy as np
    >>> narrowed(np.array([-129, 5])).dtype
    dtype('int16')
    """
    low, high = values.min(), values.max()
    for kind in _NARROW:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.copy()


def _few(taken: Any, bytes_per_cell: int) -> Vector | None:
    """The cells that are taken, where these and their sums are smaller than the sums of all."""
    cell = np.flatnonzero(taken).astype(np.int32)  # a table has at most some million
    sparse = cell.size * (cell.itemsize + bytes_per_cell)
    return cell if sparse < taken.size * bytes_per_cell else None
