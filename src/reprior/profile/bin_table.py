"""A table of bins in which switches are summed as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.profile.bin_grid import grid_index
from reprior.profile.binning import BinnedSwitches
from reprior.profile.class_events import ClassEvents

if TYPE_CHECKING:
    from reprior.profile.switches import Switches

__all__ = ["BinTable"]

Vector: TypeAlias = np.ndarray[Any, Any]
_Net: TypeAlias = tuple[Vector, Vector]

#: Switches that are entered in a table in one go: what that needs meanwhile is 10 MB.
SWITCHES_AT_ONCE = 1 << 18


class BinTable:
    """A growing sum of switches in a table of every grid point and class.

    Nothing needs to be sorted, and its size is settled from the start: 16 bytes per cell, twice
    that with weights.
    """

    def __init__(
        self, bounds: tuple[float, float], resolution: float, n_classes: int, weighted: bool
    ) -> None:
        first, last = grid_index(np.array(bounds), resolution)
        self.point = np.minimum(np.arange(first, last + 1) * resolution, bounds[1])
        self._first, self._resolution, self._n_classes = int(first), resolution, n_classes
        shape, n_points = (2, self.point.size * n_classes), self.point.size
        # Of each: how many moved, and the net gains of every class, predicted and rightly so.
        self._plain: _Net = np.zeros(n_points, np.int64), np.zeros(shape, np.int64)
        self._weighted: _Net = self._plain
        if weighted:
            self._weighted = np.zeros(n_points), np.zeros(shape)

    def add(self, switches: Switches) -> None:
        """Count switches that lie within the bounds."""
        for start in range(0, len(switches), SWITCHES_AT_ONCE):
            self._add(switches.taken(slice(start, start + SWITCHES_AT_ONCE)))

    def add_binned(self, switches: BinnedSwitches) -> None:
        """Count switches that were summed on the same grid, of the same bounds."""
        events, point = switches.events, self._index(switches.point)
        cell = self._index(events.position) * self._n_classes + events.klass
        moved, net = self._plain
        moved[point] += switches.count
        net[:, cell] += (events.predicted, events.true_positive)
        if self._weighted is not self._plain:
            moved, net = self._weighted
            moved[point] += switches.mass
            net[:, cell] += (events.weighted_predicted, events.weighted_true_positive)

    def closed(self) -> BinnedSwitches:
        """What was counted so far, without the cells in which nothing is left."""
        (count, net), (mass, weighted) = self._plain, self._weighted
        taken = net.any(axis=0)
        if weighted is not net:
            taken |= weighted.any(axis=0)
        cell = np.flatnonzero(taken)
        point, klass = cell // self._n_classes, cell % self._n_classes
        plain = tuple(net[:, cell])
        there = np.flatnonzero(count)
        moved = count[there]
        if weighted is net:  # the same arrays: they travel once
            events = ClassEvents(self.point[point], klass, *plain, *plain)
            return BinnedSwitches(events, self.point[there], moved, moved)
        events = ClassEvents(self.point[point], klass, *plain, *weighted[:, cell])
        return BinnedSwitches(events, self.point[there], moved, mass[there])

    def _index(self, position: Vector) -> Vector:
        return grid_index(position, self._resolution).astype(np.intp) - self._first

    def _add(self, switches: Switches) -> None:
        enter = self._enter_arrays if kernels.native is None else self._enter_native
        enter(switches, switches.count, self._plain)
        if self._weighted is not self._plain:
            enter(switches, switches.weight, self._weighted)

    def _enter_native(self, switches: Switches, amount: Vector | None, table: _Net) -> None:
        native: Any = kernels.native
        moved, net = table
        native.enter_bins(
            **switches.native_columns(),
            amount=None if amount is None else np.require(amount, net.dtype, ["C", "A"]),
            resolution=self._resolution,
            first=self._first,
            moved=moved,
            net=net,
        )

    def _enter_arrays(self, switches: Switches, amount: Vector | None, table: _Net) -> None:
        moved, net = table
        index = self._index(switches.position)
        lost, won = (index * self._n_classes + party for party in (switches.loser, switches.winner))
        miss, hit = (switches.label == party for party in (switches.loser, switches.winner))

        def of(which: Vector | slice) -> Any:
            return 1 if amount is None else amount[which]

        everyone = slice(None)
        np.add.at(moved, index, of(everyone))
        np.add.at(net[0], won, of(everyone))
        np.subtract.at(net[0], lost, of(everyone))
        np.add.at(net[1], won[hit], of(hit))
        np.subtract.at(net[1], lost[miss], of(miss))
