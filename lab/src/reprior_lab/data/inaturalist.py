"""iNaturalist 2018: JSON annotations, image folders, and the true class counts."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError
from reprior_lab.data.folder import MEAN, STD, ImageFiles
from reprior_lab.data.images import ImageData, missing_data

__all__ = [
    "VALIDATION_PER_CLASS",
    "count_inaturalist",
    "inaturalist_counts",
    "inaturalist_supercategories",
    "read_inaturalist",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Images of each class in the validation part.
VALIDATION_PER_CLASS = 3

NAME = "inaturalist2018"
TRAIN, VALIDATION = "train2018.json", "val2018.json"


#: The field of an annotation that holds the id of each.
_NAMED = {"images": "image_id", "categories": "category_id"}


@cache
def _document() -> dict[str, Any]:
    path = resources.files("reprior_lab.data") / "inat18_counts.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def inaturalist_counts() -> Vector:
    """Return the number of training images of each of the 8,142 classes, in the official order.

    Class k is ``category_id`` k of ``train2018.json``, as in
    :func:`~reprior_lab.data.inaturalist.read_inaturalist`.

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
    """Return the names of the 14 super-categories, and the super-category index of each class.

    Examples
    --------
    >>> names, of_class = inaturalist_supercategories()
    >>> names[4], int((of_class == 4).sum())
    ('Aves', 1258)
    """
    document = _document()
    return tuple(document["supercategories"]), np.array(
        document["supercategory_of_class"], np.int64
    )


def read_inaturalist(root: Path, size: int = 224) -> ImageData:
    """Return iNaturalist 2018; its validation images are the test part.

    Class names come from ``categories.json`` if it exists (in the annotations of 2018 they are
    numbers). Images are read lazily: only the existence of the first one is checked.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_inaturalist(Path("nowhere"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: `root` must be the folder of inaturalist2018. Got
    'nowhere', which has no train2018.json. Get ...
    """
    for name in (TRAIN, VALIDATION):
        if not (root / name).is_file():
            raise missing_data(NAME, root, f"which has no {name}")
    train = _annotations(root / TRAIN)
    test = _annotations(root / VALIDATION)
    ids = sorted(category["id"] for category in train["categories"])
    train_paths, train_labels = _listed(train, root, ids)
    test_paths, test_labels = _listed(test, root, ids)
    if not train_paths or not Path(train_paths[0]).is_file():
        raise missing_data(NAME, root, "which has the annotations but not the images")
    return ImageData(
        NAME,
        ImageFiles(train_paths, size),
        train_labels,
        ImageFiles(test_paths, size),
        test_labels,
        _class_names(train, root, ids),
        MEAN,
        STD,
        flip=True,
    )


def count_inaturalist(root: Path) -> Vector:
    """Return the number of training images of each class, (K,), from the annotations.

    The images are not needed.
    """
    annotations = _annotations(root / TRAIN)
    ids = sorted(category["id"] for category in annotations["categories"])
    _, labels = _listed(annotations, root, ids)
    return np.bincount(labels, minlength=len(ids))


def _annotations(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        for kind in ("images", "categories"):  # each has ids of its own, which annotations name
            fields = [(kind, "id"), ("annotations", _NAMED[kind])]
            types = {type(each[name]) for key, name in fields for each in document[key]}
            if types not in ({int}, {str}):
                raise ValueError(f"ids of {kind} must all be numbers, or all text")
        if not all(type(image["file_name"]) is str for image in document["images"]):
            raise ValueError("a file_name is no text")
        return {key: document[key] for key in ("annotations", *_NAMED)}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"Annotations must be JSON with images, annotations and categories. Got "
            f"{type(error).__name__}: {error} in {path}. Fetch the file again."
        ) from error


def _listed(annotations: dict[str, Any], root: Path, ids: list[int]) -> tuple[list[str], Vector]:
    index = {category: k for k, category in enumerate(ids)}
    files = {image["id"]: image["file_name"] for image in annotations["images"]}
    try:
        pairs = [
            (files[each["image_id"]], index[each["category_id"]])
            for each in annotations["annotations"]
        ]
    except KeyError as error:
        raise FileFormatError(
            f"Every annotation must have its image and its category. Got {error.args[0]!r}, which "
            f"is no id of either, in {root}. Use both JSON files of 2018."
        ) from error
    labels = np.array([label for _, label in pairs], np.int64)
    return [str(root / name) for name, _ in pairs], labels


def _class_names(annotations: dict[str, Any], root: Path, ids: list[int]) -> list[str]:
    path = root / "categories.json"
    try:
        listed = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        names = {c["id"]: str(c["name"]) for c in [*annotations["categories"], *listed]}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(
            f"Categories must be a JSON list with an id and a name each. Got "
            f"{type(error).__name__}: {error} in {path}. Fetch the file again."
        ) from error
    return [names[category] for category in ids]
