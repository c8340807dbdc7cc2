"""Any data set that is a tree of folders, one for each class."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.experiments.data.files import ImageFiles, read_image
from reprior.experiments.data.images import ImageData
from reprior.experiments.data.missing import missing_data

__all__ = ["read_folder"]

Array: TypeAlias = np.ndarray[Any, Any]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}

#: Statistics of ImageNet, which backbones that were trained on it expect.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

#: Images are kept in memory up to this many bytes of all parts together.
IN_MEMORY = 2**30


def read_folder(root: Path, size: int = 64) -> ImageData:
    """Return ``root/train/CLASS/IMAGE`` and ``root/test/CLASS/IMAGE``, scaled to a square.

    ``val`` is taken as the test part where there is no ``test``; with ``test``, ``validation``
    or ``val`` is the part to tune on. Up to 1 GB, the images are read at once and kept in memory;
    above, each batch is read from the files.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_folder(Path("nowhere"))
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: `root` must be a folder of images, by part and class. Got
    'nowhere', which has no train. Lay it out as train/CLASS/IMAGE ...
    """
    names = {"train": ["train"], "test": ["test"], "validation": ["validation", "val"]}
    found = {
        part: next((root / name for name in known if (root / name).is_dir()), None)
        for part, known in names.items()
    }
    if found["test"] is None:
        found["test"], found["validation"] = found["validation"], None
    for part in ("train", "test"):
        if found[part] is None:
            raise missing_data("folder", root, f"which has no {part}")
    classes = sorted(e.name for e in os.scandir(found["train"] or root) if e.is_dir())
    listed = {k: _listed(folder, classes) for k, folder in found.items() if folder is not None}
    _note_absent(classes, {part: labels for part, (_, labels) in listed.items()})
    n_images = sum(len(paths) for paths, _ in listed.values())
    kept = n_images * size * size * 3 <= IN_MEMORY
    parts: dict[str, Any] = {}
    for part, (paths, labels) in listed.items():
        images = _decoded(paths, size) if kept else ImageFiles(paths, size)
        parts |= {f"{part}_images": images, f"{part}_labels": labels}
    return ImageData(
        root.name, class_names=classes, mean=MEAN, std=STD, padding=size // 8, flip=True, **parts
    )


def _note_absent(classes: list[str], labels: dict[str, Array]) -> None:
    """Say which classes of training nothing is known of elsewhere."""
    for part in (each for each in ("validation", "test") if each in labels):
        absent = [name for k, name in enumerate(classes) if k not in labels[part]]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            warnings.warn(
                f"The {part} part has no image of {absent[0]!r}{more}: metrics there are of the "
                f"other classes.",
                RepriorWarning,
                stacklevel=3,
            )


def _decoded(paths: list[Path], size: int) -> Array:
    return np.stack([read_image(path, size) for path in paths])


def _listed(folder: Path, classes: list[str]) -> tuple[list[Path], Array]:
    unknown = sorted({e.name for e in os.scandir(folder) if e.is_dir()} - set(classes))
    if unknown:
        raise FileFormatError(
            f"`root` must have the same classes in every part. Got {unknown[0]!r} in {folder}, "
            f"which training lacks. Remove the folder, or give it training images."
        )
    paths: list[Path] = []
    labels: list[int] = []
    for k, name in enumerate(classes):
        own = folder / name
        here = sorted(p for p in own.glob("*") if p.suffix.lower() in SUFFIXES)
        paths += here
        labels += [k] * len(here)
    if not paths:
        raise missing_data("folder", folder, "which has no images in folders of classes")
    return paths, np.array(labels, np.int64)
