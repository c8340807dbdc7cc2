"""Simulated label shift: models with exact probabilities, and samples of any class mix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Vector = np.ndarray[Any, Any]


class World(NamedTuple):
    """Classes with fixed densities, and their exact model with the source prior ``source``."""

    means: Vector
    source: Vector
    target: Vector

    def draw(self, rng: np.random.Generator, n: int, prior: Vector) -> tuple[Vector, Vector]:
        """Return the model's scores of n samples of a mix, and their labels."""
        labels = rng.choice(prior.size, n, p=prior)
        x = self.means[labels] + rng.normal(size=(n, self.means.shape[1]))
        distance = ((x[:, None] - self.means) ** 2).sum(axis=-1)
        return -0.5 * distance + np.log(self.source), labels

    def validation(self, rng: np.random.Generator, n: int) -> tuple[Vector, Vector]:
        """Return labelled scores of the source mix, with at least one label of every class."""
        while True:
            scores, labels = self.draw(rng, n, self.source)
            if np.bincount(labels, minlength=self.source.size).all():
                return scores, labels


def world(rng: np.random.Generator, n_classes: int = 3, separation: float = 2.0) -> World:
    """Draw Gaussian classes in the plane, a source and a target prior."""
    source, target = rng.dirichlet(np.full(n_classes, 3.0), 2)
    return World(separation * rng.normal(size=(n_classes, 2)), source, target)
