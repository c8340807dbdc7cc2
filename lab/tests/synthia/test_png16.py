"""All bits of the first channel of a PNG."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.tests.support.drives import png16
from PIL import Image

from reprior.exceptions import FileFormatError
from reprior_lab.synthia.png16 import first_channel


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10_000),
    filters=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    channels=st.sampled_from([2, 3, 4]),
    most=st.sampled_from([15, 65535]),
)
def test_every_filter_of_sixteen_bit_colour_is_undone(tmp_path, seed, filters, channels, most):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, most + 1, (len(filters), 7, channels)).astype(np.uint16)
    path = png16(tmp_path / "a.png", values, filters)
    assert np.array_equal(first_channel(path), values[..., 0])


def test_pillow_alone_would_lose_the_class_ids(tmp_path):
    values = np.arange(12, dtype=np.uint16).reshape(2, 2, 3)
    path = png16(tmp_path / "a.png", values, [1, 4])
    with Image.open(path) as image:
        assert not np.asarray(image).any()
    assert first_channel(path).tolist() == [[0, 3], [6, 9]]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.arange(0, 60000, 10000, dtype=np.uint16).reshape(2, 3),
    ],
)
def test_one_channel_of_eight_or_sixteen_bits(tmp_path, values):
    path = tmp_path / "a.png"
    Image.fromarray(values).save(path)
    found = first_channel(path)
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_a_palette_gives_its_indices(tmp_path):
    image = Image.fromarray(np.array([[2, 0, 1]], np.uint8), mode=None).convert("P")
    image = Image.new("P", (3, 1))
    image.putpalette([9, 9, 9, 8, 8, 8, 7, 7, 7])
    image.putdata([2, 0, 1])
    image.save(tmp_path / "a.png")
    assert first_channel(tmp_path / "a.png").tolist() == [[2, 0, 1]]


def _cut(data):
    return data[:-30]


def _turned(data):
    return data[:50] + bytes([data[50] ^ 1]) + data[51:]


def _interlaced(data):
    return data[:28] + b"\x01" + data[29:]


@pytest.mark.parametrize("damage", [_cut, _turned, _interlaced])
def test_damage_names_the_file(tmp_path, damage):
    path = png16(tmp_path / "a.png", np.ones((4, 4, 3), np.uint16), [0, 1, 2, 3])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=r"An image must be .* Got .*a\.png: .*on_error"):
        first_channel(path)


def test_what_is_no_image_and_what_is_not_there(tmp_path):
    (tmp_path / "a.png").write_bytes(b"text")
    with pytest.raises(FileFormatError, match="An image must be"):
        first_channel(tmp_path / "a.png")
    with pytest.raises(FileNotFoundError):
        first_channel(tmp_path / "b.png")
