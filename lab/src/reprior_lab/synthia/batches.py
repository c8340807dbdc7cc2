"""Training batches: parts of frames as normalised colour or coded depth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reprior.core import check_choice
from reprior.exceptions import OptionError, Setting
from reprior.torch.losses import IGNORE_INDEX
from reprior_lab.data.folder import MEAN, STD
from reprior_lab.synthia.frames import IGNORED, Frame, Frames
from reprior_lab.synthia.settings import DEPTH_CODES, MODALITIES, NetworkSettings

__all__ = [
    "batch_of",
    "batches",
    "grey_depth",
    "jet",
    "log_depth",
    "n_batches",
    "n_channels",
    "network_input",
    "random_part",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: Means and deviations (RGB, from 0 to 1) of colour and of depth in JET's colours. "synthia" has
#: those of the training frames of SYNTHIA-Sequences, from the authors' public code.
MOMENTS: dict[str, dict[str, tuple[Array, Array]]] = {
    "imagenet": dict.fromkeys(MODALITIES, (np.array(MEAN), np.array(STD))),
    "synthia": {
        "rgb": (
            np.array([71.238, 62.204, 55.099]) / 255.0,
            np.array([55.364, 51.497, 49.561]) / 255.0,
        ),
        "depth": (
            np.array([15.806, 1.808, 130.356]) / 255.0,
            np.array([34.198, 10.479, 46.931]) / 255.0,
        ),
    },
}

#: Range in metres of the logarithm of depth; the sky is at its end.
NEAR, FAR = 1.0, 1000.0

#: Purposes of random numbers; each has its own generator.
ORDER, PARTS, WEIGHTS, NETWORK = range(4)

#: Ranges of the augmentation: zoom, on a logarithmic scale; brightness, contrast and
#: colourfulness, as shares; and the exponent of the gamma curve.
ZOOM, LIGHT, GAMMA = (0.95, 1.5), 0.3, (0.75, 4.0 / 3.0)

#: Depths from this many metres on are sky, which a zoom does not bring nearer.
SKY = 999.0


def network_input(
    frame: Frame, modality: str, depth_code: str = "log", normalization: str = "imagenet"
) -> Array:
    """Return the input of a network, float32 (H, W, C), of about zero mean and unit deviation.

    Examples
    --------
    >>> depth = np.array([[1.0, 1000.0]], np.float32)
    >>> frame = Frame("a", np.zeros((1, 2, 3), np.uint8), depth, np.zeros((1, 2), np.uint8))
    >>> network_input(frame, "depth")[..., 0]
    array([[-2.,  2.]], dtype=float32)
    """
    check_choice("modality", modality, MODALITIES)
    if modality == "rgb":
        return _normalised(frame.rgb, modality, normalization)
    check_choice("depth_code", depth_code, DEPTH_CODES)
    if frame.depth is None:
        raise OptionError(
            argument="modality",
            rule="must be one that the frames have",
            got=f"'depth', and frame {frame.name!r} has none",
            remedy=[
                "Open the frames with their depth folder, or take ",
                Setting("modality", "rgb"),
                ".",
            ],
        )
    if depth_code == "jet8":
        return _normalised(jet(grey_depth(frame.depth) / 255.0), modality, normalization)
    share = log_depth(frame.depth)
    if depth_code == "jet":
        return _normalised(jet(share), modality, normalization)
    return (4.0 * share - 2.0)[..., None]


def n_channels(modality: str, depth_code: str = "log") -> int:
    """Return the channels of a network's input.

    Examples
    --------
    >>> n_channels("rgb"), n_channels("depth"), n_channels("depth", "jet")
    (3, 1, 3)
    """
    return 1 if modality == "depth" and depth_code == "log" else 3


def log_depth(depth: Array) -> Array:
    """Return depth between 1 m and 1000 m on a logarithmic scale from 0 to 1.

    Examples
    --------
    >>> log_depth(np.array([0.5, 10.0, 1000.0], np.float32))
    array([0. , 0.333, 1. ], dtype=float32)
    """
    # 0 in a file means no echo, so the largest depth.
    metres = np.where(depth > 0, np.clip(depth, NEAR, FAR), FAR)
    share: Array = (np.log(metres) / math.log(FAR / NEAR)).astype(np.float32)
    return share


def grey_depth(depth: Array) -> Array:
    """Return depth as a grey of eight bits: the upper half of sixteen bits of centimetres.

    Image readers return this for the depth files of SYNTHIA-Sequences if asked for eight bits. A
    step is 2.56 m, and 255 is 652.8 m and beyond.

    Examples
    --------
    >>> grey_depth(np.array([0.0, 2.55, 2.56, 100.0, 1000.0], np.float32))
    array([  0,   0,   1,  39, 255], dtype=uint8)
    """
    centimetres = np.minimum(np.rint(100.0 * depth.astype(np.float64)), 65_535)
    grey: Array = (centimetres.astype(np.uint16) >> 8).astype(np.uint8)
    return grey


def jet(share: Array) -> Array:
    """Return the colours of the map JET, uint8 (…, 3), of values 0 (blue) to 1 (red).

    Each channel is a trapezium: it rises over a quarter of the range, stays, and falls over a
    quarter. Values are first rounded to eight bits, as in depth images.

    Examples
    --------
    >>> jet(np.array([0.0, 0.5, 1.0]))
    array([[  0,   0, 127],
           [129, 255, 125],
           [127,   0,   0]], dtype=uint8)
    """
    steps = np.rint(255.0 * np.clip(share, 0.0, 1.0)) / 255.0
    centres = np.array([0.75, 0.5, 0.25])
    channels = np.clip(1.5 - 4.0 * np.abs(steps[..., None] - centres), 0.0, 1.0)
    colours: Array = (255.0 * channels).astype(np.uint8)
    return colours


def _normalised(colour: Array, modality: str, normalization: str) -> Array:
    mean, deviation = MOMENTS[normalization][modality]
    scale = (1.0 / (255.0 * deviation)).astype(np.float32)
    shift = (mean / deviation).astype(np.float32)
    normalised: Array = colour.astype(np.float32) * scale - shift
    return normalised


def batches(
    frames: Frames, settings: NetworkSettings, epoch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of an epoch: inputs (n, C, h, w) and labels (n, h, w), −100 for none.

    They depend only on the seed and the index of the epoch. Their number is :func:`n_batches`.
    """
    order = _random(settings.seed, epoch, ORDER).permutation(len(frames))
    rng = _random(settings.seed, epoch, PARTS)
    for number in range(n_batches(len(frames), settings)):
        index = order[number * settings.batch_size : (number + 1) * settings.batch_size]
        parts = [random_part(frames[int(i)], settings.crop, rng, settings.augment) for i in index]
        yield batch_of(parts, settings)


