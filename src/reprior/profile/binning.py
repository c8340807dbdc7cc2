r"""Switches summed on a grid of strengths: memory that does not grow with the number of samples.

The grid is the multiples of a resolution. :class:`BinnedSwitches` is the sum as a profile keeps
it, :class:`BinTable` the table that accumulates it, :class:`PackedBins` its compact form for
sending and storing. :class:`GainTable` bounds how far a metric can rise or fall inside each bin.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.metrics.count_metrics import Agreement, CountMetric
from reprior.metrics.counts import ClassCounts
from reprior.profile.passes import Table
from reprior.profile.switches import (
    ClassEvents,
    ClassGains,
    Switches,
    grouped,
    not_a_part,
    weight_remains,
)

if TYPE_CHECKING:
    from reprior.profile.profile import StrengthProfile

__all__ = [
    "BinTable",
    "BinnedSwitches",
    "GainTable",
    "PackedBins",
    "Reach",
    "grid_index",
    "n_cells",
    "narrowed",
    "net_events",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Cells of a table of grid points and classes, per switch, up to which filling the table is
#: quicker than sorting the switches.
DENSE_CELLS = 4


def n_cells(bounds: tuple[float, float], resolution: float, n_classes: int) -> float:
    """Return about how many cells a :class:`~reprior.profile.binning.BinTable` has."""
    return ((bounds[1] - bounds[0]) / resolution + 2) * n_classes


def grid_index(position: Vector, resolution: float) -> Vector:
    """Return the index of the first multiple of ``resolution`` at or after each position."""
    index = np.ceil(position / resolution)
    index -= (index - 1) * resolution >= position
    index += index * resolution < position
    return index


@dataclass(frozen=True, eq=False)
class BinnedSwitches:
    """Switches summed per class and grid point, with their number and weight (mass) per point.

    A switch between two grid points is counted at the later one, so the counts are exact at
    every grid point, and in between off by no more than the mass of the bin.
    """

    events: ClassEvents
    point: Vector
    count: Vector
    mass: Vector

    @classmethod
    def of(cls, switches: Switches, resolution: float, high: float) -> BinnedSwitches:
        """Sum switches on the grid of multiples of ``resolution``; each at the next grid point.

        Those after the last grid point are counted at the end of the range, ``high``.
        """
        position, weight = switches.position, switches.weight
        if len(switches):
            low = position.min()
            n_classes = 1 + int(max(switches.loser.max(), switches.winner.max()))
            if n_cells((low, high), resolution, n_classes) <= DENSE_CELLS * len(switches):
                table = BinTable((low, high), resolution, n_classes, weight is not None)
                table.add(switches)
                return table.closed()
        point = np.minimum(grid_index(position, resolution) * resolution, high)
        moved = replace(switches, position=point)
        mass = moved.counts() if weight is None else weight
        (points,), (counts, masses) = grouped([point], [moved.counts(), mass])
        assert counts is not None  # noqa: S101 - counts go in, counts come out
        assert masses is not None  # noqa: S101 - as above
        return cls(net_events(moved.events), points, counts, masses)

    @property
    def total(self) -> int:
        """Number of switches that were summed."""
        return int(self.count.sum())

    @cached_property
    def hits(self) -> BinnedSwitches:
        """The same, with only the events that change a true positive."""
        return replace(self, events=self.events.hits())

    def gains(self, strength: float, n_classes: int) -> ClassGains:
        """What every class has gained at a strength."""
        return self.events.gains(strength, n_classes)

    def plus(self, other: BinnedSwitches) -> BinnedSwitches:
        """The switches of both."""
        return self._combined(other, 1)

    def minus(self, other: BinnedSwitches) -> BinnedSwitches:
        """The switches without those of ``other``, which must be a part of them."""
        combined = self._combined(other, -1)
        left = combined.count > 0
        if (combined.count < 0).any() or weight_remains(combined.mass, ~left, self.mass):
            raise not_a_part()
        events = combined.events
        stays = np.isin(events.position, combined.point[left])
        if events.predicted[~stays].any() or events.true_positive[~stays].any():
            raise not_a_part()
        kept = ClassEvents(*(getattr(events, f.name)[stays] for f in fields(ClassEvents)))
        return BinnedSwitches(kept, combined.point[left], combined.count[left], combined.mass[left])

    def mass_after(self, strength: float, resolution: float) -> float:
        """Return the weight of the switches at the first grid point after ``strength``."""
        # A tolerance of half a bin: sums and products of grid points round differently.
        near = (self.point > strength) & (self.point < strength + 1.5 * resolution)
        return float(self.mass[near][:1].sum())

    def arrays(self) -> dict[str, Vector]:
        """Return the arrays that a file stores."""
        events = {f"event_{f.name}": getattr(self.events, f.name) for f in fields(self.events)}
        return {**events, "point": self.point, "count": self.count, "mass": self.mass}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Vector]) -> BinnedSwitches:
        """Make switches of the arrays that :meth:`arrays` returned."""
        events = ClassEvents(*(arrays[f"event_{f.name}"] for f in fields(ClassEvents)))
        return cls(events, arrays["point"], arrays["count"], arrays["mass"])

    def _combined(self, other: BinnedSwitches, sign: int) -> BinnedSwitches:
        mine, theirs = self.events, other.events
        joint = ClassEvents(
            np.concatenate([mine.position, theirs.position]),
            np.concatenate([mine.klass, theirs.klass]),
            *(
                np.concatenate([getattr(mine, f.name), sign * getattr(theirs, f.name)])
                for f in fields(ClassEvents)[2:]
            ),
        )
        (point,), (count, mass) = grouped(
            [np.concatenate([self.point, other.point])],
            [
                np.concatenate([self.count, sign * other.count]),
                np.concatenate([self.mass, sign * other.mass]),
            ],
        )
        assert count is not None  # noqa: S101 - counts go in, counts come out
        assert mass is not None  # noqa: S101 - as above
        return BinnedSwitches(net_events(joint), point, count, mass)


def net_events(events: ClassEvents) -> ClassEvents:
    """Sum events to one per class and position; drop those whose sums are all 0.

    Weights can remain where numbers of samples cancel: a class gains one sample and loses another,
    heavier one.
    """
    columns = [getattr(events, f.name) for f in fields(events)[2:]]
    (position, klass), sums = grouped([events.position, events.klass], columns)
    kept = [column for column in sums if column is not None]
    left = np.any([column != 0 for column in kept], axis=0)
    return ClassEvents(position[left], klass[left], *(column[left] for column in kept))


_Net: TypeAlias = tuple[Vector, Vector]

#: Switches that are added to a table at once: the temporary arrays take 10 MB.
SWITCHES_AT_ONCE = 1 << 18


class BinTable:
    """Accumulates switches in a table with a cell for every grid point and class.

    It needs no sorting, and its size is fixed: 16 bytes per cell, twice that with weights.
    """

    def __init__(
        self, bounds: tuple[float, float], resolution: float, n_classes: int, weighted: bool
    ) -> None:
        first, last = grid_index(np.array(bounds), resolution)
        self.point = np.minimum(np.arange(first, last + 1) * resolution, bounds[1])
        self._first, self._resolution, self._n_classes = int(first), resolution, n_classes
        shape, n_points = (2, self.point.size * n_classes), self.point.size
        # Switches per grid point, and net gains per cell: predicted, true positive.
        self._plain: _Net = np.zeros(n_points, np.int64), np.zeros(shape, np.int64)
        self._weighted: _Net = self._plain
        if weighted:
            self._weighted = np.zeros(n_points), np.zeros(shape)

    def add(self, switches: Switches) -> None:
        """Count switches that lie within the bounds."""
        for start in range(0, len(switches), SWITCHES_AT_ONCE):
            self._add(switches.taken(slice(start, start + SWITCHES_AT_ONCE)))

    def add_binned(self, switches: BinnedSwitches) -> None:
        """Add switches that are summed on the same grid, within the same bounds."""
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
        """Return the sums so far, without the cells that are 0."""
        (count, net), (mass, weighted) = self._plain, self._weighted
        taken = net.any(axis=0)
        if weighted is not net:
            taken |= weighted.any(axis=0)
        cell = np.flatnonzero(taken)
        point, klass = cell // self._n_classes, cell % self._n_classes
        plain = tuple(net[:, cell])
        there = np.flatnonzero(count)
        moved = count[there]
        if weighted is net:  # the same arrays: pickled once
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


_NARROW = (np.int8, np.int16, np.int32)


@dataclass(frozen=True, eq=False)
class PackedBins:
    """The sums of a :class:`BinTable` of J grid points and K classes, in a compact form.

    Attributes
    ----------
    cell : int32 ndarray of shape (S,), or None
        Indices of the cells, of J·K, that the sums belong to; None for all cells in order.
    moved : ndarray of shape (J,)
        Number of samples that switch in each bin.
    net : ndarray of shape (2, S) or (2, J·K)
        Net gains of every class: predicted, true positive.
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
        """Copy the present sums of a table."""
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
    """Copy integers (at least one) to the narrowest integer type that holds them all.

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
    """Return the indices of taken cells if they and their sums are smaller than all sums."""
    cell = np.flatnonzero(taken).astype(np.int32)  # a table has at most some million
    sparse = cell.size * (cell.itemsize + bytes_per_cell)
    return cell if sparse < taken.size * bytes_per_cell else None


class Reach(NamedTuple):
    """Lower and upper bound of a metric in each bin."""

    least: Vector
    largest: Vector


class _Moves(NamedTuple):
    """One class in every bin: its counts where the bin begins, its gains and its losses."""

    hits: Vector
    predicted: Vector
    hits_gained: Vector
    hits_lost: Vector
    false_gained: Vector
    false_lost: Vector


class GainTable:
    """Gross gains of every class in every bin: predictions and true positives, without losses.

    Bin i ends at grid point i and begins after the one before; 16 bytes per bin and class. Weights
    must be whole numbers: sums of fractions leave rounding errors where no sample is left, and
    ratios of these mean nothing.
    """

    def __init__(
        self, bounds: tuple[float, float], resolution: float, n_classes: int, weighted: bool
    ) -> None:
        first, last = grid_index(np.array(bounds), resolution)
        self.n_bins, self.n_classes = int(last - first) + 1, n_classes
        self._first, self._resolution = int(first), resolution
        dtype = np.float64 if weighted else np.int64
        self.gained = np.zeros((2, n_classes, self.n_bins), dtype)

    def bins_of(self, position: Vector) -> Vector:
        """Return the index of the bin of each strength."""
        return grid_index(position, self._resolution).astype(np.intp) - self._first

    def add(self, switches: Switches) -> None:
        """Count switches within the bounds."""
        cell = switches.winner.astype(np.intp) * self.n_bins + self.bins_of(switches.position)
        right = switches.label == switches.winner
        amount = switches.weight
        for table, which in ((self.gained[0], slice(None)), (self.gained[1], right)):
            weight = None if amount is None else amount[which]
            found = np.bincount(cell[which], weight, minlength=table.size)
            table += found.reshape(table.shape).astype(table.dtype, copy=False)

    def reach(self, profile: StrengthProfile, metric: CountMetric) -> Reach:
        """Return bounds of ``metric`` in each bin of the profile of the same switches."""
        switches = profile._switches
        assert isinstance(switches, BinnedSwitches)  # noqa: S101 - bins are what this is about
        start = profile._class_counts(Table.TRUE_POSITIVE, Table.PREDICTED)
        moves = [self._moves(switches, start, k) for k in range(self.n_classes)]
        if metric.average == "pooled":
            return _pooled(moves, start, metric)
        if isinstance(metric, Agreement):  # chance moves with every prediction
            unknown = np.full(self.n_bins, np.inf)
            return Reach(-unknown, unknown)
        eligible = metric.eligible(self.n_classes)
        counted = metric.counted(start) & (start.labelled | (metric.average == "one"))
        total = start.support.sum()
        low, high = np.zeros((2, self.n_bins, self.n_classes))
        fewest = most = np.zeros(self.n_bins)  # classes that count, as 0, where they are predicted
        for k, move in enumerate(moves):
            if counted[k]:
                low[:, k], high[:, k] = _ratios(move, start.support[k], total, metric)
            elif metric.average == "seen" and eligible[k]:
                fewest = fewest + (move.predicted > move.false_lost)
                most = most + ((move.predicted > 0) | (move.false_gained > 0))
        return Reach(
            metric.mean_of(low, counted, start.support, most),
            metric.mean_of(high, counted, start.support, fewest),
        )

    def _moves(self, switches: BinnedSwitches, start: ClassCounts, k: int) -> _Moves:
        events = switches.events
        mine = events.klass == k
        bins = self.bins_of(events.position[mine])
        net = np.zeros((2, self.n_bins), self.gained.dtype)
        np.add.at(net[0], bins, events.weighted_predicted[mine])
        np.add.at(net[1], bins, events.weighted_true_positive[mine])
        before = np.cumsum(net, axis=1) - net
        gained, hits = self.gained[:, k]
        lost, hits_lost = gained - net[0], hits - net[1]
        return _Moves(
            start.true_positive[k] + before[1],
            start.predicted[k] + before[0],
            hits,
            hits_lost,
            gained - hits,
            lost - hits_lost,
        )


def _ratios(move: _Moves, support: Any, total: Any, metric: CountMetric) -> tuple[Vector, Vector]:
    high_hits = move.hits + move.hits_gained
    # A sample may be gained and lost in one bin: at most, all that are there are lost.
    high_predicted = np.maximum(move.predicted + move.hits_gained - move.false_lost, high_hits)
    low_hits = np.maximum(move.hits - move.hits_lost, 0)
    low_predicted = move.predicted - move.hits_lost + move.false_gained
    return (
        metric.ratio(low_hits, low_predicted, support, total),
        metric.ratio(high_hits, high_predicted, support, total),
    )


def _pooled(moves: list[_Moves], start: ClassCounts, metric: CountMetric) -> Reach:
    hits = np.sum([move.hits for move in moves], axis=0)
    predicted, support = start.predicted.sum(), start.support.sum()
    gained = np.sum([move.hits_gained for move in moves], axis=0)
    lost = np.sum([move.hits_lost for move in moves], axis=0)
    return Reach(
        metric.ratio(hits - lost, predicted, support),
        metric.ratio(hits + gained, predicted, support),
    )
