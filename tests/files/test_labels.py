"""Labels become class indices by one rule, whatever the chunks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprior.exceptions import LabelsError
from reprior.files import IGNORED, LabelCoder, as_raw_labels


def encode(labels, names, **options):
    coder = LabelCoder(names, options.pop("n", len(names or "")), **options)
    raw = as_raw_labels("file", np.asarray(labels))
    return coder.encode(raw, "row {}".format).tolist()


def test_names_and_indices():
    assert encode(["b", "a"], ("a", "b")) == [1, 0]
    assert encode(["1", " 0"], ("a", "b")) == [1, 0]
    assert encode([1.0, 0.0], ("a", "b")) == [1, 0]
    assert encode([True, False], None, n=2) == [1, 0]
    assert encode([b"b", b"a"], ("a", "b")) == [1, 0]


def test_integers_index_classes_unless_told():
    assert encode(["0", "1"], ("1", "0")) == [0, 1]
    assert encode(["0", "1"], ("1", "0"), labels_as="names") == [1, 0]
    assert encode([0, 1], ("1", "0"), labels_as="names") == [1, 0]
    assert encode(["7", "b"], ("b", "7")) == [1, 0]


def test_ignored_labels():
    assert encode([255, 0], None, n=2, ignore_index=255) == [255, 0]
    assert encode(["255", "a"], ("a", "b"), ignore_index=255) == [255, 0]
    assert encode(["void", "a"], ("a", "b"), ignore_index="void") == [IGNORED, 0]
    assert LabelCoder(("a", "b"), 2, "void").ignored == IGNORED
    assert LabelCoder(("a", "b"), 2).ignored is None


def test_a_mixture_is_refused_across_chunks_too():
    coder = LabelCoder(("a", "b"), 2)
    coder.encode(as_raw_labels("file", np.array(["a"])), "row {}".format)
    with pytest.raises(LabelsError, match="Got indices in row 0, after names"):
        coder.encode(np.array([1]), "row {}".format)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 7))
def test_chunks_do_not_matter(index, rows):
    names = ("a", "b", "10", "c")
    text = np.array(names)[index]
    coder = LabelCoder(names, 4)
    parts = [
        coder.encode(as_raw_labels("file", text[i : i + rows]), "row {}".format)
        for i in range(0, len(text), rows)
    ]
    assert np.concatenate(parts).tolist() == index


def test_an_ignored_integer_is_ignored_where_a_class_has_its_name():
    assert encode([0, 1, 2], ("0", "1", "2"), ignore_index=1) == [0, IGNORED, 2]
    assert encode(["0", "1", "2"], ("0", "1", "2"), ignore_index=1) == [0, IGNORED, 2]
    assert encode([0, 1], ("a", "b"), ignore_index=1.0) == [0, 1]


@pytest.mark.parametrize("value", [np.uint64(2**64 - 1), 1e300, -1e300])
def test_a_label_beyond_integers_is_refused(value):
    with pytest.raises(LabelsError, match="must be class indices 0 … 1"):
        encode([value], ("a", "b"), ignore_index=-1)
