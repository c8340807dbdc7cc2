"""Weather that a network has never seen, simulated on frames from their depth.

Geometry comes from depth, so fog thickens with distance, snow lies on what faces upwards, a wet
road mirrors what is above it, and lamps light what is near them. Colour is changed as a camera
would see it, in linear light. Depth is changed as a sensor that sends its own light would suffer:
echoes that are lost in scattering come back as nothing, which is as far as the sky; drops and
flakes give echoes of their own. Darkness does not change depth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice, check_finite_number
from reprior.exceptions import OptionError
from reprior.experiments.synthia.frames import Frame
from reprior.experiments.synthia.optics import (
    Scene,
    blurred,
    from_linear,
    mixed,
    scene_of,
    sensor_noise,
    veiled,
)
from reprior.experiments.synthia.precipitation import (
    falling_snow,
    rain_streaks,
    sensed_depth,
    visibility,
)
from reprior.experiments.synthia.surfaces import (
    HALOGEN,
    at_night,
    leaf_litter,
    overcast,
    snow_cover,
    turned_leaves,
    wet_ground,
)

__all__ = ["CONDITIONS", "apply_weather"]

Array: TypeAlias = np.ndarray[Any, Any]


def apply_weather(frame: Frame, condition: str, *, severity: float = 1.0, seed: int = 0) -> Frame:
    """Return a frame under another weather.

    Parameters
    ----------
    frame : Frame
        A frame of a clear day, with depth.
    condition : str
        One of :data:`CONDITIONS`.
    severity : float, default 1
        0 leaves the frame as it is; 1 is weather that one would slow down in; 2 is a bad day.
    seed : int, default 0
        Of the random numbers: the same seed, condition and frame name give the same picture.

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
            f"`frame` must have depth to simulate weather by. Got frame {frame.name!r} without. "
            f"Open the frames with their depth folder."
        )
    words = [seed, tuple(CONDITIONS).index(condition), *frame.name.encode()]
    rng = np.random.default_rng(words)
    scene = scene_of(frame.rgb, frame.depth)
    light, depth = CONDITIONS[condition](scene, severity, rng)
    return replace(frame, rgb=from_linear(light), depth=depth.astype(np.float32))


def _fog(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """See 75 m; light comes from everywhere, so shadows are gone."""
    extinction = visibility(75.0) * severity
    soft = overcast(scene, severity)
    light = veiled(soft.light, scene.depth, extinction, np.array([0.62, 0.64, 0.66]))
    blur = mixed(
        light, blurred(light, scene.depth.shape[1] / 80), 1 - np.exp(-extinction * scene.depth / 2)
    )
    return blur, sensed_depth(scene, rng, extinction=extinction, clutter=0.005 * severity)


def _rain(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Heavy rain: clouds, a wet road, drops in the air, a veil of the farther ones."""
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
    """Headlights and street lamps; depth is as by day."""
    dark, gain = at_night(scene, max(1.0, severity), rng)
    return _as_dark(scene, sensor_noise(dark.light, gain, rng), severity), scene.depth


def _rain_night(scene: Scene, severity: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A wet road that mirrors the lamps, and drops that shine in the headlights."""
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
    """Snow lies and a little falls; the sun is low, the air pale."""
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
    # Haze lies low: above the roofs it is thin.
    way = np.minimum(scene.depth, 250.0)
    return veiled(leafy.light * sun, way, visibility(1200.0) * severity, air), scene.depth


def _as_dark(scene: Scene, night: Array, severity: float) -> Array:
    """Return night, or below severity 1 the dusk before it.

    Dusk lies between day and night by the logarithm of light, as cameras and eyes take it.
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
