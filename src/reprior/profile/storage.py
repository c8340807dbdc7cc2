"""A profile as a file: a header and named arrays, and back."""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from reprior.exceptions import FileFormatError
from reprior.files.archive import pack_archive, read_archive, unpack_archive, write_archive
from reprior.profile.binning import BinnedSwitches
from reprior.profile.switches import Switches

if TYPE_CHECKING:
    from reprior.profile.profile import StrengthProfile

__all__ = ["pack_profile", "read_profile", "unpack_profile", "write_profile"]

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
