"""Batches of a run: the samples that an epoch draws, cropped, mirrored and normalised.

All random numbers come from the seed and the index of the epoch, so a resumed run draws the same
samples. There are no workers and no collating.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reprior.core import check_choice
from reprior.exceptions import OptionError, PriorError, Setting
from reprior_lab.data.images import ImageData

if TYPE_CHECKING:
    from reprior_lab.config import RunConfig

__all__ = [
    "Batches",
    "Crops",
    "Stream",
    "class_shares",
    "draw_epoch",
    "generator_of",
    "normalised",
    "random_state_kept",
    "synthesised",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: Samplers that synthesise samples once, before training.
SYNTHETIC = {"smote": "SMOTE", "adasyn": "ADASYN"}

#: Purposes of random numbers; each has its own generator.
ORDER, CROPS, REVERSED_ORDER, REVERSED_CROPS, WEIGHTS, NETWORK = range(6)

#: How many uniform numbers a random crop of an image file needs.
DRAWS = 5


class Crops:
    """Images with a margin around them, to cut random crops from.

    The margin is black, as in the reference recipe. It is added to all images once, so that a
    crop is a plain copy.

    Parameters
    ----------
    images : uint8 (N, H, W, C)
        The training images.
    padding : int
        Width of the margin; 0 for none.
    flip : bool
        Whether half of the images are mirrored.

    Examples
    --------
    >>> import numpy as np, torch
    >>> images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4, 1)
    >>> crops = Crops(images, padding=1, flip=True)
    >>> crops.batch(np.array([1, 0, 1]), torch.Generator().manual_seed(0)).shape
    (3, 4, 4, 1)
    """

    def __init__(self, images: Array, padding: int, flip: bool) -> None:
        self.size, self.padding, self.flip = images.shape[1:3], padding, flip
        around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
        self._padded = np.pad(images, around) if padding else images

    def __len__(self) -> int:
        return len(self._padded)

    def batch(self, index: Array, generator: torch.Generator) -> Array:
        """Return crops of some images, uint8 (n, H, W, C)."""
        n, places, (height, width) = len(index), 2 * self.padding + 1, self.size
        y, x = torch.randint(0, places, (2, n), generator=generator).numpy()
        mirrored = torch.randint(0, 2, (n,), generator=generator).numpy()
        crops = np.empty((n, height, width, self._padded.shape[-1]), np.uint8)
        # A loop of slices: indexing by arrays copies single pixels and takes three times as long.
        for crop, i, top, left in zip(crops, index, y, x, strict=True):
            crop[:] = self._padded[i, top : top + height, left : left + width]
        if self.flip:
            chosen = np.flatnonzero(mirrored)
            crops[chosen] = crops[chosen, :, ::-1]
        return crops


def normalised(images: Array, mean: Any, std: Any, device: Any = "cpu") -> Tensor:
    """Return images as a network's input: float32 (n, C, H, W), channels last in memory.

    Flat features (n, D) are only converted to a tensor.

    Examples
    --------
    >>> import numpy as np
    >>> white = np.full((1, 2, 2, 1), 255, np.uint8)
    >>> normalised(white, [0.5], [0.25]).flatten()
    tensor([2., 2., 2., 2.])
    """
    tensor = torch.from_numpy(images).to(device)
    if tensor.ndim == 2:
        return tensor.float()
    scale = 1.0 / (255.0 * torch.tensor(std, dtype=torch.float32, device=device))
    shift = -torch.tensor(mean, dtype=torch.float32, device=device) * 255.0 * scale
    # (n, H, W, C) viewed as (n, C, H, W) is PyTorch's memory format "channels last".
    return tensor.float().mul_(scale).add_(shift).permute(0, 3, 1, 2)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore PyTorch's global random state at the end."""
    state = torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.random.set_rng_state(state)


