"""Light on surfaces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab.tests.support.drives import frame

from reprior_lab.synthia.weather import (
    at_night,
    leaf_litter,
    luminance,
    overcast,
    scene_of,
    snow_cover,
    turned_leaves,
    wet_ground,
)


@pytest.fixture
def scene():
    return scene_of(frame().rgb, frame().depth)


def rng():
    return np.random.default_rng(5)


def test_clouds_lift_shadows_and_grey_the_sky(scene):
    light = scene.light.copy()
    light[20:, :24] *= 0.2  # a shadow over half of the road
    light[:4] *= (0.5, 0.8, 1.2)  # a blue sky
    shaded = replace(scene, light=light)
    soft = overcast(shaded, 1.0)

    def ratio(found):
        return luminance(found.light)[28, 40] / luminance(found.light)[28, 8]

    assert ratio(soft) < 0.6 * ratio(shaded)
    assert np.ptp(soft.light[1, 3]) < 0.1 * soft.light[1, 3].mean()


def test_a_wet_road_mirrors_what_is_far_more_than_what_is_near(scene):
    wet, share = wet_ground(scene, 1.0, rng())
    assert share[scene.ground == 0].max() == 0
    assert share[20].mean() > share[30].mean() > 0
    dry = scene.light[30, :8].mean()
    assert wet.light[30, :8].mean() < dry


def test_night_is_dark_but_for_the_lamps(scene):
    dark, gain = at_night(scene, 1.0, rng())
    assert luminance(dark.light).mean() < 0.4 * luminance(scene.light).mean()
    assert np.median(luminance(dark.light)[scene.sky]) < 0.05
    assert gain > 0
    near, far = luminance(dark.light)[30, 24], luminance(dark.light)[12, 24]
    assert near > far  # headlights
    darker, _ = at_night(scene, 2.0, rng())
    np.testing.assert_allclose(darker.light, dark.light / 2.0, rtol=1e-4)


def test_snow_lies_on_the_ground_and_not_on_walls(scene):
    white = snow_cover(scene, 1.0, rng())
    change = np.abs(white.light - scene.light).mean(axis=-1)
    assert change[26:30, :6].mean() > 0.1
    assert change[10:14, 2:38].max() < 0.02
    assert change[scene.sky].max() == 0
    more = np.abs(snow_cover(scene, 2.0, rng()).light - scene.light).mean()
    assert more > change.mean()


def test_leaves_lie_on_the_ground_and_are_orange(scene):
    found = leaf_litter(scene, 1.0, rng())
    change = found.light - scene.light
    assert np.abs(change[scene.ground == 0]).max() == 0
    assert np.abs(change[scene.ground > 0.5]).max() > 0.01
    tint = (found.light[..., 0] - found.light[..., 2])[scene.ground > 0.5].mean()
    assert tint > (scene.light[..., 0] - scene.light[..., 2])[scene.ground > 0.5].mean()


def test_only_green_turns(scene):
    light = np.repeat(luminance(scene.light)[..., None], 3, axis=2)  # no colour anywhere
    light[10, 10] = (0.05, 0.2, 0.05)
    found = turned_leaves(replace(scene, light=light), 1.0).light
    assert found[10, 10, 0] > 2 * found[10, 10, 1]
    rest = np.ones(scene.depth.shape, bool)
    rest[10, 10] = False
    np.testing.assert_allclose(found[rest], light[rest], atol=0.02)
