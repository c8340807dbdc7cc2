"""Training batches: random parts of frames, mirrored, zoomed and in other light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reprior.exceptions import require
from reprior.experiments.synthia.frames import IGNORED, Frame, Frames
from reprior.experiments.synthia.inputs import network_input
from reprior.torch.losses import IGNORED as LEFT_OUT

if TYPE_CHECKING:
    from reprior.experiments.synthia.settings import NetworkSettings

__all__ = ["batch_of", "batches", "random_part"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Purposes that random numbers are drawn for, each with a generator of its own.
ORDER, PARTS, WEIGHTS, NETWORK = range(4)

#: A part is seen this many times as large, on a logarithmic scale; and in this much other light:
#: brightness, contrast and colourfulness by a share, and the curve of the film by an exponent.
ZOOM, LIGHT, GAMMA = (0.95, 1.5), 0.3, (0.75, 4.0 / 3.0)

#: Metres from which on depth is sky, which zooming in does not bring nearer.
SKY = 999.0


def batches(
    frames: Frames, settings: NetworkSettings, epoch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Give the batches of an epoch: inputs (n, C, h, w) and labels (n, h, w), −100 for none.

    They depend on nothing but the seed and the epoch's number.
    """
    order = _random(settings.seed, epoch, ORDER).permutation(len(frames))
    rng = _random(settings.seed, epoch, PARTS)
    for start in range(0, len(order), settings.batch_size):
        index = order[start : start + settings.batch_size]
        yield batch_of([random_part(frames[int(i)], settings.crop, rng) for i in index], settings)


def batch_of(frames: list[Frame], settings: NetworkSettings) -> tuple[Tensor, Tensor]:
    """Return frames of one size as a network takes them, in memory channels last."""
    pictures = [network_input(f, settings.modality, settings.depth_code) for f in frames]
    labels = np.stack([frame.labels for frame in frames]).astype(np.int64)
    labels[labels == IGNORED] = LEFT_OUT
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2), torch.from_numpy(labels)


def random_part(frame: Frame, crop: tuple[int, int], rng: np.random.Generator) -> Frame:
    """Return a random part of a frame, scaled to ``crop``.

    A part may be larger than the frame in neither direction, keeps the ratio of its sides, and is
    mirrored half of the time. Depth is divided by the zoom: what is seen larger is nearer.
    Brightness, contrast and colourfulness change by up to 30 %, and the middle tones by a gamma
    between 3/4 and 4/3. That is another exposure of the same day; it is no weather.
    """
    height, width = frame.labels.shape
    largest = min(height / crop[0], width / crop[1])
    zoom = np.exp(rng.uniform(*np.log(ZOOM)))
    share = min(1.0 / zoom, largest)
    h, w = share * crop[0], share * crop[1]
    top, left = rng.uniform(0, height - h), rng.uniform(0, width - w)
    rows = np.minimum(top + (np.arange(crop[0]) + 0.5) * share, height - 1).astype(np.int64)
    columns = np.minimum(left + (np.arange(crop[1]) + 0.5) * share, width - 1).astype(np.int64)
    pillow = require("PIL.Image", extra="experiments", purpose="To read images")
    box = (left, top, left + w, top + h)
    rgb = np.asarray(
        pillow.fromarray(frame.rgb).resize(crop[::-1], pillow.Resampling.BILINEAR, box=box)
    )
    rgb = _in_other_light(rgb, rng)
    if rng.random() < 0.5:
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
