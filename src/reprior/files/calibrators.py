"""Calibrators as versioned JSON: written atomically, read with every field checked."""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from reprior.core.checks import KINDS
from reprior.exceptions import FileFormatError
from reprior.files.archive import check_header
from reprior.files.atomic import atomic_write

__all__ = ["read_calibrator", "write_calibrator"]

FORMAT, FORMAT_VERSION = "reprior calibrator", 1

PROMISED = (
    "format_version",
    "strength",
    "temperature",
    "source_prior",
    "target_prior",
    "kind",
    "metric",
    "classes",
)
"""The fields every calibrator file has; the rest have defaults."""


def write_calibrator(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a calibrator, with format name and version, to ``path``."""
    _check_writable(path, fields)
    document = {"format": FORMAT, "format_version": FORMAT_VERSION, **fields}
    data = _encoded(document, indent=2) + b"\n"
    with atomic_write(path) as file:
        file.write(data)


def _check_writable(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Refuse the first field that JSON cannot hold."""
    for name, value in fields.items():
        try:
            _encoded(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{os.fspath(path)!r} must have as {name!r} what JSON can hold: strings, finite "
                f"numbers or null. Got {_shown(value)} ({error}). Convert it first, for example "
                f"dates to strings; nothing was written."
            ) from error


def _encoded(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).encode()


def read_calibrator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a calibrator.

    Fields that a file may leave out are returned with their defaults.
    """
    document = _parsed(path)
    if isinstance(document, dict) and document.keys() >= set(PROMISED):
        document = {"format": FORMAT, **document}
    check_header(path, document, format_name=FORMAT, version=FORMAT_VERSION)
    strength = document.get("strength")
    defaults = {
        "class_axis": -1,
        "strength_interval": [strength, strength],
        "best_score": None,
        "provenance": None,
    }
    complete: dict[str, Any] = {**defaults, **document}
    _check_fields(path, complete)
    return complete


def _parsed(path: str | os.PathLike[str]) -> Any:
    data = Path(path).read_bytes()
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {FORMAT} in JSON. It is truncated, damaged or not a "
            f"text file. Check the path; profiles are read by StrengthProfile.load."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {FORMAT} in JSON. It is truncated, damaged or "
            f"something else ({error}). Write it again with save()."
        ) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number a calibrator can hold")


def _check_fields(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Refuse the first field that is missing or breaks its rule."""
    source = document.get("source_prior")
    for name, rule in _rules(len(source) if isinstance(source, list) else 0).items():
        if name not in document or not rule.holds(document[name]):
            found = _shown(document[name]) if name in document else "nothing"
            raise FileFormatError(
                f"{os.fspath(path)!r} must have {rule.words} as {name!r}. Got {found}. "
                f"Write it again with save()."
            )


class _Rule(NamedTuple):
    """What a field must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _rules(n: int) -> dict[str, _Rule]:
    """Return the rule of every field of a calibrator of ``n`` classes."""
    return {
        "source_prior": _Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: _is_prior(value, n) and min(value) > 0,
        ),
        "target_prior": _Rule(
            f"a list of {n} numbers that sum to 1", lambda value: _is_prior(value, n)
        ),
        "strength": _Rule("a finite number", _is_number),
        "temperature": _Rule("a positive number", lambda value: _is_number(value) and value > 0),
        "kind": _Rule(f"one of {', '.join(KINDS)}", lambda value: value in KINDS),
        "metric": _Rule("a string", lambda value: isinstance(value, str)),
        "classes": _Rule(
            f"null or a list of {n} different names (strings or numbers)",
            lambda value: value is None or _are_names(value, n),
        ),
        "class_axis": _Rule("an integer", _is_integer),
        "strength_interval": _Rule(
            "two finite numbers", lambda value: _is_list(value, 2) and all(map(_is_number, value))
        ),
        "best_score": _Rule(
            "null or a finite number", lambda value: value is None or _is_number(value)
        ),
        "provenance": _Rule(
            "null or an object with the string 'digest' and the integer 'n_samples'",
            lambda value: value is None or _is_provenance(value),
        ),
    }


def _is_number(value: Any) -> bool:
    """Tell whether a value is a number that a float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_provenance(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("digest"), str):
        return False
    return _is_integer(value.get("n_samples")) and value["n_samples"] >= 0


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _are_names(value: Any, n_classes: int) -> bool:
    if not _is_list(value, n_classes):
        return False
    plain = all(isinstance(name, str | bool) or _is_number(name) for name in value)
    return plain and len(set(value)) == n_classes


def _is_prior(value: Any, n_classes: int) -> bool:
    if not _is_list(value, n_classes) or n_classes < 2:
        return False
    # Below 2, not up to 1: the sum decides, and cannot overflow.
    numbers = all(_is_number(p) and 0 <= p < 2 for p in value)
    return numbers and abs(math.fsum(value) - 1) <= 1e-6


def _shown(value: Any) -> str:
    """Return a value as error sentences show it, however long or deep it is."""
    return reprlib.repr(value)
