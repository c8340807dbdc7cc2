"""Profiles of parts: which can be added or subtracted, and the sum of many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from reprior.exceptions import ProfileMismatchError
from reprior.profile.binning import BinnedSwitches, BinTable, PackedBins, n_cells
from reprior.profile.passes import Pairs
from reprior.profile.switches import Switches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprior.profile.profile import StrengthProfile

__all__ = [
    "APART",
    "PackedProfile",
    "ProfileSum",
    "bare",
    "check_counts",
    "check_match",
    "combined",
    "merged",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Switches that are gathered before they are binned, where bins are not in a table: so many take
#: little memory, and each binning costs a pass over all bins.
SWITCHES_PER_BINNING = 1 << 20

#: Exact profiles of at least so many switches (300 KB) are kept side by side, not added in pairs: a
#: sum of large ones would need their memory twice, and may be binned before it is needed.
LARGE = 1 << 14

#: The rank of profiles that are kept side by side; no pair has it.
APART = 99

#: Largest table of bins that is kept, in cells: 64 MB, twice that with weights. With bins of 1e-4
#: and the usual bounds that is enough for 200 classes.
MOST_CELLS = 1 << 22


def check_match(mine: StrengthProfile, theirs: StrengthProfile, verb: str) -> None:
    """Refuse profiles of different problems, or one with sample weights and one without."""
    names = ["n_classes", "source_prior", "target_prior", "bounds", "resolution"]
    if mine.source_prior is None and theirs.source_prior is None:
        names.append("direction")
    for name in names:
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
    """Refuse a difference with negative numbers of samples."""
    if (counts < 0).any():
        raise ProfileMismatchError(
            "A profile can only be subtracted from one that contains it. Got more samples of "
            "a class than the larger profile has. Subtract a part of it."
        )


def combined(mine: StrengthProfile, theirs: object, verb: str) -> StrengthProfile:
    """Return the sum of two profiles, or their difference."""
    if not isinstance(theirs, type(mine)):
        raise ProfileMismatchError(
            f"Only profiles {verb}. Got {type(theirs).__name__}. Make a profile of it with "
            f"StrengthProfile.from_scores."
        )
    check_match(mine, theirs, verb)
    sign = 1 if verb == "add" else -1
    if sign > 0 and _is_numbered(mine) and _is_numbered(theirs):
        theirs = renumbered(theirs, _next_image(mine), numbered=True)
    counts = mine._counts + sign * theirs._counts
    # Equal resolutions were checked: both are exact, or both binned.
    check_counts(counts)
    switches, pairs = _joined(mine, theirs, sign)
    sums = None
    if mine._sums is not None and theirs._sums is not None:
        sums = np.where(counts > 0, mine._sums + sign * theirs._sums, 0.0)
    of_images = mine._of_images or theirs._of_images
    return mine._like(counts=counts, sums=sums, switches=switches, pairs=pairs, of_images=of_images)


def _joined(mine: StrengthProfile, theirs: StrengthProfile, sign: int) -> tuple[Any, Pairs | None]:
    """Join switches and pairs. Images that do not agree are dropped from both.

    In a sum, images of the same given number are one image; where both profiles count their images
    from 0 on, the second one's were renumbered. In a difference they must be images of the larger
    profile, which is only known of given numbers.
    """
    a: Any = mine._switches
    b: Any = theirs._switches
    if isinstance(a, BinnedSwitches):
        return (a.plus(b) if sign > 0 else a.minus(b)), None
    known = None if mine._pairs is None or theirs._pairs is None else (mine._pairs, theirs._pairs)
    alike = known is not None and all(_has_images(pairs) for pairs in known)
    numbered = [pairs.numbered for pairs in known or ()]
    alike = alike and (not any(numbered) or (sign > 0 and all(numbered)))
    if known is not None and alike and sign < 0:
        alike = bool((known[0].start.plus(known[1].start, -1).count > 0).all())
    if not alike:
        a, b = a.imageless(), b.imageless()
        known = None if known is None else (_imageless(known[0]), _imageless(known[1]))
    switches = a.plus(b) if sign > 0 else a.minus(b)
    if known is None:
        return switches, None
    (start, origin, _), (their_start, their_origin, _) = known
    joined = start.plus(their_start, sign)
    own = alike and all(numbered)
    if origin is start and their_origin is their_start:
        return switches, Pairs(joined, joined, own)
    return switches, Pairs(joined, origin.plus(their_origin, sign), own)


def _is_numbered(profile: StrengthProfile) -> bool:
    return profile._pairs is not None and profile._pairs.numbered


def _next_image(profile: StrengthProfile) -> int:
    """The smallest number that is larger than those of all images."""
    assert profile._pairs is not None  # noqa: S101 - it is numbered
    return 1 + int(np.max(np.asarray(profile._pairs.start.image), initial=-1))


def renumbered(profile: StrengthProfile, first: int, *, numbered: bool) -> StrengthProfile:
    """Return a profile with numbers of images from ``first`` on, in place of 0."""
    pairs, switches = profile._pairs, profile._switches
    assert pairs is not None  # noqa: S101 - it is numbered

    def moved(table: Any) -> Any:
        return table if table.image is None else replace(table, image=table.image + first)

    start = moved(pairs.start)
    origin = start if pairs.origin is pairs.start else moved(pairs.origin)
    return profile._like(switches=moved(switches), pairs=Pairs(start, origin, numbered))


def _has_images(pairs: Pairs) -> bool:
    return pairs.start.image is not None


def _imageless(pairs: Pairs) -> Pairs:
    start = pairs.start.without_images()
    return Pairs(start, start if pairs.origin is pairs.start else pairs.origin.without_images())


def merged(profiles: Iterable[StrengthProfile]) -> StrengthProfile:
    """Return the sum of many profiles."""
    total = ProfileSum()
    for profile in profiles:
        total.add(profile)
    return total.total()


class PackedProfile(NamedTuple):
    """A profile in a form that is small to keep and send, and quick to add to another."""

    profile: StrengthProfile
    """The whole profile; without its bins if there are ``bins``."""
    bins: PackedBins | None = None

    def unpacked(self) -> StrengthProfile:
        """The profile."""
        return self.profile if self.bins is None else _Tally.of(self).total()


class ProfileSum:
    """Accumulates profiles without copying the sum for each.

    Exact profiles are added in pairs of similar size up to some megabytes. Bins are added to one
    table of all strengths and classes, or in pairs if that table would be large.

    Parameters
    ----------
    exact_up_to : int or None
        The largest number of switches that are kept; more are summed in bins. None keeps all.
    resolution : float
        Width of the bins.
    """

    def __init__(self, *, exact_up_to: int | None = None, resolution: float = 0.0) -> None:
        self.exact_up_to, self.resolution = exact_up_to, resolution
        self.coarse = exact_up_to == 0
        self._like: StrengthProfile | None = None
        self._exact: list[tuple[int, StrengthProfile]] = []
        self._binned: list[tuple[int, StrengthProfile]] = []
        self._tally: _Tally | None = None
        self._waiting = 0
        self._n_images = 0

    def __bool__(self) -> bool:
        """Whether a profile was added."""
        return self._like is not None

    @property
    def n_waiting(self) -> int:
        """Number of switches that are kept one by one."""
        return self._waiting

    def add(self, profile: StrengthProfile) -> None:
        """Add a profile; an exact one if the sum may bin."""
        self._check(profile)  # before anything is changed
        if self._tally is not None:
            self._tally.add(profile)
            return
        if _is_numbered(profile):
            first = self._n_images
            self._n_images += _next_image(profile)
            profile = renumbered(profile, first, numbered=False)
        self._keep(profile)
        self._waiting += profile.n_switches
        if self.exact_up_to is None:
            return
        limit = min(SWITCHES_PER_BINNING, self.exact_up_to) if self.coarse else self.exact_up_to
        if self._waiting > max(limit, 1):
            self.coarsen()

    def coarsen(self) -> None:
        """Sum all switches in bins: those kept so far and those to come."""
        self.coarse = True
        if self._exact:
            self._bin(_collapse(self._exact))
        self._exact, self._waiting = [], 0

    def bin(self, profile: StrengthProfile) -> None:
        """Add a profile, exact or in the bins of the sum, to the bins."""
        self._check(profile, in_bins=profile.resolution is not None)
        self._bin(profile)

    def bin_packed(self, packed: PackedProfile) -> None:
        """Add a profile, packed or exact, to the bins."""
        profile, bins = packed
        if bins is None:
            self.bin(profile)
            return
        self._check(profile, in_bins=True)
        if self._tally is None:
            self._tally = _Tally.of(packed)
        else:
            self._tally.add_packed(packed)

    def merge(self, other: ProfileSum) -> None:
        """Add another sum, which does not change; if it is refused, neither sum changes."""
        theirs = other._like
        if theirs is None:
            return
        if self._like is not None:
            check_match(self._like, theirs, "add")
        if other.coarse:
            mine, their = (theirs._like(resolution=each.resolution) for each in (self, other))
            check_match(mine, their, "add")
        if other.coarse and not self.coarse:
            self.coarsen()
        binned = [PackedProfile(profile) for _, profile in other._binned]
        if other._tally is not None:
            binned.append(other._tally.packed())
        exact = [profile for _, profile in other._exact]
        for packed in binned:
            self.bin_packed(packed)
        for profile in exact:
            self.add(profile)

    def total(self) -> StrengthProfile:
        """Return the sum of all profiles added so far."""
        if self.coarse:
            self.coarsen()
        if self._tally is not None:
            return self._tally.total()
        return _collapse(self._binned if self.coarse else self._exact)

    def consume(self) -> StrengthProfile:
        """Return the total with its switches sorted by strength; free the parts meanwhile."""
        if self.coarse:
            return self.total()
        parts, self._exact, self._waiting = [profile for _, profile in self._exact], [], 0
        total = _added([bare(profile) for profile in parts])
        switches: list[Any] = [profile._switches for profile in parts]
        parts.clear()
        return total._like(switches=Switches.consume(switches))

    def packed(self) -> PackedProfile:
        """Return the total in its packed form."""
        if self.coarse:
            self.coarsen()
        return PackedProfile(self.total()) if self._tally is None else self._tally.packed()

    def _check(self, profile: StrengthProfile, *, in_bins: bool = False) -> None:
        """Refuse a profile of another problem, or with other bins than the sum."""
        like = self._like
        if like is None:
            grid = None if in_bins else profile.resolution
            like = profile._like(
                switches=Switches.none(profile.weighted), resolution=grid, pairs=None
            )
        wanted = like._like(resolution=self.resolution) if in_bins else like
        check_match(wanted, profile, "add")
        self._like = like

    def _keep(self, profile: StrengthProfile) -> None:
        """Keep an exact profile."""
        _push(self._exact, profile)

    def _bin(self, profile: StrengthProfile) -> None:
        """Add a profile, exact or binned, to the bins."""
        size = n_cells(profile.bounds, self.resolution, profile.n_classes)
        if size > MOST_CELLS:
            _push(self._binned, profile.binned(self.resolution))
            return
        if self._tally is None:
            self._tally = _Tally(profile, self.resolution)
        self._tally.add(profile)


class _Tally:
    """Sums profiles, their switches in one table of bins."""

    def __init__(self, like: StrengthProfile, resolution: float) -> None:
        weighted = like.weighted
        self._like = like._like(switches=Switches.none(weighted), resolution=resolution, pairs=None)
        self._counts = np.zeros_like(like._counts)
        self._sums = None if like._sums is None else np.zeros_like(like._sums)
        self._table = BinTable(like.bounds, resolution, like.n_classes, weighted)

    def add(self, profile: StrengthProfile) -> None:
        self._add_counts(profile)
        if isinstance(profile._switches, BinnedSwitches):
            self._table.add_binned(profile._switches)
        else:
            self._table.add(profile._switches)

    @classmethod
    def of(cls, packed: PackedProfile) -> _Tally:
        """Start a sum with a packed profile."""
        width = packed.profile.resolution
        assert width is not None  # noqa: S101 - there are bins
        tally = cls(packed.profile, width)
        tally.add_packed(packed)
        return tally

    def add_packed(self, packed: PackedProfile) -> None:
        profile, bins = packed
        assert bins is not None  # noqa: S101 - profiles without bins are added directly
        self._add_counts(profile)
        bins.add_to(self._table)

    def total(self) -> StrengthProfile:
        return self._without_bins()._like(switches=self._table.closed())

    def packed(self) -> PackedProfile:
        return PackedProfile(self._without_bins(), PackedBins.of(self._table))

    def _add_counts(self, profile: StrengthProfile) -> None:
        self._counts += profile._counts
        if self._sums is not None:
            self._sums += profile._sums

    def _without_bins(self) -> StrengthProfile:
        sums = None if self._sums is None else self._sums.copy()
        return self._like._like(counts=self._counts.copy(), sums=sums)


def _push(stack: list[tuple[int, StrengthProfile]], profile: StrengthProfile) -> None:
    rank = 0
    while stack and stack[-1][0] == rank:
        profile, rank = stack.pop()[1] + profile, rank + 1
    large = profile.resolution is None and profile.n_switches >= LARGE
    stack.append((APART if large else rank, profile))


def _collapse(stack: list[tuple[int, StrengthProfile]]) -> StrengthProfile:
    profiles = [profile for _, profile in stack]
    if any(profile.resolution is not None for profile in profiles):
        return _added(profiles)
    # All switches at once: pairwise addition would copy them repeatedly.
    switches: list[Any] = [profile._switches for profile in profiles]
    total = _added([bare(profile) for profile in profiles])
    return total._like(switches=Switches.concatenate(switches))


def bare(profile: StrengthProfile) -> StrengthProfile:
    """A profile without its switches."""
    return profile._like(switches=Switches.none(profile.weighted))


def _added(profiles: list[StrengthProfile]) -> StrengthProfile:
    total = profiles[-1]
    for profile in profiles[-2::-1]:
        total = profile + total
    return total
