"""What the tests of ``reprior fuse fit``, ``apply`` and ``evaluate`` share: two models' files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.support.command_line import COUNTS, Data, data, write, write_counts

import reprior as rp

PRIOR = rp.prior_from_counts(COUNTS)

#: Numbers in csv files have six decimals.
TEXT_DIGITS = 1e-6


def second(seed: int) -> Data:
    """Another, worse model's scores of the same samples."""
    return Data((0.6 * data(seed + 10).scores + 0.4 * data(seed).scores).round(6),
                data(seed).labels)  # fmt: skip


def both(seed: int) -> dict[str, np.ndarray]:
    return {"rgb": data(seed).scores, "depth": second(seed).scores}


def write_both(folder: Path, seed: int, stem: str, extension: str = "npz") -> list[str]:
    """Write a file per modality; return the arguments that name them."""
    write(folder / f"{stem}-rgb.{extension}", data(seed), kind="logits")
    write(folder / f"{stem}-depth.{extension}", second(seed), kind="logits")
    return [f"{name}={folder}/{stem}-{name}.{extension}" for name in ("rgb", "depth")]


def maps(seed: int, n: int = 12) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Maps (n, 3, 4, 5) of two models, and labels of which some are 255."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=(n, 4, 5))
    lead = np.moveaxis(2 * np.eye(3)[labels], -1, 1) + np.log(PRIOR)[:, None, None]
    scores = {
        name: (scale * lead + rng.normal(size=lead.shape)).astype(np.float32)
        for name, scale in (("rgb", 1.0), ("depth", 0.7))
    }
    labels[rng.random(labels.shape) < 0.1] = 255
    return scores, labels


def write_maps(folder: Path, scores: Any, labels: Any, stem: str = "val") -> list[str]:
    """Write rgb without labels, and depth with them."""
    np.savez(folder / f"{stem}-rgb.npz", scores=scores["rgb"], kind="logits")
    np.savez(folder / f"{stem}-depth.npz", scores=scores["depth"], labels=labels, kind="logits")
    return [f"{name}={folder}/{stem}-{name}.npz" for name in ("rgb", "depth")]


def counts(folder: Path) -> list[str]:
    return ["--counts", write_counts(folder)]
