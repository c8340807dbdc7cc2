"""Every change of a prediction along the strength, and what it does to the class counts.

:class:`Switches` keeps them one by one, :class:`BinnedSwitches` summed up on a grid of
strengths, in memory that does not grow with the number of samples. Both add and subtract, and
both give class events, the one form in which metrics read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import ProfileMismatchError
from reprior.tuning.bin_grid import grid_index, n_cells
from reprior.tuning.class_events import ClassEvents, ClassGains
from reprior.tuning.compiling import compiles
from reprior.tuning.grouping import grouped

__all__ = ["BinTable", "BinnedSwitches", "Switches"]

Vector: TypeAlias = np.ndarray[Any, Any]
_Net: TypeAlias = tuple[Vector, Vector]

#: Sums of the same weights in another order differ by less than this, relatively; weights of
#: other samples, or of the same ones weighted otherwise, by more.
WEIGHT_ROUNDING = 1e-9

#: Cells of a table of grid points and classes, per switch, up to which filling the table is
#: quicker than sorting the switches.
DENSE_CELLS = 4

#: Switches that are entered in a table in one go: what that needs meanwhile is 10 MB.
SWITCHES_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Switches:
    """Switches one by one, in any order: where, of which label, from and to which class.

    ``count`` is None where every row stands for one sample, ``weight`` where samples have none.
    """

    position: Vector
    label: Vector
    loser: Vector
    winner: Vector
    count: Vector | None = None
    weight: Vector | None = None

    def __len__(self) -> int:
        return int(self.position.shape[0])

    @property
    def total(self) -> int:
        """How many samples' switches these are: one row may stand for several."""
        return len(self) if self.count is None else int(self.count.sum())

    @classmethod
    def concatenate(cls, parts: Sequence[Switches]) -> Switches:
        """All switches of the parts."""
        if len(parts) == 1:
            return parts[0]
        counted = any(part.count is not None for part in parts)
        columns: dict[str, Any] = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)[:4]
        }
        if counted:
            columns["count"] = np.concatenate([part._counts() for part in parts])
        if parts[0].weight is not None:
            columns["weight"] = np.concatenate([part.weight for part in parts])
        return cls(**columns)

    @classmethod
    def none(cls, weighted: bool) -> Switches:
        """No switch at all."""
        nobody = np.empty(0, np.int32)
        return cls(np.empty(0), nobody, nobody, nobody, weight=np.empty(0) if weighted else None)

    def plus(self, other: Switches) -> Switches:
        """The switches of both."""
        return Switches.concatenate([self, other])

    def minus(self, other: Switches) -> Switches:
        """Without those of ``other``, each of which must be here."""
        away = Switches(
            other.position, other.label, other.loser, other.winner, -other._counts(),
            None if other.weight is None else -other.weight,
        )  # fmt: skip
        both = Switches.concatenate([self, away])
        keys, (count, weight) = grouped(
            [both.position, both.label, both.loser, both.winner], [both._counts(), both.weight]
        )
        assert count is not None  # noqa: S101 - counts go in, counts come out
        left = count > 0
        if (count < 0).any() or _weight_remains(weight, ~left, self.weight):
            raise _not_a_part()
        position, label, loser, winner = (key[left] for key in keys)
        return Switches(
            position, label, loser, winner, count[left], None if weight is None else weight[left]
        )

    def binned(self, resolution: float, high: float) -> BinnedSwitches:
        """Summed on the grid of multiples of ``resolution``; each at the next grid point.

        Those behind the last grid point are noted at the end of the range, ``high``.
        """
        if len(self):
            low, n_classes = self.position.min(), 1 + int(max(self.loser.max(), self.winner.max()))
            if n_cells((low, high), resolution, n_classes) <= DENSE_CELLS * len(self):
                table = BinTable((low, high), resolution, n_classes, self.weight is not None)
                table.add(self)
                return table.closed()
        point = np.minimum(grid_index(self.position, resolution) * resolution, high)
        moved = Switches(point, self.label, self.loser, self.winner, self.count, self.weight)
        mass = moved._counts() if self.weight is None else self.weight
        (points,), (counts, masses) = grouped([moved.position], [moved._counts(), mass])
        assert counts is not None  # noqa: S101 - as above
        assert masses is not None  # noqa: S101 - as above
        return BinnedSwitches(_net(moved.events), points, counts, masses)

    @cached_property
    def hits(self) -> Switches:
        """Those that change a true positive, by strength."""
        kept = np.flatnonzero((self.label == self.loser) | (self.label == self.winner))
        if not self._is_ordered:
            kept = kept[np.argsort(self.position[kept])]
        elif kept.size == len(self):
            return self
        return self._taken(kept)

    @cached_property
    def ordered(self) -> Switches:
        """The same, by strength."""
        return self if self._is_ordered else self._taken(np.argsort(self.position))

    @cached_property
    def _is_ordered(self) -> bool:
        return bool((self.position[1:] >= self.position[:-1]).all())

    def gains(self, strength: float, n_classes: int) -> ClassGains:
        """What every class has gained at a strength.

        Numbers are counted as they come. Weights are added by strength: their sum then does not
        depend on the order in which profiles were joined.
        """
        if self.weight is not None:
            return self.events.gains(strength, n_classes)
        gained = np.zeros((2, n_classes), np.int64)
        for start in range(0, len(self), SWITCHES_AT_ONCE):
            part = slice(start, start + SWITCHES_AT_ONCE)
            some = self._taken(part)._taken(np.flatnonzero(self.position[part] <= strength))
            for sign, party in ((1, some.winner), (-1, some.loser)):
                right = some._taken(np.flatnonzero(some.label == party))
                gained[0] += sign * _tallied(party, some.count, n_classes)
                gained[1] += sign * _tallied(right.label, right.count, n_classes)
        return ClassGains(*gained, *gained)

    @cached_property
    def events(self) -> ClassEvents:
        """Two events per switch: the loser's and the winner's."""
        this = self.ordered
        klass = np.stack([this.loser, this.winner], axis=1)
        count = this._counts()
        right = klass == this.label[:, None]
        predicted = np.stack([-count, count], axis=1)
        true_positive = np.where(right, predicted, 0)
        weighted = (predicted, true_positive)
        if this.weight is not None:
            weighted_predicted = np.stack([-this.weight, this.weight], axis=1)
            weighted = (weighted_predicted, np.where(right, weighted_predicted, 0.0))
        columns = (klass, predicted, true_positive, *weighted)
        return ClassEvents(np.repeat(this.position, 2), *(c.reshape(-1) for c in columns))

    def arrays(self) -> dict[str, Vector]:
        """What a file has to keep."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in kept.items() if column is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Vector]) -> Switches:
        """Back from :meth:`arrays`."""
        return cls(**arrays)

    def _taken(self, index: Vector | slice) -> Switches:
        return Switches(**{name: column[index] for name, column in self.arrays().items()})

    def _counts(self) -> Vector:
        return np.ones(len(self), np.int64) if self.count is None else self.count


@dataclass(frozen=True, eq=False)
class BinnedSwitches:
    """Switches summed per class and grid point, with the number and mass that moved there.

    A switch between two grid points is noted at the later one, so the counts are exact at
    every grid point, and in between off by no more than the mass of the bin.
    """

    events: ClassEvents
    point: Vector
    count: Vector
    mass: Vector

    @property
    def total(self) -> int:
        """How many switches were summed."""
        return int(self.count.sum())

    @cached_property
    def hits(self) -> BinnedSwitches:
        """With those events only that change a true positive."""
        return replace(self, events=self.events.hits())

    def gains(self, strength: float, n_classes: int) -> ClassGains:
        """What every class has gained at a strength."""
        return self.events.gains(strength, n_classes)

    def plus(self, other: BinnedSwitches) -> BinnedSwitches:
        """The switches of both."""
        return self._combined(other, 1)

    def minus(self, other: BinnedSwitches) -> BinnedSwitches:
        """Without those of ``other``, which must be a part."""
        combined = self._combined(other, -1)
        left = combined.count > 0
        if (combined.count < 0).any() or _weight_remains(combined.mass, ~left, self.mass):
            raise _not_a_part()
        events = combined.events
        stays = np.isin(events.position, combined.point[left])
        if events.predicted[~stays].any() or events.true_positive[~stays].any():
            raise _not_a_part()
        kept = ClassEvents(*(getattr(events, f.name)[stays] for f in fields(ClassEvents)))
        return BinnedSwitches(kept, combined.point[left], combined.count[left], combined.mass[left])

    def mass_after(self, strength: float, resolution: float) -> float:
        """Weight of the switches noted at the first grid point after ``strength``."""
        # Half a bin of room: sums and products of grid points round differently.
        near = (self.point > strength) & (self.point < strength + 1.5 * resolution)
        return float(self.mass[near][:1].sum())

    def arrays(self) -> dict[str, Vector]:
        """What a file has to keep."""
        events = {f"event_{f.name}": getattr(self.events, f.name) for f in fields(self.events)}
        return {**events, "point": self.point, "count": self.count, "mass": self.mass}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Vector]) -> BinnedSwitches:
        """Back from :meth:`arrays`."""
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
        assert count is not None  # noqa: S101 - as above
        assert mass is not None  # noqa: S101 - as above
        return BinnedSwitches(_net(joint), point, count, mass)


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
            self._add(switches._taken(slice(start, start + SWITCHES_AT_ONCE)))

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
        plain = switches.count is None and switches.weight is None
        if plain and compiles(self._plain[1].size):
            from reprior.tuning.compiled_bins import enter

            parties = switches.label, switches.loser, switches.winner
            enter(
                switches.position, *parties, self._resolution, self._first, self._n_classes,
                *self._plain,
            )  # fmt: skip
            return
        index = self._index(switches.position)
        lost, won = (index * self._n_classes + party for party in (switches.loser, switches.winner))
        miss, hit = (switches.label == party for party in (switches.loser, switches.winner))

        def tally(moved_net: _Net, amount: Vector | None) -> None:
            moved, net = moved_net

            def of(which: Vector | slice) -> Any:
                return 1 if amount is None else amount[which]

            everyone = slice(None)
            np.add.at(moved, index, of(everyone))
            np.add.at(net[0], won, of(everyone))
            np.subtract.at(net[0], lost, of(everyone))
            np.add.at(net[1], won[hit], of(hit))
            np.subtract.at(net[1], lost[miss], of(miss))

        tally(self._plain, switches.count)
        if self._weighted is not self._plain:
            tally(self._weighted, switches.weight)


def _tallied(classes: Vector, count: Vector | None, n_classes: int) -> Vector:
    """How often every class is there; exactly, as long as they are fewer than 2^53."""
    return np.bincount(classes, count, minlength=n_classes).astype(np.int64)


def _not_a_part() -> ProfileMismatchError:
    return ProfileMismatchError(
        "A profile can only be subtracted from one that contains it. Got switches that the larger "
        "profile does not have. Subtract a profile of some of its own samples, with equal options."
    )


def _weight_remains(weight: Vector | None, gone: Vector, before: Vector | None) -> bool:
    """Whether switches that are all taken away leave more weight behind than rounding does."""
    if weight is None or before is None or not gone.any():
        return False
    return bool(np.abs(weight[gone]).max() > WEIGHT_ROUNDING * before.max())


def _net(events: ClassEvents) -> ClassEvents:
    """One event per class and position; those in which nothing is left are dropped.

    Weights can remain where plain numbers cancel: one sample in, another, heavier one, out.
    """
    columns = [getattr(events, f.name) for f in fields(events)[2:]]
    (position, klass), sums = grouped([events.position, events.klass], columns)
    kept = [column for column in sums if column is not None]
    left = np.any([column != 0 for column in kept], axis=0)
    return ClassEvents(position[left], klass[left], *(column[left] for column in kept))
