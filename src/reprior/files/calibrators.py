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

FORMAT, FORMAT_VERSION = "reprior calibrator", 2
"""Version 2 has biases, scales or a second map. A file without them is of version 1, which every
reprior reads; one that does not know them must not read a file with them as if it had none."""

NEW_IN_2 = ("biases", "scales", "probability_map")

FITTED = ("fit", "bcts", "vector")
"""What a temperature may be that was fitted, for another fit with the same options."""

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
    newer = any(fields.get(name) is not None for name in NEW_IN_2)
    write_document(path, fields, format_name=FORMAT, version=2 if newer else 1)


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
        "temperature_option": None,
        **dict.fromkeys(NEW_IN_2),
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
        "temperature_option": Rule(
            f"null, a positive number or one of {', '.join(FITTED)}",
            lambda value: value is None or value in FITTED or (is_number(value) and value > 0),
        ),
        **_map_rules(n),
        "probability_map": Rule(
            f"null or an object with 'strength', a positive 'temperature', and perhaps {n} "
            f"'biases' and 'scales'",
            lambda value: value is None or _is_map(value, n),
        ),
    }


def _map_rules(n: int) -> dict[str, Rule]:
    """Return the rules of what a map may have beside strength and temperature."""
    return {
        "biases": Rule(
            f"null or a list of {n} finite numbers (null for a class that is not to be)",
            lambda value: value is None or _are_biases(value, n),
        ),
        "scales": Rule(
            f"null or a list of {n} finite numbers",
            lambda value: value is None or (is_list(value, n) and all(map(is_number, value))),
        ),
    }


def _are_biases(value: Any, n: int) -> bool:
    if not is_list(value, n) or all(bias is None for bias in value):
        return False
    return all(bias is None or is_number(bias) for bias in value)


def _is_map(value: Any, n: int) -> bool:
    if not isinstance(value, dict) or not is_number(value.get("strength")):
        return False
    temperature: Any = value.get("temperature")
    if not is_number(temperature) or temperature <= 0:
        return False
    return all(rule.holds(value.get(name)) for name, rule in _map_rules(n).items())
