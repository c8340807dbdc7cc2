"""Versioned JSON documents: written atomically, read with every field checked."""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from reprior.exceptions import FileFormatError
from reprior.files.atomic import atomic_write

__all__ = [
    "Rule",
    "are_names",
    "check_fields",
    "is_integer",
    "is_list",
    "is_number",
    "is_prior",
    "is_provenance",
    "parsed",
    "write_document",
]


class Rule(NamedTuple):
    """What a field must be, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def write_document(
    path: str | os.PathLike[str], fields: Mapping[str, Any], *, format_name: str, version: int
) -> None:
    """Write ``fields``, with format name and version, to ``path``."""
    _check_writable(path, fields)
    document = {"format": format_name, "format_version": version, **fields}
    data = _encoded(document, indent=2) + b"\n"
    with atomic_write(path) as file:
        file.write(data)


def parsed(path: str | os.PathLike[str], format_name: str) -> Any:
    """Read a JSON file; refuse what is truncated, or something else, in words."""
    data = Path(path).read_bytes()
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} in JSON. It is truncated, damaged or not "
            f"a text file. Check the path; profiles are read by StrengthProfile.load."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {format_name} in JSON. It is truncated, damaged or "
            f"something else ({error}). Write it again with save()."
        ) from error


def check_fields(
    path: str | os.PathLike[str], document: Mapping[str, Any], rules: Mapping[str, Rule]
) -> None:
    """Refuse the first field that is missing or breaks its rule."""
    for name, rule in rules.items():
        if name not in document or not rule.holds(document[name]):
            found = _shown(document[name]) if name in document else "nothing"
            raise FileFormatError(
                f"{os.fspath(path)!r} must have {rule.words} as {name!r}. Got {found}. "
                f"Write it again with save()."
            )


def is_number(value: Any) -> bool:
    """Tell whether a value is a number that a float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_integer(value: Any) -> bool:
    """Tell whether a value is an integer, and no boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_list(value: Any, length: int) -> bool:
    """Tell whether a value is a list of that length."""
    return isinstance(value, list) and len(value) == length


def is_provenance(value: Any) -> bool:
    """Tell whether a value says what something was tuned on."""
    if not isinstance(value, dict) or not isinstance(value.get("digest"), str):
        return False
    return is_integer(value.get("n_samples")) and value["n_samples"] >= 0


def are_names(value: Any, n_classes: int) -> bool:
    """Tell whether a value is a list of that many different names of classes."""
    if not is_list(value, n_classes):
        return False
    plain = all(isinstance(name, str | bool) or is_number(name) for name in value)
    return plain and len(set(value)) == n_classes


def is_prior(value: Any, n_classes: int) -> bool:
    """Tell whether a value is a list of that many probabilities that sum to 1."""
    if not is_list(value, n_classes) or n_classes < 2:
        return False
    # Below 2, not up to 1: the sum decides, and cannot overflow.
    numbers = all(is_number(p) and 0 <= p < 2 for p in value)
    return numbers and abs(math.fsum(value) - 1) <= 1e-6


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


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number a calibrator can hold")


def _shown(value: Any) -> str:
    """Return a value as error sentences show it, however long or deep it is."""
    return reprlib.repr(value)
