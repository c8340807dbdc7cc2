"""Long-tailed scores with named classes."""

from __future__ import annotations

import numpy as np

NAMES = ["ant", "bee", "cat", "dog"]
PRIOR = np.array([0.6, 0.25, 0.1, 0.05])


def long_tailed(n, prior, seed, scale=1.6):
    """Logits of a model that is right more often than not, and labels, drawn uniformly."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, prior.size, n)
    logits = rng.normal(size=(n, prior.size)) + np.log(prior)
    logits[np.arange(n), labels] += scale
    return logits, labels
