"""Simulated conditions, as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab.tests.support.drives import frame

from reprior.exceptions import OptionError
from reprior_lab.synthia.weather import CONDITIONS, apply_weather

each = pytest.mark.parametrize("condition", CONDITIONS)

#: Darkness and leaves change nothing for a sensor with a light of its own.
SAME_DEPTH = {"night", "fall"}


def test_the_conditions_of_the_paper_are_there():
    expected = {"fog", "fall", "winter", "winter_night", "rain", "rain_night", "soft_rain"}
    assert expected | {"night"} == set(CONDITIONS)


@each
def test_severity_0_is_the_frame_itself(condition):
    clear = frame()
    assert apply_weather(clear, condition, severity=0.0) is clear


@each
def test_a_little_weather_changes_a_little(condition):
    clear = frame()
    changes = [
        np.abs(apply_weather(clear, condition, severity=s).rgb.astype(int) - clear.rgb).mean()
        for s in (0.02, 0.3, 1.0)
    ]
    assert changes[0] < 12
    assert changes[0] < changes[1] < changes[2]


@each
def test_seeds_names_and_conditions_decide_alone(condition):
    first = apply_weather(frame(), condition, seed=1)
    again = apply_weather(frame(), condition, seed=1)
    assert np.array_equal(first.rgb, again.rgb)
    assert np.array_equal(first.depth, again.depth)
    other = apply_weather(replace(frame(), name="000001"), condition, seed=1)
    assert not np.array_equal(first.rgb, other.rgb) or condition == "fog"
    if condition != "fog":  # fog has random numbers for depth only
        assert not np.array_equal(first.rgb, apply_weather(frame(), condition, seed=2).rgb)


@each
def test_types_labels_and_the_clear_frame_stay(condition):
    clear = frame()
    rgb, depth = clear.rgb.copy(), clear.depth.copy()
    found = apply_weather(clear, condition)
    assert found.rgb.dtype == np.uint8
    assert found.depth.dtype == np.float32
    assert found.labels is clear.labels
    assert np.isfinite(found.depth).all()
    assert np.array_equal(clear.rgb, rgb)
    assert np.array_equal(clear.depth, depth)
    assert np.array_equal(found.depth, depth) == (condition in SAME_DEPTH)


def test_what_each_does_to_a_street():
    clear = frame()
    seen = {name: apply_weather(clear, name).rgb.astype(float) for name in CONDITIONS}
    road, wall = (slice(26, 31), slice(0, 6)), (slice(9, 13), slice(0, 38))
    for name in ("night", "rain_night", "winter_night"):
        assert seen[name].mean() < 0.6 * clear.rgb.mean()
    assert seen["fog"][wall].std() < clear.rgb[wall].std()
    assert seen["fog"][wall].mean() > clear.rgb[wall].mean() + 60
    assert seen["winter"][road].mean() > clear.rgb[road].mean() + 50
    assert seen["fall"][..., 0].mean() > seen["fall"][..., 2].mean() + 10
    dry = np.abs(seen["soft_rain"] - clear.rgb).mean()
    assert dry < np.abs(seen["rain"] - clear.rgb).mean()


def test_bad_options():
    with pytest.raises(OptionError, match=r"`condition` must be one of .* Did you mean 'fog'"):
        apply_weather(frame(), "fogg")
    with pytest.raises(OptionError, match="`severity` must be a finite number of at least 0"):
        apply_weather(frame(), "fog", severity=-1)
    with pytest.raises(OptionError, match=r"`frame` must have depth .* Got frame '000000' without"):
        apply_weather(replace(frame(), depth=None), "fog")
