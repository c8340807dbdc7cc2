"""Simulate weather on frames from their depth.

Light is linear: twice the value is twice the light. Images are float32 (H, W, 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core import check_choice, check_finite_number
from reprior.exceptions import OptionError
from reprior_lab.synthia.frames import Frame

__all__ = [
    "CONDITIONS",
    "FAR",
    "HALOGEN",
    "NO_ECHO",
    "Scene",
    "apply_weather",
    "at_night",
    "blurred",
    "falling_snow",
    "from_linear",
    "leaf_litter",
    "luminance",
    "mixed",
    "overcast",
    "patches",
    "rain_streaks",
    "scene_of",
    "sensed_depth",
    "sensor_noise",
    "smoothstep",
    "snow_cover",
    "to_linear",
    "turned_leaves",
    "veiled",
    "wet_ground",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: Depths from this many metres on are sky.
FAR = 900.0

#: Focal length over image width of SYNTHIA's cameras: 848 of 1920 and 533 of 1280 pixels.
FOCAL = 0.43

#: The largest relative step of inverse depth that is not an edge.
STEP = 0.06

#: The camera's height above the road in metres, if no road is visible to measure it.
CAMERA_HEIGHT = 1.5

_BYTES = np.arange(256) / 255.0
_LINEAR = np.where(_BYTES <= 0.04045, _BYTES / 12.92, ((_BYTES + 0.055) / 1.055) ** 2.4).astype(
    np.float32
)


@dataclass(frozen=True, eq=False)
class Scene:
    """The geometry and light of a frame.

    Parameters
    ----------
    light : float32 (H, W, 3)
        Linear colour.
    depth : float32 (H, W)
        Metres along the optical axis.
    sky : bool (H, W)
        Whether a pixel is sky.
    points : float32 (H, W, 3)
        Metres to the right, down and ahead of the camera.
    normals : float32 (H, W, 3)
        Unit vectors off the surface, towards the camera.
    camera_height : float
        Metres above the road.
    """

    light: Array
    depth: Array
    sky: Array
    points: Array
    normals: Array
    camera_height: float

    @property
    def up(self) -> Array:
        """How much each surface faces upwards, 0 to 1; 0 in the sky."""
        up: Array = np.where(self.sky, 0.0, np.clip(-self.normals[..., 1], 0.0, 1.0))
        return up.astype(np.float32)

    @property
    def ground(self) -> Array:
        """The share of road, or of a surface level with it, in each pixel, 0 to 1."""
        low = smoothstep(0.6, 0.9, self.points[..., 1] / self.camera_height)
        ground: Array = smoothstep(0.6, 0.9, self.up) * low
        return ground


def scene_of(rgb: Array, depth: Array) -> Scene:
    r"""Return the scene of a frame, with its geometry computed from depth.

    On a plane the inverse depth is linear in the image: with :math:`q = 1 / d` and pixel
    coordinates x and y over the focal length, the normal is proportional to
    :math:`(q_x, q_y, q - x q_x - y q_y)`, which needs no smoothing of distant points.

    Examples
    --------
    >>> rows = np.arange(60, dtype=np.float32)[:, None] - 30 + np.zeros(80, np.float32)
    >>> depth = np.where(rows > 0, 1.5 * 0.43 * 80 / np.maximum(rows, 1), 1000.0)  # a level road
    >>> scene = scene_of(np.zeros((60, 80, 3), np.uint8), depth)
    >>> round(scene.camera_height, 1), round(float(scene.up[50, 40]), 2)
    (1.5, 1.0)
    """
    depth = np.where(depth > 0, depth, 1000.0).astype(np.float32)
    height, width = depth.shape
    focal = FOCAL * width
    x = ((np.arange(width, dtype=np.float32) - width / 2) / focal)[None, :]
    y = ((np.arange(height, dtype=np.float32) - height / 2) / focal)[:, None]
    sharp = 1.0 / depth
    inverse = _smooth(sharp)
    q_y, q_x = (grad * focal for grad in np.gradient(inverse))
    towards = np.stack([-q_x, -q_y, x * q_x + y * q_y - inverse], axis=-1)
    normals = towards / np.linalg.norm(towards, axis=-1, keepdims=True)
    # There is no surface across an edge: pixels there are assumed to face the camera.
    normals[_edges(sharp)] = (0.0, 0.0, -1.0)
    points = np.stack([x * depth, y * depth, depth], axis=-1).astype(np.float32)
    sky = depth >= FAR
    level = (-normals[..., 1] > 0.95) & (points[..., 1] > 0.5) & (depth < 30.0)
    tall = float(np.median(points[..., 1][level])) if level.any() else CAMERA_HEIGHT
    return Scene(to_linear(rgb), depth, sky, points, normals.astype(np.float32), tall)


def _smooth(inverse: Array) -> Array:
    """Smooth the steps of depth stored in few bits; planes and edges stay the same."""
    mean = blurred(inverse, inverse.shape[1] / 60)
    smoothed: Array = np.where(np.abs(mean - inverse) < STEP * inverse, mean, inverse)
    return smoothed


def _edges(inverse: Array) -> Array:
    """Return where the surface ends or bends, bool (H, W): inverse depth is not linear there."""
    edges = np.zeros(inverse.shape, bool)
    for axis in (0, 1):
        around = [(1, 1) if i == axis else (0, 0) for i in (0, 1)]
        bend = np.abs(np.diff(inverse, 2, axis=axis))
        edges |= np.pad(bend, around) > 2.0 * STEP * inverse
    return edges


def to_linear(rgb: Array) -> Array:
    """Return linear light, float32 0 to 1, of sRGB bytes.

    Examples
    --------
    >>> to_linear(np.array([0, 128, 255], np.uint8))
    array([0.   , 0.216, 1.   ], dtype=float32)
    """
    light: Array = _LINEAR[rgb]
    return light


def from_linear(light: Array) -> Array:
    """Return sRGB bytes of linear light.

    Examples
    --------
    >>> from_linear(to_linear(np.arange(256, dtype=np.uint8))).tolist() == list(range(256))
    True
    """
    light = np.clip(light, 0.0, 1.0)
    curved = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.rint(255.0 * curved).astype(np.uint8)


def luminance(light: Array) -> Array:
    """Return the brightness of linear colour, (H, W).

    Examples
    --------
    >>> luminance(np.ones((1, 1, 3), np.float32))
    array([[1.]], dtype=float32)
    """
    brightness: Array = light @ np.array([0.2126, 0.7152, 0.0722], np.float32)
    return brightness


def veiled(light: Array, depth: Array, extinction: float, air: Any) -> Array:
    r"""Return a scene seen through a scattering medium (Koschmieder's law).

    .. math:: I = J\, e^{-β d} + A\, (1 - e^{-β d})

    where J is the scene, d its depth, β the extinction per metre and A the colour of the air.

    Examples
    --------
    >>> veiled(np.zeros((1, 2, 3)), np.array([[0.0, 1e9]]), 0.05, 0.7)[..., 0]
    array([[0. , 0.7]])
    """
    through = np.exp(-extinction * depth)[..., None]
    seen: Array = light * through + np.asarray(air, np.float32) * (1.0 - through)
    return seen


def mixed(below: Array, above: Any, share: Array) -> Array:
    """Return the mix of two images, with ``share`` (H, W) of the upper one."""
    share = np.asarray(share, np.float32)
    mix: Array = below + share[..., None] * (np.asarray(above, np.float32) - below)
    return mix


def smoothstep(low: float, high: float, values: Array) -> Array:
    """Return a smooth rise from 0 at ``low`` to 1 at ``high``.

    Examples
    --------
    >>> smoothstep(0.0, 2.0, np.array([-1.0, 1.0, 3.0]))
    array([0. , 0.5, 1. ])
    """
    place = np.clip((values - low) / (high - low), 0.0, 1.0)
    rise: Array = place * place * (3.0 - 2.0 * place)
    return rise


def blurred(image: Array, width: float, axes: tuple[int, ...] = (0, 1)) -> Array:
    """Return an image blurred over about ``width`` pixels: two running means, edges repeated.

    Examples
    --------
    >>> blurred(np.array([[0.0, 0.0, 9.0, 0.0, 0.0]]), 2.0, (1,))
    array([[1., 2., 3., 2., 1.]], dtype=float32)
    """
    reach = max(0, round(width / 2))
    if not reach:
        return image
    for axis in axes:
        along = np.moveaxis(image, axis, 0)
        around = [(reach + 1, reach), *[(0, 0)] * (image.ndim - 1)]
        for _ in range(2):
            sums = np.cumsum(np.pad(along, around, mode="edge"), axis=0, dtype=np.float64)
            n = 2 * reach + 1
            along = ((sums[n:] - sums[:-n]) / n).astype(np.float32)
        image = np.moveaxis(along, 0, axis)
    return image


def patches(shape: tuple[int, int], cell: float, rng: np.random.Generator) -> Array:
    """Return smooth random patches, (H, W) from 0 to 1, the largest of about ``cell`` pixels.

    Examples
    --------
    >>> noise = patches((20, 30), 8.0, np.random.default_rng(0))
    >>> noise.shape, bool(noise.min() >= 0), bool(noise.max() <= 1)
    ((20, 30), True, True)
    """
    total = np.zeros(shape, np.float32)
    for octave in range(3):
        width = max(1.0, cell / 2**octave)
        # A blur over many pixels shrinks the noise: rescale it.
        total += blurred(rng.random(shape, np.float32), width) * (width / 2**octave)
    low, high = float(total.min()), float(total.max())
    scaled: Array = (total - low) / (high - low) if high > low else total
    return scaled


def sensor_noise(light: Array, gain: float, rng: np.random.Generator) -> Array:
    """Return light with sensor noise: read noise, and shot noise that grows with the root of light.

    ``gain`` is the amplification of the image relative to the sensor's scale.
    """
    spread = np.sqrt(np.clip(light, 0.0, None) * gain * 1e-4 + (gain * 2e-4) ** 2)
    noisy: Array = light + spread * rng.standard_normal(light.shape, np.float32)
    return noisy


#: The depth in metres that a sensor reports if it receives no echo.
NO_ECHO = 1000.0

#: Distances in metres at which drops and flakes are drawn, and their number at each distance in
#: heavy weather.
LAYERS = ((1.2, 14), (2.5, 60), (5.0, 240), (10.0, 900))

#: Metres that a drop or a flake moves while the shutter is open.
DROP_PATH, FLAKE_PATH = 0.35, 0.04

#: Apparent width in metres of the streak of a drop and of a flake.
DROP_SIZE, FLAKE_SIZE = 0.006, 0.02

#: Colours of linear light: sodium lamps, headlights, the night sky over a town, moonlight.
SODIUM, HALOGEN, TOWN_SKY, MOON = np.array(
    [[1.0, 0.62, 0.28], [1.0, 0.88, 0.7], [1.0, 0.8, 0.75], [0.7, 0.8, 1.0]], np.float32
)

#: Metres from one fallen leaf to the next, and their colours.
LEAF = 0.08
LEAVES = np.array([[0.45, 0.16, 0.03], [0.35, 0.09, 0.02], [0.5, 0.3, 0.05], [0.2, 0.08, 0.03]])


def rain_streaks(scene: Scene, amount: float, rng: np.random.Generator) -> Array:
    """Return the share of each pixel that falling drops cover, (H, W) from 0 to 1.

    Drops at a distance are visible only where the scene is farther away.
    """
    lean = rng.normal(0.0, 0.15)
    return _in_the_air(scene, amount, DROP_SIZE, DROP_PATH, lean, rng)


def falling_snow(scene: Scene, amount: float, rng: np.random.Generator) -> Array:
    """Return the share of each pixel that falling flakes cover, (H, W) from 0 to 1."""
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
        # Objects smaller than a pixel cover a part of it.
        cover = rng.uniform(0.4, 1.0, n) * min(1.0, across)
        np.maximum.at(layer, (rows, columns), cover.astype(np.float32))
        layer = _smeared(layer, along, lean)
        if across > 1.0:
            layer = np.minimum(1.0, across * blurred(layer, across))
        clear *= 1.0 - np.where(scene.depth > distance, layer, 0.0)
    covered: Array = 1.0 - clear
    return covered


def _smeared(layer: Array, along: float, lean: float) -> Array:
    """Smear every point into a falling line that leans to one side."""
    smeared = layer.copy()
    for step in range(1, round(along) + 1):
        sideways = round(step * lean)
        moved = np.roll(layer, (step, sideways), axis=(0, 1))
        moved[:step] = 0.0
        np.maximum(smeared, moved, out=smeared)
    return smeared


def sensed_depth(
    scene: Scene,
    rng: np.random.Generator,
    *,
    extinction: float = 0.0,
    clutter: float = 0.0,
    mirror: Any = 0.0,
) -> Array:
    r"""Return the depth reported by a sensor with its own light source.

    The sensor receives an echo where

    .. math:: 2 \ln(d_0 / d) + \ln(ρ / ρ_0) - m + ε > 2 β d

    with depth d, d₀ the range of 1000 m in clear air, ρ / ρ₀ the reflectivity relative to a middle
    grey, m the loss by reflection on wet ground, β the extinction, and ε noise of half a neper.
    Without an echo, d₀ is reported. For a share of ``clutter`` of the pixels, the echo comes from a
    drop or a flake a few metres ahead; and the range gets noise of 0.5 % per percent of clutter.

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
    sensed = np.where(left > 2.0 * extinction * depth, depth, NO_ECHO)
    sensed = sensed * np.exp(0.5 * clutter * rng.standard_normal(shape, np.float32))
    near = rng.gamma(2.0, 2.0, shape) + 1.0
    hit = (rng.random(shape) < clutter) & (near < depth)
    sensed = np.where(hit, near, np.where(scene.sky, NO_ECHO, np.minimum(sensed, NO_ECHO)))
    return sensed.astype(np.float32)


def visibility(metres: float) -> float:
    """Return the extinction per metre at which contrast falls to 2 % at this distance.

    Examples
    --------
    >>> round(visibility(100.0), 4)
    0.0391
    """
    return -math.log(0.02) / metres


def overcast(scene: Scene, amount: float, sky: float = 0.5) -> Scene:
    """Return the scene under clouds: even light, pale colours, a grey sky.

    Dividing by the brightness of the neighbourhood removes shadows. That brightness is a wide mean
    of log-brightness outside the sky.
    """
    amount = min(amount, 1.0)
    width = scene.depth.shape[1]
    solid = (~scene.sky).astype(np.float32)
    dark = np.log(luminance(scene.light) + 0.01)
    # 1e-3 avoids 0 / 0 deep in the sky, where the result is not used.
    weight = blurred(solid, width / 16) + 1e-3
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

    Water in the pores makes the ground darker. The film of water reflects, by Fresnel's law
    (Schlick's approximation), the scene mirrored at the horizon and blurred by ripples.
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
    """Return the scene lit by headlights and street lamps, and its amplification.

    Light falls off with the square of distance and with the angle to the surface. The camera's
    exposure rises until the brightest places are well exposed, up to a limit.
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
    lit: Array = 45.0 * beam * (0.1 + 0.9 * facing) / (distance**2 + 9.0)
    return lit


def _lamps(scene: Scene, rng: np.random.Generator) -> list[Array]:
    """Return the street lamps on both sides: metres right, down and ahead."""
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
    lit: Array = np.where(scene.sky, 0.0, 22.0 * below * (0.15 + facing) / (square + 4.0))
    return lit


def _glow(scene: Scene, lamp: Array) -> Array:
    """Return the light of a visible lamp, with the bloom of a lens."""
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
    glow: Array = (1.5 * disc).astype(np.float32)
    return glow


def snow_cover(scene: Scene, amount: float, rng: np.random.Generator) -> Scene:
    """Return the scene with snow on surfaces that face upwards, thinner in wheel tracks.

    Snow keeps the light and shade of the ground: white in the sun, bluish in the shade.
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
    # A pixel wider than a leaf shows leaves in proportion to their density.
    blur = smoothstep(0.3, 1.2, ahead / (FOCAL * shape[1]) / LEAF)
    there = (chance < density) * (1.0 - blur) + density * blur
    colour = LEAVES[which] * (1.0 - blur[..., None]) + LEAVES.mean(axis=0) * blur[..., None]
    bright = blurred(luminance(scene.light), shape[1] / 60)[..., None]
    shown = np.clip(bright / 0.2, 0.15, 1.2) * colour
    cover = there * scene.ground
    return replace(scene, light=mixed(scene.light, shown, cover).astype(np.float32))


def turned_leaves(scene: Scene, amount: float) -> Scene:
    """Return the scene with green leaves turned orange and brown."""
    red, green, blue = (scene.light[..., i] for i in range(3))
    leafy = smoothstep(1.05, 1.4, green / np.maximum(np.maximum(red, blue), 1e-3))
    orange = luminance(scene.light)[..., None] * np.array([2.2, 0.75, 0.2])
    share = np.minimum(1.0, amount) * leafy * (~scene.sky)
    return replace(scene, light=mixed(scene.light, orange, share).astype(np.float32))


def _hashed(right: Array, ahead: Array, cell: float, seed: int) -> Array:
    """Return a random number for every square of the ground, the same from every view."""
    i = np.floor(np.clip(right, -1e4, 1e4) / cell).astype(np.int64)
    j = np.floor(np.clip(ahead, 0.0, 1e4) / cell).astype(np.int64)
    mixed_up: Any = (i * 73856093) ^ (j * 19349663) ^ (seed * 83492791)
    mixed_up = (mixed_up ^ (mixed_up >> 13)) * 0x5BD1E995
    random: Array = ((mixed_up ^ (mixed_up >> 15)) & 0xFFFF) / float(0x10000)
    return random


def apply_weather(frame: Frame, condition: str, *, severity: float = 1.0, seed: int = 0) -> Frame:
    """Return a frame with simulated weather.

    Parameters
    ----------
    frame : Frame
        A frame of a clear day, with depth.
    condition : str
        One of :data:`CONDITIONS`.
    severity : float, default 1
        0 leaves the frame unchanged; 1 is weather in which drivers slow down; 2 is severe.
    seed : int, default 0
        The same seed, condition and frame name give the same image.

    Examples
    --------
    >>> rgb, depth = np.full((32, 64, 3), 90, np.uint8), np.full((32, 64), 500.0, np.float32)
    >>> frame = Frame("a", rgb, depth, np.zeros((32, 64), np.uint8))
    >>> foggy = apply_weather(frame, "fog")
    >>> bool(foggy.rgb.mean() > 150), apply_weather(frame, "fog", severity=0) is frame
    (True, True)
    """
    check_choice("condition", condition, CONDITIONS)
    severity = check_finite_number("severity", severity, minimum=0.0)
    if severity == 0.0:
        return frame
    if frame.depth is None:
        raise OptionError(
            argument="frame",
            rule="must have depth to simulate weather",
            got=f"frame {frame.name!r} without depth",
            remedy="Open the frames with their depth folder.",
        )
    seeds = [seed, tuple(CONDITIONS).index(condition), *frame.name.encode()]
    rng = np.random.default_rng(seeds)
    scene = scene_of(frame.rgb, frame.depth)
    light, depth = CONDITIONS[condition](scene, severity, rng)
    return replace(frame, rgb=from_linear(light), depth=depth.astype(np.float32))


def _fog(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Fog with 75 m of visibility; light comes from everywhere, so there are no shadows."""
    extinction = visibility(75.0) * severity
    soft = overcast(scene, severity)
    light = veiled(soft.light, scene.depth, extinction, np.array([0.62, 0.64, 0.66]))
    blur = mixed(
        light, blurred(light, scene.depth.shape[1] / 80), 1 - np.exp(-extinction * scene.depth / 2)
    )
    return blur, sensed_depth(scene, rng, extinction=extinction, clutter=0.005 * severity)


def _rain(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Heavy rain: clouds, a wet road, drops in the air, and a veil of distant drops."""
    wet, mirror = wet_ground(overcast(scene, severity, sky=0.5), severity, rng)
    extinction = visibility(400.0) * severity
    light = veiled(wet.light, scene.depth, extinction, np.array([0.42, 0.44, 0.46]))
    drops = rain_streaks(scene, severity, rng)
    light = mixed(light, np.array([0.5, 0.52, 0.54]), 0.7 * drops)
    depth = sensed_depth(
        scene, rng, extinction=extinction, clutter=0.02 * severity, mirror=4.0 * mirror
    )
    return light, depth


def _soft_rain(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    return _rain(scene, 0.4 * severity, rng)


def _night(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Headlights and street lamps; depth is the same as by day."""
    dark, gain = at_night(scene, max(1.0, severity), rng)
    return _as_dark(scene, sensor_noise(dark.light, gain, rng), severity), scene.depth


def _rain_night(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A wet road that reflects the lamps, and drops that shine in the headlights."""
    dark, gain = at_night(scene, max(1.0, severity), rng)
    wet, mirror = wet_ground(dark, severity, rng)
    extinction = visibility(400.0) * severity
    light = veiled(wet.light, scene.depth, extinction, 0.012 * HALOGEN)
    light = mixed(light, 0.3 * HALOGEN, 0.7 * rain_streaks(scene, severity, rng))
    light = _as_dark(scene, sensor_noise(light, gain, rng), severity)
    depth = sensed_depth(
        scene, rng, extinction=extinction, clutter=0.02 * severity, mirror=4.0 * mirror
    )
    return light, depth


def _winter(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Snow on the ground and a little in the air; the sun is low, the air hazy."""
    white = snow_cover(scene, severity, rng)
    share = min(1.0, severity)
    sun = 1.0 + share * (np.array([1.0, 0.93, 0.84]) - 1.0)
    pale = np.array([0.72, 0.72, 0.74])
    light = mixed(white.light * sun, pale, 0.6 * share * scene.sky)
    light = veiled(light, scene.depth, visibility(900.0) * severity, pale)
    light = mixed(light, 0.85, falling_snow(scene, 0.35 * severity, rng))
    return light, sensed_depth(scene, rng, clutter=0.01 * severity)


def _winter_night(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Snow under lamps, and flakes in the headlights."""
    white = snow_cover(overcast(scene, severity), severity, rng)
    dark, gain = at_night(white, max(1.0, severity), rng)
    light = mixed(dark.light, 0.4 * HALOGEN, falling_snow(scene, 0.5 * severity, rng))
    light = _as_dark(scene, sensor_noise(light, gain, rng), severity)
    return light, sensed_depth(scene, rng, clutter=0.015 * severity)


def _fall(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Leaves turn and lie on the ground; a low sun through haze."""
    leafy = leaf_litter(turned_leaves(scene, severity), severity, rng)
    share = min(1.0, severity)
    sun = 1.0 + share * (np.array([1.3, 1.0, 0.7]) - 1.0)
    air = np.array([0.62, 0.55, 0.46])
    # Haze is low: above the roofs it is thin.
    way = np.minimum(scene.depth, 250.0)
    return veiled(leafy.light * sun, way, visibility(1200.0) * severity, air), scene.depth


def _as_dark(scene: Scene, night: Array, severity: float) -> Array:
    """Return the night image or, if the severity is below 1, dusk.

    Dusk interpolates between day and night in log-light, as cameras and eyes respond to it.
    """
    night = np.maximum(night, 0.0)
    if severity >= 1.0:
        return night
    least = 1e-3
    dusk: Array = (scene.light + least) ** (1 - severity) * (night + least) ** severity - least
    return dusk


#: The conditions by name.
CONDITIONS: dict[str, Callable[[Scene, float, np.random.Generator], tuple[Array, Array]]] = {
    "fog": _fog,
    "rain": _rain,
    "soft_rain": _soft_rain,
    "night": _night,
    "rain_night": _rain_night,
    "winter": _winter,
    "winter_night": _winter_night,
    "fall": _fall,
}
