"""JSON documents are written and parsed."""

from __future__ import annotations

import pytest

from reprior.exceptions import FileFormatError
from reprior.files import parsed, write_document


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
def test_an_error_of_damage_has_the_name_of_the_format(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(FileFormatError, match=r"must be a reprior thing in JSON. It is truncated"):
        parsed(path, "reprior thing")
