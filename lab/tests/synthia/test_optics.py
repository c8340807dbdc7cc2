"""Light and geometry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.tests.support.drives import frame

from reprior_lab.synthia.weather import (
    FOCAL,
    blurred,
    from_linear,
    mixed,
    patches,
    scene_of,
    sensor_noise,
    to_linear,
    veiled,
)

H, W = 60, 80


def plane(normal, distance):
    """Depth of the plane n · X = distance, 1000 m where it is not in front of the camera."""
    x = (np.arange(W) - W / 2) / (FOCAL * W)
    y = ((np.arange(H) - H / 2) / (FOCAL * W))[:, None]
    along = normal[0] * x + normal[1] * y + normal[2]
    return np.where(along > 1e-3, distance / np.maximum(along, 1e-3), 1000.0)


@pytest.mark.parametrize(
    "normal", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.6, 0.0, 0.8), (0.0, 0.6, 0.8)]
)
def test_normals_of_planes(normal):
    depth = plane(normal, 3.0)
    scene = scene_of(np.zeros((H, W, 3), np.uint8), depth)
    inside = depth < 15.0
    inside[[0, 1, 2, -3, -2, -1]] = False
    inside[:, [0, 1, 2, -3, -2, -1]] = False
    assert inside.sum() > 200
    expected = np.broadcast_to(-np.array(normal), scene.normals[inside].shape)
    np.testing.assert_allclose(scene.normals[inside], expected, atol=0.02)
    np.testing.assert_allclose(scene.up[inside], normal[1], atol=0.02)


def test_the_scene_knows_sky_ground_and_camera():
    scene = scene_of(frame().rgb, frame().depth)
    assert scene.sky[0].all()
    assert not scene.sky[25].any()
    assert scene.camera_height == pytest.approx(1.5, rel=0.05)
    assert scene.ground[28, 5] > 0.9
    assert scene.ground[12].max() < 0.1  # a wall
    assert scene.up[0].max() == 0


def test_linear_light_and_back():
    every = np.arange(256, dtype=np.uint8)
    assert np.array_equal(from_linear(to_linear(every)), every)
    assert from_linear(np.array([-1.0, 7.0])).tolist() == [0, 255]


@given(beta=st.floats(0.0, 1.0), depth=st.floats(0.1, 1000.0))
def test_the_veil_lies_between_scene_and_air(beta, depth):
    found = veiled(np.full((1, 1, 3), 0.2), np.array([[depth]]), beta, 0.8)
    assert 0.2 - 1e-6 <= found.min() <= found.max() <= 0.8 + 1e-6


def test_blurring_is_a_running_mean_twice():
    row = np.random.default_rng(0).random((1, 30)).astype(np.float32)
    once = np.convolve(np.pad(row[0], 4, mode="edge"), np.full(5, 0.2), mode="valid")
    twice = np.convolve(once, np.full(5, 0.2), mode="valid")
    np.testing.assert_allclose(blurred(row, 4.0, (1,))[0][4:-4], twice[2:-2][2:-2], atol=1e-5)
    assert blurred(row, 0.4) is row


def test_mixing_and_patches():
    below, above = np.zeros((4, 4, 3)), np.ones((4, 4, 3))
    share = np.linspace(0, 1, 16).reshape(4, 4)
    np.testing.assert_allclose(mixed(below, above, share)[..., 0], share, atol=1e-6)
    found = patches((40, 50), 12.0, np.random.default_rng(0))
    assert found.min() == 0
    assert found.max() == 1
    assert np.abs(np.diff(found, axis=1)).mean() < 0.1  # smooth


def test_noise_grows_with_light_and_gain():
    dark, bright = np.full((50, 50, 3), 0.01, np.float32), np.full((50, 50, 3), 0.5, np.float32)
    spread = [
        sensor_noise(light, gain, np.random.default_rng(0)).std()
        for light, gain in ((dark, 1.0), (bright, 1.0), (bright, 10.0))
    ]
    assert spread[0] < spread[1] < spread[2]
    assert sensor_noise(bright, 1.0, np.random.default_rng(0)).mean() == pytest.approx(
        0.5, abs=1e-3
    )
