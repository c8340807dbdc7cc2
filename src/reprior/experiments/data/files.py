"""Images that stay in their files: decoded, scaled and cropped a batch at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, require

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ImageFiles", "read_image"]

Array: TypeAlias = np.ndarray[Any, Any]

#: A random crop has this share of the image's area, and this ratio of its sides.
AREA, SIDES = (0.08, 1.0), (3 / 4, 4 / 3)

#: The centre that is tested is this share of the shorter side.
CENTRE = 0.875


def _pillow() -> ModuleType:
    return require("PIL.Image", extra="experiments", purpose="To read images")


def read_image(path: Path, size: int, draw: Array | None = None) -> Array:
    """Return an image as uint8 (size, size, 3): its centre, or a random part of it.

    ``draw`` has five uniform random numbers: area, ratio of the sides, place (two), mirror.
    """
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            image.draft("RGB", (2 * size, 2 * size))  # JPEG is decoded no larger than needed
            colour = image.convert("RGB")
            width, height = colour.size
            box = _centre(width, height) if draw is None else _part(width, height, draw)
            scaled = colour.resize((size, size), pillow.Resampling.BILINEAR, box=box)
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
    """Images by their paths, read by several threads: Pillow decodes outside of Python's lock.

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
