"""Light on surfaces: clouds, night, wet roads, snow and leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from reprior.experiments.synthia.optics import (
    FOCAL,
    Scene,
    blurred,
    luminance,
    mixed,
    patches,
    smoothstep,
)

__all__ = [
    "HALOGEN",
    "at_night",
    "leaf_litter",
    "overcast",
    "snow_cover",
    "turned_leaves",
    "wet_ground",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: Colours of linear light: lamps of sodium, headlights, the night sky over a town, moonlight.
SODIUM, HALOGEN, TOWN_SKY, MOON = np.array(
    [[1.0, 0.62, 0.28], [1.0, 0.88, 0.7], [1.0, 0.8, 0.75], [0.7, 0.8, 1.0]], np.float32
)

#: Metres from one fallen leaf to the next, and their colours.
LEAF = 0.08
LEAVES = np.array([[0.45, 0.16, 0.03], [0.35, 0.09, 0.02], [0.5, 0.3, 0.05], [0.2, 0.08, 0.03]])


def overcast(scene: Scene, amount: float, sky: float = 0.5) -> Scene:
    """Return the scene under clouds: even light, pale colours, a grey sky.

    Shadows are lifted by dividing by the light that falls on a neighbourhood, which is a wide mean
    of the logarithm of brightness over what is not sky.
    """
    amount = min(amount, 1.0)
    width = scene.depth.shape[1]
    solid = (~scene.sky).astype(np.float32)
    dark = np.log(luminance(scene.light) + 0.01)
    weight = blurred(solid, width / 16) + 1e-3  # nowhere 0: far inside the sky it is not used
    local = blurred(dark * solid, width / 16) / weight
    middle = float(dark[~scene.sky].mean()) if (~scene.sky).any() else 0.0
    even = scene.light * np.exp(0.75 * amount * (middle - local))[..., None]
    even = mixed(even, luminance(even)[..., None], np.full(solid.shape, 0.35 * amount))
    rows = np.linspace(0.8, 1.0, len(solid), dtype=np.float32)[:, None]
    grey = sky * rows * (0.9 + 0.2 * blurred(luminance(scene.light), width / 30))
    above = mixed(scene.light, grey[..., None] * np.array([0.96, 0.99, 1.03]), amount * (1 - solid))
    return replace(scene, light=np.where(scene.sky[..., None], above, even).astype(np.float32))


def wet_ground(scene: Scene, amount: float, rng: np.random.Generator) -> tuple[Scene, Array]:
    """Return the scene with a wet ground, and the share of light that it mirrors, (H, W).

    Water in the pores makes it darker; its film mirrors by Fresnel's law (Schlick's form) what is
    as high above the horizon as the ground is below, blurred by ripples.
    """
    height, width = scene.depth.shape
    amount = min(amount, 1.0)
    y = (np.arange(height, dtype=np.float32)[:, None] - height / 2) / (FOCAL * width)
    x = (np.arange(width, dtype=np.float32)[None, :] - width / 2) / (FOCAL * width)
    cosine = np.clip(y, 0.0, None) / np.sqrt(x * x + y * y + 1.0)
    fresnel = 0.02 + 0.98 * (1.0 - cosine) ** 5
    film = smoothstep(0.2, 0.7, patches((height, width), width / 10, rng))
    share = amount * scene.ground * fresnel * (0.35 + 0.5 * film)
    mirror = np.clip(height - np.arange(height), 0, height - 1)
    seen = blurred(blurred(scene.light[mirror], height / 12, (0,)), width / 80, (1,))
    dark = scene.light * (1.0 - 0.5 * amount * scene.ground)[..., None]
    return replace(scene, light=mixed(dark, seen, share).astype(np.float32)), share


def at_night(scene: Scene, amount: float, rng: np.random.Generator) -> tuple[Scene, float]:
    """Return the scene lit by headlights and street lamps, and how far it had to be amplified.

    Light falls off with the square of distance and with the angle to the surface. A camera opens
    up until the brightest places are well exposed, but not without end.
    """
    flat = overcast(scene, 1.0)
    colour = np.clip(flat.light, 0.0, 0.9)
    street, glow = np.zeros((2, *scene.depth.shape), np.float32)
    for lamp in _lamps(scene, rng):
        street += _from_lamp(scene, lamp)
        glow += _glow(scene, lamp)
    lit = 0.0015 * MOON + _headlights(scene)[..., None] * HALOGEN + street[..., None] * SODIUM
    light = colour * lit
    rows = np.linspace(0.3, 1.0, len(colour), dtype=np.float32)[:, None, None]
    light = np.where(scene.sky[..., None], 0.004 * rows * TOWN_SKY, light)
    light = light + glow[..., None] * (0.4 * SODIUM + 0.6)
    exposure = min(6.0, 0.35 / max(float(np.quantile(luminance(light), 0.97)), 1e-3)) / amount
    return replace(scene, light=(exposure * light).astype(np.float32)), exposure * 3.0


def _headlights(scene: Scene) -> Array:
    right, down, ahead = (scene.points[..., i] for i in range(3))
    distance = np.sqrt(right**2 + down**2 + ahead**2)
    beam = np.exp(-((right / ahead / 0.35) ** 2)) * (0.06 + smoothstep(-0.02, 0.06, down / ahead))
    facing = np.abs((scene.normals * scene.points).sum(axis=-1)) / distance
    found: Array = 45.0 * beam * (0.1 + 0.9 * facing) / (distance**2 + 9.0)
    return found


def _lamps(scene: Scene, rng: np.random.Generator) -> list[Array]:
    """Street lamps on both sides: metres right, down and ahead."""
    top, start = scene.camera_height - 6.5, rng.uniform(6.0, 22.0)
    places = [
        (side * (7.0 + rng.uniform(-0.5, 0.5)), top, start + 24.0 * i + 12.0 * (side > 0))
        for i in range(6)
        for side in (-1, 1)
    ]
    return list(np.array(places, np.float32))


def _from_lamp(scene: Scene, lamp: Array) -> Array:
    way = lamp - scene.points
    square = np.einsum("ijk,ijk->ij", way, way)
    towards = np.einsum("ijk,ijk->ij", way, scene.normals)
    facing = np.clip(towards, 0.0, None) / np.sqrt(square)
    below = smoothstep(-0.5, 2.0, scene.points[..., 1] - lamp[1])
    found: Array = np.where(scene.sky, 0.0, 22.0 * below * (0.15 + facing) / (square + 4.0))
    return found


def _glow(scene: Scene, lamp: Array) -> Array:
    """A lamp itself, with the bloom of a lens, where nothing is before it."""
    height, width = scene.depth.shape
    column = width / 2 + FOCAL * width * lamp[0] / lamp[2]
    row = height / 2 + FOCAL * width * lamp[1] / lamp[2]
    if not (0 <= row < height and 0 <= column < width):
        return np.zeros((height, width), np.float32)
    if scene.depth[int(row), int(column)] < lamp[2]:
        return np.zeros((height, width), np.float32)
    size = max(0.35 * FOCAL * width / lamp[2], 0.6 * width / 240)
    rows, columns = np.arange(height, dtype=np.float32), np.arange(width, dtype=np.float32)
    away = (rows[:, None] - row) ** 2 + (columns - column) ** 2
    disc = np.exp(-away / size**2) + 0.03 * np.exp(-np.sqrt(away) / (4.0 * size))
    found: Array = (1.5 * disc).astype(np.float32)
    return found


def snow_cover(scene: Scene, amount: float, rng: np.random.Generator) -> Scene:
    """Return the scene with snow on what faces upwards, thinner where wheels have run.

    Snow takes the light and shade that were on the ground: white in the sun, bluish in the shade.
    """
    shape = scene.depth.shape
    lying = smoothstep(0.45, 0.8, scene.up) * (1.0 - np.exp(-3.0 * amount))
    thin = smoothstep(0.15, 0.45, patches(shape, shape[1] / 12, rng) + 0.3 * (amount - 1.0))
    right = scene.points[..., 0]
    wheels = sum(
        np.exp(-(((right - lane - side) / 0.3) ** 2))
        for lane in (0.0, -3.5)
        for side in (-0.8, 0.8)
    )
    cover = lying * (0.55 + 0.45 * thin) * (1.0 - 0.75 * scene.ground * np.minimum(wheels, 1.0))
    bright = blurred(luminance(scene.light), shape[1] / 60)
    level = bright[scene.ground > 0.5]
    sunny = float(np.quantile(level, 0.85)) if level.size else float(bright.mean())
    shade = np.clip(bright / max(sunny, 1e-3), 0.2, 1.0)[..., None]
    tint = shade * np.array([1.0, 0.97, 0.93]) + (1.0 - shade) * np.array([0.8, 0.9, 1.08])
    white = 0.78 * shade * tint * (0.94 + 0.06 * rng.random((*shape, 1)))
    return replace(scene, light=mixed(scene.light, white, cover).astype(np.float32))


def leaf_litter(scene: Scene, amount: float, rng: np.random.Generator) -> Scene:
    """Return the scene with fallen leaves on the ground, in drifts."""
    shape = scene.depth.shape
    right, ahead = scene.points[..., 0], scene.points[..., 2]
    chance = _hashed(right, ahead, LEAF, int(rng.integers(1 << 30)))
    which = (_hashed(right, ahead, LEAF, int(rng.integers(1 << 30))) * len(LEAVES)).astype(np.int64)
    drifts = smoothstep(0.5, 0.85, patches(shape, shape[1] / 8, rng))
    density = np.minimum(0.85, amount * (0.06 + 0.5 * drifts))
    # Where a pixel is wider than a leaf, it has leaves in it by their density.
    blur = smoothstep(0.3, 1.2, ahead / (FOCAL * shape[1]) / LEAF)
    there = (chance < density) * (1.0 - blur) + density * blur
    colour = LEAVES[which] * (1.0 - blur[..., None]) + LEAVES.mean(axis=0) * blur[..., None]
    bright = blurred(luminance(scene.light), shape[1] / 60)[..., None]
    shown = np.clip(bright / 0.2, 0.15, 1.2) * colour
    cover = there * scene.ground
    return replace(scene, light=mixed(scene.light, shown, cover).astype(np.float32))


def turned_leaves(scene: Scene, amount: float) -> Scene:
    """Return the scene with green turned to orange and brown."""
    red, green, blue = (scene.light[..., i] for i in range(3))
    leafy = smoothstep(1.05, 1.4, green / np.maximum(np.maximum(red, blue), 1e-3))
    orange = luminance(scene.light)[..., None] * np.array([2.2, 0.75, 0.2])
    share = np.minimum(1.0, amount) * leafy * (~scene.sky)
    return replace(scene, light=mixed(scene.light, orange, share).astype(np.float32))


def _hashed(right: Array, ahead: Array, cell: float, seed: int) -> Array:
    """A random number for every square of the ground, the same wherever it is seen."""
    i = np.floor(np.clip(right, -1e4, 1e4) / cell).astype(np.int64)
    j = np.floor(np.clip(ahead, 0.0, 1e4) / cell).astype(np.int64)
    mixed_up: Any = (i * 73856093) ^ (j * 19349663) ^ (seed * 83492791)
    mixed_up = (mixed_up ^ (mixed_up >> 13)) * 0x5BD1E995
    found: Array = ((mixed_up ^ (mixed_up >> 15)) & 0xFFFF) / float(0x10000)
    return found
