"""Every change of a prediction along the strength, and what it does to the class counts.

:class:`Switches` keeps them one by one; :mod:`~reprior.profile.binning` sums them on a grid of
strengths, in memory that does not grow with the number of samples. Both add and subtract, and both
give :class:`ClassEvents`, the one form in which metrics read them. :class:`SwitchTable` is the
public view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.exceptions import ProfileMismatchError

__all__ = [
    "ClassEvents",
    "ClassGains",
    "SwitchTable",
    "Switches",
    "grouped",
    "not_a_part",
    "switch_table",
    "weight_remains",
]

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


class ClassGains(NamedTuple):
    """What every class (K,) gains up to some strength, in number and in weight."""

    predicted: Vector
    true_positive: Vector
    weighted_predicted: Vector
    weighted_true_positive: Vector


@dataclass(frozen=True, eq=False)
class ClassEvents:
    """Changes of class counts, one row per class and strength, sorted by strength.

    At ``position[j]`` class ``klass[j]`` gains ``predicted[j]`` samples, ``true_positive[j]`` of
    them rightly so (negative: loses). The weighted sums stand beside the plain numbers where
    samples have weights, and are the plain numbers where they have none.
    """

    position: Vector
    klass: Vector
    predicted: Vector
    true_positive: Vector
    weighted_predicted: Vector
    weighted_true_positive: Vector

    def hits(self) -> ClassEvents:
        """Return the events that change the true positives.

        In a bin, numbers may cancel while weights do not.
        """
        kept = (self.true_positive != 0) | (self.weighted_true_positive != 0)
        return ClassEvents(*(getattr(self, field.name)[kept] for field in fields(self)))

    def gains(self, strength: float, n_classes: int) -> ClassGains:
        """What every class has gained at a strength, added up in the order of the events."""
        n = int(np.searchsorted(self.position, strength, side="right"))

        def total(change: Vector) -> Vector:
            moved = np.zeros(n_classes, change.dtype)
            np.add.at(moved, self.klass[:n], change[:n])
            return moved

        columns = (getattr(self, name) for name in ClassGains._fields)
        return ClassGains(*map(total, columns))

    @classmethod
    def none(cls) -> ClassEvents:
        """No event at all."""
        nothing = np.empty(0, np.int64)
        return cls(np.empty(0), nothing, nothing, nothing, nothing, nothing)


#: The largest relative difference between sums of the same weights in another order. A larger
#: difference means other samples or other weights.
WEIGHT_ROUNDING = 1e-9

#: Switches that are counted at once: the temporary arrays take 10 MB.
SWITCHES_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Switches:
    """Switches one by one, in any order: where, of which label, from and to which class.

    ``count`` is None where every row stands for one sample, ``weight`` where samples have none, and
    ``image`` where they are no pixels of images.
    """

    position: Vector
    label: Vector
    loser: Vector
    winner: Vector
    count: Vector | None = None
    weight: Vector | None = None
    image: Vector | None = None

    def __len__(self) -> int:
        return int(self.position.shape[0])

    @property
    def total(self) -> int:
        """The number of switches: one row may stand for several."""
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
            columns["count"] = np.concatenate([part.counts() for part in parts])
        if parts[0].weight is not None:
            columns["weight"] = np.concatenate([part.weight for part in parts])
        images: list[Any] = [part.image for part in parts if len(part)]
        if images and all(image is not None for image in images):
            columns["image"] = np.concatenate(images)
        return cls(**columns)

    @classmethod
    def consume(cls, parts: list[Switches]) -> Switches:
        """Concatenate the parts, sorted by strength, in little more memory than the parts take.

        The list is emptied, and each column of the parts is freed once it is joined.
        """
        parts[:] = [part for part in parts if len(part)] or parts[:1]
        kept = [part.arrays() for part in parts]
        if any("count" in columns for columns in kept):
            kept = [{**part.arrays(), "count": part.counts()} for part in parts]
        names = [f.name for f in fields(cls) if all(f.name in columns for columns in kept)]
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
        empty = np.empty(0, np.int32)
        return cls(np.empty(0), empty, empty, empty, weight=np.empty(0) if weighted else None)

    def plus(self, other: Switches) -> Switches:
        """The switches of both."""
        return Switches.concatenate([self, other])

    def minus(self, other: Switches) -> Switches:
        """Without those of ``other``, each of which must be here."""
        away = Switches(
            other.position,
            other.label,
            other.loser,
            other.winner,
            -other.counts(),
            None if other.weight is None else -other.weight,
            other.image,
        )
        both = Switches.concatenate([self, away])
        own = [both.position, both.label, both.loser, both.winner]
        if both.image is not None:
            own.append(both.image)
        keys, (count, weight) = grouped(own, [both.counts(), both.weight])
        assert count is not None  # noqa: S101 - counts go in, counts come out
        left = count > 0
        if (count < 0).any() or weight_remains(weight, ~left, self.weight):
            raise not_a_part()
        position, label, loser, winner, *image = (key[left] for key in keys)
        kept = None if weight is None else weight[left]
        return Switches(position, label, loser, winner, count[left], kept, *image)

    def imageless(self) -> Switches:
        """The same switches, without their images."""
        return self if self.image is None else replace(self, image=None)

    @cached_property
    def hits(self) -> Switches:
        """The switches that change a true positive, sorted by strength."""
        kept = np.flatnonzero((self.label == self.loser) | (self.label == self.winner))
        if not self.is_ordered:
            kept = kept[np.argsort(self.position[kept])]
        elif kept.size == len(self):
            return self
        return self.taken(kept)

    @cached_property
    def ordered(self) -> Switches:
        """The switches sorted by strength."""
        return self if self.is_ordered else self.taken(np.argsort(self.position))

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the switches are sorted by strength."""
        return bool((self.position[1:] >= self.position[:-1]).all())

    def gains(self, strength: float, n_classes: int) -> ClassGains:
        """What every class has gained at a strength.

        Weights are added in order of strength. Only for switches at the same strength can the join
        order change the last bits.
        """
        if self.weight is not None:
            return self.events.gains(strength, n_classes)
        gained = np.zeros((2, n_classes), np.int64)
        for start in range(0, len(self), SWITCHES_AT_ONCE):
            part = slice(start, start + SWITCHES_AT_ONCE)
            passed = np.flatnonzero(self.position[part] <= strength) + start
            label, count = self.label[passed], None if self.count is None else self.count[passed]
            for sign, party in ((1, self.winner[passed]), (-1, self.loser[passed])):
                right = np.flatnonzero(label == party)
                right_count = None if count is None else count[right]
                gained[0] += sign * _tallied(party, count, n_classes)
                gained[1] += sign * _tallied(label[right], right_count, n_classes)
        return ClassGains(*gained, *gained)

    @cached_property
    def events(self) -> ClassEvents:
        """Two events per switch: the loser's and the winner's."""
        this = self.ordered
        klass = np.stack([this.loser, this.winner], axis=1)
        count = this.counts()
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
        """Return the arrays that a file stores."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in kept.items() if column is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Vector]) -> Switches:
        """Make switches of the arrays that :meth:`arrays` returned."""
        return cls(**arrays)

    def native_columns(self) -> dict[str, Vector]:
        """Return position, label, loser and winner in the dtypes of the kernels."""
        dtypes = {"position": np.float64, "label": np.int32, "loser": np.int32, "winner": np.int32}
        return {name: np.require(getattr(self, name), dtypes[name], ["C", "A"]) for name in dtypes}

    def taken(self, index: Vector | slice) -> Switches:
        """Return some of the switches."""
        return Switches(**{name: column[index] for name, column in self.arrays().items()})

    def counts(self) -> Vector:
        """How many samples each row stands for."""
        return np.ones(len(self), np.int64) if self.count is None else self.count


def not_a_part() -> ProfileMismatchError:
    """Return the error for subtracting a profile that the other does not contain."""
    return ProfileMismatchError(
        "A profile can only be subtracted from one that contains it. Got switches that the larger "
        "profile does not have. Subtract a profile of some of its own samples, with equal options."
    )


def weight_remains(weight: Vector | None, gone: Vector, before: Vector | None) -> bool:
    """Tell whether switches of count 0 keep more weight than rounding explains."""
    if weight is None or before is None or not gone.any():
        return False
    return bool(np.abs(weight[gone]).max() > WEIGHT_ROUNDING * before.max())


def _tallied(classes: Vector, count: Vector | None, n_classes: int) -> Vector:
    """Count every class; exact below 2^53."""
    return np.bincount(classes, count, minlength=n_classes).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SwitchTable:
    """Every change of a prediction within the bounds of a profile, by strength.

    From ``position[j]`` on, ``count[j]`` samples of class ``label[j]`` are predicted as class
    ``after[j]``; below it they were predicted as class ``before[j]``.

    Attributes
    ----------
    position : ndarray of shape (S,)
        Strengths, ascending. A switch right after 0 stands at the smallest positive float.
    label, before, after : integer ndarray of shape (S,)
        The samples' own class, and their predictions on either side.
    count : integer ndarray of shape (S,)
        How many samples; 1 unless profiles were subtracted.
    weight : ndarray of shape (S,)
        Their summed weight; equal to ``count`` where samples have no weights.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> table = rp.StrengthProfile.from_scores(logits, [0, 1, 1], source_prior=[0.8, 0.2]).switches
    >>> table.position.round(3), table.label, table.before, table.after
    (array([0.721, 1.443]), array([1, 0], ...), array([0, 0], ...), array([1, 1], ...))
    """

    position: Vector
    label: Vector
    before: Vector
    after: Vector
    count: Vector
    weight: Vector

    def __len__(self) -> int:
        return int(self.position.size)


def switch_table(switches: Switches) -> SwitchTable:
    """Copy switches, sorted by strength, then by label and classes."""
    order = np.lexsort((switches.winner, switches.loser, switches.label, switches.position))
    count = np.ones(order.size, np.int64) if switches.count is None else switches.count[order]
    weight = count.astype(np.float64) if switches.weight is None else switches.weight[order]
    return SwitchTable(
        position=switches.position[order],
        label=switches.label[order],
        before=switches.loser[order],
        after=switches.winner[order],
        count=count,
        weight=weight,
    )
