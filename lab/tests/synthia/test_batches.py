"""Random parts of frames: colour, depth and labels stay together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from lab.tests.support.drives import HEIGHT, WIDTH, frame, write_sf

from reprior.exceptions import OptionError
from reprior_lab.synthia.batches import (
    _in_other_light,
    batch_of,
    batches,
    n_batches,
    random_part,
)
from reprior_lab.synthia.frames import IGNORED, Frame, open_sf
from reprior_lab.synthia.settings import NetworkSettings


def numbered():
    """A frame whose colour and depth say which label a pixel has."""
    labels = np.add.outer(np.arange(HEIGHT) // 4, 8 * (np.arange(WIDTH) // 8)).astype(np.uint8)
    rgb = np.repeat((2 * labels)[..., None], 3, axis=2)
    return Frame("a", rgb, 1.0 + labels.astype(np.float32), labels)


def test_parts_keep_colour_depth_and_labels_together():
    seen = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        part = random_part(numbered(), (16, 24), rng)
        assert part.rgb.shape == (16, 24, 3)
        assert part.rgb.dtype == np.uint8
        share = part.depth / (1.0 + part.labels)  # the zoom, the same everywhere
        np.testing.assert_allclose(share, share[0, 0], rtol=1e-6)
        assert 0.6 < share[0, 0] < 1.3
        level = part.rgb[..., 0].astype(float)
        assert np.corrcoef(level.ravel(), part.labels.ravel())[0, 1] > 0.97
        across = part.labels[:, 0].astype(int) < part.labels[:, -1]
        assert across.all() or not across.any()
        seen.add(bool(across[0]))
    assert seen == {True, False}  # mirrored half of the time


def test_parts_are_never_larger_than_the_frame():
    for seed in range(20):
        part = random_part(numbered(), (32, 48), np.random.default_rng(seed))
        assert (part.depth / (1.0 + part.labels)).max() <= 1.0 + 1e-6


def test_without_augmentation_a_part_is_cut_out_as_it_is():
    whole = numbered()
    for seed in range(5):
        part = random_part(whole, (HEIGHT, WIDTH), np.random.default_rng(seed), "none")
        for name in ("rgb", "depth", "labels"):
            assert np.array_equal(getattr(part, name), getattr(whole, name)), name
    places = set()
    for seed in range(30):
        part = random_part(whole, (16, 24), np.random.default_rng(seed), "none")
        places.add(part.depth.tobytes())
        assert np.array_equal(part.rgb[..., 0], 2 * part.labels)
        assert np.array_equal(part.depth, 1.0 + part.labels)
    assert len(places) > 10


def test_flipping_alone_leaves_light_and_size():
    whole, seen = numbered(), set()
    for seed in range(20):
        part = random_part(whole, (HEIGHT, WIDTH), np.random.default_rng(seed), "flip")
        mirrored = not np.array_equal(part.labels, whole.labels)
        assert np.array_equal(part.rgb[:, ::-1] if mirrored else part.rgb, whole.rgb)
        seen.add(mirrored)
    assert seen == {True, False}


def test_a_last_batch_of_one_is_left_out_where_it_cannot_be_learnt_from(tmp_path):
    write_sf(tmp_path, "train", range(5))
    frames = open_sf(tmp_path)
    small = NetworkSettings(crop=(16, 24), batch_size=2)
    deep = small.differing(model="deeplabv3plus-resnet18")
    few, all_of_them = (list(batches(frames, settings, 1)) for settings in (deep, small))
    assert [len(labels) for _, labels in few] == [2, 2]
    assert n_batches(5, deep) == 2
    for (x, y), (x2, y2) in zip(few, all_of_them, strict=False):  # the others are the same
        assert torch.equal(x, x2)
        assert torch.equal(y, y2)
    assert [len(labels) for _, labels in batches(frames, deep.differing(batch_size=3), 1)] == [3, 2]
    with pytest.raises(OptionError, match=r"must have at least 2 frames for .*resnet18'. Got 1"):
        n_batches(1, deep)


def test_the_sky_comes_no_nearer():
    for seed in range(10):
        part = random_part(frame(), (16, 24), np.random.default_rng(seed))
        sky = part.labels == 3
        assert (part.depth[sky] == 1000.0).all()


def test_other_light_moves_middle_tones_and_keeps_the_order_of_all():
    """Brightness and contrast alone would leave the middle halfway between dark and light."""
    levels = np.array([80, 110, 140], np.uint8)
    picture = np.repeat(levels[None, :, None], 3, axis=2)
    found = []
    for seed in range(40):
        dark, middle, light = _in_other_light(picture, np.random.default_rng(seed))[0, :, 0] / 1.0
        assert dark < middle < light
        found.append((middle - dark) / (light - dark))
    assert min(found) < 0.48
    assert max(found) > 0.52


def test_batches_depend_on_seed_and_epoch_alone(tmp_path):
    write_sf(tmp_path, "train", range(5))
    frames = open_sf(tmp_path)
    settings = NetworkSettings(crop=(16, 24), batch_size=2)
    first, again = (list(batches(frames, settings, 3)) for _ in range(2))
    assert [len(labels) for _, labels in first] == [2, 2, 1]
    for (x, y), (x2, y2) in zip(first, again, strict=True):
        assert torch.equal(x, x2)
        assert torch.equal(y, y2)
    other = next(batches(frames, settings, 4))[0]
    assert not torch.equal(first[0][0], other)
    assert not torch.equal(first[0][0], next(batches(frames, settings.differing(seed=1), 3))[0])


def test_a_batch_is_channels_last_and_ignores_what_has_no_label():
    labels = frame().labels.copy()
    labels[0] = IGNORED
    x, y = batch_of([replace(frame(), labels=labels)], NetworkSettings(modality="rgb"))
    assert x.shape == (1, 3, HEIGHT, WIDTH)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert (y[0, 0] == -100).all()
    assert (y[0, 1:] >= 0).all()
    x, _ = batch_of([frame()], NetworkSettings(modality="depth", depth_code="jet"))
    assert x.shape[1] == 3
