"""Profiles of parts: which may be added or subtracted, and the sum of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.exceptions import ProfileMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprior.tuning.profile import StrengthProfile

__all__ = ["ProfileSum", "check_counts", "check_match", "combined", "merged"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Switches that are gathered before they are binned: as many cost little memory, and binning
#: costs a pass over all bins each time.
SWITCHES_PER_BINNING = 1 << 20


def check_match(mine: StrengthProfile, theirs: StrengthProfile, verb: str) -> None:
    """Refuse profiles of different problems, or one with sample weights and one without."""
    for name in ("n_classes", "source_prior", "target_prior", "bounds", "resolution"):
        a, b = getattr(mine, name), getattr(theirs, name)
        if not np.array_equal(a, b):
            raise ProfileMismatchError(
                f"Profiles must have equal {name} to {verb}. Got {a} and {b}. "
                f"Make both with the same options."
            )
    if mine.weighted != theirs.weighted:
        raise ProfileMismatchError(
            f"Profiles must both have sample weights, or neither, to {verb}. Got one of each. "
            f"Pass sample_weight of ones for the other."
        )


def check_counts(counts: Vector) -> None:
    """Refuse a difference in which fewer than no samples are left."""
    if (counts < 0).any():
        raise ProfileMismatchError(
            "A profile can only be subtracted from one that contains it. Got more samples of "
            "a class than the larger profile has. Subtract a part of it."
        )


def combined(mine: StrengthProfile, theirs: object, verb: str) -> StrengthProfile:
    """The sum of two profiles, or their difference."""
    if not isinstance(theirs, type(mine)):
        raise ProfileMismatchError(
            f"Only profiles {verb}. Got {type(theirs).__name__}. Make a profile of it with "
            f"StrengthProfile.from_scores."
        )
    check_match(mine, theirs, verb)
    sign = 1 if verb == "add" else -1
    counts = mine._counts + sign * theirs._counts
    # Equal resolutions were checked: both are exact, or both binned.
    a: Any = mine._switches
    switches = a.plus(theirs._switches) if verb == "add" else a.minus(theirs._switches)
    check_counts(counts)
    sums = None
    if mine._sums is not None and theirs._sums is not None:
        sums = np.where(counts > 0, mine._sums + sign * theirs._sums, 0.0)
    return mine._like(counts=counts, sums=sums, switches=switches)


def merged(profiles: Iterable[StrengthProfile]) -> StrengthProfile:
    """The sum of many profiles."""
    total = ProfileSum()
    for profile in profiles:
        total.add(profile)
    return total.total()


class ProfileSum:
    """A growing sum of profiles, in pairs of like size: nothing is copied over and over.

    Parameters
    ----------
    exact_up_to : int or None
        Switches from which on they are summed in bins; None keeps every switch.
    resolution : float
        The width of these bins.
    """

    def __init__(self, *, exact_up_to: int | None = None, resolution: float = 0.0) -> None:
        self.exact_up_to, self.resolution = exact_up_to, resolution
        self.coarse = exact_up_to == 0
        self._exact: list[tuple[int, StrengthProfile]] = []
        self._binned: list[tuple[int, StrengthProfile]] = []
        self._waiting = 0

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self._exact or self._binned)

    def add(self, profile: StrengthProfile) -> None:
        """Add the profile of some samples, without bins of its own where the sum may bin."""
        _push(self._exact, profile)
        self._waiting += profile.n_switches
        if self.exact_up_to is None:
            return
        limit = min(SWITCHES_PER_BINNING, self.exact_up_to) if self.coarse else self.exact_up_to
        if self._waiting > max(limit, 1):
            self.coarsen()

    def coarsen(self) -> None:
        """From here on, sum in bins; those switches too that were kept so far."""
        self.coarse = True
        if self._exact:
            _push(self._binned, _collapse(self._exact).binned(self.resolution))
        self._exact, self._waiting = [], 0

    def merge(self, other: ProfileSum) -> None:
        """Add all that another sum holds; it is left as it is."""
        if other.coarse and not self.coarse:
            self.coarsen()
        for _, profile in other._binned:
            _push(self._binned, profile)
        for _, profile in other._exact:
            self.add(profile)

    def total(self) -> StrengthProfile:
        """The sum of all that was added."""
        if self.coarse:
            self.coarsen()
        return _collapse(self._binned if self.coarse else self._exact)


def _push(stack: list[tuple[int, StrengthProfile]], profile: StrengthProfile) -> None:
    rank = 0
    while stack and stack[-1][0] == rank:
        profile, rank = stack.pop()[1] + profile, rank + 1
    stack.append((rank, profile))


def _collapse(stack: list[tuple[int, StrengthProfile]]) -> StrengthProfile:
    total = stack[-1][1]
    for _, profile in stack[-2::-1]:
        total = profile + total
    return total
