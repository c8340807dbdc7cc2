"""Calibrators as versioned JSON: written atomically, read with every field checked."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from reprior.core.checks import KINDS
from reprior.exceptions import FileFormatError
from reprior.files.archive import check_header
from reprior.files.atomic import atomic_write

__all__ = ["read_calibrator", "write_calibrator"]

FORMAT, FORMAT_VERSION = "reprior calibrator", 1


def write_calibrator(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a calibrator, with format name and version, to ``path``."""
    document = {"format": FORMAT, "format_version": FORMAT_VERSION, **fields}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text.encode() + b"\n")


def read_calibrator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a calibrator."""
    try:
        document: dict[str, Any] = json.loads(
            Path(path).read_bytes().decode(), parse_constant=_refuse_constant
        )
    except FileNotFoundError:
        raise
    except (ValueError, UnicodeDecodeError) as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be a {FORMAT} in JSON. It is truncated, damaged or "
            f"something else ({error}). Write it again with save()."
        ) from error
    check_header(path, document, format_name=FORMAT, version=FORMAT_VERSION)
    _check_fields(path, document)
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number a calibrator can hold")


def _check_fields(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Refuse the first field that is missing or of the wrong type."""
    source = document.get("source_prior")
    n_classes = len(source) if isinstance(source, list) else 0
    rules: dict[str, tuple[str, bool]] = {
        "source_prior": ("a list of at least two positive numbers that sum to 1",
                         _is_prior(source, n_classes) and all(p > 0 for p in source or [])),
        "target_prior": (f"a list of {n_classes} numbers that sum to 1",
                         _is_prior(document.get("target_prior"), n_classes)),
        "strength": ("a finite number", _is_number(document.get("strength"))),
        "temperature": ("a positive number", _is_number(document.get("temperature"))
                        and document["temperature"] > 0),
        "kind": (f"one of {', '.join(KINDS)}", document.get("kind") in KINDS),
        "metric": ("a string", isinstance(document.get("metric"), str)),
        "class_axis": ("an integer", _is_integer(document.get("class_axis"))),
        "strength_interval": ("two finite numbers", _is_list(document.get("strength_interval"), 2)
                              and all(map(_is_number, document["strength_interval"]))),
        "best_score": ("null or a finite number", "best_score" in document and (
                       document["best_score"] is None or _is_number(document["best_score"]))),
        "classes": (f"null or a list of {n_classes} names",
                    document.get("classes", 0) is None or _is_list(document["classes"], n_classes)
                    if "classes" in document else False),
    }  # fmt: skip
    for name, (rule, holds) in rules.items():
        if not holds:
            found = repr(document[name])[:80] if name in document else "nothing"
            raise FileFormatError(
                f"{os.fspath(path)!r} must have {rule} as {name!r}. Got {found}. "
                f"Write it again with save()."
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _is_prior(value: Any, n_classes: int) -> bool:
    if not _is_list(value, n_classes) or n_classes < 2:
        return False
    numbers = all(_is_number(p) and p >= 0 for p in value)
    return numbers and abs(math.fsum(value) - 1) <= 1e-6
