"""Batches: which samples, in which order, for which process."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab.tests.support.small_runs import tiny

from reprior_lab.data import ImageData
from reprior_lab.training.batches import Batches, normalised

N = 50


def numbered(padding=0):
    """Images that say which they are."""
    images = np.arange(N, dtype=np.uint8)[:, None, None, None].repeat(4, 1).repeat(4, 2)
    labels = np.repeat([0, 1], [40, 10])
    return ImageData(
        "x", images, labels, images, labels, ["a", "b"], (0.0,), (1.0,), None, None, padding
    )


def seen(batches):
    return [np.rint(batch[0][:, 0, 0, 0].numpy() * 255).astype(int) for batch in batches]


def test_an_epoch_is_every_sample_once_in_an_order_of_its_own():
    epoch = [0]
    batches = Batches(numbered(), tiny(batch_size=16), lambda: epoch[0])
    first, again = seen(batches), seen(batches)
    assert [len(part) for part in first] == [16, 16, 16, 2]
    assert len(batches) == 4
    assert np.array_equal(np.sort(np.concatenate(first)), np.arange(N))
    assert all(map(np.array_equal, first, again))
    epoch[0] = 1
    assert not np.array_equal(np.concatenate(seen(batches)), np.concatenate(first))


def test_labels_go_with_their_images():
    data = numbered()
    for inputs, labels in Batches(data, tiny(batch_size=16), lambda: 0):
        index = np.rint(inputs[:, 0, 0, 0].numpy() * 255).astype(int)
        assert np.array_equal(labels.numpy(), data.train_labels[index])


def test_processes_share_every_batch():
    config = tiny(batch_size=16)
    whole = seen(Batches(numbered(), config, lambda: 0))
    parts = [seen(Batches(numbered(), config, lambda: 0, rank=r, world=2)) for r in range(2)]
    for batch, one, other in zip(whole, *parts, strict=True):
        assert sorted([*one, *other]) == sorted(batch)


def test_a_last_batch_smaller_than_the_processes_is_seen_by_all():
    config = tiny(batch_size=49)
    parts = [seen(Batches(numbered(), config, lambda: 0, rank=r, world=3)) for r in range(3)]
    assert [len(part[-1]) for part in parts] == [1, 1, 1]


def test_bbn_has_a_second_batch_of_the_reversed_sampler():
    data = numbered()
    batches = list(Batches(data, tiny(batch_size=25, schedule="bbn"), lambda: 3))
    assert all(len(batch) == 4 for batch in batches)
    conventional = np.concatenate([batch[1] for batch in batches])
    reversed_ = np.concatenate([batch[3] for batch in batches])
    assert np.bincount(conventional).tolist() == [40, 10]
    assert np.bincount(reversed_)[1] > 30  # 4 of 5 draws


def test_under_sampling_has_shorter_epochs():
    batches = Batches(numbered(), tiny(batch_size=8, sampler="under"), lambda: 0)
    assert len(batches) == 3
    assert sum(map(len, seen(batches))) == 20


class Files:
    """Stands in for images on disk."""

    def __init__(self, images):
        self.images, self.asked = images, []
        self.shape = images.shape

    def __len__(self):
        return len(self.images)

    def take(self, index, draws=None):
        assert draws is None or draws.shape == (len(index), 5)
        self.asked.append(len(index))
        return self.images[index]


def test_images_on_disk_come_in_the_same_order_one_batch_ahead():
    kept = numbered()
    files = Files(kept.train_images)
    lazy = ImageData(
        "x",
        files,
        kept.train_labels,
        kept.test_images,
        kept.test_labels,
        ["a", "b"],
        (0.0,),
        (1.0,),
    )
    config = tiny(batch_size=16)
    one, other = (seen(Batches(data, config, lambda: 0)) for data in (kept, lazy))
    assert all(map(np.array_equal, one, other))
    assert files.asked == [16, 16, 16, 2]


def test_an_error_of_a_reader_reaches_the_loop():
    files = Files(numbered().train_images)

    def fails(index, draws=None):
        raise OSError("gone")

    files.take = fails
    lazy = ImageData(
        "x",
        files,
        np.zeros(N, int),
        numbered().test_images,
        np.zeros(N, int),
        ["a", "b"],
        (0.0,),
        (1.0,),
    )
    with pytest.raises(OSError, match="gone"):
        next(iter(Batches(lazy, tiny(), lambda: 0)))


def test_flat_features_come_as_they_are():
    x = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
    y = np.repeat([0, 1], 25)
    flat = ImageData("x", x, y, x, y, ["a", "b"])
    inputs = torch.cat([batch[0] for batch in Batches(flat, tiny(), lambda: 0)])
    assert torch.equal(inputs.sort(dim=0).values, normalised(x, (), ()).sort(dim=0).values)
