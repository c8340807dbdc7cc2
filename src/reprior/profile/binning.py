"""Changes of predictions summed up on a grid of strengths: memory that no sample adds to."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import ProfileMismatchError
from reprior.profile.class_events import ClassEvents, ClassGains
from reprior.profile.grouping import grouped

__all__ = ["BinnedSwitches", "net_events", "not_a_part", "weight_remains"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Sums of the same weights in another order differ by less than this, relatively; weights of
#: other samples, or of the same ones weighted otherwise, by more.
WEIGHT_ROUNDING = 1e-9


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
        if (combined.count < 0).any() or weight_remains(combined.mass, ~left, self.mass):
            raise not_a_part()
        events = combined.events
        stays = np.isin(events.position, combined.point[left])
        if events.predicted[~stays].any() or events.true_positive[~stays].any():
            raise not_a_part()
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
        assert count is not None  # noqa: S101 - counts go in, counts come out
        assert mass is not None  # noqa: S101 - as above
        return BinnedSwitches(net_events(joint), point, count, mass)


def not_a_part() -> ProfileMismatchError:
    """What is said of a profile that is not contained in the other."""
    return ProfileMismatchError(
        "A profile can only be subtracted from one that contains it. Got switches that the larger "
        "profile does not have. Subtract a profile of some of its own samples, with equal options."
    )


def weight_remains(weight: Vector | None, gone: Vector, before: Vector | None) -> bool:
    """Whether switches that are all taken away leave more weight behind than rounding does."""
    if weight is None or before is None or not gone.any():
        return False
    return bool(np.abs(weight[gone]).max() > WEIGHT_ROUNDING * before.max())


def net_events(events: ClassEvents) -> ClassEvents:
    """One event per class and position; those in which nothing is left are dropped.

    Weights can remain where plain numbers cancel: one sample in, another, heavier one, out.
    """
    columns = [getattr(events, f.name) for f in fields(events)[2:]]
    (position, klass), sums = grouped([events.position, events.klass], columns)
    kept = [column for column in sums if column is not None]
    left = np.any([column != 0 for column in kept], axis=0)
    return ClassEvents(position[left], klass[left], *(column[left] for column in kept))
