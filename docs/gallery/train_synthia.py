"""Make the score files of the segmentation story: a small U-Net on SYNTHIA-SF.

    python docs/gallery/train_synthia.py SYNTHIA_FOLDER [--out FOLDER] [--seed 0] [--epochs 60]

SYNTHIA_FOLDER holds train and test, each with RGB and GT (PNG pictures of 240×135 pixels; the red
channel of GT is the class), and classes.txt. The training frames are two drives through the same
streets. The same two stretches of both drives (59 frames) are kept out of the training and used
to tune; training sees the other 220 frames. Fence and traffic sign, below 0.01 % of the pixels,
count as "other".

The network sees whole frames and answers at half resolution. The files keep every second pixel of
that each way (60×34 of 240×135), of every second frame, rounded to 1/8.

Needs PyTorch and Pillow. It took 12 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

KEPT = "road sidewalk building wall pole trafficlight vegetation sky person car roadlines other"
MERGED = {"fence": "other", "trafficsign": "other"}
DRIVE = 285  # number of the first frame of the second drive
STRETCHES = (range(75, 90), range(125, 140))
STEP = 8  # scores are rounded to 1/STEP
PER_FILE = 15  # frames per file, so that every file stays below 400 kB


def read(
    folder: Path, part: str, names: list[str]
) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Pictures (n, 3, 136, 240), labels at half resolution (n, 68, 120), frame numbers."""
    files = sorted((folder / part / "RGB").glob("*.png"))
    rgb = np.stack([np.asarray(Image.open(f).convert("RGB")) for f in files])
    ids = np.stack([np.asarray(Image.open(folder / part / "GT" / f.name))[..., 0] for f in files])
    kept = KEPT.split()
    index = np.array([kept.index(n) if (n := MERGED.get(m, m)) in kept else -1 for m in names])
    x = torch.from_numpy(rgb.astype(np.float32).transpose(0, 3, 1, 2) / 127.5 - 1)
    y = torch.from_numpy(index[ids[:, ::2, ::2]])
    return functional.pad(x, (0, 0, 0, 1)), y, np.array([int(f.stem) for f in files])


def convolutions(inner: int, outer: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
        nn.BatchNorm2d(outer),
        nn.ReLU(),
        nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
        nn.BatchNorm2d(outer),
        nn.ReLU(),
    )


class SmallUNet(nn.Module):
    """Down to a sixteenth and back up to a half of the input's resolution."""

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 4 * width]
        self.down = nn.ModuleList(
            convolutions(a, b, 2) for a, b in zip([3, *sizes[:-1]], sizes, strict=True)
        )
        self.up = nn.ModuleList(convolutions(a + b, a) for a, b in pairwise(sizes))
        self.head = nn.Conv2d(width, n_classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
        for level, skip in zip(reversed(self.up), reversed(skips[:-1]), strict=True):
            x = functional.interpolate(x, size=skip.shape[-2:], mode="nearest")
            x = level(torch.cat([x, skip], 1))
        return self.head(x)


def train(
    x: torch.Tensor, y: torch.Tensor, *, width: int, n_classes: int, epochs: int, seed: int
) -> nn.Module:
    """Plain cross-entropy over pixels, AdamW, flips, changes of brightness and contrast."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = SmallUNet(width, n_classes).to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = epochs * -(-len(x) // 4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 3e-3, total_steps=steps, pct_start=0.2
    )
    start = time.perf_counter()
    for epoch in range(epochs):
        total = 0.0
        for part in torch.from_numpy(rng.permutation(len(x))).split(4):
            picture, label = x[part], y[part]
            if rng.random() < 0.5:
                picture, label = picture.flip(-1), label.flip(-1)
            picture = picture * rng.uniform(0.7, 1.3) + rng.uniform(-0.2, 0.2)
            picture = picture.contiguous(memory_format=torch.channels_last)
            loss = functional.cross_entropy(model(picture), label, ignore_index=-1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(part)
        seconds = time.perf_counter() - start
        print(f"epoch {epoch + 1} loss {total / len(x):.3f} after {seconds:.0f} s", flush=True)
    return model.eval()


@torch.no_grad()
def scores(model: nn.Module, x: torch.Tensor) -> np.ndarray:
    """Every second pixel's scores, the largest of each pixel 0, rounded to 1/STEP."""
    full = torch.cat([model(part)[..., ::2, ::2] for part in x.split(8)])
    full = full - full.amax(1, keepdim=True)
    return (torch.round(full * STEP) / STEP).numpy().astype(np.float16)


def write(out: Path, stem: str, z: np.ndarray, y: torch.Tensor) -> None:
    labels = y[:, ::2, ::2].numpy().astype(np.int8)
    for i in range(-(-len(z) // PER_FILE)):
        part = slice(i * PER_FILE, (i + 1) * PER_FILE)
        np.savez_compressed(
            out / f"{stem}-{i + 1}.npz",
            scores=z[part],
            labels=labels[part],
            class_names=np.array(KEPT.split()),
            kind=np.array("logits"),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--width", type=int, default=16)
    options = parser.parse_args()
    torch.set_num_threads(1)

    names = (options.folder / "classes.txt").read_text().split()
    x, y, number = read(options.folder, "train", names)
    held = np.isin(number % DRIVE, [i for s in STRETCHES for i in s])
    n_classes = len(KEPT.split())
    model = train(
        x[~held],
        y[~held],
        width=options.width,
        n_classes=n_classes,
        epochs=options.epochs,
        seed=options.seed,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    x_tune, y_tune = x[held][::2], y[held][::2]
    write(options.out, "segmentation-tune", scores(model, x_tune), y_tune)
    seen = y[~held].numpy()
    counts = np.bincount(seen[seen >= 0], minlength=n_classes).tolist()
    text = json.dumps(dict(zip(KEPT.split(), counts, strict=True)), indent=1)
    (options.out / "segmentation-counts.json").write_text(text + "\n")
    x, y, _ = read(options.folder, "test", names)
    z = scores(model, x[::2])
    write(options.out, "segmentation-test", z, y[::2])
    print("pixel accuracy on the test part", (z.argmax(1) == y[::2, ::2, ::2].numpy()).mean())


if __name__ == "__main__":
    main()
