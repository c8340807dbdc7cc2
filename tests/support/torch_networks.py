"""What the tests of the PyTorch adapter share: a calibrator, a network, a labelled set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import reprior as rp

PRIOR = np.array([0.7, 0.2, 0.1])
"""Of three classes, two of them rare."""

EXACT = 1e-12
"""float64 by two routes: some tens of roundings of 2e-16, of numbers up to some tens."""

CLOSE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 1e-2, torch.bfloat16: 8e-2}
"""How far log-posteriors of size 10 may be apart by the rounding of their dtype."""


def logits_and_labels(
    *shape: int, n_classes: int = 3, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores (N, K, …) that lean to the true class and to the frequent ones, and labels (N, …)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, shape)
    scores = rng.normal(size=(*shape, n_classes)) + 1.5 * np.eye(n_classes)[labels]
    scores = scores + np.linspace(1.5, -0.5, n_classes)
    return torch.tensor(np.moveaxis(scores, -1, 1)), torch.tensor(labels)


def fitted(**options: Any) -> rp.PosteriorCalibrator:
    """A calibrator of three classes with a temperature of its own."""
    scores, labels = logits_and_labels(300)
    options = {"temperature": 1.7, **options}
    return rp.PosteriorCalibrator(PRIOR, **options).fit(scores.numpy(), labels.numpy())


def network(seed: int = 0) -> nn.Sequential:
    """Four features to three classes, with a dropout that only training feels."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
