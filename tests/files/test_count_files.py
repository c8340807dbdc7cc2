"""Counts and priors from small files, in the order of the classes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reprior.exceptions import FileFormatError, LabelsError, OptionError, PriorError
from reprior.files import counts_from_labels, read_counts, read_prior

GOOD = {
    "list": ("[1, 2.5, 3]", [1, 2.5, 3], None),
    "object": ('{"b": 1, "a": 2}', [1, 2], ("b", "a")),
    "indices": ('{"1": 5, "0": 2}', [2, 5], None),
    "lines": ("1\n2\n\n3\n", [1, 2, 3], None),
    "lines with header": ("count\n1\n2\n", [1, 2], None),
    "pairs": ("b,1\na,2\n", [1, 2], ("b", "a")),
    "pairs with header": ("class,count\nb,1\na,2\n", [1, 2], ("b", "a")),
    "quoted": ('class,count\n"b, c",1\na,2\n', [1, 2], ("b, c", "a")),
    "semicolons": ("b;1\na;2\n", [1, 2], ("b", "a")),
}


@pytest.mark.parametrize("case", GOOD)
def test_forms(tmp_path, case):
    text, counts, names = GOOD[case]
    (tmp_path / "c").write_text(text)
    found, found_names = read_counts(tmp_path / "c")
    np.testing.assert_array_equal(found, counts)
    assert found_names == names


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2, "c": 3}', "c,3\nb,2\na,1\n"])
def test_named_counts_go_into_the_order_of_the_classes(tmp_path, text):
    (tmp_path / "c").write_text(text)
    found, names = read_counts(tmp_path / "c", classes=["b", "c", "a"])
    np.testing.assert_array_equal(found, [2, 3, 1])
    assert names == ("b", "c", "a")


BAD = {
    "text": ("1\nx\n", PriorError, "Got 'x' at line 2"),
    "negative": ('{"a": -1, "b": 2}', PriorError, "Got -1 at 'a'"),
    "nested": ("[[1, 2], 3]", PriorError, "at entry 0"),
    "boolean": ("[true, 3]", PriorError, "Got True at entry 0"),
    "nan": ("[NaN, 3]", PriorError, "Got nan at entry 0"),
    "columns": ("a,1\nb\n", FileFormatError, "another number of columns in line 2"),
    "truncated": ("[1,", FileFormatError, "truncated or damaged"),
    "empty": ("", FileFormatError, "at least two classes. Got 0"),
    "twice": ("a,1\na,2\n", FileFormatError, "Got 'a' twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals(tmp_path, case):
    text, error, words = BAD[case]
    (tmp_path / "c").write_text(text)
    with pytest.raises(error) as caught:
        read_counts(tmp_path / "c")
    assert words in str(caught.value)


def test_binary_data_are_no_counts(tmp_path):
    np.save(tmp_path / "c.npy", np.arange(3))
    with pytest.raises(FileFormatError, match="Got binary data"):
        read_counts(tmp_path / "c.npy")


def test_names_that_do_not_match_are_listed(tmp_path):
    (tmp_path / "c").write_text('{"a": 1, "x": 2}')
    with pytest.raises(PriorError, match="missing: 'b'; unknown: 'x'"):
        read_counts(tmp_path / "c", classes=["a", "b"])
    (tmp_path / "c").write_text("[1, 2, 3]")
    with pytest.raises(PriorError, match=r"counts of the 2 classes. Got 3 numbers"):
        read_counts(tmp_path / "c", classes=["a", "b"])


def test_a_prior_sums_to_one(tmp_path):
    (tmp_path / "p").write_text("class,prior\nb,0.25\na,0.75\n")
    prior, _ = read_prior(tmp_path / "p", classes=["a", "b"])
    np.testing.assert_array_equal(prior, [0.75, 0.25])
    (tmp_path / "p").write_text("[900, 100]")
    with pytest.raises(PriorError, match=r"a sum of 1000. These look like counts"):
        read_prior(tmp_path / "p")
    (tmp_path / "p").write_text("[0.5, 0.4]")
    with pytest.raises(PriorError, match="Divide them by their sum"):
        read_prior(tmp_path / "p")


@pytest.mark.parametrize("form", ["npy", "npz", "csv", "parquet"])
@pytest.mark.parametrize("named", [False, True])
def test_labels_are_counted(tmp_path, form, named):
    names = np.array(["cat", "dog", "owl"])
    index = np.array([0, 0, 1, 0, 1])
    labels = names[index] if named else index
    path = tmp_path / f"l.{form}"
    if form == "npy":
        np.save(path, labels)
    elif form == "npz":
        np.savez(path, labels=labels)
    elif form == "csv":
        path.write_text("label\n" + "\n".join(map(str, labels)) + "\n")
    else:
        pq.write_table(pa.table({"id": [1] * 5, "label": labels.tolist()}), path)
    counts, found = counts_from_labels(path, classes=names.tolist())
    np.testing.assert_array_equal(counts, [3, 2, 0])
    assert found == tuple(names)
    counts, found = counts_from_labels(path)
    np.testing.assert_array_equal(counts, [3, 2])
    assert found == (("cat", "dog") if named else None)


def test_labels_that_are_no_classes(tmp_path):
    np.save(tmp_path / "l.npy", np.array([0, 3, 255]))
    with pytest.raises(LabelsError, match=r"class indices 0 … 2. Got 3 in row 1"):
        counts_from_labels(tmp_path / "l.npy", n_classes=3, ignore_index=255)
    counts, _ = counts_from_labels(tmp_path / "l.npy", n_classes=4, ignore_index=255)
    np.testing.assert_array_equal(counts, [1, 0, 0, 1])
    np.save(tmp_path / "l.npy", np.array([0, -1]))
    with pytest.raises(LabelsError, match="Got -1"):
        counts_from_labels(tmp_path / "l.npy")
    counts, _ = counts_from_labels(tmp_path / "l.npy", ignore_index=-1)
    np.testing.assert_array_equal(counts, [1])
    np.save(tmp_path / "l.npy", np.array([], int))
    with pytest.raises(LabelsError, match=r"must have labels. Got none"):
        counts_from_labels(tmp_path / "l.npy")


def test_a_name_twice_in_an_object_is_refused(tmp_path):
    (tmp_path / "c.json").write_text('{"a": 1, "b": 2, "a": 3}')
    with pytest.raises(FileFormatError, match=r"every class once. Got 'a' twice"):
        read_counts(tmp_path / "c.json")


def test_a_mistyped_first_number_is_no_header(tmp_path):
    (tmp_path / "c.csv").write_text("cat,9OO\ndog,100\neel,3\n")
    with pytest.raises(PriorError, match="Got '9OO' at line 1"):
        read_counts(tmp_path / "c.csv")


def test_labels_that_are_whole_numbers_are_indices(tmp_path):
    (tmp_path / "l.csv").write_text("label\n0.0\n2.0\n2.0\n255.0\n")
    counts, names = counts_from_labels(tmp_path / "l.csv", ignore_index=255)
    assert (counts.tolist(), names) == ([1, 0, 2], None)


@pytest.mark.parametrize("value", [1.5, np.nan])
def test_labels_that_are_fractions_are_refused(tmp_path, value):
    np.save(tmp_path / "l.npy", np.array([0.0, value]))
    with pytest.raises(LabelsError, match=r"must be integers or names. Got .* in row 1"):
        counts_from_labels(tmp_path / "l.npy")


@pytest.mark.parametrize("text", ["1,000\n2,000\n3,000\n", "900\n1,000\n", "12,050\n3,400\n"])
def test_separators_of_thousands_are_refused(tmp_path, text):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="separators of thousands"):
        read_counts(path)


def test_counts_of_three_digits_are_counts(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("0,900\n1,100\n")
    assert read_counts(path)[0].tolist() == [900.0, 100.0]


def test_integer_labels_are_indices_unless_they_are_names(tmp_path):
    path = tmp_path / "train.npy"
    np.save(path, np.repeat([0, 1], [9, 1]))
    assert counts_from_labels(path, classes=["1", "0"])[0].tolist() == [9.0, 1.0]
    named = counts_from_labels(path, classes=["1", "0"], labels_as="names")
    assert named[0].tolist() == [1.0, 9.0]
    with pytest.raises(OptionError, match="labels_as"):
        counts_from_labels(path, classes=["1", "0"], labels_as="words")
