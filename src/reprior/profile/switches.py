"""Every change of a prediction along the strength, and what it does to the class counts.

:class:`Switches` keeps them one by one; :mod:`~reprior.profile.binning` has them summed up
on a grid of strengths, in memory that does not grow with the number of samples. Both add and
subtract, and both give class events, the one form in which metrics read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from reprior.profile.bin_grid import grid_index, n_cells
from reprior.profile.bin_table import BinTable
from reprior.profile.binning import BinnedSwitches, net_events, not_a_part, weight_remains
from reprior.profile.class_events import ClassEvents, ClassGains
from reprior.profile.grouping import grouped

__all__ = ["Switches"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Cells of a table of grid points and classes, per switch, up to which filling the table is
#: quicker than sorting the switches.
DENSE_CELLS = 4

#: Switches that are counted in one go: what that needs meanwhile is 10 MB.
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
    def drained(cls, parts: list[Switches]) -> Switches:
        """All switches of the parts, by strength, in little more than the room of the parts.

        The list is emptied, and a column of the parts is let go of once it is joined.
        """
        kept = [part.arrays() for part in parts]
        if any("count" in columns for columns in kept):
            kept = [{**part.arrays(), "count": part._counts()} for part in parts]
        names = [field.name for field in fields(cls) if field.name in kept[0]]
        parts.clear()

        def joined(name: str) -> Vector:
            column = [columns.pop(name) for columns in kept]
            return column[0] if len(column) == 1 else np.concatenate(column)

        position = joined("position")
        order = np.argsort(position)
        position = position[order]
        return cls(position, **{name: joined(name)[order] for name in names[1:]})

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
        if (count < 0).any() or weight_remains(weight, ~left, self.weight):
            raise not_a_part()
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
        return BinnedSwitches(net_events(moved.events), points, counts, masses)

    @cached_property
    def hits(self) -> Switches:
        """Those that change a true positive, by strength."""
        kept = np.flatnonzero((self.label == self.loser) | (self.label == self.winner))
        if not self.is_ordered:
            kept = kept[np.argsort(self.position[kept])]
        elif kept.size == len(self):
            return self
        return self.taken(kept)

    @cached_property
    def ordered(self) -> Switches:
        """The same, by strength."""
        return self if self.is_ordered else self.taken(np.argsort(self.position))

    @cached_property
    def is_ordered(self) -> bool:
        """Whether they are by strength already."""
        return bool((self.position[1:] >= self.position[:-1]).all())

    def gains(self, strength: float, n_classes: int) -> ClassGains:
        """What every class has gained at a strength.

        Numbers are counted as they come. Weights are added by strength: their sum then depends on
        the order in which profiles were joined only where switches lie at one strength, and there
        in the last bits.
        """
        if self.weight is not None:
            return self.events.gains(strength, n_classes)
        gained = np.zeros((2, n_classes), np.int64)
        for start in range(0, len(self), SWITCHES_AT_ONCE):
            part = slice(start, start + SWITCHES_AT_ONCE)
            some = self.taken(part).taken(np.flatnonzero(self.position[part] <= strength))
            for sign, party in ((1, some.winner), (-1, some.loser)):
                right = some.taken(np.flatnonzero(some.label == party))
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

    def native_columns(self) -> dict[str, Vector]:
        """Position, label, loser and winner as the kernels take them."""
        dtypes = {"position": np.float64, "label": np.int32, "loser": np.int32, "winner": np.int32}
        return {name: np.require(getattr(self, name), dtypes[name], ["C", "A"]) for name in dtypes}

    def taken(self, index: Vector | slice) -> Switches:
        """Some of them."""
        return Switches(**{name: column[index] for name, column in self.arrays().items()})

    def _counts(self) -> Vector:
        return np.ones(len(self), np.int64) if self.count is None else self.count


def _tallied(classes: Vector, count: Vector | None, n_classes: int) -> Vector:
    """How often every class is there; exactly, as long as they are fewer than 2^53."""
    return np.bincount(classes, count, minlength=n_classes).astype(np.int64)
