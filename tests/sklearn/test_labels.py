"""Class labels: which there are, where each is, how many of each."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from tests.sklearn.shared import NAMES

import reprior as rp
from reprior.sklearn.labels import class_index, class_mass, find_classes, plain


@pytest.mark.parametrize("classes", [NAMES, NAMES[::-1], NAMES.astype(object)])
def test_index_and_mass(classes):
    y = np.array(["cow", "ant", "cow", "cow"])
    assert (classes[class_index(y, classes)] == y).all()
    assert dict(zip(classes, class_mass(y, classes), strict=True)) == {"ant": 1, "bee": 0, "cow": 3}
    weight = np.array([1.0, 2.0, 0.5, 0.5])
    assert class_mass(y, classes, weight)[class_index(np.array(["cow"]), classes)] == 2


@pytest.mark.parametrize("y, got", [([3, 3], "1 class, 3"), ([], "no samples")])
def test_fewer_than_two_classes(y, got):
    with pytest.raises(rp.LabelsError, match=f"at least two classes. Got {got}"):
        find_classes(GaussianNB(), np.array(y))


def test_objects_of_one_type_become_plain():
    assert plain(NAMES.astype(object)).dtype.kind == "U"
    assert plain(np.array([1, 2], dtype=object)).dtype.kind == "i"
