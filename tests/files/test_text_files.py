"""Small files by hand: nothing that is there twice is hidden, and other orders are put right."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprior.exceptions import FileFormatError, OptionError, PriorError
from reprior.files import as_class_names, csv_rows, is_json, json_of, order_of, text_of
from reprior.files.text_files import read_class_names

PATH = Path("small.txt")


def test_objects_are_pairs_and_lists_are_lists():
    assert json_of(PATH, '{"a": [1, 2], "a": {}}', "costs") == (("a", [1, 2]), ("a", ()))
    with pytest.raises(FileFormatError, match=r"must hold costs in JSON. It is truncated"):
        json_of(PATH, "[1", "costs")


def test_json_is_known_by_its_first_letter():
    assert is_json("  {}")
    assert is_json("\n[1]")
    assert not is_json("a,1")
    assert not is_json("")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_lines_keep_their_numbers(delimiter):
    text = f"\na{delimiter} 1 \n\nb{delimiter}2\n"
    assert csv_rows(PATH, text, "hold costs") == ([(2, ["a", "1"]), (4, ["b", "2"])], delimiter)


def test_the_order_of_names():
    assert order_of(PATH, ["b", "c", "a"], ["a", "b", "c"], PriorError) == [2, 0, 1]
    with pytest.raises(PriorError, match=r"Got missing: 'd'; unknown: 'c'"):
        order_of(PATH, ["b", "c", "a"], ["a", "b", "d"], PriorError)
    with pytest.raises(FileFormatError, match=r"every class once. Got 'a' twice"):
        order_of(PATH, ["a", "a"], ["a", "b"], PriorError)


def test_a_mark_of_the_byte_order_is_no_text(tmp_path):
    path = tmp_path / "bom.csv"
    path.write_bytes("\ufeffcat,1".encode())
    assert text_of(path, "hold counts") == "cat,1"


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
