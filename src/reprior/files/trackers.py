"""Trackers of a prior as versioned JSON: written atomically, read with every field checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from reprior.core.checks import KINDS
from reprior.core.shift.tracking import block_of
from reprior.files.archive import check_header
from reprior.files.documents import (
    Rule,
    check_fields,
    is_integer,
    is_list,
    is_number,
    is_prior,
    parsed,
    write_document,
)

__all__ = ["read_tracker", "write_tracker"]

FORMAT, FORMAT_VERSION = "reprior prior tracker", 1


def write_tracker(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a tracker, with format name and version, to ``path``."""
    write_document(path, fields, format_name=FORMAT, version=FORMAT_VERSION)


def read_tracker(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields back; refuse what is truncated, too new, or not a tracker."""
    document = parsed(path, FORMAT)
    check_header(path, document, format_name=FORMAT, version=FORMAT_VERSION)
    check_fields(path, document, _rules(document))
    found: dict[str, Any] = document
    return found


def _rules(document: Mapping[str, Any]) -> dict[str, Rule]:
    """Return the rule of every field."""
    source = document.get("source_prior")
    n = len(source) if isinstance(source, list) else 0
    positive = Rule("a positive number", lambda value: is_number(value) and value > 0)
    half_life: Any = document.get("half_life")
    seen: Any = document.get("n_samples")
    block = block_of(half_life) if is_number(half_life) and half_life > 0 else 0
    return {
        "source_prior": Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "reference_prior": Rule(
            f"a list of {n} positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "half_life": positive,
        "false_alarm_rate": Rule(
            "a number above 0 and below 1", lambda value: is_number(value) and 0 < value < 1
        ),
        "kind": Rule(f"one of {', '.join(KINDS)}", lambda value: value in KINDS),
        "class_axis": Rule("an integer", is_integer),
        "calibration": Rule(
            f"null, or a scale and a bias, each a number or {n} of them, the scale positive",
            lambda value: value is None or _is_affine(value, n),
        ),
        "ratios": Rule(
            f"null, or an object with {n} numbers of at least 0 as 'mean', not all 0, and {n} "
            f"lists of {n} numbers as 'covariance'",
            lambda value: value is None or _are_ratios(value, n),
        ),
        "prior": Rule(f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)),
        "mass": Rule(f"{n} numbers of at least 0", lambda value: _are_amounts(value, n)),
        "n_samples": Rule(
            "an integer of at least 0", lambda value: is_integer(value) and value >= 0
        ),
        "waiting": Rule(
            f"an integer below {block}, a sixteenth of 'half_life', and not above 'n_samples'",
            lambda value: is_integer(value) and 0 <= value < block and value <= seen,
        ),
        "log_evidence": Rule(
            "a number of at least 0", lambda value: is_number(value) and value >= 0
        ),
        "alarm_at": Rule(
            "null or a positive integer, not above 'n_samples'",
            lambda value: value is None or (is_integer(value) and 0 < value <= seen),
        ),
    }


def _are_numbers(value: Any, n: int) -> bool:
    return is_list(value, n) and n > 0 and all(map(is_number, value))


def _are_amounts(value: Any, n: int) -> bool:
    return _are_numbers(value, n) and min(value) >= 0


def _are_ratios(value: Any, n: int) -> bool:
    if not isinstance(value, dict) or not _are_amounts(value.get("mean"), n):
        return False
    rows: Any = value.get("covariance")
    return max(value["mean"]) > 0 and is_list(rows, n) and all(_are_numbers(x, n) for x in rows)


def _is_affine(value: Any, n: int) -> bool:
    if not is_list(value, 2) or not all(is_number(x) or _are_numbers(x, n) for x in value):
        return False
    scale = value[0]
    return bool((min(scale) if isinstance(scale, list) else scale) > 0)
