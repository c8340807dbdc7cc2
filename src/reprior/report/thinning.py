"""Switches as rows of a table that a page can hold.

A row says: at ``position`` so many samples of class ``label`` go from class ``before`` to class
``after``. Where there are too many, they are summed on a grid of strengths: first row by row;
then, where that does not help (many classes), per class, so that every class's true positives and
predictions stay right at the grid points and only the joint table is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

__all__ = ["RESOLUTIONS", "RowBuffer", "SwitchRows", "grouped", "thinned", "widths"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Widths of the bins that are tried, finest first. The coarser ones are for sums per class.
RESOLUTIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
COARSER = (0.1, 0.2, 0.5)

#: Rows in memory before those of large sets are summed up on the finest grid.
COMPACT_FROM = 1 << 23


@dataclass(frozen=True, eq=False)
class SwitchRows:
    """Switches, or entries of a joint table, one per row.

    ``label`` or ``before`` is K where there is none: rows summed per class have no other class
    to name. ``weight`` is None where samples have none.
    """

    position: Vector
    label: Vector
    before: Vector
    after: Vector
    count: Vector
    weight: Vector | None = None

    def __len__(self) -> int:
        return int(self.position.size)

    def taken(self, index: Vector) -> SwitchRows:
        """Some of the rows."""
        columns: dict[str, Any] = {f.name: getattr(self, f.name)[index] for f in fields(self)[:5]}
        return SwitchRows(**columns, weight=None if self.weight is None else self.weight[index])

    @classmethod
    def joined(cls, parts: Sequence[SwitchRows]) -> SwitchRows:
        """The rows of all parts."""
        names = [field.name for field in fields(cls)[:5]]
        columns = {n: np.concatenate([getattr(part, n) for part in parts]) for n in names}
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(**columns, weight=np.concatenate(weights) if weights else None)

    def ordered(self) -> SwitchRows:
        """By strength; equal strengths stay in order."""
        return self.taken(np.argsort(self.position, kind="stable"))


class RowBuffer:
    """A buffer of rows that sums those of very large sets on the finest grid."""

    def __init__(self, edges: Sequence[float], high: float) -> None:
        self.parts: list[SwitchRows] = []
        self.size = 0
        self.edges = edges
        self.high = high
        self.resolution: float | None = None

    def add(self, rows: SwitchRows) -> None:
        """Add rows."""
        self.parts.append(rows)
        self.size += len(rows)
        if self.size > COMPACT_FROM:
            self.resolution = RESOLUTIONS[0]
            self._compact()

    def closed(self) -> tuple[SwitchRows, float | None]:
        """All rows by strength, and the width of the grid they were summed on, if they were."""
        if self.resolution is not None:
            self._compact()
        return SwitchRows.joined(self.parts).ordered(), self.resolution

    def _compact(self) -> None:
        grid = grid_points(RESOLUTIONS[0], self.edges, self.high)
        self.parts = [grouped(on_grid(SwitchRows.joined(self.parts), grid))]
        self.size = len(self.parts[0])


def thinned(
    rows: SwitchRows,
    limit: int,
    n_classes: int,
    edges: Sequence[float],
    high: float,
    at_least: float | None = None,
    *,
    per_class: bool = False,
) -> tuple[SwitchRows, float | None, bool]:
    """At most ``limit`` rows, the width of the grid (None: exact), and whether per class.

    Whatever the grid, counts are exact at its points and at the strengths in ``edges``. With
    ``per_class`` they are summed per class in any case.
    """
    ways = [per_class] if per_class else [False, True]
    for way in ways:
        for width in widths(at_least, coarser=way):
            if width is None and way is not per_class:
                continue
            placed = (
                rows
                if width in (None, at_least)
                else on_grid(rows, grid_points(width, edges, high))
            )
            summed = grouped(summed_per_class(placed, n_classes)) if way else placed
            summed = summed if way or placed is rows else grouped(summed)
            if len(summed) <= limit:
                return summed, width, way
    return summed, width, True


def widths(at_least: float | None, *, coarser: bool) -> Iterator[float | None]:
    """Grids to try: as the rows are, then wider and wider."""
    yield at_least
    tried = (*RESOLUTIONS, *COARSER) if coarser else RESOLUTIONS
    yield from (width for width in tried if width > (at_least or 0.0))


def grid_points(width: float, edges: Sequence[float], high: float) -> Vector:
    """Multiples of ``width`` from the lowest edge to ``high``, and the edges."""
    low = min(*edges, high)
    steps = np.arange(np.floor(low / width), np.ceil(high / width) + 1)
    # Rounded, so that a point of a wider grid is one of the finer grid to the bit.
    points = np.unique([*(steps * width).round(12), *edges, high])
    return np.asarray(points[points <= high])


def on_grid(rows: SwitchRows, points: Vector) -> SwitchRows:
    """Return every switch moved to the next point of the grid."""
    index = np.minimum(np.searchsorted(points, rows.position, side="left"), points.size - 1)
    return replace(rows, position=points[index])


def summed_per_class(rows: SwitchRows, n_classes: int) -> SwitchRows:
    """Return the same changes of predicted and true positives, in rows of one class each."""

    def part(klass: Vector, sign: int) -> SwitchRows:
        return SwitchRows(
            rows.position,
            np.where(rows.label == klass, klass, n_classes),
            np.full(len(rows), n_classes),
            klass,
            sign * rows.count,
            None if rows.weight is None else sign * rows.weight,
        )

    joined = SwitchRows.joined([part(rows.before, -1), part(rows.after, 1)])
    return joined.taken(np.flatnonzero(joined.after < n_classes))


def grouped(rows: SwitchRows) -> SwitchRows:
    """Return equal rows summed to one; those that cancel are dropped."""
    keys = (rows.position, rows.label, rows.before, rows.after)
    order = np.lexsort(keys[::-1])
    rows = rows.taken(order)
    first = np.zeros(len(rows), bool)
    first[:1] = True
    for key in (rows.position, rows.label, rows.before, rows.after):
        first[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(first)
    if not starts.size:
        return rows
    count = np.add.reduceat(rows.count, starts)
    weight = None if rows.weight is None else np.add.reduceat(rows.weight, starts)
    left = np.flatnonzero((count != 0) | (weight != 0 if weight is not None else False))
    return replace(rows.taken(starts), count=count, weight=weight).taken(left)
