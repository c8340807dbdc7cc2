"""What a network sees of a frame: normalised colour, or depth as a logarithm or as colour."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import OptionError
from reprior.experiments.data.folder import MEAN, STD
from reprior.experiments.synthia.frames import Frame

__all__ = ["DEPTH_CODES", "MODALITIES", "jet", "log_depth", "n_channels", "network_input"]

Array: TypeAlias = np.ndarray[Any, Any]

MODALITIES = ("rgb", "depth")

#: How depth goes in: the logarithm of metres, or that in the colours of the map JET.
DEPTH_CODES = ("log", "jet")

#: Metres that the logarithm is taken between; the sky is at the end.
NEAR, FAR = 1.0, 1000.0


def network_input(frame: Frame, modality: str, depth_code: str = "log") -> Array:
    """Return the input of a network, float32 (H, W, C): values about 0, of about unit spread.

    Examples
    --------
    >>> depth = np.array([[1.0, 1000.0]], np.float32)
    >>> frame = Frame("a", np.zeros((1, 2, 3), np.uint8), depth, np.zeros((1, 2), np.uint8))
    >>> network_input(frame, "depth")[..., 0]
    array([[-2.,  2.]], dtype=float32)
    """
    check_choice("modality", modality, MODALITIES)
    if modality == "rgb":
        return _normalised(frame.rgb)
    check_choice("depth_code", depth_code, DEPTH_CODES)
    if frame.depth is None:
        raise OptionError(
            f"`modality` must be one that the frames have. Got 'depth', and frame {frame.name!r} "
            f"has none. Open the frames with their depth folder, or take modality='rgb'."
        )
    share = log_depth(frame.depth)
    if depth_code == "jet":
        return _normalised(jet(share))
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
    """Return the place of depth between 1 m and 1000 m on a logarithmic scale, 0 to 1.

    Examples
    --------
    >>> log_depth(np.array([0.5, 10.0, 1000.0], np.float32))
    array([0. , 0.333, 1. ], dtype=float32)
    """
    # No echo at all is as far as can be seen; 0 in a file means that.
    metres = np.where(depth > 0, np.clip(depth, NEAR, FAR), FAR)
    share: Array = (np.log(metres) / math.log(FAR / NEAR)).astype(np.float32)
    return share


def jet(share: Array) -> Array:
    """Return the colours of the map JET, uint8 (…, 3), of values 0 (blue) to 1 (red).

    Each channel is a trapezium: it rises over a quarter, stays, and falls over a quarter. Values
    are rounded to eight bits first, as pictures of depth have them.

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
    found: Array = (255.0 * channels).astype(np.uint8)
    return found


def _normalised(colour: Array) -> Array:
    scale = (1.0 / (255.0 * np.array(STD))).astype(np.float32)
    shift = (np.array(MEAN) / np.array(STD)).astype(np.float32)
    found: Array = colour.astype(np.float32) * scale - shift
    return found
