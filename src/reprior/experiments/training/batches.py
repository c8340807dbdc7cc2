"""Batches of a run, whole and ready: no workers, no collating, one copy of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reprior.experiments.data.augment import Crops, normalised
from reprior.experiments.data.images import ImageData
from reprior.experiments.training.samplers import draw_epoch, generator_of

if TYPE_CHECKING:
    from reprior.experiments.config import RunConfig

__all__ = ["Batches", "Stream"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Purposes that random numbers are drawn for, each with a generator of its own.
ORDER, CROPS, REVERSED_ORDER, REVERSED_CROPS, WEIGHTS, NETWORK = range(6)

#: Uniform numbers that the random part of an image in a file takes.
DRAWS = 5


class Stream:
    """Training samples in some order, augmented and normalised."""

    def __init__(self, data: ImageData) -> None:
        self.data = data
        images, in_memory = data.train_images, isinstance(data.train_images, np.ndarray)
        cut = in_memory and not data.flat
        self._crops = Crops(images, data.padding, data.flip) if cut else None
        self.slow = not in_memory

    def batch(self, index: Array, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return inputs and labels."""
        data = self.data
        if self._crops is not None:
            images = self._crops.batch(index, generator)
        elif data.flat:
            images = data.train_images[index]
        else:
            draws = torch.rand(len(index), DRAWS, generator=generator).numpy()
            images = data.train_images.take(index, draws)
        inputs = normalised(images, data.mean, data.std)
        return inputs, torch.from_numpy(data.train_labels[index])


class Batches:
    """The batches of an epoch; of another epoch each time the number it is told has changed.

    Parameters
    ----------
    data : ImageData
        The training samples.
    config : RunConfig
        Sampler, seed, batch size; with the schedule "bbn" a batch is two: one as it comes, one of
        the reversed sampler.
    epoch : callable
        Says which epoch it is.
    rank, world : int
        This process, and how many there are: each takes its share of every batch.
    """

    def __init__(
        self,
        data: ImageData,
        config: RunConfig,
        epoch: Callable[[], int],
        *,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.stream, self.config, self.epoch = Stream(data), config, epoch
        self.rank, self.world = rank, world
        self.sampler = (
            config.sampler if config.sampler in ("over", "under", "reversed") else "plain"
        )
        self.n_samples = self._n_samples()

    def _n_samples(self) -> int:
        labels = self.stream.data.train_labels
        if self.sampler != "under":
            return len(labels)
        counts = np.bincount(labels)
        return int(counts.min()) * counts.size

    def __len__(self) -> int:
        return math.ceil(self.n_samples / self.config.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        made = self._made(self.epoch())
        return _one_ahead(made) if self.stream.slow else made

    def _made(self, epoch: int) -> Iterator[tuple[Tensor, ...]]:
        seed, labels = self.config.seed, self.stream.data.train_labels
        orders = [draw_epoch(self.sampler, labels, generator_of(seed, epoch, ORDER))]
        crops = [generator_of(seed, epoch, CROPS + 100 * self.rank)]
        if self.config.schedule == "bbn":
            orders.append(draw_epoch("reversed", labels, generator_of(seed, epoch, REVERSED_ORDER)))
            crops.append(generator_of(seed, epoch, REVERSED_CROPS + 100 * self.rank))
        size = self.config.batch_size
        for start in range(0, self.n_samples, size):
            parts: list[Tensor] = []
            for order, generator in zip(orders, crops, strict=True):
                index = order[start : start + size]
                # Where a last batch has fewer samples than there are processes, some see it all.
                index = index[self.rank :: self.world] if len(index) >= self.world else index
                parts += self.stream.batch(index, generator)
            yield tuple(parts)


def _one_ahead(made: Iterator[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Prepare the next batch while this one is worked on."""
    with ThreadPoolExecutor(1, "batches") as pool:
        coming = pool.submit(next, made, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, made, None)
            yield batch
