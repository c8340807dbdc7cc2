"""Our training loop against a plain PyTorch loop, and the share of time of the augmentation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.timing import Row, compare
from reprior_lab import build_model
from reprior_lab.config import RunConfig
from reprior_lab.data.images import ImageData
from reprior_lab.training.batches import Stream
from reprior_lab.training.loop import train

N, BATCH, K = 2560, 128, 10

#: Our images per second must be at least 0.95 of the plain loop's.
TIME_BAR = 1 / 0.95
AUGMENTATION_BAR = 0.1
PAIRS = 9


def images() -> ImageData:
    """Noise images of the same size as CIFAR's."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (N, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, K, N)
    names = [str(k) for k in range(K)]
    some = pixels[:2], labels[:2]
    return ImageData(
        "cifar10", pixels, labels, *some, names, (0.5,) * 3, (0.2,) * 3, padding=4, flip=True
    )


def bare(data: ImageData) -> None:
    """One epoch of a plain PyTorch loop: the same network, optimizer and crops."""
    stream, generator = Stream(data), torch.Generator().manual_seed(0)
    model = build_model("resnet8", K).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)
    loss = nn.CrossEntropyLoss()
    order = torch.randperm(N, generator=generator).numpy()
    for start in range(0, N, BATCH):
        inputs, labels = stream.batch(order[start : start + BATCH], generator)
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()
        optimizer.step()


def ours(data: ImageData) -> None:
    """The same epoch as a complete run: Lightning, metrics, checkpoint, run file."""
    settings = {"model": "resnet8", "image_size": 32, "batch_size": BATCH}
    config = RunConfig.resolve(data="cifar10", epochs=1, **settings)
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder), data=data, accelerator="cpu")


def augmentation(stream: Stream) -> None:
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(N, generator=generator).numpy()
    for start in range(0, N, BATCH):
        stream.batch(order[start : start + BATCH], generator)


def rows() -> Iterator[Row]:
    data = images()
    epoch = f"an epoch of {N:,} images of 32 × 32, ResNet-8"
    yield compare(
        f"train, {epoch}",
        lambda: ours(data),
        "a bare loop in PyTorch",
        lambda: bare(data),
        bar=TIME_BAR,
        pairs=PAIRS,
    )
    stream = Stream(data)
    yield compare(
        f"crops, mirror images and normalisation, {epoch}",
        lambda: augmentation(stream),
        "a bare loop in PyTorch",
        lambda: bare(data),
        bar=AUGMENTATION_BAR,
        pairs=PAIRS,
    )
