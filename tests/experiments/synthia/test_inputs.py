"""What networks see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.experiments.synthia.shared import frame

from reprior.exceptions import OptionError
from reprior.experiments.synthia.inputs import jet, log_depth, n_channels, network_input


@pytest.mark.parametrize("modality, code", [("rgb", "log"), ("depth", "log"), ("depth", "jet")])
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


def test_bad_inputs():
    with pytest.raises(OptionError, match="`modality` must be one of"):
        network_input(frame(), "lidar")
    with pytest.raises(OptionError, match="`depth_code` must be one of"):
        network_input(frame(), "depth", "hot")
    with pytest.raises(OptionError, match="Got 'depth', and frame '000000' has none"):
        network_input(replace(frame(), depth=None), "depth")
