"""Frames of a drive: colour, depth and labels, read from SYNTHIA or plain folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.core import check_choice
from reprior.exceptions import (
    Argument,
    FileFormatError,
    LabelsError,
    OptionError,
    RepriorError,
    Setting,
)
from reprior_lab.synthia.png16 import first_channel

__all__ = [
    "DEPTH_FORMATS",
    "IGNORED",
    "SEQUENCE_CLASSES",
    "SF_CLASSES",
    "Frame",
    "FrameFiles",
    "FrameSource",
    "Frames",
    "open_folders",
    "open_sequences",
    "open_sf",
    "resized",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: The label of pixels without a class.
IGNORED = 255

#: Depth formats: 24 bits over three channels (up to 1000 m), or 16 bits in cm or mm.
DEPTH_FORMATS = ("rgb24", "cm16", "mm16")

#: Decoded frames are cached in memory up to this many bytes.
IN_MEMORY = 2**30

#: Pillow's constant for its bilinear filter, which averages when it scales down.
_BILINEAR = 2

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff"}

#: Ids of SYNTHIA-Sequences; 0 is void, 13 and 14 are reserved.
SEQUENCE_CLASSES: dict[int, str] = {
    1: "sky",
    2: "building",
    3: "road",
    4: "sidewalk",
    5: "fence",
    6: "vegetation",
    7: "pole",
    8: "car",
    9: "sign",
    10: "pedestrian",
    11: "bicycle",
    12: "lane marking",
    15: "traffic light",
}

#: Ids of SYNTHIA-SF; 0 is void.
SF_CLASSES: dict[int, str] = dict(
    enumerate(
        (
            "road",
            "sidewalk",
            "building",
            "wall",
            "fence",
            "pole",
            "trafficlight",
            "trafficsign",
            "vegetation",
            "terrain",
            "sky",
            "person",
            "rider",
            "car",
            "truck",
            "bus",
            "train",
            "motorcycle",
            "bicycle",
            "roadlines",
            "other",
            "roadworks",
        ),
        start=1,
    )
)

ON_ERROR = ("raise", "skip")

#: Folder names of colour, labels and depth in the complete and the reduced SYNTHIA-SF.
_SF_LAYOUTS = (("RGB", "GT", "Depth"), ("RGBLeft", "GTLeft", "DepthLeft"))


class FrameFiles(NamedTuple):
    """The name and the files of a frame."""

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
        Its name.
    rgb : uint8 (H, W, 3)
        Colour.
    depth : float32 (H, W) or None
        Metres; the sky has a large depth.
    labels : uint8 (H, W)
        Class indices; 255 marks pixels without a class.
    """

    name: str
    rgb: Array
    depth: Array | None
    labels: Array


class FrameSource(Protocol):
    """A sequence of frames that are read or computed on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Frame: ...


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames in order, as a sequence of :class:`Frame`.

    Parameters
    ----------
    files : sequence of FrameFiles
        The files of each frame.
    ids : sequence of int
        The number of each class in the label files.
    classes : sequence of str
        The names of the classes.
    size : (int, int), optional
        Height and width to scale frames to: colour with averaging, labels and depth by the nearest
        pixel. By default frames are not scaled.
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
                argument="ids",
                rule=f"must have one number for each of at most {IGNORED - 1} classes",
                got=f"{len(self.ids)} ids and {len(self.classes)} classes",
                remedy="Pass as many of both.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the frames."""
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
        """Return the frames with only these classes, in this order."""
        for name in names:
            check_choice("classes", name, self.classes)
        ids = tuple(self.ids[self.classes.index(name)] for name in names)
        return replace(self, ids=ids, classes=tuple(names), _kept={})

    def pixels(self) -> Array:
        """Return the number of pixels of each class in each frame, int64 (N, K).

        Examples
        --------
        >>> Frames((), (1, 2), ("road", "sky")).pixels().shape
        (0, 2)
        """
        counts = [np.bincount(frame.labels.ravel(), minlength=IGNORED + 1) for frame in self]
        pixels: Array = np.array(counts, np.int64).reshape(len(self), IGNORED + 1)
        return pixels[:, : len(self.classes)]

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

    def _labels(self, ids: Array, files: FrameFiles, shape: tuple[int, int]) -> Array:
        _check_shape(ids, files.labels, shape)
        table = np.full(max(int(ids.max()), *self.ids, 0) + 1, IGNORED, np.uint8)
        table[list(self.ids)] = np.arange(len(self.ids))
        labels: Array = table[ids]
        return labels

    def _depth(self, path: Path, shape: tuple[int, int]) -> Array:
        if self.depth_format == "rgb24":
            channels = np.asarray(_colour(path)).astype(np.float64)
            metres = channels @ np.array([1.0, 2.0**8, 2.0**16]) * (1000.0 / (2**24 - 1))
        else:
            metres = first_channel(path) * (0.01 if self.depth_format == "cm16" else 0.001)
        _check_shape(metres, path, shape)
        depth: Array = metres.astype(np.float32)
        return depth


