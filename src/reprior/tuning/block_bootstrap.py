"""The bootstrap of blocks of samples, each known by its profile alone: shards, days, hospitals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np

from reprior.exceptions import OptionError
from reprior.profile.binning import BinnedSwitches
from reprior.profile.class_events import ClassEvents
from reprior.profile.merging import check_match, merged
from reprior.profile.profile import StrengthProfile
from reprior.profile.switches import Switches
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.resampling import SamplePaths

__all__ = ["FEWEST_BLOCKS", "bootstrap_profiles"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Fewer blocks have no spread to speak of.
FEWEST_BLOCKS = 10


def bootstrap_profiles(
    profiles: Sequence[StrengthProfile],
    *,
    n_replicates: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> StrengthBootstrap:
    """Get ready to weight blocks of samples anew, each as a whole, by Poisson's weights.

    A replicate has every block as many times as a Poisson number of mean 1 says: as if other
    blocks of the same sort had been met. So the intervals are about new blocks; where samples of a
    block are alike they are wider than those of a bootstrap of samples, and rightly so. They need
    the profiles only, never the scores.

    Parameters
    ----------
    profiles : sequence of StrengthProfile
        One per block, of equal priors, bounds and resolution, at least ten; 20 or more are
        better.
    n_replicates : int, default 1000
        How many replicates.
    random_state : int or numpy Generator, default 0
        Where the random numbers begin.

    Returns
    -------
    StrengthBootstrap
        As of samples; :func:`reprior.tuning.uncertainty.uncertainty` makes intervals of it. Rules
        that look at scores cannot be asked of it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> blocks = []
    >>> for _ in range(12):
    ...     labels = (rng.random(100) < 0.2).astype(int)
    ...     margin = rng.normal(2.0 * labels - 1.0) + np.log(0.2 / 0.8)
    ...     logits = np.stack([np.zeros(100), margin], axis=1)
    ...     blocks.append(StrengthProfile.from_scores(logits, labels, source_prior=[0.8, 0.2]))
    >>> bootstrap = bootstrap_profiles(blocks, n_replicates=200)
    >>> bool(bootstrap.standard_error("balanced_accuracy", 1.0) < 0.02)
    True
    """
    blocks = list(profiles)
    if len(blocks) < FEWEST_BLOCKS:
        raise OptionError(
            f"`profiles` must be at least {FEWEST_BLOCKS}, one per block. Got {len(blocks)}. Make "
            f"more and smaller blocks: the spread between them is all there is to go by."
        )
    for block in blocks[1:]:
        check_match(blocks[0], block, "be drawn from together")
    paths = cast(SamplePaths, _Blocks(tuple(blocks)))
    return StrengthBootstrap(paths, n_replicates=n_replicates, random_state=random_state)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks in the place of samples: what a bootstrap asks of :class:`SamplePaths`."""

    blocks: tuple[StrengthProfile, ...]

    @property
    def size(self) -> Vector:
        """Each is there once."""
        return np.ones(len(self.blocks), np.int64)

    @property
    def n_units(self) -> int:
        """How many blocks."""
        return len(self.blocks)

    @property
    def reading(self) -> NoReturn:
        """There are no scores."""
        raise OptionError(
            "`reading` must be asked of a bootstrap of samples. Got one of blocks, which are known "
            "by their profiles alone. Make it with StrengthBootstrap.from_scores(…), or pass its "
            "`profile` to a rule that looks at the curve."
        )

    def profile(self, times: Vector) -> StrengthProfile:
        """The sum of the blocks, block i there ``times[i]`` times."""
        drawn = zip(self.blocks, times.tolist(), strict=True)
        there = [_repeated(block, n) for block, n in drawn if n]
        return merged(there or [_repeated(self.blocks[0], 0)])


def _repeated(profile: StrengthProfile, n: int) -> StrengthProfile:
    """The profile of the same samples ``n`` times over."""
    if n == 1:
        return profile
    sums = None if profile._sums is None else profile._sums * n
    return profile._like(
        counts=profile._counts * n, sums=sums, switches=_repeated_switches(profile._switches, n)
    )


def _repeated_switches(switches: Switches | BinnedSwitches, n: int) -> Switches | BinnedSwitches:
    if isinstance(switches, Switches):
        weight = None if switches.weight is None else switches.weight * n
        columns = switches.position, switches.label, switches.loser, switches.winner
        return Switches(*columns, count=switches._counts() * n, weight=weight)
    events = switches.events
    amounts = (getattr(events, each.name) * n for each in fields(ClassEvents)[2:])
    return BinnedSwitches(
        ClassEvents(events.position, events.klass, *amounts),
        switches.point, switches.count * n, switches.mass * n,
    )  # fmt: skip
