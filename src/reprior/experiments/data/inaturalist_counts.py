"""The true class counts of iNaturalist 2018, which nobody needs the images for."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

import numpy as np

__all__ = ["VALIDATION_PER_CLASS", "inaturalist_counts", "inaturalist_supercategories"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Images of each class in the validation part.
VALIDATION_PER_CLASS = 3


@cache
def _document() -> dict[str, Any]:
    path = resources.files("reprior.experiments.data") / "inat18_counts.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def inaturalist_counts() -> Vector:
    """Return how many training images each of the 8,142 classes has, in the official order.

    Class k is ``category_id`` k of ``train2018.json``, so that these are the class counts of
    :func:`~reprior.experiments.data.inaturalist.read_inaturalist`, too.

    References
    ----------
    .. [1] Van Horn et al. "The iNaturalist Species Classification and Detection Dataset",
       CVPR 2018.

    Examples
    --------
    >>> counts = inaturalist_counts()
    >>> counts.shape, int(counts.sum()), int(counts.max()), int(counts.min())
    ((8142,), 437513, 1000, 2)
    """
    return np.array(_document()["counts"], np.int64)


def inaturalist_supercategories() -> tuple[tuple[str, ...], Vector]:
    """Return the names of the 14 super-categories, and the index of each class's own.

    Examples
    --------
    >>> names, of_class = inaturalist_supercategories()
    >>> names[4], int((of_class == 4).sum())
    ('Aves', 1258)
    """
    found = _document()
    return tuple(found["supercategories"]), np.array(found["supercategory_of_class"], np.int64)
