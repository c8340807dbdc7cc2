"""Read data sets that are trees of folders, one for each class; images stay in their files."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.exceptions import FileFormatError
from reprior_lab.data.images import ImageData, missing_data

if TYPE_CHECKING:
    pass

__all__ = ["ImageFiles", "read_folder", "read_image"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Ranges of a random crop's share of the image's area, and of the ratio of its sides.
AREA, SIDES = (0.08, 1.0), (3 / 4, 4 / 3)

#: Test images are centre crops of this share of the shorter side.
CENTRE = 0.875

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}

#: Statistics of ImageNet, as expected by backbones that were trained on it.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

#: Images are kept in memory if all parts together have at most this many bytes.
IN_MEMORY = 2**30


def read_image(path: Path, size: int, draw: Array | None = None) -> Array:
    """Return an image as uint8 (size, size, 3): its centre, or a random part of it.

    ``draw`` has five uniform random numbers: area, ratio of the sides, place (two), mirror.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * size, 2 * size))  # JPEG is decoded no larger than needed
            colour = image.convert("RGB")
            width, height = colour.size
            box = _centre(width, height) if draw is None else _part(width, height, draw)
            scaled = colour.resize((size, size), Image.Resampling.BILINEAR, box=box)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for damaged images
        raise FileFormatError(
            f"An image must be a file that Pillow can read. Got {path}: {error}. Fetch it again, "
            f"or remove it."
        ) from error
    pixels = np.asarray(scaled)
    return pixels[:, ::-1] if draw is not None and draw[4] < 0.5 else pixels


def _centre(width: int, height: int) -> tuple[float, float, float, float]:
    side = CENTRE * min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _part(width: int, height: int, draw: Array) -> tuple[float, float, float, float]:
    area = (AREA[0] + (AREA[1] - AREA[0]) * draw[0]) * width * height
    ratio = math.exp(math.log(SIDES[0]) + (math.log(SIDES[1]) - math.log(SIDES[0])) * draw[1])
    w, h = min(math.sqrt(area * ratio), width), min(math.sqrt(area / ratio), height)
    left, top = (width - w) * draw[2], (height - h) * draw[3]
    return left, top, min(left + w, width), min(top + h, height)


class ImageFiles:
    """Images by their paths, read by several threads: Pillow decodes without Python's lock.

    Parameters
    ----------
    paths : sequence of path
        A file each.
    size : int
        Side of the square they are scaled to.

    Examples
    --------
    >>> images = ImageFiles(["a.jpg", "b.jpg"], 224)
    >>> images.shape, images.subset(np.array([1])).shape
    ((2, 224, 224, 3), (1, 224, 224, 3))
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], size: int) -> None:
        self.paths, self.size = list(paths), size
        self._pool: ThreadPoolExecutor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, H, W, C)."""
        return len(self.paths), self.size, self.size, 3

    def __len__(self) -> int:
        return len(self.paths)

    def subset(self, index: Array) -> ImageFiles:
        """Return some of the images, without reading them."""
        return ImageFiles([self.paths[i] for i in index], self.size)

    def take(self, index: Array, draws: Array | None = None) -> Array:
        """Return images as uint8 (n, H, W, 3): their centres, or random parts by ``draws``."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "images")
        out = np.empty((len(index), self.size, self.size, 3), np.uint8)

        def read(place: int) -> None:
            draw = None if draws is None else draws[place]
            out[place] = read_image(Path(self.paths[index[place]]), self.size, draw)

        list(self._pool.map(read, range(len(index))))
        return out


def read_folder(root: Path, size: int = 64) -> ImageData:
    """Return ``root/train/CLASS/IMAGE`` and ``root/test/CLASS/IMAGE``, scaled to a square.

    Without ``test``, ``val`` is the test part; with ``test``, ``validation`` or ``val`` is the
    part to tune on. Up to 1 GB, all images are read at the start and kept in memory; above, each
    batch is read from the files.

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
    """Warn of training classes that have no image in another part."""
    for part in (each for each in ("validation", "test") if each in labels):
        absent = [name for k, name in enumerate(classes) if k not in labels[part]]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            warn(
                f"The {part} part has no image of {absent[0]!r}{more}: metrics there are of the "
                f"other classes."
            )


def _decoded(paths: list[Path], size: int) -> Array:
    return np.stack([read_image(path, size) for path in paths])


def _listed(folder: Path, classes: list[str]) -> tuple[list[Path], Array]:
    unknown = sorted({e.name for e in os.scandir(folder) if e.is_dir()} - set(classes))
    if unknown:
        raise FileFormatError(
            argument="root",
            rule="must have the same classes in every part",
            got=f"{unknown[0]!r} in {folder}, which training lacks",
            remedy="Remove the folder, or give it training images.",
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
