"""Drops and flakes in the air, for a camera and for a sensor of depth."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from reprior.experiments.synthia.optics import FOCAL, Scene, blurred, luminance

__all__ = ["NO_ECHO", "falling_snow", "rain_streaks", "sensed_depth"]

Array: TypeAlias = np.ndarray[Any, Any]

#: What a sensor says where nothing comes back, metres.
NO_ECHO = 1000.0

#: Distances in metres that drops and flakes are drawn at, and how many at each in heavy weather.
LAYERS = ((1.2, 14), (2.5, 60), (5.0, 240), (10.0, 900))

#: Metres that a drop, and a flake, moves while the shutter is open.
DROP_PATH, FLAKE_PATH = 0.35, 0.04

#: Metres across, the streak of a drop and a flake, as bright as they look.
DROP_SIZE, FLAKE_SIZE = 0.006, 0.02


def rain_streaks(scene: Scene, amount: float, rng: np.random.Generator) -> Array:
    """Return how much of each pixel drops in the air cover, (H, W) from 0 to 1.

    Drops at some distance are seen only where the scene is farther.
    """
    lean = rng.normal(0.0, 0.15)
    return _in_the_air(scene, amount, DROP_SIZE, DROP_PATH, lean, rng)


def falling_snow(scene: Scene, amount: float, rng: np.random.Generator) -> Array:
    """Return how much of each pixel flakes in the air cover, (H, W) from 0 to 1."""
    lean = rng.normal(0.0, 0.6)
    return _in_the_air(scene, amount, FLAKE_SIZE, FLAKE_PATH, lean, rng)


def _in_the_air(
    scene: Scene, amount: float, size: float, path: float, lean: float, rng: np.random.Generator
) -> Array:
    height, width = scene.depth.shape
    focal = FOCAL * width
    clear = np.ones((height, width), np.float32)
    for distance, number in LAYERS:
        across, along = size * focal / distance, path * focal / distance
        layer = np.zeros((height, width), np.float32)
        n = rng.poisson(amount * number)
        rows, columns = rng.integers(0, height, n), rng.integers(0, width, n)
        # What is smaller than a pixel covers a part of it.
        cover = rng.uniform(0.4, 1.0, n) * min(1.0, across)
        np.maximum.at(layer, (rows, columns), cover.astype(np.float32))
        layer = _smeared(layer, along, lean)
        if across > 1.0:
            layer = np.minimum(1.0, across * blurred(layer, across))
        clear *= 1.0 - np.where(scene.depth > distance, layer, 0.0)
    covered: Array = 1.0 - clear
    return covered


def _smeared(layer: Array, along: float, lean: float) -> Array:
    """Draw every point out into a line that falls, leaning to a side."""
    found = layer.copy()
    for step in range(1, round(along) + 1):
        sideways = round(step * lean)
        moved = np.roll(layer, (step, sideways), axis=(0, 1))
        moved[:step] = 0.0
        np.maximum(found, moved, out=found)
    return found


def sensed_depth(
    scene: Scene,
    rng: np.random.Generator,
    *,
    extinction: float = 0.0,
    clutter: float = 0.0,
    mirror: Any = 0.0,
) -> Array:
    r"""Return the depth that a sensor with a light of its own reports.

    An echo is found where

    .. math:: 2 \ln(d_0 / d) + \ln(ρ / ρ_0) - m + ε > 2 β d

    with depth d, the range d₀ of 1000 m in clear air, reflectivity ρ over that of a middle grey,
    m the part that a wet ground throws away, β the extinction, and ε noise of half a neper. Where
    none is found, d₀ is reported. Some pixels, a share of ``clutter``, have an echo of a drop or
    a flake a few metres ahead instead; and the range is blurred by 0.5 % per unit of clutter
    percent.

    Parameters
    ----------
    scene : Scene
        The scene.
    rng : Generator
        Random numbers.
    extinction : float, default 0
        β, per metre.
    clutter : float, default 0
        Share of the pixels.
    mirror : float or (H, W), default 0
        m, in nepers.
    """
    depth, shape = scene.depth, scene.depth.shape
    reflectivity = np.log(np.clip(luminance(scene.light), 0.02, 1.0) / 0.18)
    noise = 0.5 * rng.standard_normal(shape, np.float32)
    left = 2.0 * np.log(NO_ECHO / np.clip(depth, 0.1, NO_ECHO)) + reflectivity - mirror + noise
    found = np.where(left > 2.0 * extinction * depth, depth, NO_ECHO)
    found = found * np.exp(0.5 * clutter * rng.standard_normal(shape, np.float32))
    near = rng.gamma(2.0, 2.0, shape) + 1.0
    hit = (rng.random(shape) < clutter) & (near < depth)
    found = np.where(hit, near, np.where(scene.sky, NO_ECHO, np.minimum(found, NO_ECHO)))
    return found.astype(np.float32)


def visibility(metres: float) -> float:
    """Return the extinction per metre at which contrast falls to 2 % at a distance.

    Examples
    --------
    >>> round(visibility(100.0), 4)
    0.0391
    """
    return -math.log(0.02) / metres
