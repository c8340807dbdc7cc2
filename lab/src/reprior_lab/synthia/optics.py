"""Light, geometry and noise: what simulated weather is made of.

Light is linear here: twice the number is twice the light. Images are float32 (H, W, 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = [
    "FAR",
    "Scene",
    "blurred",
    "from_linear",
    "luminance",
    "mixed",
    "patches",
    "scene_of",
    "sensor_noise",
    "smoothstep",
    "to_linear",
    "veiled",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: Metres from which on nothing but sky is seen.
FAR = 900.0

#: Focal length over image width, of SYNTHIA's cameras: 848 of 1920 and 533 of 1280 pixels.
FOCAL = 0.43

#: Steps of inverse depth, as a share of it, that are no edges.
STEP = 0.06

#: The camera's height above the road in metres, where no road is seen to tell it.
CAMERA_HEIGHT = 1.5

_BYTES = np.arange(256) / 255.0
_LINEAR = np.where(_BYTES <= 0.04045, _BYTES / 12.92, ((_BYTES + 0.055) / 1.055) ** 2.4).astype(
    np.float32
)


@dataclass(frozen=True, eq=False)
class Scene:
    """A frame as the simulation sees it.

    Parameters
    ----------
    light : float32 (H, W, 3)
        Linear colour.
    depth : float32 (H, W)
        Metres along the optical axis.
    sky : bool (H, W)
        Where nothing is in the way.
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
        """How far surfaces face upwards, 0 to 1; 0 in the sky."""
        found: Array = np.where(self.sky, 0.0, np.clip(-self.normals[..., 1], 0.0, 1.0))
        return found.astype(np.float32)

    @property
    def ground(self) -> Array:
        """Where the road and what is level with it is, 0 to 1."""
        low = smoothstep(0.6, 0.9, self.points[..., 1] / self.camera_height)
        found: Array = smoothstep(0.6, 0.9, self.up) * low
        return found


def scene_of(rgb: Array, depth: Array) -> Scene:
    r"""Return the scene of a frame, with its geometry from depth.

    On a plane the inverse depth is linear in the image: with :math:`q = 1 / d` and pixel
    coordinates x and y over the focal length, the normal is along
    :math:`(q_x, q_y, q - x q_x - y q_y)`, which needs no smoothing at a distance.

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
    # Across an edge there is no surface: what is seen there faces the camera, for want of better.
    normals[_edges(sharp)] = (0.0, 0.0, -1.0)
    points = np.stack([x * depth, y * depth, depth], axis=-1).astype(np.float32)
    sky = depth >= FAR
    level = (-normals[..., 1] > 0.95) & (points[..., 1] > 0.5) & (depth < 30.0)
    tall = float(np.median(points[..., 1][level])) if level.any() else CAMERA_HEIGHT
    return Scene(to_linear(rgb), depth, sky, points, normals.astype(np.float32), tall)


def _smooth(inverse: Array) -> Array:
    """Take the steps out of depth that was kept in few bits; a plane and an edge stay the same."""
    mean = blurred(inverse, inverse.shape[1] / 60)
    found: Array = np.where(np.abs(mean - inverse) < STEP * inverse, mean, inverse)
    return found


def _edges(inverse: Array) -> Array:
    """Where the surface ends or bends, (H, W): inverse depth is not linear there."""
    found = np.zeros(inverse.shape, bool)
    for axis in (0, 1):
        around = [(1, 1) if i == axis else (0, 0) for i in (0, 1)]
        bend = np.abs(np.diff(inverse, 2, axis=axis))
        found |= np.pad(bend, around) > 2.0 * STEP * inverse
    return found


def to_linear(rgb: Array) -> Array:
    """Return linear light, float32 0 to 1, of sRGB bytes.

    Examples
    --------
    >>> to_linear(np.array([0, 128, 255], np.uint8))
    array([0.   , 0.216, 1.   ], dtype=float32)
    """
    found: Array = _LINEAR[rgb]
    return found


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
    found: Array = light @ np.array([0.2126, 0.7152, 0.0722], np.float32)
    return found


def veiled(light: Array, depth: Array, extinction: float, air: Any) -> Array:
    r"""Return what is seen through a scattering medium (Koschmieder's law).

    .. math:: I = J\, e^{-β d} + A\, (1 - e^{-β d})

    where J is the scene, d its depth, β the extinction per metre and A the colour of the air.

    Examples
    --------
    >>> veiled(np.zeros((1, 2, 3)), np.array([[0.0, 1e9]]), 0.05, 0.7)[..., 0]
    array([[0. , 0.7]])
    """
    through = np.exp(-extinction * depth)[..., None]
    found: Array = light * through + np.asarray(air, np.float32) * (1.0 - through)
    return found


def mixed(below: Array, above: Any, share: Array) -> Array:
    """Return one image over another: ``share`` (H, W) of the upper one."""
    share = np.asarray(share, np.float32)
    found: Array = below + share[..., None] * (np.asarray(above, np.float32) - below)
    return found


def smoothstep(low: float, high: float, values: Array) -> Array:
    """Return a smooth rise from 0 at ``low`` to 1 at ``high``.

    Examples
    --------
    >>> smoothstep(0.0, 2.0, np.array([-1.0, 1.0, 3.0]))
    array([0. , 0.5, 1. ])
    """
    place = np.clip((values - low) / (high - low), 0.0, 1.0)
    found: Array = place * place * (3.0 - 2.0 * place)
    return found


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
    >>> found = patches((20, 30), 8.0, np.random.default_rng(0))
    >>> found.shape, bool(found.min() >= 0), bool(found.max() <= 1)
    ((20, 30), True, True)
    """
    total = np.zeros(shape, np.float32)
    for octave in range(3):
        width = max(1.0, cell / 2**octave)
        # A blur over many pixels leaves little of the noise: bring it back to scale.
        total += blurred(rng.random(shape, np.float32), width) * (width / 2**octave)
    low, high = float(total.min()), float(total.max())
    found: Array = (total - low) / (high - low) if high > low else total
    return found


def sensor_noise(light: Array, gain: float, rng: np.random.Generator) -> Array:
    """Return light as a sensor counts it: shot noise grows with the root of light, plus reading.

    ``gain`` is how many times the sensor's own scale the picture was amplified.
    """
    spread = np.sqrt(np.clip(light, 0.0, None) * gain * 1e-4 + (gain * 2e-4) ** 2)
    found: Array = light + spread * rng.standard_normal(light.shape, np.float32)
    return found
