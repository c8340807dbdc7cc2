"""A sum of profiles in memory that is settled from the start."""

from __future__ import annotations

import numpy as np

from reprior.profile.merging import APART, ProfileSum, bare
from reprior.profile.profile import StrengthProfile
from reprior.profile.switches import Switches

__all__ = ["LeanSum"]


class LeanSum(ProfileSum):
    """A sum that holds its switches once, and goes over to bins in the room of these.

    They are written behind one another into columns of the most that are kept, which the system
    gives out as they are filled, and takes back as soon as they are let go of. Of arrays of some
    hundred kilobytes each, an allocator gives little back.
    """

    _room: Switches | None = None

    def coarsen(self) -> None:
        """From here on, sum in bins; those switches too that were kept so far."""
        self.coarse = True
        kept, self._exact, self._waiting = self._exact[::-1], [], 0
        self._room = None
        while kept:  # one after another, and each let go: joined they would need twice the room
            self._bin(kept.pop()[1])

    def drained(self) -> StrengthProfile:
        """The sum, its switches by strength; what was kept is let go of."""
        self._room = None
        return super().drained()

    def _keep(self, profile: StrengthProfile) -> None:
        """Write the switches behind those that are kept."""
        if self.coarse:
            super()._keep(profile)
            return
        if self._room is None:
            self._room = _columns(self.exact_up_to or 0, profile.weighted)
            before, self._exact = self._exact, []
            for _, each in before:  # of a checkpoint
                self._write(each, self._room)
        self._write(profile, self._room)

    def _write(self, profile: StrengthProfile, room: Switches) -> None:
        added = profile._switches
        assert isinstance(added, Switches)  # noqa: S101 - what waits is exact
        assert added.count is None  # noqa: S101 - and of scores: every switch is of one sample
        whole, used = bare(profile), 0
        if self._exact:
            before = self._exact[0][1]
            whole, used = bare(before) + whole, before.n_switches
        end = used + len(added)
        if end > len(room):
            super()._keep(profile)  # too many: they are about to be binned
            return
        for name, column in added.arrays().items():
            getattr(room, name)[used:end] = column
        self._exact = [(APART, whole._like(switches=room.taken(slice(end))))]


def _columns(n: int, weighted: bool) -> Switches:
    """Room for switches."""
    label, loser, winner = (np.empty(n, np.int32) for _ in range(3))
    return Switches(np.empty(n), label, loser, winner, weight=np.empty(n) if weighted else None)