def generator_of(seed: int, epoch: int, purpose: int) -> torch.Generator:
    """Return the random generator of one purpose in one epoch.

    A resumed run draws the same numbers, without a saved generator state.

    Examples
    --------
    >>> a, b = (torch.rand(2, generator=generator_of(0, 3, 1)) for _ in range(2))
    >>> bool((a == b).all())
    True
    """
    state = np.random.SeedSequence([seed, epoch, purpose]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def class_shares(sampler: str, counts: Any) -> Array:
    r"""Return the probability of each class in a sampler's draws.

    .. math:: P_k = n_k / N \text{ (plain)}, \quad 1/K \text{ (over, under)}, \quad
        \frac{n_{\max}/n_k}{\sum_j n_{\max}/n_j} \text{ (reversed)}

    where n are the training counts, N their sum and K the number of classes.

    References
    ----------
    .. [1] Zhou, Cui, Wei, Chen. "BBN: Bilateral-Branch Network with Cumulative Learning for
       Long-Tailed Visual Recognition", CVPR 2020: Section 4.1, the reversed sampler.

    Examples
    --------
    >>> class_shares("reversed", [300, 100])
    array([0.25, 0.75])
    """
    check_choice("sampler", sampler, ("plain", "over", "under", "reversed"))
    counts = np.asarray(counts, np.float64)
    shares: Array
    if sampler == "plain":
        shares = counts / counts.sum()
        return shares
    if not counts.all():
        raise PriorError(
            "Every class must have a training sample to draw.",
            got=f"none of class {int(np.argmin(counts))}",
            remedy=["Take ", Setting("sampler", "plain"), "."],
        )
    weights = counts.max() / counts if sampler == "reversed" else np.ones_like(counts)
    shares = weights / weights.sum()
    return shares


def draw_epoch(sampler: str, labels: Array, generator: torch.Generator) -> Array:
    """Return the indices of an epoch's samples, in order.

    "plain" is every sample once. "over" and "reversed" are equally many draws with replacement: a
    class by :func:`class_shares`, then any of its samples. "under" takes as many samples of each
    class as the smallest class has, different ones every epoch.

    Examples
    --------
    >>> labels = np.array([0] * 6 + [1] * 2)
    >>> chosen = draw_epoch("under", labels, torch.Generator().manual_seed(0))
    >>> np.bincount(labels[chosen])
    array([2, 2])
    """
    check_choice("sampler", sampler, ("plain", "over", "under", "reversed"))
    n = len(labels)
    if sampler == "plain":
        return torch.randperm(n, generator=generator).numpy()
    counts = np.bincount(labels)
    shares = class_shares(sampler, counts)
    by_class = np.argsort(labels, kind="stable")
    starts = np.cumsum(counts) - counts
    if sampler == "under":
        least = int(counts.min())
        own = [
            by_class[start + torch.randperm(int(count), generator=generator)[:least].numpy()]
            for start, count in zip(starts, counts, strict=True)
        ]
        mixed: Array = np.concatenate(own)
        mixed = mixed[torch.randperm(mixed.size, generator=generator).numpy()]
        return mixed
    weights = torch.from_numpy(shares)
    classes = torch.multinomial(weights, n, replacement=True, generator=generator).numpy()
    place = torch.rand(n, generator=generator, dtype=torch.float64).numpy()
    chosen: Array = by_class[starts[classes] + (place * counts[classes]).astype(np.int64)]
    return chosen


def synthesised(sampler: str, features: Any, labels: Array, seed: int) -> tuple[Array, Array]:
    """Return flat features with equally many samples of each class, by SMOTE or ADASYN.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    >>> labels = np.array([0] * 30 + [1] * 10)
    >>> np.bincount(synthesised("smote", features, labels, seed=0)[1])
    array([30, 30])
    """
    check_choice("sampler", sampler, SYNTHETIC)
    if features.ndim != 2:
        raise OptionError(
            argument="sampler",
            rule="must suit the data",
            got=f"{sampler!r}, which makes new samples between feature vectors, and images",
            remedy=["Take ", Setting("sampler", "over"), "."],
        )
    from imblearn import over_sampling

    made, names = getattr(over_sampling, SYNTHETIC[sampler])(random_state=seed).fit_resample(
        features, labels
    )
    return np.asarray(made, features.dtype), np.asarray(names, labels.dtype)


class Stream:
    """Training samples, augmented and normalised."""

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
    """The batches of the current epoch.

    Parameters
    ----------
    data : ImageData
        The training samples.
    config : RunConfig
        Sampler, seed, batch size, and how many parts of a batch make a step; with the schedule
        "bbn" a batch is two batches: one of the plain and one of the reversed sampler.
    epoch : callable
        Returns the index of the current epoch.
    rank, world : int
        The index of this process and the number of processes: each takes its share of every part
        of a batch.
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
        self.size = config.batch_size // config.accumulate

    def _n_samples(self) -> int:
        labels = self.stream.data.train_labels
        if self.sampler != "under":
            return len(labels)
        counts = np.bincount(labels)
        return int(counts.min()) * counts.size

    def __len__(self) -> int:
        return math.ceil(self.n_samples / self.size)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return math.ceil(self.n_samples / self.config.batch_size)

    def share(self, index: int) -> float:
        """Return the weight of one part of a batch, relative to the mean of its parts.

        It is a factor of the loss: 1, except in the last batch of an epoch, whose parts may be
        fewer and smaller than those of the others.
        """
        step = index // self.config.accumulate * self.config.batch_size
        n_step = min(self.config.batch_size, self.n_samples - step)
        n_part = min(self.size, self.n_samples - index * self.size)
        return n_part * self.config.accumulate / n_step

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
        size = self.size
        for start in range(0, self.n_samples, size):
            parts: list[Tensor] = []
            for order, generator in zip(orders, crops, strict=True):
                index = order[start : start + size]
                # If a last batch has fewer samples than there are processes, some get all of it.
                index = index[self.rank :: self.world] if len(index) >= self.world else index
                parts += self.stream.batch(index, generator)
            yield tuple(parts)


def _one_ahead(made: Iterator[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Prefetch one batch in a background thread."""
    with ThreadPoolExecutor(1, "batches") as pool:
        coming = pool.submit(next, made, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, made, None)
            yield batch
