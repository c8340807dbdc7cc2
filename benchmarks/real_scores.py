"""Real scores with labels for the studies of promises and forecasts: pools to draw from.

Each pool stands for a population: what is tuned on draws from it is judged on all of it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reprior as rp

GALLERY = Path(__file__).parent.parent / "docs" / "gallery" / "data"


@dataclass(frozen=True, eq=False)
class Pool:
    """Log-scores (N, K) of a trained model, labels, and the prior it was trained on."""

    name: str
    scores: Any
    labels: Any
    source_prior: Any

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.source_prior.size)


def images() -> Pool:
    """A ResNet-8 trained on a long-tailed CIFAR-10; 800 test images of each class."""
    data = np.load(GALLERY / "images-test.npz")
    counts = json.loads((GALLERY / "images-counts.json").read_text())
    prior = rp.prior_from_counts(list(counts.values()))
    return Pool("images", data["scores"].astype(np.float64), data["labels"], prior)


def two_classes() -> Pool:
    """The same images: the five classes that were rare in training against the others."""
    whole = images()
    grouped = np.logaddexp.reduce(whole.scores.reshape(-1, 2, 5), axis=2)
    prior = whole.source_prior.reshape(2, 5).sum(axis=1)
    return Pool("images, two classes", grouped, (whole.labels >= 5).astype(int), prior)


def storms() -> Pool:
    """Boosted trees on nine kinds of weather system, with their natural class mix."""
    counts = json.loads((GALLERY / "storms-counts.json").read_text())
    names = list(counts)
    rows: list[list[float]] = []
    labels: list[int] = []
    for name in ("storms-tune.csv", "storms-test.csv"):
        with (GALLERY / name).open(newline="") as file:
            for row in csv.DictReader(file):
                rows.append([float(row[each]) for each in names])
                labels.append(names.index(row["label"]))
    scores = np.log(np.maximum(np.array(rows), 1e-12))
    return Pool("storms", scores, np.array(labels), rp.prior_from_counts(list(counts.values())))


def digits() -> Pool:
    """A logistic regression on pairs of digits, of which the later ones are rare in training."""
    pixels, digit = load_digits(return_X_y=True)
    pixels, labels = pixels / 16, digit // 2
    rng = np.random.default_rng(0)
    train, rest = np.split(rng.permutation(labels.size), [600])
    train = train[rng.random(train.size) < np.array([1, 0.5, 0.25, 0.15, 0.1])[labels[train]]]
    model = LogisticRegression(max_iter=2000).fit(pixels[train], labels[train])
    prior = rp.prior_from_labels(labels[train])
    return Pool("digits", model.decision_function(pixels[rest]), labels[rest], prior)


POOLS: dict[str, Callable[[], Pool]] = {
    "images": images,
    "two_classes": two_classes,
    "storms": storms,
    "digits": digits,
}
