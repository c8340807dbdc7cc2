"""The file format of a checkpoint: one npz file per pass, with a checksum and a schema.

Version 3 has a checksum of header and arrays. Version 2, without one, is read as well. Everything
else that a file may hold is checked when it is read, so that a fit resumes from valid content only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, OptionError
from reprior.exceptions import parts as parts_of
from reprior.files.archive import read_archive, write_archive
from reprior.files.schema import (
    Field,
    is_boolean,
    is_integer,
    is_list,
    is_string,
    shown_value,
)
from reprior.files.scores import ScoreFile
from reprior.profile.binning import GainTable
from reprior.profile.samples import Priors
from reprior.profile.storage import PAIR_ARRAYS, SUM_FIELDS
from reprior.profile.switches import ClassEvents

__all__ = [
    "Saved",
    "check_pass",
    "pass_name",
    "read_pass",
    "refusing_parts",
    "remedy_of",
    "write_pass",
]

Vector: TypeAlias = np.ndarray[Any, Any]

FORMAT, VERSION = "reprior checkpoint", 3

OLDEST_VERSION = 2
"""The oldest version that is read: version 1 does not say how the files were read."""

CHECKSUM_SINCE = 3


class Saved(NamedTuple):
    """What a pass has counted so far: ``header`` as JSON can hold it, and arrays."""

    finished: bool
    header: dict[str, Any]
    arrays: dict[str, Vector]


def pass_name(bounds: tuple[float, float]) -> str:
    """Return the name of the file for the pass within ``bounds``."""
    low, high = bounds
    return f"pass-{low!r}-to-{high!r}.npz"


def write_pass(path: Path, subject: Mapping[str, Any], saved: Saved) -> None:
    """Write what a pass has counted; ``subject`` has the sources and options of its fit."""
    header = {
        "format": FORMAT,
        "format_version": VERSION,
        **subject,
        "finished": saved.finished,
        "state": saved.header,
    }
    header["checksum"] = _checksum(header, saved.arrays)
    write_archive(path, header, saved.arrays)


def read_pass(path: Path) -> tuple[dict[str, Any], dict[str, Vector]]:
    """Read header and arrays; refuse what is damaged, of another version or without its fields.

    What is inside of ``state``, and the arrays, are checked by :func:`check_pass`.
    """
    try:
        header, arrays = read_archive(path, format_name=FORMAT, version=VERSION)
    except FileFormatError as error:
        raise FileFormatError(
            argument="checkpoint",
            rule="must be what a fit has saved",
            remedy=f"{path.name!r} in {os.fspath(path.parent)!r} is truncated, damaged, of a "
            f"later version of reprior or something else. {remedy_of(path.parent)}",
        ) from error
    version = header["format_version"]
    if version < OLDEST_VERSION:
        raise OptionError(
            argument="checkpoint",
            rule="must be of this version of reprior",
            remedy=f"{path.name!r} in {os.fspath(path.parent)!r} is of an earlier one, which noted "
            f"less. {remedy_of(path.parent)}",
        )
    checker = _Checker(path)
    has_checksum = version >= CHECKSUM_SINCE
    checker.fields("", header, {**_HEADER, **(_HEADER_CHECKSUM if has_checksum else {})})
    if has_checksum and header.pop("checksum") != _checksum(header, arrays):
        raise FileFormatError(
            argument="checkpoint",
            rule="must be what a fit has saved",
            got=f"{path.name!r} in {os.fspath(path.parent)!r}, whose content does not have its "
            f"checksum",
            remedy=f"It was damaged or edited. {remedy_of(path.parent)}",
        )
    return header, arrays


def remedy_of(folder: Path) -> str:
    """What to do about a checkpoint that a fit cannot resume from."""
    return f"Delete the folder {os.fspath(folder)!r} to start again, or name another one."


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, Vector]) -> str:
    """BLAKE2 of the header in canonical JSON, and of every array's name, type, shape and bytes."""
    total = hashlib.blake2b(digest_size=16)
    total.update(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        total.update(f"\0{name}\0{little.dtype.str}\0{array.shape}\0".encode())
        total.update(little.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


# --------------------------------------------------------------------------------------- schema


def _is_count(value: Any) -> bool:
    return is_integer(value) and 0 <= value < 1 << 63


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 32 and set(value) <= set("0123456789abcdef")


def _is_source(value: Any) -> bool:
    return is_list(value, 3) and is_string(value[0]) and all(map(is_integer, value[1:]))


def _is_left_out(value: Any) -> bool:
    return isinstance(value, list) and all(
        is_list(each, 3)
        and is_string(each[0])
        and (each[1] is None or _is_count(each[1]))
        and is_string(each[2])
        for each in value
    )


def _is_place(value: Any) -> bool:
    return is_list(value, 4) and all(map(_is_count, value[:3])) and _is_left_out(value[3])


_TRUE_OR_FALSE = Field("true or false", is_boolean)
_COUNT = Field("an integer of at least 0", _is_count)

_LEFT_OUT = Field("a list of files, each with its rows or null, and a reason", _is_left_out)

_HEADER = {
    "format": Field(f"{FORMAT!r}", lambda value: value == FORMAT),
    "format_version": Field("an integer", is_integer),
    "sources": Field(
        "null, or a list of files, each with its size and time of change",
        lambda value: value is None or (isinstance(value, list) and all(map(_is_source, value))),
    ),
    "options": Field("an object", lambda value: isinstance(value, dict)),
    "finished": _TRUE_OR_FALSE,
    "state": Field("an object", lambda value: isinstance(value, dict)),
}

_HEADER_CHECKSUM = {"checksum": Field("32 hexadecimal digits", _is_digest)}

_STATE = {
    "sum": Field("an object", lambda value: isinstance(value, dict)),
    "boundless": Field(
        "a sentence in one line", lambda value: is_string(value) and value.isprintable()
    ),
    "patient": _TRUE_OR_FALSE,
    "place": Field("a number of samples, of a file and of rows, and a list", _is_place),
    "left_out": _LEFT_OUT,
    "lookalike": Field("an object", lambda value: isinstance(value, dict)),
    "whole": _TRUE_OR_FALSE,
    "digest": Field(
        "two digests of 32 hexadecimal digits, and a number of samples",
        lambda value: is_list(value, 3) and all(map(_is_digest, value[:2])) and _is_count(value[2]),
    ),
}

_LOOKALIKE = {"possible": _TRUE_OR_FALSE, "single": _TRUE_OR_FALSE, "n_samples": _COUNT}

#: Columns of switches in an array each: those of one part, one by one or in bins.
_EXACT = ("position", "label", "loser", "winner")
_BINNED = (
    *(f"event_{field.name}" for field in fields(ClassEvents)),
    *("point", "count", "mass"),
)


class _Checker:
    """Refuses content of one file that breaks a rule, naming its place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fields(
        self,
        place: str,
        value: Mapping[str, Any],
        schema: Mapping[str, Field],
        optional: Collection[str] = (),
    ) -> None:
        """Refuse fields that are unknown, missing or break their rule."""
        prefix = f"{place}." if place else ""
        for name in sorted(value.keys() - schema.keys()):
            self.refuse(f"a field {prefix + name!r}, which this version does not know")
        for name, field in schema.items():
            if name not in value:
                if name not in optional:
                    self.refuse(f"no {prefix + name!r}, which must be {field.rule}")
            elif not field.holds(value[name]):
                self.refuse_value(f"{prefix}{name}", field.rule, value[name])

    def refuse_value(self, place: str, rule: str, value: Any) -> NoReturn:
        """Refuse the value at a place."""
        self.refuse(f"{shown_value(value)} as {place!r}, which must be {rule}")

    def refuse(self, got: str) -> NoReturn:
        """Refuse the file, for what was got in it."""
        folder = self.path.parent
        raise FileFormatError(
            argument="checkpoint",
            rule="must hold what a fit has saved",
            got=f"{got}, in {self.path.name!r} of {os.fspath(folder)!r}",
            remedy=f"It was damaged or edited. {remedy_of(folder)}",
        )


def check_pass(
    path: Path,
    header: dict[str, Any],
    arrays: dict[str, Vector],
    priors: Priors,
    chunks: Any,
    resolution: float,
) -> Saved:
    """Check the state of a pass, and which arrays it has; return them.

    The pass is over ``chunks``, between ``priors``, with bins of width ``resolution``. What is
    inside of the parts is checked where they are unpacked, in :func:`refusing_parts`.
    """
    checker, state = _Checker(path), header["state"]
    old = header["format_version"] < CHECKSUM_SINCE
    checker.fields("state", state, _STATE, optional=("patient",) if old else ())
    checker.fields("state.lookalike", state["lookalike"], _LOOKALIKE)
    checker.fields("state.sum", state["sum"], SUM_FIELDS)
    if header["finished"] and not state["whole"]:
        checker.refuse_value("state.whole", "true where the pass is finished", False)
    _check_place(checker, state["place"], chunks)
    _check_resolution(checker, state["sum"], resolution)
    _Arrays(checker, arrays, priors).check(state["sum"])
    return Saved(header["finished"], state, arrays)


@contextmanager
def refusing_parts(path: Path) -> Iterator[None]:
    """Let errors of profiles that are unpacked be about the checkpoint that they are in."""
    try:
        yield
    except FileFormatError as error:
        folder = path.parent
        raise FileFormatError(
            argument="checkpoint",
            rule="must hold what a fit has saved",
            got=[*parts_of(error.got), f", in {path.name!r} of {os.fspath(folder)!r}"],
            remedy=[*parts_of(error.text), f" It was damaged or edited. {remedy_of(folder)}"],
        ) from error


def _check_place(checker: _Checker, place: list[Any], chunks: Any) -> None:
    """Refuse a place that these chunks do not have."""
    _, source, row, _ = place
    n_files, n_rows = 1, 0
    if isinstance(chunks, ScoreFile):
        n_files = len(chunks.paths)
        known = chunks.rows[source] if source < n_files else None
        n_rows = row if known is None else known
    if source >= n_files or row > n_rows:
        checker.refuse_value("state.place", "a place in the data of the fit", place)


def _check_resolution(checker: _Checker, total: dict[str, Any], resolution: float) -> None:
    """Refuse bins of another width than those of the fit."""
    for place, width in (
        ("state.sum.resolution", total["resolution"]),
        *((f"state.sum.parts.{i}", part[2]) for i, part in enumerate(total["parts"])),
    ):
        if width is not None and width != resolution:
            checker.refuse_value(place, f"{resolution:g}, as in the fit", width)
    in_bins = any(name != "exact" for name, _, _ in total["parts"])
    if total["coarse"] and resolution == 0:
        checker.refuse_value("state.sum.coarse", "false where there are no bins", True)
    if in_bins and not total["coarse"]:
        checker.refuse_value("state.sum.coarse", "true where parts are in bins", False)


class _Arrays:
    """Checks the names of the arrays of a file, their priors, and its table of gains."""

    def __init__(self, checker: _Checker, arrays: dict[str, Vector], priors: Priors) -> None:
        self.checker, self.arrays, self.priors = checker, arrays, priors
        self.bounds, self.n_classes = priors.bounds, priors.n_classes

    def check(self, total: dict[str, Any]) -> None:
        """Refuse arrays that do not fit the parts of a sum."""
        parts = total["parts"]
        self._check_names(parts)
        if parts:
            self._check_common()
        if "gross" in self.arrays:
            self._check_gains(total["resolution"], bool(parts))

    def _check_names(self, parts: list[Any]) -> None:
        required = ["source_prior", "target_prior", "bounds"] if parts else []
        optional = ["gross"]
        weighted = "0.sums" in self.arrays
        for i, (name, _, _) in enumerate(parts):
            exact = name == "exact"
            required += [f"{i}.counts", *([f"{i}.sums"] if weighted else [])]
            required += [f"{i}.switch.{column}" for column in (_EXACT if exact else _BINNED)]
            if exact and weighted:
                required.append(f"{i}.switch.weight")
            if exact:
                optional += [f"{i}.switch.count", f"{i}.switch.image"]
                optional += [f"{i}.{column}" for column in PAIR_ARRAYS]
            columns = ["label", "predicted", "count", *(["weight"] if weighted else [])]
            for table in ("start", "origin"):
                if any(each.startswith(f"{i}.pair_{table}_") for each in self.arrays):
                    required += [f"{i}.pair_{table}_{column}" for column in columns]
        for name in sorted(self.arrays.keys() - {*required, *optional}):
            self.checker.refuse(f"an array {name!r}, which no part of 'state.sum.parts' has")
        for name in required:
            if name not in self.arrays:
                self.checker.refuse(f"no array {name!r}, which 'state.sum.parts' needs")

    def _check_common(self) -> None:
        expected = {
            "source_prior": self.priors.source,
            "target_prior": self.priors.target,
            "bounds": np.array(self.bounds),
        }
        for name, values in expected.items():
            if not np.array_equal(self._floats(name, values.shape), values):
                self._refuse(name, "those of the fit")

    def _check_gains(self, resolution: float, has_parts: bool) -> None:
        gained = self.arrays["gross"]
        shape: tuple[int, ...] = ()
        if has_parts and resolution > 0:
            shape = GainTable(self.bounds, resolution, self.n_classes, False).gained.shape
        if gained.shape != shape or gained.dtype not in (np.int64, np.float64):
            self._refuse("gross", f"an array of shape {shape} of integers or floats")
        if not (gained >= 0).all():
            self._refuse("gross", "numbers of at least 0")

    def _floats(self, name: str, shape: tuple[int, ...]) -> Vector:
        array = self.arrays[name]
        if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
            self._refuse(name, f"finite float64 numbers of shape {shape}")
        return array

    def _refuse(self, name: str, rule: str) -> NoReturn:
        array = self.arrays[name]
        self.checker.refuse(
            f"{array.dtype} numbers of shape {array.shape} as array {name!r}, which must be {rule}"
        )
