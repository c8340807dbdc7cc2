"""Drops, flakes and lost echoes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab.tests.support.drives import frame

from reprior_lab.synthia.weather import (
    NO_ECHO,
    falling_snow,
    rain_streaks,
    scene_of,
    sensed_depth,
    visibility,
)


@pytest.fixture
def scene():
    return scene_of(frame().rgb, frame().depth)


def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("fall", [rain_streaks, falling_snow])
def test_more_rain_covers_more_and_nothing_nothing(scene, fall):
    cover = [float(fall(scene, amount, rng()).mean()) for amount in (0.0, 0.5, 2.0)]
    assert cover[0] == 0
    assert 0 < cover[1] < cover[2] < 1
    assert np.array_equal(fall(scene, 1.0, rng()), fall(scene, 1.0, rng()))


def test_drops_behind_a_wall_are_not_seen(scene):
    near = replace(scene, depth=np.full_like(scene.depth, 1.0))
    assert rain_streaks(near, 3.0, rng()).max() == 0


def test_rain_falls_and_snow_floats(scene):
    def length(cover):
        """How much more alike neighbours below are than neighbours beside."""
        below = (cover[1:] * cover[:-1]).sum()
        beside = (cover[:, 1:] * cover[:, :-1]).sum()
        return below / max(beside, 1e-9)

    assert length(rain_streaks(scene, 1.0, rng())) > 1.5 * length(falling_snow(scene, 1.0, rng()))


def test_fog_takes_the_far_echoes_first(scene):
    clear = sensed_depth(scene, rng())
    known = ~scene.sky & (scene.depth < 100)
    np.testing.assert_allclose(clear[known], scene.depth[known], rtol=1e-5)
    foggy = sensed_depth(scene, rng(), extinction=0.1)
    wall, road = scene.depth == 60.0, scene.depth < 5.0
    assert (foggy[wall] == NO_ECHO).mean() > 0.9
    assert (foggy[road] == NO_ECHO).mean() < 0.05
    assert (foggy[scene.sky] == NO_ECHO).all()


def test_clutter_is_near_and_as_often_as_said(scene):
    far = replace(scene, depth=np.full_like(scene.depth, 500.0), sky=np.zeros_like(scene.sky))
    found = sensed_depth(far, rng(), clutter=0.2)
    assert (found < 100).mean() == pytest.approx(0.2, abs=0.03)
    assert found.min() >= 1.0


def test_a_mirror_throws_echoes_away(scene):
    found = sensed_depth(scene, rng(), mirror=50.0)
    assert (found == NO_ECHO).all()


def test_visibility_is_the_distance_of_two_percent():
    assert np.exp(-visibility(80.0) * 80.0) == pytest.approx(0.02)
