"""Small files by hand: nothing that is there twice is hidden, and other orders are put right."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprior.exceptions import FileFormatError, PriorError
from reprior.files.text_files import csv_rows, is_json, json_of, order_of, text_of

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
