"""Class names from lists and files."""

import pytest

from reprior.exceptions import FileFormatError, OptionError
from reprior.files.text_files import as_class_names, read_class_names


@pytest.mark.parametrize(
    "text", ["cat\ndog, brown\n", '["cat", "dog, brown"]', "cat\r\n\r\ndog, brown"]
)
def test_lines_and_json(tmp_path, text):
    (tmp_path / "names").write_text(text)
    assert read_class_names(tmp_path / "names") == ("cat", "dog, brown")
    assert as_class_names(tmp_path / "names") == ("cat", "dog, brown")


@pytest.mark.parametrize(
    "data, words",
    [
        (b"a\na\n", "Got 'a' twice"),
        (b"a\n", "at least two classes. Got 1"),
        (b'["a",', "truncated or damaged"),
        (b'{"a": 1}', "Got something else"),
        (b"\xff\xfe\x00", "Got binary data"),
    ],
)
def test_refusals(tmp_path, data, words):
    (tmp_path / "names").write_bytes(data)
    with pytest.raises(FileFormatError) as caught:
        read_class_names(tmp_path / "names")
    assert words in str(caught.value)


def test_lists():
    assert as_class_names([3, "x"]) == ("3", "x")
    with pytest.raises(OptionError, match="`classes` must name every class once"):
        as_class_names(["x", "x"])
