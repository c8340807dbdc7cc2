"""Make the score files of the image story: a small ResNet on long-tailed CIFAR-10.

    python docs/gallery/train_cifar.py CIFAR_FOLDER [--out FOLDER] [--seed 0] [--epochs 24]

CIFAR_FOLDER holds the binary version of CIFAR-10: data_batch_1.bin … data_batch_5.bin,
test_batch.bin and batches.meta.txt. Training class k keeps the first 5000 · 100^(−k/9) of its
images: 5,000 airplanes down to 50 trucks. The 10,000 test images, balanced, are split once: 200
per class to tune on, 800 per class to judge on. The array `training_mix` weights every image so
that the classes are as common as in training.

Needs PyTorch. It took 13 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

RATIO, LARGEST = 100, 5000  # the largest class has RATIO times the images of the smallest
TUNE_PER_CLASS = 200
STEP = 256  # scores are rounded to 1/STEP, for small files


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and labels of a batch, whose rows are a label byte and 3,072 pixels."""
    rows = np.fromfile(path, np.uint8).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)


def long_tail(labels: np.ndarray) -> np.ndarray:
    """Indices of the first 5000 · RATIO^(−k/9) images of each class k."""
    wanted = [int(LARGEST * RATIO ** (-k / 9)) for k in range(10)]
    kept = [np.flatnonzero(labels == k)[:n] for k, n in enumerate(wanted)]
    if [len(k) for k in kept] != wanted:
        raise SystemExit(f"The folder lacks images: {[len(k) for k in kept]} of {wanted}.")
    return np.sort(np.concatenate(kept))


class Block(nn.Module):
    """Two 3×3 convolutions and a short cut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)])
        same = stride == 1 and inner == outer
        self.cut = nn.Identity() if same else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[1](self.second(functional.relu(self.norms[0](self.first(x)))))
        return functional.relu(y + self.cut(x))


def resnet8(width: int) -> nn.Module:
    """The smallest residual network for CIFAR: a stem, three blocks, a linear head."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


def augmented(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Each image shifted by up to 4 pixels and flipped every other time."""
    padded = functional.pad(x, (4, 4, 4, 4)).numpy()
    out = np.empty(x.shape, np.float32)
    for i, (dy, dx, flip) in enumerate(
        zip(*rng.integers(0, 9, (2, len(x))), rng.random(len(x)) < 0.5, strict=True)
    ):
        crop = padded[i, :, dy : dy + 32, dx : dx + 32]
        out[i] = crop[:, :, ::-1] if flip else crop
    return torch.from_numpy(out).contiguous(memory_format=torch.channels_last)


def train(x: torch.Tensor, y: torch.Tensor, *, width: int, epochs: int, seed: int) -> nn.Module:
    """Plain cross-entropy, SGD with momentum, one warm-up and one cosine decay."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = resnet8(width).to(memory_format=torch.channels_last)
    steps = epochs * -(-len(x) // 128)
    optimiser = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.2, total_steps=steps, pct_start=0.2)
    start = time.perf_counter()
    for epoch in range(epochs):
        total = 0.0
        for part in torch.from_numpy(rng.permutation(len(x))).split(128):
            loss = functional.cross_entropy(model(augmented(x[part], rng)), y[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(part)
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1} loss {total / len(x):.3f} after {seconds:.0f} s", flush=True)
    return model.eval()


@torch.no_grad()
def logits(model: nn.Module, x: torch.Tensor) -> np.ndarray:
    return torch.cat([model(part) for part in x.split(500)]).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--width", type=int, default=16)
    options = parser.parse_args()
    torch.set_num_threads(1)

    names = (options.folder / "batches.meta.txt").read_text().split()
    batches = [read_batch(options.folder / f"data_batch_{i}.bin") for i in range(1, 6)]
    x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    kept = long_tail(y)
    x, y = x[kept], y[kept]
    test_x, test_y = read_batch(options.folder / "test_batch.bin")

    mean, spread = x.mean((0, 2, 3), keepdims=True), x.std((0, 2, 3), keepdims=True)
    scaled = [torch.from_numpy(((a - mean) / spread).astype(np.float32)) for a in (x, test_x)]
    model = train(
        scaled[0],
        torch.from_numpy(y),
        width=options.width,
        epochs=options.epochs,
        seed=options.seed,
    )
    scores = np.round(logits(model, scaled[1]) * STEP).astype(np.float32) / STEP

    rng = np.random.default_rng(options.seed)
    tune = np.zeros(len(test_y), bool)
    for k in range(10):
        tune[rng.permutation(np.flatnonzero(test_y == k))[:TUNE_PER_CLASS]] = True
    counts = np.bincount(y, minlength=10)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("tune", tune), ("test", ~tune)):
        np.savez_compressed(
            options.out / f"images-{name}.npz",
            scores=scores[rows],
            labels=test_y[rows].astype(np.uint8),
            class_names=np.array(names[:10]),
            kind=np.array("logits"),
            training_mix=(10 * counts / counts.sum())[test_y[rows]].astype(np.float32),
        )
    text = json.dumps(dict(zip(names, counts.tolist(), strict=False)), indent=1)
    (options.out / "images-counts.json").write_text(text + "\n")
    print("accuracy on the test part", (scores.argmax(1) == test_y)[~tune].mean())


if __name__ == "__main__":
    main()
