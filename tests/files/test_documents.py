"""JSON documents: what may be in a field."""

from __future__ import annotations

import pytest

from reprior.exceptions import FileFormatError
from reprior.files.documents import (
    Rule,
    are_names,
    check_fields,
    is_integer,
    is_number,
    is_prior,
    is_provenance,
    parsed,
    write_document,
)


def test_round_trip(tmp_path):
    path = tmp_path / "x.json"
    write_document(path, {"a": [1, "ü", None]}, format_name="reprior thing", version=3)
    assert parsed(path, "reprior thing") == {
        "format": "reprior thing", "format_version": 3, "a": [1, "ü", None],
    }  # fmt: skip


def test_what_json_cannot_hold_is_not_written(tmp_path):
    with pytest.raises(FileFormatError, match="as 'b' what JSON can hold"):
        write_document(
            tmp_path / "x.json", {"a": 1, "b": {1, 2}}, format_name="reprior thing", version=1
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [b"", b"{", b"{} x", b"\xff\xfe", b'{"a": NaN}'])
def test_damage_is_told_with_the_name_of_the_format(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(FileFormatError, match=r"must be a reprior thing in JSON. It is truncated"):
        parsed(path, "reprior thing")


def test_the_first_field_that_breaks_its_rule_is_named():
    rules = {"a": Rule("a finite number", is_number), "b": Rule("an integer", is_integer)}
    check_fields("x", {"a": 1.5, "b": 2}, rules)
    with pytest.raises(FileFormatError, match=r"must have a finite number as 'a'\. Got nothing"):
        check_fields("x", {"b": 2}, rules)
    with pytest.raises(FileFormatError, match=r"must have an integer as 'b'\. Got 2\.5"):
        check_fields("x", {"a": 1, "b": 2.5}, rules)


@pytest.mark.parametrize(
    "test, good, bad",
    [
        (is_number, [0, -1.5, 10**300], [True, "1", None, float("nan"), 10**400]),
        (is_integer, [0, -3], [True, 1.0, "1"]),
        (lambda v: is_prior(v, 2), [[0.5, 0.5], [1, 0]], [[1.0], [0.7, 0.7], [2, -1], None]),
        (lambda v: are_names(v, 2), [["a", "b"], [1, 2.5]], [["a", "a"], ["a"], ["a", None], "ab"]),
        (is_provenance, [{"digest": "ab", "n_samples": 0}],
         [{}, None, {"digest": 1, "n_samples": 1}, {"digest": "a", "n_samples": -1}]),
    ],
)  # fmt: skip
def test_predicates(test, good, bad):
    assert all(map(test, good))
    assert not any(map(test, bad))
