"""Calibrators as versioned JSON: written atomically, read with every field checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from reprior.core.checks import KINDS
from reprior.files.archive import check_header
from reprior.files.documents import (
    Rule,
    are_names,
    check_fields,
    is_integer,
    is_list,
    is_number,
    is_prior,
    is_provenance,
    parsed,
    write_document,
)

__all__ = ["calibrator_fields", "read_calibrator", "write_calibrator"]

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
    write_document(path, fields, format_name=FORMAT, version=FORMAT_VERSION)


def read_calibrator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a calibrator.

    Fields that a file may leave out are returned with their defaults.
    """
    return calibrator_fields(path, parsed(path, FORMAT))


def calibrator_fields(path: str | os.PathLike[str], document: Any) -> dict[str, Any]:
    """Check what was read from ``path`` already."""
    if isinstance(document, dict) and document.keys() >= set(PROMISED):
        document = {"format": FORMAT, **document}
    check_header(path, document, format_name=FORMAT, version=FORMAT_VERSION)
    strength, source = document.get("strength"), document.get("source_prior")
    defaults = {
        "class_axis": -1,
        "strength_interval": [strength, strength],
        "best_score": None,
        "provenance": None,
    }
    complete: dict[str, Any] = {**defaults, **document}
    check_fields(path, complete, _rules(len(source) if isinstance(source, list) else 0))
    return complete


def _rules(n: int) -> dict[str, Rule]:
    """Return the rule of every field of a calibrator of ``n`` classes."""
    return {
        "source_prior": Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "target_prior": Rule(
            f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)
        ),
        "strength": Rule("a finite number", is_number),
        "temperature": Rule("a positive number", lambda value: is_number(value) and value > 0),
        "kind": Rule(f"one of {', '.join(KINDS)}", lambda value: value in KINDS),
        "metric": Rule("a string", lambda value: isinstance(value, str)),
        "classes": Rule(
            f"null or a list of {n} different names (strings or numbers)",
            lambda value: value is None or are_names(value, n),
        ),
        "class_axis": Rule("an integer", is_integer),
        "strength_interval": Rule(
            "two finite numbers", lambda value: is_list(value, 2) and all(map(is_number, value))
        ),
        "best_score": Rule(
            "null or a finite number", lambda value: value is None or is_number(value)
        ),
        "provenance": Rule(
            "null or an object with the string 'digest' and the integer 'n_samples'",
            lambda value: value is None or is_provenance(value),
        ),
    }
