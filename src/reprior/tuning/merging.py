"""Profiles of parts: which may be added or subtracted, and the sum of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.exceptions import ProfileMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprior.tuning.profile import StrengthProfile

__all__ = ["check_counts", "check_match", "merged"]

Vector: TypeAlias = np.ndarray[Any, Any]


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


def merged(profiles: Iterable[StrengthProfile]) -> StrengthProfile:
    """The sum of many profiles, in pairs of like size: nothing is copied over and over."""
    stack: list[tuple[int, StrengthProfile]] = []
    for profile in profiles:
        rank = 0
        while stack and stack[-1][0] == rank:
            profile, rank = stack.pop()[1] + profile, rank + 1
        stack.append((rank, profile))
    total = stack.pop()[1]
    while stack:
        total = stack.pop()[1] + total
    return total
