"""Simulated scores with known miscalibration, and the log-loss by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from reprior.core import WeightedRows

Vector = NDArray[Any]


def draw_samples(
    rng: np.random.Generator,
    n: int = 400,
    n_classes: int = 4,
    *,
    temperature: float = 2.0,
    imbalance: float = 20.0,
) -> tuple[Vector, Vector, Vector]:
    """Return logits, labels of equally frequent classes, and the model's source prior.

    The evidence is Gaussian, so that log-posteriors are linear in it. The model has the exact ones
    under its source prior, multiplied by ``temperature``.
    """
    prior = imbalance ** -np.linspace(0, 1, n_classes)
    prior /= prior.sum()
    labels = rng.integers(n_classes, size=n)
    labels[:n_classes] = np.arange(n_classes)
    evidence = rng.normal(size=(n, n_classes)) + 1.2 * np.eye(n_classes)[labels]
    return temperature * (1.2 * evidence + np.log(prior)), labels, prior


def balanced(labels: Vector, n_classes: int) -> Vector:
    """Return weights that sum to 1 and give every class with labels the same share."""
    weights = 1.0 / np.bincount(labels, minlength=n_classes)[labels]
    return weights / weights.sum()


def log_loss(u: Vector, labels: Vector, weights: Vector) -> float:
    """Return the weighted mean of −log softmax(u) of the labels' classes."""
    return float(weights @ (logsumexp(u, axis=1) - u[np.arange(len(u)), labels]))


def labelled(z: Vector, labels: Vector, weights: Vector | None = None) -> WeightedRows:
    """Return rows as fits by log-loss take them; equal weights by default."""
    weights = np.full(labels.size, 1.0 / labels.size) if weights is None else weights
    return WeightedRows.of_rows(z, labels, weights)
