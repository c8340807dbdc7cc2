"""The figure of examples: a row for each, boxes, every class in the legend, the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from lab.tests.support.drives import frame
from PIL import Image

from reprior_lab.synthia.frames import SEQUENCE_CLASSES, SF_CLASSES
from reprior_lab.synthia.rgbd import PALETTE, SHOWN, Example, _colours, write_examples

CLASSES = ("road", "building", "pole", "sky", "car")
COUNTS = (500, 300, 4, 300, 40)


def example(condition):
    labels = frame().labels[::2, ::2].copy()
    labels[0, 0] = 255
    decided = {row: np.where(labels == 255, 0, labels) for row in SHOWN}
    return Example(condition, 0, labels, decided, [(2, 20, 11, 21)])


def test_it_is_drawn_the_same_every_time(tmp_path):
    conditions = {"fog": [frame()], "rain_night": [frame(1)]}
    chosen = [example(name) for name in conditions]
    (one,) = write_examples(chosen, conditions, CLASSES, COUNTS, tmp_path / "one")
    (other,) = write_examples(chosen, conditions, CLASSES, COUNTS, tmp_path / "other")
    assert one.name == "synthia-examples.png"
    assert one.read_bytes() == other.read_bytes()
    with Image.open(one) as picture:
        seen = {tuple(colour) for colour in np.asarray(picture.convert("RGB")).reshape(-1, 3)}
    for name in CLASSES:
        assert tuple(int(PALETTE[name][i : i + 2], 16) for i in (1, 3, 5)) in seen


def test_every_class_of_the_data_sets_has_a_colour():
    assert {*SF_CLASSES.values(), *SEQUENCE_CLASSES.values()} <= set(PALETTE)
    assert _colours(["road", "unheard of"]).shape == (3, 3)