def resized(values: Array, size: tuple[int, int]) -> Array:
    """Resize an image by nearest-neighbour sampling.

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
    """Return a colour image as a Pillow image."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for damaged images
        raise FileFormatError(
            "An image must be a file that can be decoded.",
            got=f"{path}: {error}",
            remedy=[
                "Fetch it again, or pass ",
                Setting("on_error", "skip"),
                " to leave it out.",
            ],
        ) from error


def _check_shape(values: Array, path: Path, shape: tuple[int, int]) -> None:
    if values.shape != shape:
        raise LabelsError(
            f"Labels and depth must have the size of their colour image, {shape[1]} × {shape[0]}. "
            f"Got {values.shape[1]} × {values.shape[0]} in {path}. Render both by the same camera."
        )


def open_folders(
    rgb: str | os.PathLike[str],
    labels: str | os.PathLike[str],
    depth: str | os.PathLike[str] | None = None,
    *,
    classes: Mapping[int, str],
    size: tuple[int, int] | None = None,
    depth_format: str = "rgb24",
    on_error: str = "raise",
) -> Frames:
    """Return the frames of two or three folders, paired by name and sorted.

    Parameters
    ----------
    rgb, labels, depth : path
        Folders. Files with the same name, whatever their suffix, form a frame. Labels are the first
        channel, of 8 or 16 bits.
    classes : mapping of int to str
        The class of each number in the label files. Pixels with other numbers are ignored.
    size : (int, int), optional
        Height and width to scale frames to.
    depth_format : {"rgb24", "cm16", "mm16"}, default "rgb24"
        24 bits over three channels, 1000 m at most; or one channel in centimetres or millimetres.
    on_error : {"raise", "skip"}, default "raise"
        What to do with a frame that lacks a file or has a damaged one: "skip" reads all frames at
        the start, leaves out such frames, and warns about each.

    Examples
    --------
    >>> from PIL import Image
    >>> import numpy as np
    >>> root = getfixture("tmp_path")
    >>> for kind, value in (("RGB", 90), ("GT", 1)):
    ...     (root / kind).mkdir()
    ...     Image.fromarray(np.full((4, 6, 3), value, np.uint8)).save(root / kind / "0001.png")
    >>> frames = open_folders(root / "RGB", root / "GT", classes={1: "road", 2: "sky"})
    >>> frames.names, frames[0].labels.shape, frames.pixels()
    (('0001',), (4, 6), array([[24,  0]]))
    """
    check_choice("on_error", on_error, ON_ERROR)
    folders = {"rgb": Path(rgb), "labels": Path(labels)}
    if depth is not None:
        folders["depth"] = Path(depth)
    files = {kind: _listed(kind, folder) for kind, folder in folders.items()}
    complete, broken = _paired(files, folders)
    if broken and on_error == "raise":
        raise FileFormatError(
            broken[0],
            remedy=[
                "Fetch it again, or pass ",
                Setting("on_error", "skip"),
                f" to leave {'it' if len(broken) == 1 else f'all {len(broken)}'} out.",
            ],
        )
    frames = Frames(complete, tuple(classes), tuple(classes.values()), size, depth_format)
    return _without_broken(frames, broken) if on_error == "skip" else frames


def open_sf(
    root: str | os.PathLike[str],
    part: str = "train",
    *,
    size: tuple[int, int] | None = None,
    on_error: str = "raise",
) -> Frames:
    """Return a part of SYNTHIA-SF: ``root/PART/{RGB,GT,Depth}`` or ``{RGB,GT,Depth}Left``.

    Parameters
    ----------
    root : path
        The folder of the parts. If the ids differ from the publisher's, it has a ``classes.txt``
        with a name per line; the first line is for id 0, which is ignored.
    part : str, default "train"
        A folder: "train", "test", or the publisher's "SEQ1" to "SEQ6".
    size, on_error
        As in :func:`open_folders`.

    Examples
    --------
    >>> open_sf("nowhere")
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: `root` must be the folder of SYNTHIA-SF. Got 'nowhere',
    which has no train/RGB and no train/RGBLeft. Get ...
    """
    folder = Path(root) / part
    listing = Path(root) / "classes.txt"
    known = SF_CLASSES
    if listing.is_file():
        names = listing.read_text(encoding="utf-8").split()
        known = {k: name for k, name in enumerate(names) if k}
    for rgb, labels, depth in _SF_LAYOUTS:
        if (folder / rgb).is_dir():
            depths = folder / depth if (folder / depth).is_dir() else None
            return open_folders(
                folder / rgb, folder / labels, depths, classes=known, size=size, on_error=on_error
            )
    raise FileFormatError(
        argument="root",
        rule="must be the folder of SYNTHIA-SF",
        got=f"{str(root)!r}, which has no {part}/RGB and no {part}/RGBLeft",
        remedy="Get SYNTHIA-SF from https://synthia-dataset.net and lay it out as "
        "PART/RGB, PART/GT and PART/Depth.",
    )


