"""Schemas of JSON documents."""

from __future__ import annotations

import pytest

from reprior.exceptions import FileFormatError
from reprior.files import (
    Field,
    Relation,
    are_names,
    check_document,
    is_integer,
    is_number,
    is_prior,
    is_provenance,
    null_or,
    one_of,
)

FIELDS = {
    "a": Field("a finite number", is_number),
    "b": Field("an integer", is_integer, required=False, default=7),
    "c": Field("null or an integer", null_or(is_integer), required=False, since=2),
    "parts": Field(
        "a list", lambda value: isinstance(value, list), required=False, default=[], keys=("x",)
    ),
}
RELATIONS = (Relation("b", "a number above 'a'", lambda document: document["b"] > document["a"]),)


def check(**document):
    return check_document("cal.json", document, FIELDS, RELATIONS)


def test_defaults_complete_a_document():
    assert check(format_version=2, a=1.5) == {
        "format_version": 2, "a": 1.5, "b": 7, "c": None, "parts": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "document, words",
    [
        ({"b": 2}, r"'cal.json' must have a finite number as 'a'\. Got nothing\. Write it again"),
        ({"a": 1, "b": 2.5}, r"must have an integer as 'b'\. Got 2\.5"),
        ({"a": 1, "b": 0}, r"must have a number above 'a' as 'b'\. Got 0"),
        ({"a": 8}, r"must have a number above 'a' as 'b'\. Got 7"),
        ({"a": 1, "d": 0}, r"that its format_version does not know\. Got 'd'"),
        ({"a": 1, "c": 0}, r"that its format_version does not know\. Got 'c'"),
        ({"a": 1, "parts": [{"x": 1}, {"y": 1}]}, r"inside of 'parts\[1\]'.*Got 'y'"),
    ],
)
def test_what_breaks_the_schema_is_named(document, words):
    with pytest.raises(FileFormatError, match=words):
        check(format_version=1, **document)


@pytest.mark.parametrize(
    "test, good, bad",
    [
        (is_number, [0, -1.5, 10**300], [True, "1", None, float("nan"), 10**400]),
        (is_integer, [0, -3], [True, 1.0, "1"]),
        (one_of(("x", "y")).holds, ["x", "y"], ["z", None, ["x"], {}]),
        (lambda v: is_prior(v, 2), [[0.5, 0.5], [1, 0]], [[1.0], [0.7, 0.7], [2, -1], None]),
        (lambda v: are_names(v, 2), [["a", "b"], [1, 2.5]], [["a", "a"], ["a"], ["a", None], "ab"]),
        (is_provenance, [{"digest": "ab", "n_samples": 0}],
         [{}, None, {"digest": 1, "n_samples": 1}, {"digest": "a", "n_samples": -1}]),
    ],
)  # fmt: skip
def test_predicates(test, good, bad):
    assert all(map(test, good))
    assert not any(map(test, bad))
