"""What networks see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab.tests.support.drives import frame

from reprior.exceptions import OptionError
from reprior_lab.synthia.batches import (
    grey_depth,
    jet,
    log_depth,
    n_channels,
    network_input,
)


@pytest.mark.parametrize(
    "modality, code", [("rgb", "log"), ("depth", "log"), ("depth", "jet"), ("depth", "jet8")]
)
def test_inputs_are_about_zero_and_have_the_channels(modality, code):
    found = network_input(frame(), modality, code)
    assert found.dtype == np.float32
    assert found.shape == (32, 48, n_channels(modality, code))
    assert np.abs(found).max() < 3.0


def test_jet_is_the_map_of_that_name():
    # As it was first defined: each channel rises in 64 steps, stays for 63, falls in 64.
    ramp = np.concatenate([np.arange(1, 65), np.full(63, 64), np.arange(64, 0, -1)]) / 64
    expected = np.zeros((256, 3))
    for channel, start in enumerate((96, 32, -32)):
        place = start + np.arange(ramp.size)
        inside = (place >= 0) & (place < 256)
        expected[place[inside], channel] = 255 * ramp[inside]
    assert np.abs(jet(np.linspace(0, 1, 256)) - expected).max() <= 6  # one of 64 steps, and a half


def test_log_depth_grows_and_stays_within_its_ends():
    depth = np.array([0.3, 1.0, 2.0, 50.0, 1000.0, 5000.0])
    found = log_depth(depth)
    assert found[0] == found[1] == 0
    assert found[-1] == found[-2] == 1
    assert (np.diff(found[1:-1]) > 0).all()
    assert log_depth(np.array([0.0]))[0] == 1  # no echo


def test_depth_of_eight_bits_in_the_colours_of_jet():
    """Centimetres of sixteen bits lose their lower byte, and what is left is coloured."""
    centimetres = np.array([0, 255, 256, 8_191, 16_384, 32_768, 49_152, 65_535])
    depth = (0.01 * centimetres).astype(np.float32)
    grey = grey_depth(depth)
    assert np.array_equal(grey, centimetres // 256)
    assert np.array_equal(grey_depth(np.array([655.36, 1000.0])), [255, 255])
    expected = [
        [0, 0, 127],
        [0, 0, 127],
        [0, 0, 131],
        [0, 0, 251],
        [0, 128, 255],
        [129, 255, 125],
        [255, 124, 0],
        [127, 0, 0],
    ]
    assert jet(grey / 255.0).tolist() == expected
    seen = network_input(replace(frame(), depth=depth[None]), "depth", "jet8", "synthia")
    mean, deviation = np.array([15.806, 1.808, 130.356]), np.array([34.198, 10.479, 46.931])
    np.testing.assert_allclose(seen[0], (expected - mean) / deviation, atol=1e-5)


def test_colours_are_normalised_by_the_means_that_were_chosen():
    colour = np.full((1, 1, 3), [71, 62, 55], np.uint8)
    found = network_input(replace(frame(), rgb=colour), "rgb", normalization="synthia")
    np.testing.assert_allclose(found, 0.0, atol=0.01)
    found = network_input(replace(frame(), rgb=colour), "rgb")
    np.testing.assert_allclose(found[0, 0], [-0.902, -0.950, -0.846], atol=1e-3)


def test_bad_inputs():
    with pytest.raises(OptionError, match="`modality` must be one of"):
        network_input(frame(), "lidar")
    with pytest.raises(OptionError, match="`depth_code` must be one of"):
        network_input(frame(), "depth", "hot")
    with pytest.raises(OptionError, match="Got 'depth', and frame '000000' has none"):
        network_input(replace(frame(), depth=None), "depth")
