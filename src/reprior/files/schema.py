"""Schemas of JSON documents: the rule of every field, and of fields that must agree.

A schema is a mapping of names to :class:`Field` and a list of :class:`Relation`. Rules may depend
on the document, for example lengths on the number of classes, so a schema is made per document.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprior.exceptions import FileFormatError
from reprior.files.archive import SAVE

__all__ = [
    "Field",
    "Relation",
    "are_names",
    "check_document",
    "is_boolean",
    "is_integer",
    "is_list",
    "is_number",
    "is_prior",
    "is_provenance",
    "is_string",
    "null_or",
    "one_of",
    "shown_value",
]

HEADER = ("format", "format_version")
"""Fields of every document, which :func:`reprior.files.archive.check_header` checks."""


@dataclass(frozen=True)
class Field:
    """One field of a document.

    Attributes
    ----------
    rule : str
        What the value must be, as errors say it.
    holds : callable
        Tells whether a value keeps the rule.
    required : bool
        Whether a document must have the field.
    default : Any
        Its value in a document without it.
    since : int
        The first format_version with the field.
    keys : tuple of str
        For an object, or a list of objects: the names that are allowed in it.
    """

    rule: str
    holds: Callable[[Any], bool]
    required: bool = True
    default: Any = None
    since: int = 1
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Relation:
    """A rule that relates ``name`` to other fields, each of which keeps its own rule."""

    name: str
    rule: str
    holds: Callable[[Mapping[str, Any]], bool]


def check_document(
    path: str | os.PathLike[str],
    document: Mapping[str, Any],
    fields: Mapping[str, Field],
    relations: Iterable[Relation] = (),
) -> dict[str, Any]:
    """Return a document with its defaults; refuse the first field that breaks the schema.

    The header must have been checked before.
    """
    version = document.get("format_version", 1)
    known = {name for name, field in fields.items() if field.since <= version}
    _refuse_unknown(path, "", [name for name in document if name not in {*HEADER, *known}])
    complete = dict(document)
    for name, field in fields.items():
        if name not in document and not field.required:
            complete[name] = field.default
        elif name not in document or not field.holds(document[name]):
            got = shown_value(document[name]) if name in document else "nothing"
            _refuse(path, f"{field.rule} as {name!r}", got)
        elif field.keys:
            _check_keys(path, name, document[name], field.keys)
    for relation in relations:
        if not relation.holds(complete):
            _refuse(
                path, f"{relation.rule} as {relation.name!r}", shown_value(complete[relation.name])
            )
    return complete


def _check_keys(path: str | os.PathLike[str], name: str, value: Any, keys: Sequence[str]) -> None:
    """Refuse unknown names inside of an object, or of the objects of a list."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            _check_keys(path, f"{name}[{index}]", each, keys)
    elif isinstance(value, dict):
        _refuse_unknown(path, f" inside of {name!r}", [key for key in value if key not in keys])


def _refuse_unknown(path: str | os.PathLike[str], place: str, unknown: list[str]) -> None:
    if not unknown:
        return
    raise FileFormatError(
        f"{os.fspath(path)!r} must have no fields{place} that its format_version does not know.",
        got=", ".join(map(shown_value, unknown[:5])) + (", …" if len(unknown) > 5 else ""),
        remedy=["Remove what does not belong there, or write it again with ", SAVE, "."],
    )


def _refuse(path: str | os.PathLike[str], rule: str, got: str) -> None:
    raise FileFormatError(
        f"{os.fspath(path)!r} must have {rule}.",
        got=got,
        remedy=["Write it again with ", SAVE, "."],
    )


def shown_value(value: Any) -> str:
    """Return a value as errors show it, however long or deep it is."""
    return reprlib.repr(value)


def one_of(values: Sequence[str]) -> Field:
    """Return the field that takes one of some strings."""
    return Field(f"one of {', '.join(values)}", lambda value: is_string(value) and value in values)


def null_or(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return the test that holds for null too."""
    return lambda value: value is None or holds(value)


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


def is_boolean(value: Any) -> bool:
    """Tell whether a value is true or false."""
    return isinstance(value, bool)


def is_string(value: Any) -> bool:
    """Tell whether a value is a string."""
    return isinstance(value, str)


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
