"""Fusions of modalities as versioned JSON, told from calibrators by the field ``format``."""

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
    is_number,
    is_prior,
    is_provenance,
    write_document,
)

__all__ = ["fusion_document", "is_fusion", "write_fusion"]

FORMAT, FORMAT_VERSION = "reprior fusion", 1

CHOICES = {
    "rule": ("noisy_or", "mean", "product"),
    "order": ("rebalance_first", "flatten_first"),
    "strengths": ("shared", "per_modality"),
    "flatten_by": ("image", "pixel"),
    "uncertainty": ("entropy", "mutual_information", "smaller"),
    "missing": ("error", "leave_out"),
    "search": ("exact", "grid", "fixed"),
    "kind": KINDS,
}
"""Fields that are one of some words."""


def write_fusion(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the fields of a fusion, with format name and version, to ``path``."""
    write_document(path, fields, format_name=FORMAT, version=FORMAT_VERSION)


def is_fusion(document: Any) -> bool:
    """Tell whether a document that was read says that it is a fusion."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def fusion_document(path: str | os.PathLike[str], document: Any) -> dict[str, Any]:
    """Check what was read from ``path``; refuse what is too new, damaged, or not a fusion."""
    check_header(path, document, format_name=FORMAT, version=FORMAT_VERSION)
    defaults = {"best_score": None, "provenance": None}
    complete: dict[str, Any] = {**defaults, **document}
    check_fields(path, complete, _rules(complete))
    return complete


def _rules(document: Mapping[str, Any]) -> dict[str, Rule]:
    """Return the rule of every field; some depend on others, which come first."""
    source = document.get("source_prior")
    n = len(source) if isinstance(source, list) else 0
    choices = {name: _one_of(words) for name, words in CHOICES.items()}
    return {
        "source_prior": Rule(
            "a list of at least two positive numbers that sum to 1",
            lambda value: is_prior(value, n) and min(value) > 0,
        ),
        "target_prior": Rule(
            f"a list of {n} numbers that sum to 1", lambda value: is_prior(value, n)
        ),
        **choices,
        "flatten": Rule("true or false", lambda value: isinstance(value, bool)),
        "metric": Rule("a string", lambda value: isinstance(value, str)),
        "classes": Rule(
            f"null or a list of {n} different names (strings or numbers)",
            lambda value: value is None or are_names(value, n),
        ),
        "class_axis": Rule("an integer", is_integer),
        "best_score": Rule(
            "null or a finite number", lambda value: value is None or is_number(value)
        ),
        "provenance": Rule(
            "null or an object with the string 'digest' and the integer 'n_samples'",
            lambda value: value is None or is_provenance(value),
        ),
        "modalities": Rule(
            "a list of modalities, each with a 'name' of its own, a 'strength', and the references "
            "that 'flatten' and 'uncertainty' ask for",
            lambda value: _are_modalities(value, _measures(document)),
        ),
    }


def _one_of(words: tuple[str, ...]) -> Rule:
    return Rule(f"one of {', '.join(words)}", lambda value: value in words)


def _measures(document: Mapping[str, Any]) -> set[str]:
    """The references that every modality must have."""
    if not document.get("flatten"):
        return set()
    used = document.get("uncertainty")
    return {"entropy", "mutual_information"} if used == "smaller" else {str(used)}


def _are_modalities(value: Any, measures: set[str]) -> bool:
    if not isinstance(value, list) or not value:
        return False
    names = [each.get("name") if isinstance(each, dict) else None for each in value]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return False
    return all(
        is_number(each.get("strength"))
        and {k for k in ("entropy", "mutual_information") if each.get(k) is not None} == measures
        and all(_is_reference(each[k]) for k in measures)
        for each in value
    )


def _is_reference(value: Any) -> bool:
    if not isinstance(value, dict) or not all(is_number(value.get(k)) for k in ("mean", "std")):
        return False
    return bool(value["mean"] > 0 and value["std"] >= 0)
