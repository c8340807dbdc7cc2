"""Crops of a whole batch, against the definition image by image."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reprior_lab.training.batches import Crops, normalised


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_every_crop_is_a_window_of_the_padded_image(padding, flip):
    images = np.random.default_rng(0).integers(1, 256, (5, 6, 7, 3), dtype=np.uint8)
    index = np.array([4, 0, 2, 2, 1, 3] * 4)
    crops = Crops(images, padding, flip).batch(index, generator())
    again = generator()
    y, x = torch.randint(0, 2 * padding + 1, (2, len(index)), generator=again).numpy()
    mirrored = torch.randint(0, 2, (len(index),), generator=again).numpy()
    for k, i in enumerate(index):
        padded = np.zeros((6 + 2 * padding, 7 + 2 * padding, 3), np.uint8)
        padded[padding : padding + 6, padding : padding + 7] = images[i]
        expected = padded[y[k] : y[k] + 6, x[k] : x[k] + 7]
        expected = expected[:, ::-1] if flip and mirrored[k] else expected
        assert np.array_equal(crops[k], expected)


def test_seeds_decide_and_nothing_else():
    crops = Crops(np.random.default_rng(0).integers(0, 256, (9, 8, 8, 1), dtype=np.uint8), 2, True)
    index = np.arange(9)
    assert np.array_equal(crops.batch(index, generator(1)), crops.batch(index, generator(1)))
    assert not np.array_equal(crops.batch(index, generator(1)), crops.batch(index, generator(2)))


def test_the_images_are_not_changed():
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 1), dtype=np.uint8)
    before = images.copy()
    Crops(images, 0, True).batch(np.arange(3), generator())
    normalised(images, [0.5], [0.2])
    assert np.array_equal(images, before)


def test_normalised_is_its_definition_and_channels_last():
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    found = normalised(images, mean, std)
    expected = (images / 255.0 - mean) / std
    np.testing.assert_allclose(found.numpy().transpose(0, 2, 3, 1), expected, atol=1e-5)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_flat_features_are_left_alone():
    features = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    assert np.array_equal(normalised(features, (), ()).numpy(), features)
