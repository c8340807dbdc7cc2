"""Score the images of the gallery with a second network, for the story of the blend.

    python docs/gallery/score_cifar.py CIFAR_FOLDER [--run FOLDER] [--out FOLDER] [--seed 0]

CIFAR_FOLDER holds the folder cifar-10-batches-bin. The network is the ResNet-32 whose newest
checkpoint is in lab/checkpoints, half way through its training on the same long-tailed images as
the ResNet-8 of train_cifar.py. Its logits of the 10,000 test images are written in the order of
images-tune.npz and images-test.npz: with the same seed the split is the same.

Needs the lab. It took a minute on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from reprior_lab import build_model, open_data
from reprior_lab.training.batches import normalised
from reprior_lab.training.checkpoints import newest, restore

HERE = Path(__file__).resolve().parent
RUN = HERE.parents[1] / "lab/checkpoints/cifar10-exp100-ce-resnet32-s0-49129d2e"
TUNE_PER_CLASS = 200
STEP = 64  # scores are rounded to 1/STEP, for small files


@torch.no_grad()
def logits(model: torch.nn.Module, images: np.ndarray, mean: object, std: object) -> np.ndarray:
    """Scores of images (n, H, W, C)."""
    parts = np.array_split(images, 40)
    return torch.cat([model(normalised(part, mean, std)) for part in parts]).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", type=Path, default=RUN)
    parser.add_argument("--out", type=Path, default=HERE / "data")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)

    state = newest(options.run / "checkpoints")
    if state is None:
        raise SystemExit(f"{options.run} has no checkpoint.")
    data = open_data("cifar10", options.folder, imbalance="exp", ratio=100.0)
    model = build_model("resnet32", 10)
    restore(model, state.model)
    model.eval().to(memory_format=torch.channels_last)
    scores = logits(model, data.test_images, data.mean, data.std)
    scores = (np.round(scores * STEP) / STEP).astype(np.float16)

    labels = np.asarray(data.test_labels)
    rng = np.random.default_rng(options.seed)
    tune = np.zeros(len(labels), bool)
    for k in range(10):
        tune[rng.permutation(np.flatnonzero(labels == k))[:TUNE_PER_CLASS]] = True
    for name, rows in (("tune", tune), ("test", ~tune)):
        first = np.load(options.out / f"images-{name}.npz")
        if not np.array_equal(first["labels"], labels[rows]):
            raise SystemExit(
                f"images-{name}.npz holds other images: pass the seed it was made with."
            )
        np.savez_compressed(
            options.out / f"images-second-{name}.npz",
            scores=scores[rows],
            labels=labels[rows].astype(np.uint8),
            class_names=first["class_names"],
            kind=np.array("logits"),
        )
    right = (scores.argmax(1) == labels)[~tune].mean()
    print(f"after {state.epochs_done} epochs; accuracy on the test part {right:.4f}")


if __name__ == "__main__":
    main()