def n_batches(n_frames: int, settings: NetworkSettings) -> int:
    """Return how many batches an epoch has.

    If the network cannot be trained on a batch of one frame, a last batch of one is left out, as
    in the authors' public code. The order changes with the epoch, and so does the omitted frame.

    Examples
    --------
    >>> n_batches(9, NetworkSettings(batch_size=4))
    3
    >>> n_batches(9, NetworkSettings(batch_size=4, model="deeplabv3plus-resnet18"))
    2
    """
    n_full, rest = divmod(n_frames, settings.batch_size)
    found = n_full + (rest >= settings.least_batch if rest else 0)
    if not found:
        raise OptionError(
            f"The training part must have at least {settings.least_batch} frames for "
            f"{settings.model!r}. Got {n_frames}. Take a longer drive."
        )
    return found


def batch_of(frames: list[Frame], settings: NetworkSettings) -> tuple[Tensor, Tensor]:
    """Return frames of one size as a network's input, channels last in memory."""
    coded = (settings.modality, settings.depth_code, settings.normalization)
    pictures = [network_input(frame, *coded) for frame in frames]
    labels = np.stack([frame.labels for frame in frames]).astype(np.int64)
    labels[labels == IGNORED] = IGNORE_INDEX
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2), torch.from_numpy(labels)


def random_part(
    frame: Frame, crop: tuple[int, int], rng: np.random.Generator, augment: str = "full"
) -> Frame:
    """Return a random part of a frame, of the size ``crop``.

    The part keeps its aspect ratio, and neither side is larger than the frame's.

    Parameters
    ----------
    frame : Frame
        The whole frame.
    crop : (int, int)
        Height and width of the part.
    rng : Generator
        The random generator.
    augment : {"full", "flip", "none"}, default "full"
        "full" zooms in by up to 1.5; changes brightness, contrast and colourfulness by up to 30 %
        and the middle tones by a gamma between 3/4 and 4/3, which imitates another exposure, not
        weather; and mirrors half of the parts. "flip" only mirrors. "none" does none of this: the
        part of a frame of the size ``crop`` is the frame.

    Notes
    -----
    Depth is divided by the zoom: larger objects are nearer. Smaller frames are zoomed to fill
    ``crop``.
    """
    height, width = frame.labels.shape
    largest = min(height / crop[0], width / crop[1])
    zoom = np.exp(rng.uniform(*np.log(ZOOM))) if augment == "full" else 1.0
    share = min(1.0 / zoom, largest)
    h, w = share * crop[0], share * crop[1]
    top, left = rng.uniform(0, height - h), rng.uniform(0, width - w)
    if augment != "full" and share == 1.0:
        top, left = float(round(top)), float(round(left))  # whole pixels: nothing is interpolated
    rows = np.minimum(top + (np.arange(crop[0]) + 0.5) * share, height - 1).astype(np.int64)
    columns = np.minimum(left + (np.arange(crop[1]) + 0.5) * share, width - 1).astype(np.int64)
    from PIL import Image

    box = (left, top, left + w, top + h)
    rgb = np.asarray(
        Image.fromarray(frame.rgb).resize(crop[::-1], Image.Resampling.BILINEAR, box=box)
    )
    if augment == "full":
        rgb = _in_other_light(rgb, rng)
    if augment != "none" and rng.random() < 0.5:
        rgb, columns = rgb[:, ::-1], columns[::-1]
    depth = frame.depth
    if depth is not None:
        depth = depth[rows[:, None], columns]
        depth = np.where(depth < SKY, depth * np.float32(share), depth)
    return Frame(frame.name, rgb, depth, frame.labels[rows[:, None], columns])


def _in_other_light(rgb: Array, rng: np.random.Generator) -> Array:
    gamma = np.exp(rng.uniform(*np.log(GAMMA)))
    colour = ((255.0 * (np.arange(256) / 255.0) ** gamma).astype(np.float32))[rgb]
    brightness, contrast, saturation = rng.uniform(1.0 - LIGHT, 1.0 + LIGHT, 3).astype(np.float32)
    grey = colour.mean(axis=2, keepdims=True)
    colour = grey + saturation * (colour - grey)
    middle = colour.mean()
    colour = brightness * (middle + contrast * (colour - middle))
    found: Array = np.clip(colour, 0.0, 255.0).astype(np.uint8)
    return found


def _random(seed: int, epoch: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, epoch, purpose])
