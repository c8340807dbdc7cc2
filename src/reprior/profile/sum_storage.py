"""A growing sum of profiles as named arrays, and back to the bit, to be put aside and taken up."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.profile.binning import BinnedSwitches
from reprior.profile.merging import ProfileSum, _Tally
from reprior.profile.profile import StrengthProfile
from reprior.profile.switches import Switches

__all__ = ["pack_sum", "unpack_sum"]

Vector: TypeAlias = np.ndarray[Any, Any]


def pack_sum(total: ProfileSum) -> tuple[dict[str, Any], dict[str, Vector]]:
    """What is known of a sum as JSON can hold it, and its arrays.

    The profiles that wait to be added in pairs are kept apart: sums of fractional weights depend
    on the order of their addition, and this keeps it.
    """
    stacks = [("exact", total._exact), ("binned", total._binned)]
    parts = [(name, rank, profile) for name, stack in stacks for rank, profile in stack]
    if total._tally is not None:
        parts.append(("tally", 0, total._tally.total()))
    header = {
        "exact_up_to": total.exact_up_to,
        "resolution": total.resolution,
        "coarse": total.coarse,
        "waiting": total._waiting,
        "parts": [[name, rank, profile.resolution] for name, rank, profile in parts],
    }
    arrays: dict[str, Vector] = {}
    for i, (_, _, profile) in enumerate(parts):
        if i == 0:
            arrays["source_prior"] = profile.source_prior
            arrays["target_prior"] = profile.target_prior
            arrays["bounds"] = np.array(profile.bounds)
        arrays[f"{i}.counts"] = profile._counts
        if profile._sums is not None:
            arrays[f"{i}.sums"] = profile._sums
        for name, column in profile._switches.arrays().items():
            arrays[f"{i}.switch.{name}"] = column
    return header, arrays


def unpack_sum(
    header: dict[str, Any], arrays: dict[str, Vector], *, into: ProfileSum | None = None
) -> ProfileSum:
    """The sum that :func:`pack_sum` packed, or ``into``, an empty one of the same options."""
    how: dict[str, Any] = {"exact_up_to": header["exact_up_to"], "resolution": header["resolution"]}
    total = ProfileSum(**how) if into is None else into
    total.coarse, total._waiting = header["coarse"], header["waiting"]
    for i, (name, rank, resolution) in enumerate(header["parts"]):
        profile = _profile(arrays, i, resolution)
        nothing = Switches.none(profile.weighted)
        if total._like is None:
            total._like = profile._like(switches=nothing, resolution=None)
        if name == "tally":
            total._tally = _Tally(profile, resolution)
            total._tally.add(profile)
        else:
            (total._exact if name == "exact" else total._binned).append((rank, profile))
    return total


def _profile(arrays: dict[str, Vector], i: int, resolution: float | None) -> StrengthProfile:
    kind: Any = Switches if resolution is None else BinnedSwitches
    low, high = arrays["bounds"].tolist()
    prefix = f"{i}.switch."
    columns = {
        name.removeprefix(prefix): column
        for name, column in arrays.items()
        if name.startswith(prefix)
    }
    return StrengthProfile(
        source_prior=arrays["source_prior"],
        target_prior=arrays["target_prior"],
        bounds=(low, high),
        resolution=resolution,
        counts=arrays[f"{i}.counts"],
        sums=arrays.get(f"{i}.sums"),
        switches=kind.from_arrays(columns),
    )
