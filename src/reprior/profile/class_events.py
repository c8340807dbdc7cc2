"""What happens to the class counts along the strength: the one form in which metrics read it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np

__all__ = ["ClassEvents", "ClassGains"]

Vector: TypeAlias = np.ndarray[Any, Any]


class ClassGains(NamedTuple):
    """What every class (K,) gains up to some strength, in number and in weight."""

    predicted: Vector
    true_positive: Vector
    weighted_predicted: Vector
    weighted_true_positive: Vector


@dataclass(frozen=True, eq=False)
class ClassEvents:
    """What happens to one class at one strength, sorted by strength.

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
        """Those that change the true positives, in number or (summed in a bin) only in weight."""
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