def open_sequences(
    root: str | os.PathLike[str],
    conditions: Sequence[str],
    *,
    sequence: str = "05",
    sides: Sequence[str] = ("Stereo_Left",),
    views: Sequence[str] = ("Omni_F",),
    size: tuple[int, int] | None = None,
    on_error: str = "raise",
) -> Frames:
    """Return frames of SYNTHIA-Sequences under some conditions.

    The layout is ``root/SYNTHIA-SEQS-05-DAWN/{RGB,GT/LABELS,Depth}/Stereo_Left/Omni_F/*.png``.

    Parameters
    ----------
    root : path
        The folder with the sequences in it.
    conditions : sequence of str
        "DAWN", "SUMMER", "NIGHT", "SUNSET"; "FOG", "FALL", "WINTER", "WINTERNIGHT", "RAIN",
        "RAINNIGHT", "SOFTRAIN"; "SPRING".
    sequence : str, default "05"
        The number of the sequence.
    sides, views : sequence of str
        "Stereo_Left", "Stereo_Right"; "Omni_F", "Omni_B", "Omni_L", "Omni_R".
    size, on_error
        As in :func:`open_folders`.
    """
    frames: Frames | None = None
    for condition in conditions:
        for place in (f"{side}/{view}" for side in sides for view in views):
            drive = Path(root) / f"SYNTHIA-SEQS-{sequence}-{condition}"
            depth = drive / "Depth" / place
            part = open_folders(
                drive / "RGB" / place,
                drive / "GT/LABELS" / place,
                depth if depth.is_dir() else None,
                classes=SEQUENCE_CLASSES,
                size=size,
                depth_format="cm16",
                on_error=on_error,
            )
            named = tuple(f._replace(name=f"{condition}/{place}/{f.name}") for f in part.files)
            previous = () if frames is None else frames.files
            frames = replace(part, files=(*previous, *named), _kept={})
    if frames is None:
        raise OptionError(
            [
                Argument("conditions"),
                ", ",
                Argument("sides"),
                " and ",
                Argument("views"),
                " must name at least one drive.",
            ],
            got="an empty list",
            remedy=["Pass for example ", Setting("conditions", ["SUMMER"]), "."],
        )
    return frames


def _listed(kind: str, folder: Path) -> dict[str, Path]:
    paths = {p.stem: p for p in folder.glob("*") if p.suffix.lower() in SUFFIXES}
    if not paths:
        raise FileFormatError(
            argument=kind,
            rule="must be a folder of images",
            got=f"{str(folder)!r}, which has none",
            remedy="Pass the folder that holds the files.",
        )
    return paths


def _paired(
    listings: Mapping[str, Mapping[str, Path]], folders: Mapping[str, Path]
) -> tuple[tuple[FrameFiles, ...], list[str]]:
    """Return the complete frames, and an error message for each incomplete frame."""
    names = sorted({name for listing in listings.values() for name in listing}, key=_in_order)
    complete, broken = [], []
    for name in names:
        missing = [kind for kind, listing in listings.items() if name not in listing]
        if missing:
            broken.append(
                f"Every frame must have its {', '.join(listings)}. Got {name!r}, which is not in "
                f"{str(folders[missing[0]])!r}."
            )
        else:
            complete.append(
                FrameFiles(name, **{kind: each[name] for kind, each in listings.items()})
            )
    return tuple(complete), broken


def _in_order(name: str) -> tuple[object, ...]:
    """Sort by the numbers in a name: frame 9 comes before frame 10."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), part) if i % 2 else part for i, part in enumerate(parts))


def _without_broken(frames: Frames, broken: Sequence[str]) -> Frames:
    """Read all frames, and warn about those that are left out."""
    kept: list[int] = []
    reasons: list[str | RepriorError] = list(broken)
    for i in range(len(frames)):
        try:
            frames[i]
        except RepriorError as error:
            if isinstance(error, FileFormatError):
                error = error.mapped(lambda part: part)
                error.remedy = ""  # it suggests skipping the frame, which has happened
            reasons.append(error)
        else:
            kept.append(i)
    for reason in reasons:
        warn(["A frame is left out. ", reason])
    if not kept:
        raise FileFormatError(
            ["At least one frame must be complete. ", f"Got none of {len(reasons)}. ", reasons[0]]
        )
    return frames.subset(kept)
