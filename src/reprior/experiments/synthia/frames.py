"""Frames of a drive: colour, depth and labels, read from their files when they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import FileFormatError, LabelsError, OptionError, require
from reprior.experiments.synthia.png16 import first_channel

__all__ = [
    "DEPTH_FORMATS",
    "IGNORED",
    "Frame",
    "FrameFiles",
    "FrameSource",
    "Frames",
    "resized",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: The label of pixels that have none of the classes.
IGNORED = 255

#: How depth is written: 24 bits of three channels up to 1000 m, or sixteen bits of one unit.
DEPTH_FORMATS = ("rgb24", "cm16", "mm16")

#: Decoded frames are kept in memory up to this many bytes.
IN_MEMORY = 2**30

#: Pillow's number of its smooth filter, which on the way down is an average.
_BILINEAR = 2


class FrameFiles(NamedTuple):
    """Where a frame is."""

    name: str
    rgb: Path
    labels: Path
    depth: Path | None = None


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame.

    Parameters
    ----------
    name : str
        What it is called.
    rgb : uint8 (H, W, 3)
        Colour.
    depth : float32 (H, W) or None
        Metres; the sky is far.
    labels : uint8 (H, W)
        Class indices, 255 where there is none.
    """

    name: str
    rgb: Array
    depth: Array | None
    labels: Array


class FrameSource(Protocol):
    """Whatever frames come from: they are read, or made, when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Frame: ...


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames in order, as a sequence of :class:`Frame`.

    Parameters
    ----------
    files : sequence of FrameFiles
        Where they are.
    ids : sequence of int
        The number that the label files have for each class.
    classes : sequence of str
        The names of the classes.
    size : (int, int), optional
        Height and width that frames are scaled to: colour smoothly, labels and depth by the
        nearest pixel. By default they stay as they are.
    depth_format : {"rgb24", "cm16", "mm16"}, default "rgb24"
        See :data:`DEPTH_FORMATS`.
    """

    files: tuple[FrameFiles, ...]
    ids: tuple[int, ...]
    classes: tuple[str, ...]
    size: tuple[int, int] | None = None
    depth_format: str = "rgb24"
    _kept: dict[FrameFiles, Frame] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_choice("depth_format", self.depth_format, DEPTH_FORMATS)
        if len(self.ids) != len(self.classes) or len(self.classes) >= IGNORED:
            raise OptionError(
                f"`ids` must be one number for each of at most {IGNORED - 1} classes. Got "
                f"{len(self.ids)} ids and {len(self.classes)} classes. Pass as many of both."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """What the frames are called."""
        return tuple(files.name for files in self.files)

    @property
    def has_depth(self) -> bool:
        """Whether every frame has depth."""
        return all(files.depth is not None for files in self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Frame:
        files = self.files[index]
        if files not in self._kept:
            frame = self._read(files)
            n_bytes = frame.rgb.nbytes + frame.labels.nbytes
            n_bytes += 0 if frame.depth is None else frame.depth.nbytes
            if (len(self._kept) + 1) * n_bytes > IN_MEMORY:
                return frame
            self._kept[files] = frame
        return self._kept[files]

    def __iter__(self) -> Iterator[Frame]:
        return (self[i] for i in range(len(self)))

    def subset(self, index: Sequence[int] | Array) -> Frames:
        """Return some of the frames, without reading them."""
        return replace(self, files=tuple(self.files[int(i)] for i in index))

    def of_classes(self, names: Sequence[str]) -> Frames:
        """Return the frames with labels of some classes only, in that order."""
        for name in names:
            check_choice("classes", name, self.classes)
        ids = tuple(self.ids[self.classes.index(name)] for name in names)
        return replace(self, ids=ids, classes=tuple(names), _kept={})

    def pixels(self) -> Array:
        """Return the pixels of each class in each frame, int64 (N, K).

        Examples
        --------
        >>> Frames((), (1, 2), ("road", "sky")).pixels().shape
        (0, 2)
        """
        counts = [np.bincount(frame.labels.ravel(), minlength=IGNORED + 1) for frame in self]
        found: Array = np.array(counts, np.int64).reshape(len(self), IGNORED + 1)
        return found[:, : len(self.classes)]

    def _read(self, files: FrameFiles) -> Frame:
        rgb = _colour(files.rgb)
        shape = rgb.size[::-1]
        labels = self._labels(first_channel(files.labels), files, shape)
        depth = None if files.depth is None else self._depth(files.depth, shape)
        if self.size is not None and self.size != shape:
            rgb = rgb.resize(self.size[::-1], _BILINEAR)
            labels = resized(labels, self.size)
            depth = None if depth is None else resized(depth, self.size)
        return Frame(files.name, np.asarray(rgb), depth, labels)

    def _labels(self, found: Array, files: FrameFiles, shape: tuple[int, int]) -> Array:
        _check_shape(found, files.labels, shape)
        table = np.full(max(int(found.max()), *self.ids, 0) + 1, IGNORED, np.uint8)
        table[list(self.ids)] = np.arange(len(self.ids))
        labels: Array = table[found]
        return labels

    def _depth(self, path: Path, shape: tuple[int, int]) -> Array:
        if self.depth_format == "rgb24":
            channels = np.asarray(_colour(path)).astype(np.float64)
            metres = channels @ np.array([1.0, 2.0**8, 2.0**16]) * (1000.0 / (2**24 - 1))
        else:
            metres = first_channel(path) * (0.01 if self.depth_format == "cm16" else 0.001)
        _check_shape(metres, path, shape)
        found: Array = metres.astype(np.float32)
        return found


def resized(values: Array, size: tuple[int, int]) -> Array:
    """Return an image of another size, each pixel the nearest of the old ones.

    Examples
    --------
    >>> resized(np.arange(6).reshape(1, 6), (2, 3))
    array([[1, 3, 5],
           [1, 3, 5]])
    """
    rows, columns = (
        np.minimum(((np.arange(new) + 0.5) * old / new).astype(np.int64), old - 1)
        for new, old in zip(size, values.shape[:2], strict=True)
    )
    chosen: Array = values[rows[:, None], columns]
    return chosen


def _colour(path: Path) -> Any:
    """Return a colour image as Pillow has it."""
    pillow = require("PIL.Image", extra="experiments", purpose="To read images")
    try:
        with pillow.open(path) as image:
            return image.convert("RGB")
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for damaged images
        raise FileFormatError(
            f"An image must be a file that can be decoded. Got {path}: {error}. Fetch it again, "
            f"or pass on_error='skip' to go on without it."
        ) from error


def _check_shape(found: Array, path: Path, shape: tuple[int, int]) -> None:
    if found.shape != shape:
        raise LabelsError(
            f"Labels and depth must have the size of their colour image, {shape[1]} × {shape[0]}. "
            f"Got {found.shape[1]} × {found.shape[0]} in {path}. Render both by the same camera."
        )
