"""A profile as a file, and a growing sum of profiles as named arrays: to the bit, and back."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files.archive import pack_archive, read_archive, unpack_archive, write_archive
from reprior.profile.binning import BinnedSwitches
from reprior.profile.merging import ProfileSum, _Tally
from reprior.profile.profile import StrengthProfile
from reprior.profile.switches import Switches

if TYPE_CHECKING:
    from reprior.profile.profile import StrengthProfile

__all__ = [
    "pack_profile",
    "pack_sum",
    "read_profile",
    "unpack_profile",
    "unpack_sum",
    "write_profile",
]

Vector: TypeAlias = np.ndarray[Any, Any]

_FORMAT, _FORMAT_VERSION = "reprior strength profile", 1


def write_profile(path: str | PathLike[str], profile: StrengthProfile) -> None:
    """Write everything a profile is made of."""
    write_archive(path, *_content(profile))


def pack_profile(profile: StrengthProfile) -> bytes:
    """Return what :func:`write_profile` would write."""
    return pack_archive(*_content(profile))


def read_profile(path: str | PathLike[str]) -> dict[str, Any]:
    """Read back what :func:`write_profile` wrote, as the profile's constructor takes it."""
    archive = read_archive(path, format_name=_FORMAT, version=_FORMAT_VERSION)
    return _parts(path, *archive)


def unpack_profile(content: bytes) -> dict[str, Any]:
    """Read back what :func:`pack_profile` gave, as the profile's constructor takes it."""
    name = f"{len(content)} bytes"
    archive = unpack_archive(content, name=name, format_name=_FORMAT, version=_FORMAT_VERSION)
    return _parts(name, *archive)


def _content(profile: StrengthProfile) -> tuple[dict[str, Any], dict[str, Any]]:
    header = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "bounds": list(profile.bounds),
        "resolution": profile.resolution,
    }
    arrays = {
        "source_prior": profile.source_prior,
        "target_prior": profile.target_prior,
        "counts": profile._counts,
        **({} if profile._sums is None else {"sums": profile._sums}),
        **{f"switch_{name}": column for name, column in profile._switches.arrays().items()},
    }
    return header, arrays


def _parts(
    path: str | PathLike[str], header: dict[str, Any], arrays: dict[str, Any]
) -> dict[str, Any]:
    try:
        low, high = (float(bound) for bound in header["bounds"])
        binned = header["resolution"] is not None
        kind: Any = BinnedSwitches if binned else Switches
        return {
            "source_prior": arrays["source_prior"],
            "target_prior": arrays["target_prior"],
            "bounds": (low, high),
            "resolution": float(header["resolution"]) if binned else None,
            "counts": arrays["counts"],
            "sums": arrays.get("sums"),
            "switches": kind.from_arrays(
                {
                    name.removeprefix("switch_"): column
                    for name, column in arrays.items()
                    if name.startswith("switch_")
                }
            ),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"{fspath(path)!r} must hold everything a strength profile is made of. Something is "
            f"missing or of the wrong type ({error}). Write it again with save()."
        ) from error


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
