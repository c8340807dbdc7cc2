"""The class counts of iNaturalist 2018: the totals that everybody reports."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np

from reprior_lab.data.inaturalist import (
    VALIDATION_PER_CLASS,
    inaturalist_counts,
    inaturalist_supercategories,
)

#: Of the official table: classes and training images of some super-categories.
OFFICIAL = {"Plantae": (2917, 118800), "Insecta": (2031, 87192), "Aves": (1258, 143950)}


def test_totals():
    counts = inaturalist_counts()
    assert counts.shape == (8142,)
    assert counts.dtype == np.int64
    assert counts.sum() == 437_513
    assert (counts.min(), counts.max()) == (2, 1000)
    assert counts.size * VALIDATION_PER_CLASS == 24_426


def test_totals_of_super_categories():
    names, of_class = inaturalist_supercategories()
    counts = inaturalist_counts()
    assert len(names) == 14
    assert set(of_class.tolist()) == set(range(14))
    for name, (classes, images) in OFFICIAL.items():
        own = of_class == names.index(name)
        assert (own.sum(), counts[own].sum()) == (classes, images)


def test_what_is_given_is_a_copy():
    inaturalist_counts()[:] = 0
    inaturalist_supercategories()[1][:] = 0
    assert inaturalist_counts().sum() == 437_513
    assert inaturalist_supercategories()[1].max() == 13


def test_the_file_says_where_its_numbers_are_from():
    path = resources.files("reprior_lab.data") / "inat18_counts.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert "github.com" in document["source"]
    assert document["validation_per_class"] == VALIDATION_PER_CLASS
